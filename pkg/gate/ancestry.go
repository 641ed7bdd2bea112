package gate

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/waybill-release/waybill/pkg/document/provenance"
	"github.com/waybill-release/waybill/pkg/judge/policy"
	"github.com/waybill-release/waybill/pkg/judge/slsa"
	"github.com/waybill-release/waybill/pkg/release/manifest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// checkAncestry reports the level of the Build track that the release reached.
// An artifact's level is at most that of every input that its provenance names
// and that is in the release. Where a policy requires a level, the artifact and
// all its inputs back to the source must have it.
func checkAncestry(_ context.Context, g gathered) (f facts) {
	if g.release.Options.Scope.Depth != AllEvidence {
		return f
	}
	steps := g.steps(&f)
	lowest := slsa.Limit{Level: -1}
	shown := map[string]bool{}
	for _, s := range steps {
		if a, _ := g.release.manifest.Find(s.ID); !g.release.covers(a) || !g.holds(s.ID) {
			continue // reported by another check
		}
		shown[s.ID] = true
		limit, err := slsa.Minimum(s.ID, steps)
		if err != nil {
			limit = slsa.Limit{Path: []string{s.ID}}
		}
		if lowest.Level < 0 || limit.Level < lowest.Level {
			lowest = limit
		}
		if want := g.levelOf(s.ID); limit.Level < want {
			f.refuse(tooLow(s.ID, want, limit, err))
		} else if err != nil {
			f.note("%s: no Build level can be computed over its inputs: %v", s.ID, err)
		}
	}
	g.demandLevels(shown, &f)
	if g.release.manifest.isGiven() {
		g.sayUnproven(len(steps), &f)
	}
	if lowest.Level >= 0 {
		f.least = &verdict.Least{Track: string(slsa.Build), Level: lowest.Level, Artifacts: len(shown), Path: lowest.Path}
		of, rest := "every built artifact", ""
		if g.release.manifest.isGiven() {
			of = "the artifacts with provenance from another tool"
		} else if n, first := g.uncounted(shown); n > 0 {
			of = fmt.Sprintf("%d of %d built artifacts", len(shown), len(shown)+n)
			rest = fmt.Sprintf("; the others have findings, or a verifier's summary in place of provenance, the first: %s", first)
		}
		f.note("Build level %d of 3 for %s, limited by %s%s", lowest.Level, of, strings.Join(lowest.Path, " made of "), rest)
	}
	return f
}

// fixLevel is the next act where a level is lower than required.
const fixLevel = "require a lower level, or use an artifact whose named part comes from a builder that reaches the level"

// tooLow names the input that limits the level of an artifact, or says why no
// level is known.
func tooLow(name string, want int, limit slsa.Limit, unknown error) verdict.Finding {
	message := "the provenance shows a lower Build level"
	switch {
	case unknown != nil:
		message = fmt.Sprintf("no Build level can be computed over the inputs: %v", unknown)
	case len(limit.Path) > 1:
		message = "an input has a lower Build level: " + limit.String()
	}
	f := verdict.Find(verdict.Level, name, "%s", message).Differ(fmt.Sprintf("build=%d", want), fmt.Sprintf("build=%d", limit.Level))
	f.Fix = fixLevel
	return f
}

// uncounted returns how many built artifacts have no part in the level of the
// release, and the first of them. An artifact is left out if it has a finding,
// even one that was set aside, or a verifier's summary in place of provenance.
func (g gathered) uncounted(shown map[string]bool) (n int, first string) {
	for _, a := range g.release.manifest.Artifacts {
		_, vouched := g.vouched[a.Name]
		found := !g.holds(a.Name) && slices.Contains(policy.ChecksOf(a.Class), policy.Provenance)
		if !g.release.covers(a) || shown[a.Name] || !vouched && !found {
			continue
		}
		if n++; n == 1 {
			first = a.Name
		}
	}
	return n, first
}

// levelOf is the level that the policy requires of an artifact.
func (g gathered) levelOf(name string) int {
	a, _ := g.release.manifest.Find(name)
	return max(g.release.Policy.Level(g.release.Stage, a.Class), g.release.Options.Scope.Level)
}

// demandLevels refuses artifacts without any level, where the user requires one
// besides the policy: no accepted provenance means that nothing is known about
// the build.
func (g gathered) demandLevels(shown map[string]bool, f *facts) {
	want := g.release.Options.Scope.Level
	if want == 0 {
		return
	}
	refuse := func(subject, message string) {
		none := verdict.Find(verdict.Level, subject, "%s", message).Differ(fmt.Sprintf("build=%d", want), "build=0")
		none.Fix = fixLevel
		f.refuse(none)
	}
	asked := 0
	for _, a := range g.release.manifest.Artifacts {
		if !g.release.covers(a) || !slices.Contains(policy.ChecksOf(a.Class), policy.Provenance) {
			continue
		}
		if asked++; !shown[a.Name] && g.holds(a.Name) && !g.vouched.reaches(a.Name, want) {
			refuse(a.Name, "no provenance that the policy accepts describes how this was built")
		}
	}
	if asked == 0 {
		refuse(g.release.manifest.Name, "none of the selected artifacts was built, so none has a Build level")
	}
}

// steps are the built artifacts, each with its own level and its inputs from
// the release. A copy that is missing or changed does not lower the artifacts
// made from it: their provenance names the bytes that the manifest lists.
func (g gathered) steps(f *facts) []slsa.Step {
	var steps []slsa.Step
	for _, a := range g.release.manifest.Artifacts {
		if a.Provenance == "" || g.release.Policy.Asks(g.release.Stage, a.Class, policy.Provenance) == policy.Off {
			continue
		}
		if _, is := g.vouched[a.Name]; is {
			continue // the level is in the summary
		}
		got := g.release.builds[a.Provenance]()
		if got.unread != nil || got.refused != nil || got.run != nil {
			continue // reported as a finding or a warning by another check
		}
		report, err := g.release.session.Level(got.evidence, g.release.question(a))
		if err != nil && g.release.manifest.isGiven() {
			continue // reported elsewhere: the provenance is about another artifact
		}
		if err != nil {
			f.note("%s: the provenance shows no level: %v", a.Name, err)
		}
		steps = append(steps, slsa.Step{ID: a.Name, Level: report.On(slsa.Build).Level, Inputs: g.madeOf(got.claim, a.Name)})
	}
	return steps
}

// madeOf lists the artifacts of the release that a provenance names as inputs,
// matched by name and digest.
func (g gathered) madeOf(claim provenance.Claim, name string) []string {
	var inputs []string
	for _, r := range claim.Dependencies {
		a, listed := g.release.manifest.Find(r.Name)
		if listed && a.Name != name && isBuilt(a) && r.Digest["sha256"] == a.Digests.SHA256.Hex() && !slices.Contains(inputs, a.Name) {
			inputs = append(inputs, a.Name)
		}
	}
	return inputs
}

func isBuilt(a manifest.Artifact) bool { return a.Provenance != "" }
