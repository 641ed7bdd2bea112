package gate

import (
	"fmt"
	"slices"
	"strings"

	"github.com/waybill-release/waybill/pkg/policy"
	"github.com/waybill-release/waybill/pkg/provenance"
	"github.com/waybill-release/waybill/pkg/release"
	"github.com/waybill-release/waybill/pkg/slsa"
	"github.com/waybill-release/waybill/pkg/verdict"
)

// checkAncestry says which level of the Build track the release reached. An
// artifact has no higher level than what it was made of, so that is asked of
// everything that the provenance names and the release holds: where a policy
// requires a level, the whole way to the source must have it.
func (d *decision) checkAncestry() {
	if d.Options.Scope.Depth != AllEvidence {
		return
	}
	steps := d.steps()
	lowest := slsa.Limit{Level: -1}
	shown := map[string]bool{}
	for _, s := range steps {
		if a, _ := d.manifest.Find(s.ID); !d.covers(a) || d.bad[s.ID] {
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
		if want := d.levelOf(s.ID); limit.Level < want {
			d.add(tooLow(s.ID, want, limit, err))
		} else if err != nil {
			d.v.Note("%s: its level over its ancestry is not shown: %v", s.ID, err)
		}
	}
	d.demandLevels(shown)
	if d.isGiven() {
		d.sayUnproven(len(steps))
	}
	if lowest.Level >= 0 {
		d.v.Least = &verdict.Least{Track: string(slsa.Build), Level: lowest.Level, Artifacts: len(shown), Path: lowest.Path}
		of, rest := "everything that was built", ""
		if d.isGiven() {
			of = "what another tool's provenance speaks of"
		} else if n, first := d.uncounted(shown); n > 0 {
			of = fmt.Sprintf("%d of %d artifacts that were built", len(shown), len(shown)+n)
			rest = fmt.Sprintf("; the others have findings, or a summary in place of provenance, the first: %s", first)
		}
		d.v.Note("Build level %d of 3 for %s, limited by %s%s", lowest.Level, of, strings.Join(lowest.Path, " made of "), rest)
	}
}

// fixLevel is the next act where a release has a lower level than was asked.
const fixLevel = "build what is named under a builder that reaches the level, or ask for a lower one; waybill verify file --type slsaprovenance1 tells each requirement"

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
func (d *decision) uncounted(shown map[string]bool) (n int, first string) {
	for _, a := range d.manifest.Artifacts {
		_, vouched := d.vouched[a.Name]
		found := d.bad[a.Name] && slices.Contains(policy.ChecksOf(a.Class), policy.Provenance)
		if !d.covers(a) || shown[a.Name] || !vouched && !found {
			continue
		}
		if n++; n == 1 {
			first = a.Name
		}
	}
	return n, first
}

// levelOf is the level that the policy requires of an artifact.
func (d *decision) levelOf(name string) int {
	a, _ := d.manifest.Find(name)
	return max(d.Policy.Level(d.Stage, a.Class), d.Options.Scope.Level)
}

// demandLevels refuses what has no level at all, where one is asked for
// besides the policy's: what no provenance speaks of was made anyhow.
func (d *decision) demandLevels(shown map[string]bool) {
	want := d.Options.Scope.Level
	if want == 0 {
		return
	}
	refuse := func(subject, message string) {
		f := verdict.Find(verdict.Level, subject, "%s", message).Differ(fmt.Sprintf("build=%d", want), "build=0")
		f.Fix = fixLevel
		d.add(f)
	}
	asked := 0
	for _, a := range d.manifest.Artifacts {
		if !d.covers(a) || !slices.Contains(policy.ChecksOf(a.Class), policy.Provenance) {
			continue
		}
		if asked++; !shown[a.Name] && !d.bad[a.Name] && !d.vouchedFor(a.Name, want) {
			refuse(a.Name, "no provenance that the policy believes says how it was made")
		}
	}
	if asked == 0 {
		refuse(d.manifest.Name, "nothing of what is asked about was built, so that nothing has a level")
	}
}

// steps are the artifacts that were built, each with its own level and with
// what it was made of, as far as that is in the release. A copy of one that is
// gone or was changed takes no level from what the sealed one went into: its
// provenance is of the bytes that the manifest lists.
func (d *decision) steps() []slsa.Step {
	var steps []slsa.Step
	for _, a := range d.manifest.Artifacts {
		if a.Provenance == "" || d.Policy.Asks(d.Stage, a.Class, policy.Provenance) == policy.Off {
			continue
		}
		if _, is := d.vouched[a.Name]; is {
			continue // the summary has its level
		}
		got := d.attested[a.Provenance]()
		if got.unread != nil || got.refused != nil || got.run != nil {
			continue // which is a finding, or a warning, of its own
		}
		report, err := d.hearing.Level(got.evidence, d.question(a))
		if err != nil && d.isGiven() {
			continue // it was found to speak of something else
		}
		if err != nil {
			d.v.Note("%s: no level can be read from its provenance: %v", a.Name, err)
		}
		steps = append(steps, slsa.Step{ID: a.Name, Level: report.On(slsa.Build).Level, Inputs: d.madeOf(got.claim, a.Name)})
	}
	return steps
}

// madeOf lists the artifacts of the release that a provenance names among what
// it used, by name and bytes.
func (d *decision) madeOf(claim provenance.Claim, name string) []string {
	var inputs []string
	for _, r := range claim.Dependencies {
		a, listed := d.manifest.Find(r.Name)
		if listed && a.Name != name && isBuilt(a) && r.Digest["sha256"] == a.Digests.SHA256.Hex() && !slices.Contains(inputs, a.Name) {
			inputs = append(inputs, a.Name)
		}
	}
	return inputs
}

func isBuilt(a release.Artifact) bool { return a.Provenance != "" }
