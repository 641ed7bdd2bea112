package policy

import (
	"errors"
	"fmt"
	"slices"

	releasemanifest "github.com/waybill-release/waybill/attestations/release-manifest/v1"
	"github.com/waybill-release/waybill/pkg/document/rebuildrecord"
	"github.com/waybill-release/waybill/pkg/judge/verify"
	"github.com/waybill-release/waybill/pkg/release/manifest"
	"github.com/waybill-release/waybill/pkg/release/plan"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// requirement is one requirement for an artifact. Requirements are made by the
// leaves of this package and by oneOf and threshold.
type requirement interface {
	judge(*judgement) answer
}

// answer is the result of a rule. Its zero value proves nothing: only a leaf
// that finds what it requires sets met.
type answer struct {
	met    bool
	proofs []verdict.Proof
	err    error // why not
	// near says how close the best fact came, to choose the most useful of
	// several reasons.
	near int
}

var (
	errEmpty = errors.New("no rules to combine: everything would be accepted")
	errRange = errors.New("the number required is out of range")
)

// oneOf is met if at least one of the rules is.
func oneOf(rules ...requirement) (requirement, error) { return threshold(1, rules...) }

// threshold is met if n rules are, each by another signer: a signer that meets
// two rules counts once. It refuses n below 1 or above the number of rules.
func threshold(n int, rules ...requirement) (requirement, error) {
	switch {
	case len(rules) == 0:
		return nil, errEmpty
	case n < 1 || n > len(rules):
		return nil, fmt.Errorf("%d of %d rules: %w", n, len(rules), errRange)
	}
	for _, r := range rules {
		if r == nil {
			return nil, errEmpty
		}
	}
	if len(rules) == 1 {
		return rules[0], nil
	}
	return atLeast{n, rules}, nil
}

type atLeast struct {
	n     int
	rules []requirement
}

func (a atLeast) judge(m *judgement) answer {
	var met int
	var all, nearest, against answer
	nearest.near = -1
	counted := map[string]bool{}
	for _, r := range a.rules {
		got := r.judge(m)
		switch {
		case got.met && a.n > 1 && !addSigners(counted, got.proofs):
			nearest = answer{err: refuse(nil, func() verdict.Finding {
				return verdict.Find(verdict.Threshold, m.q.Subject, "one signer counts once")
			})}
		case got.met:
			met++
			all.proofs = append(all.proofs, got.proofs...)
		case a.n > 1 && verdict.FindingOf("", got.err).Code == verdict.RebuildMismatch:
			against = got // more important than the count
		case got.near > nearest.near:
			nearest = got
		}
	}
	if met >= a.n {
		all.met = true
		return all
	}
	switch {
	case against.err != nil:
		return against
	case met == 0:
		return nearest
	}
	return answer{near: nearest.near, err: &verdict.Error{
		Finding: verdict.Find(verdict.Threshold, m.q.Subject, "%d of %d required results; the next one fails: %v", met, a.n, nearest.err).
			Differ(fmt.Sprint(a.n), fmt.Sprint(met)),
		Cause: nearest.err,
	}}
}

// addSigners adds signers to those already counted, and reports whether one of
// them was new. An answer without a proof has no signer that could be counted
// twice.
func addSigners(counted map[string]bool, proofs []verdict.Proof) bool {
	added := len(proofs) == 0
	for _, p := range proofs {
		signer := fmt.Sprintf("%q %q %s", p.Issuer, p.Identity, p.Key)
		added = added || !counted[signer]
		counted[signer] = true
	}
	return added
}

// Ask is a check of one piece of evidence, where a stage of the pipeline needs
// one answer and no verdict.
type Ask struct {
	Role Role
	// Kind is a predicate type, or "blob" for a plain signature.
	Kind string
	// Subject is the artifact's name, and Bytes the digests computed from it.
	Subject string
	Bytes   digest.Set
	// InRegistry says that the artifact is named by its digest: registries have
	// no other name.
	InRegistry bool
	// Stage and Class say at which stage the artifact is checked and what it
	// is, as far as known: an identity that is limited to some may not act in
	// others.
	Stage Stage
	Class plan.Class
	// Whole says that the statement itself is wanted, and not what it says
	// about one artifact: a manifest binds its subjects entry by entry.
	Whole bool
}

// Judge checks that evidence has the right kind, covers the right bytes and is
// signed in the right role. It returns what was proven and by whom.
func (p Policy) Judge(e verify.Evidence, ask Ask) (verdict.Proof, error) {
	if e.IsZero() {
		return verdict.Proof{}, verdict.Refuse(verdict.EvidenceMissing, ask.Subject, "no evidence of type %s", ask.Kind)
	}
	f := factOf(e)
	m := &judgement{policy: &p, q: Question{Stage: ask.Stage, Class: ask.Class, Subject: ask.Subject, Bytes: ask.Bytes, ByDigest: ask.InRegistry}}
	clauses := []clause{ofKind(ask.Kind), byRole(ask.Role)}
	if !ask.Whole {
		clauses = append(clauses, bound)
	}
	for _, c := range clauses {
		if err := c(m, &f); err != nil {
			return verdict.Proof{}, say(err)
		}
	}
	return f.proof(ask.Subject, ask.Role), nil
}

// ManifestFrom parses the release manifest in evidence, if its signer may sign
// manifests of the version that it names. It does not check which release the manifest describes. The list
// may be on pages; a manifest with pages is refused if none are given.
func (p Policy) ManifestFrom(e verify.Evidence, pages manifest.Opener) (manifest.Manifest, verdict.Proof, error) {
	proof, err := p.Judge(e, Ask{Role: Release, Kind: releasemanifest.PredicateType, Subject: releasemanifest.Name, Whole: true})
	if err != nil {
		return manifest.Manifest{}, verdict.Proof{}, err
	}
	m, err := manifest.ReadManifest(e.Statement(), pages)
	if err == nil {
		f := factOf(e)
		err = say(p.actors.acts(&f, Release, &Question{Subject: releasemanifest.Name, Version: m.Version.String()}))
	}
	if err != nil {
		return manifest.Manifest{}, verdict.Proof{}, err
	}
	return m, proof, nil
}

// Provenance checks what verified provenance of a version states: its signer
// may sign for the builder that it names, and source, build type and parameters
// are those that the policy expects.
func (p Policy) Provenance(e verify.Evidence, version string) error {
	f := factOf(e)
	m := &judgement{policy: &p, q: Question{Subject: "provenance", Version: version}}
	if built := e.Statement().Subjects(); len(built) > 0 {
		m.q.Subject = built[0].Name // which build it describes
	}
	if _, err := f.claim(); err != nil {
		return err
	}
	for _, c := range []clause{byRole(Builder), fromSource, ofType, withParameters} {
		if err := c(m, &f); err != nil {
			return say(err)
		}
	}
	return nil
}

// AllowsLate reports whether a role may add evidence of a kind to a sealed
// release at a stage.
func (p Policy) AllowsLate(kind string, role Role, stage Stage) bool {
	return kind == rebuildrecord.PredicateType && role == rebuilder && slices.Contains(p.rebuilt.stages, stage) || slices.ContainsFunc(p.whole.late, func(late fileLate) bool {
		return late.Predicate == kind && late.Role == role && slices.Contains(late.Stages, stage)
	})
}

// IsLate reports whether evidence that the manifest does not list may be added
// to a release, or to one artifact: by its kind, and the role of its signer. Only
// class, stage and subject of the question count.
func (p Policy) IsLate(e verify.Evidence, q Question) bool {
	f := factOf(e)
	return !e.IsZero() && f.isLate(&p, q)
}

func (f *fact) isLate(p *Policy, q Question) bool {
	return slices.ContainsFunc(Roles(), func(role Role) bool {
		return p.AllowsLate(f.kind, role, q.Stage) && p.actors.acts(f, role, &q) == nil
	})
}
