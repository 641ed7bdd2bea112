// Package osps answers the controls of the OpenSSF OSPS Baseline for one release,
// from a verdict alone: from what was verified in it, and from what a policy lets
// people declare.
//
//	on := osps.Of(v) // a verdict.Levels of the track "osps", one requirement for each control
//
// A control is met or not met where signed evidence decides it, declared where a
// person vouches for it, not evidenced where such evidence is absent, and outside
// where no tool can see it in a release. The controls are in controls.txt. The
// package never says that a project follows the Baseline as a whole.
//
// Other projects should not import this package: it changes without notice.
package osps

import (
	_ "embed"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/waybill-release/waybill/pkg/release/plan"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// Track is the track of the answers, and of the declarations that verdicts carry.
const Track = "osps"

// Most is the highest maturity level of the Baseline.
const Most = 3

// The states of a control. "declared" comes with its declaration.
const (
	Met          = "met"
	NotMet       = "not met"
	Declared     = "declared"
	NotEvidenced = "not evidenced"
	Outside      = "outside"
)

//go:embed controls.txt
var controls string

// all are the controls, each outside any tool's sight.
func all() (list []verdict.Requirement) {
	for line := range strings.Lines(controls) {
		if f := strings.SplitN(strings.TrimSpace(line), " ", 3); f[0] != "#" {
			list = append(list, verdict.Requirement{ID: f[0], Level: int(f[1][0] - '0'), Title: f[2], State: Outside, Why: "no tool can see it in a release"})
		}
	}
	return list
}

// Names reports whether a control has this id.
func Names(id string) bool {
	return slices.ContainsFunc(all(), func(r verdict.Requirement) bool { return r.ID == id })
}

// Of answers every control.
func Of(v verdict.Verdict) verdict.Levels {
	on := verdict.Levels{Subject: v.About(), Track: Track, Most: Most, Artifacts: 1}
	deciders := decided()
	for _, r := range all() {
		if decide := deciders[r.ID]; decide != nil {
			a := decide(v)
			r.State, r.Why, r.Evidence = a.state, a.why, a.evidence
		}
		if r.State == NotEvidenced || r.State == Outside {
			r = declared(v, r)
		}
		if r.State == Met {
			r.Met = 1
		}
		on.Requirements = append(on.Requirements, r)
	}
	return on
}

// Count counts the controls of a level in each state; of all levels for 0.
func Count(on verdict.Levels, level int) map[string]int {
	n := map[string]int{}
	for _, r := range on.Requirements {
		if level == 0 || r.Level == level {
			n[r.State]++
		}
	}
	return n
}

// declared is the control with its declaration, if the verdict has one that counts.
func declared(v verdict.Verdict, r verdict.Requirement) verdict.Requirement {
	if said, found := requirement(v, Track, r.ID); found {
		r.Why = said.Why
		if said.State == Declared {
			r.State, r.DeclaredBy, r.Until, r.Evidence = Declared, said.DeclaredBy, said.Until, said.Evidence
		}
	}
	return r
}

// requirement is the answer of a verdict to a requirement of a track.
func requirement(v verdict.Verdict, track, id string) (verdict.Requirement, bool) {
	for _, l := range v.Levels {
		if l.Track != track {
			continue
		}
		if i := slices.IndexFunc(l.Requirements, func(r verdict.Requirement) bool { return r.ID == id }); i >= 0 {
			return l.Requirements[i], true
		}
	}
	return verdict.Requirement{}, false
}

// answer is the answer to one control, with the evidence that it rests on.
type answer struct {
	state, why string
	evidence   []digest.Digest
}

func met(why string, evidence ...digest.Digest) answer { return answer{Met, why, evidence} }
func absent(why string, args ...any) answer {
	return answer{state: NotEvidenced, why: "missing: " + fmt.Sprintf(why, args...)}
}

// decided are the controls that signed evidence decides.
func decided() map[string]func(verdict.Verdict) answer {
	return map[string]func(verdict.Verdict) answer{
		"OSPS-BR-01.03": follows("build", "build.unforgeable", "build.isolated"),
		"OSPS-BR-02.01": version,
		"OSPS-BR-02.02": bound,
		"OSPS-BR-04.01": listed(NotMet, "a change log", "CHANGELOG", "CHANGES", "RELEASE-NOTES", "RELEASE_NOTES"),
		"OSPS-BR-05.01": follows("v0.1", "provenance.dependencies"),
		"OSPS-BR-06.01": manifested,
		"OSPS-DO-03.01": listed(NotEvidenced, "instructions to verify the release", "VERIFY", "VERIFYING"),
		"OSPS-LE-03.02": listed(NotEvidenced, "a license", "LICENSE", "LICENCE", "COPYING"),
		"OSPS-QA-01.02": follows("source", "source.level-2"),
		"OSPS-QA-02.02": described,
		"OSPS-QA-07.01": follows("source", "source.level-4"),
		"OSPS-VM-04.02": stated,
	}
}

// manifest is the signed list of the release; zero if the verdict rests on none.
func manifest(v verdict.Verdict) verdict.Proof {
	i := slices.IndexFunc(v.Proofs, func(p verdict.Proof) bool {
		return strings.Contains(p.Statement, "/release-manifest/") && p.Role == "release"
	})
	if i < 0 {
		return verdict.Proof{}
	}
	return v.Proofs[i]
}

// whole says why the verdict does not cover a whole release; empty if it does.
// What is refused says so itself: see [contradicted].
func whole(v verdict.Verdict) string {
	switch {
	case manifest(v).IsZero():
		return "a signed list of the release"
	case v.Outcome() != verdict.Accepted && v.Outcome() != verdict.Refused:
		return "an answer; the verdict is " + v.Outcome().String()
	case len(v.Scope.Left) > len(v.Scope.NotRequired):
		return "a verdict about the whole release; left out: " + strings.Join(v.Scope.Left, ", ")
	}
	return ""
}

// contradicted is "not met" with the first finding of these codes, or of any code.
// A finding of these codes counts as well where the policy only warns about it, or
// an exception sets it aside: neither changes what was found.
func contradicted(v verdict.Verdict, codes ...verdict.Code) (answer, bool) {
	found := slices.Clone(v.Findings)
	if len(codes) > 0 {
		found = append(found, v.Warnings...)
		for _, w := range v.Waived {
			found = append(found, w.Finding)
		}
	}
	for _, f := range found {
		if f.Code.Outcome() == verdict.Refused && (len(codes) == 0 || slices.Contains(codes, f.Code)) {
			return answer{NotMet, fmt.Sprintf("%s %q: %s", f.Code, f.Subject, f.Message), f.Evidence}, true
		}
	}
	return answer{}, false
}

// version: a signed list names the version, and no other list does.
func version(v verdict.Verdict) answer {
	if a, found := contradicted(v, verdict.Equivocation, verdict.VersionUnbound, verdict.Version); found {
		return a
	}
	if m := manifest(v); !m.IsZero() {
		return met("the signed manifest names the version: "+v.About(), m.Bundle)
	}
	return absent("a signed list that names the version")
}

// differs are the codes of a place that differs from its signed list.
func differs() []verdict.Code {
	return []verdict.Code{verdict.Missing, verdict.Extra, verdict.PlanMissing, verdict.PlanExtra, verdict.Tampered, verdict.Equivocation}
}

// bound: everything in the places is listed under the version, and the other way round.
func bound(v verdict.Verdict) answer {
	if a, found := contradicted(v, differs()...); found {
		return a
	}
	if why := whole(v); why != "" {
		return absent("%s", why)
	}
	return met(fmt.Sprintf("%d of %d objects are listed under the version, and nothing else is there", v.Counts.Verified, v.Counts.Required), manifest(v).Bundle)
}

// manifested: each asset is in the signed manifest, and has the digests that it lists.
func manifested(v verdict.Verdict) answer {
	for _, codes := range [][]verdict.Code{nil, differs()} {
		if a, found := contradicted(v, codes...); found && !manifest(v).IsZero() {
			return a
		}
	}
	if why := whole(v); why != "" {
		return absent("%s", why)
	}
	return met(fmt.Sprintf("a signed manifest lists the digests of all %d objects, and they were compared", v.Counts.Required), manifest(v).Bundle)
}

// described: each program, archive and image has an SBOM that was compared with it.
func described(v verdict.Verdict) answer {
	if a, found := contradicted(v, verdict.NoSBOM, verdict.SBOMSubject, verdict.SBOMGraph, verdict.SBOMIncomplete, verdict.SBOMInvalid, verdict.SBOMTwin, verdict.Conflict); found {
		return a
	}
	why := whole(v)
	if why == "" && !slices.Contains(v.Scope.Checks, "sboms") {
		why = "a comparison of SBOMs with what they describe"
	}
	if why != "" {
		return absent("%s", why)
	}
	sboms := map[string]bool{}
	for _, o := range v.Objects {
		if o.Class == string(plan.SBOM) && o.Verified {
			sboms[o.Name] = true
		}
	}
	n := 0
	for _, o := range v.Objects {
		if !slices.Contains([]plan.Class{plan.Binary, plan.Archive, plan.Image}, plan.Class(o.Class)) {
			continue
		}
		if n++; !sboms[plan.SBOMName(o.Name)] {
			return answer{state: NotMet, why: fmt.Sprintf("%q has no verified SBOM %q", o.Name, plan.SBOMName(o.Name))}
		}
	}
	if n == 0 {
		return absent("a program, archive or image in the release")
	}
	return met(fmt.Sprintf("each of %d programs, archives and images has an SBOM in the signed manifest", n), manifest(v).Bundle)
}

// stated: a signed VEX document says which vulnerabilities do not affect the release.
func stated(v verdict.Verdict) answer {
	if a, found := contradicted(v, "VEX_STATEMENT", "VEX_SUPERSEDED", "VEX_EQUIVOCATION"); found {
		return a
	}
	for _, x := range v.VEX {
		if x.Status == "not_affected" && !x.Superseded {
			return met(fmt.Sprintf("signed by %s: %s; whether there are other vulnerabilities is not judged", x.Signer, x), x.Bundle)
		}
	}
	return absent("a signed VEX document that says which vulnerabilities do not affect the release")
}

// listed: the release contains a file whose name begins with one of the words.
// What the file says is not judged. Without one, the state is as given.
func listed(without, what string, words ...string) func(verdict.Verdict) answer {
	return func(v verdict.Verdict) answer {
		for _, o := range v.Objects {
			name, _, _ := strings.Cut(strings.ToUpper(path.Base(o.Name)), ".")
			if o.Verified && o.Class == string(plan.Other) && !manifest(v).IsZero() && slices.Contains(words, name) {
				return met(fmt.Sprintf("the signed manifest lists %q; its text is not judged", o.Name), o.Digest)
			}
		}
		if why := whole(v); why != "" {
			return absent("%s", why)
		}
		return answer{state: without, why: fmt.Sprintf("missing: %s; no file of the release is called %s", what, strings.Join(words, " or "))}
	}
}

// follows: the control is met if these requirements of SLSA are.
func follows(track string, ids ...string) func(verdict.Verdict) answer {
	return func(v verdict.Verdict) (a answer) {
		for _, id := range ids {
			r, found := requirement(v, track, id)
			switch {
			case !found:
				return absent("an answer to %s", id)
			case r.State == NotMet:
				return answer{NotMet, id + ": " + r.Why, r.Evidence}
			case r.State != Met:
				return answer{NotEvidenced, id + ": " + r.Why, nil}
			}
			a = met(strings.TrimPrefix(a.why+"; ", "; ")+id+": "+r.Why, append(a.evidence, r.Evidence...)...)
		}
		return a
	}
}
