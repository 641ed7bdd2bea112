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

// checkAncestry says which level of the Build track the release reached. An
// artifact has no higher level than what it was made of, so that is asked of
// everything that the provenance names and the release holds: where a policy
// requires a level, the whole way to the source must have it.
func checkAncestry(_ context.Context, g gathered) (f facts) {
	if g.release.Options.Scope.Depth != AllEvidence {
		return f
	}
	steps := g.steps(&f)
	lowest := slsa.Limit{Level: -1}
	shown := map[string]bool{}
	for _, s := range steps {
		if a, _ := g.release.manifest.Find(s.ID); !g.release.covers(a) || !g.holds(s.ID) {
			continue // what is wrong with it was said
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
			f.note("%s: its level over its ancestry is not shown: %v", s.ID, err)
		}
	}
	g.demandLevels(shown, &f)
	if g.release.manifest.isGiven() {
		g.sayUnproven(len(steps), &f)
	}
	if lowest.Level >= 0 {
		f.least = &verdict.Least{Track: string(slsa.Build), Level: lowest.Level, Artifacts: len(shown), Path: lowest.Path}
		of, rest := "everything that was built", ""
		if g.release.manifest.isGiven() {
			of = "what another tool's provenance speaks of"
		} else if n, first := g.uncounted(shown); n > 0 {
			of = fmt.Sprintf("%d of %d artifacts that were built", len(shown), len(shown)+n)
			rest = fmt.Sprintf("; the others have findings, or a summary in place of provenance, the first: %s", first)
		}
		f.note("Build level %d of 3 for %s, limited by %s%s", lowest.Level, of, strings.Join(lowest.Path, " made of "), rest)
	}
	return f
}

// fixLevel is the next act where a release has a lower level than was asked.
const fixLevel = "require a lower level, or use an artifact whose named part comes from a builder that reaches the level"

// tooLow says which step keeps an artifact below a level, or why none is shown.
func tooLow(name string, want int, limit slsa.Limit, unknown error) verdict.Finding {
	message := "its provenance shows a lower level"
	switch {
	case unknown != nil:
		message = fmt.Sprintf("its level over its ancestry is not shown: %v", unknown)
	case len(limit.Path) > 1:
		message = "what it was made of has a lower level: " + limit.String()
	}
	f := verdict.Find(verdict.Level, name, "%s", message).Differ(fmt.Sprintf("build=%d", want), fmt.Sprintf("build=%d", limit.Level))
	f.Fix = fixLevel
	return f
}

// uncounted are the artifacts that were built and have no part in the level of
// the release, and the first of them: something was found against one, even if it
// was set aside, or a verifier's summary stands in place of its provenance.
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

// demandLevels refuses what has no level at all, where one is asked for
// besides the policy's: what no provenance speaks of was made anyhow.
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
			refuse(a.Name, "no provenance that the policy believes says how it was made")
		}
	}
	if asked == 0 {
		refuse(g.release.manifest.Name, "nothing of what is asked about was built, so that nothing has a level")
	}
}

// steps are the artifacts that were built, each with its own level and with
// what it was made of, as far as that is in the release. A copy of one that is
// gone or was changed takes no level from what the sealed one went into: its
// provenance is of the bytes that the manifest lists.
func (g gathered) steps(f *facts) []slsa.Step {
	var steps []slsa.Step
	for _, a := range g.release.manifest.Artifacts {
		if a.Provenance == "" || g.release.Policy.Asks(g.release.Stage, a.Class, policy.Provenance) == policy.Off {
			continue
		}
		if _, is := g.vouched[a.Name]; is {
			continue // the summary has its level
		}
		got := g.release.builds[a.Provenance]()
		if got.unread != nil || got.refused != nil || got.run != nil {
			continue // which is a finding, or a warning, of its own
		}
		report, err := g.release.hearing.Level(got.evidence, g.release.question(a))
		if err != nil && g.release.manifest.isGiven() {
			continue // it was found to speak of something else
		}
		if err != nil {
			f.note("%s: no level can be read from its provenance: %v", a.Name, err)
		}
		steps = append(steps, slsa.Step{ID: a.Name, Level: report.On(slsa.Build).Level, Inputs: g.madeOf(got.claim, a.Name)})
	}
	return steps
}

// madeOf lists the artifacts of the release that a provenance names among what
// it used, by name and bytes.
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
