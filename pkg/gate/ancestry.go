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
	"github.com/waybill-release/waybill/pkg/tool/slice"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// checkAncestry reports the SLSA levels that the release reached. An artifact's
// level is at most that of every input that its provenance names and that is in
// the release, or for which the policy requires a level. Where a level is
// required, the artifact and all its inputs back to the source must have it.
func checkAncestry(ctx context.Context, g gathered) (f facts) {
	if g.release.Options.Scope.Depth != allEvidence {
		return f
	}
	all := g.built(&f)
	withInputs := g.withInputs(ctx, all, &f)
	for _, track := range tracks() {
		if track == slsa.Build {
			g.checkTrack(track, withInputs, &f)
		} else {
			g.checkTrack(track, all, &f)
		}
	}
	g.sayControls(all, &f)
	if g.release.manifest.isGiven() {
		g.sayUnproven(len(all), &f)
	}
	return f
}

// tracks are those of every report.
func tracks() []slsa.Track { return []slsa.Track{slsa.Build, slsa.V01, slsa.Source} }

// notes reports whether the level on a track is noted: of the Build track
// always, of the others if the user requires a level on them or the policy says
// something about them.
func (g gathered) notes(track slsa.Track) bool {
	return track == slsa.Build || g.release.session.JudgesLevels() || slices.ContainsFunc(g.release.manifest.Artifacts, func(a manifest.Artifact) bool {
		return g.release.covers(a) && g.levelOf(a, track) > 0
	})
}

// checkTrack reports the level on one track, and refuses what is below the
// required one.
func (g gathered) checkTrack(track slsa.Track, all []builtArtifact, f *facts) {
	by := slice.By(all, func(b builtArtifact) string { return b.name })
	lowest := slsa.Limit{Level: -1}
	shown, counted := map[string]bool{}, map[string]bool{}
	for _, b := range all {
		a, listed := g.release.manifest.Find(b.name)
		if !listed || !g.release.covers(a) || g.tooLow(b.name) {
			continue // an input, or reported by another check
		}
		steps := family(b, by, track)
		limit, err := slsa.Minimum(b.name, steps)
		if err != nil {
			limit = slsa.Limit{Path: []string{b.name}}
		}
		if g.holds(b.name) {
			shown[b.name] = true
			for _, s := range steps {
				counted[s.ID] = true
			}
			if lowest.Level < 0 || limit.Level < lowest.Level {
				lowest = limit
			}
		}
		// Another finding may be set aside, which does not set aside the level.
		if want := (slsa.Demand{Track: track, Level: g.levelOf(a, track)}); limit.Level < want.Level {
			f.refuse(tooLow(b.name, want, limit, by[limit.Path[len(limit.Path)-1]].report, err))
		} else if err != nil && track == slsa.Build {
			f.note("%s: no Build level can be computed over its inputs: %v", b.name, err)
		}
	}
	g.demandLevel(track, by, f)
	if lowest.Level < 0 {
		return
	}
	var on verdict.Levels
	for _, b := range all {
		if counted[b.name] {
			on.Join(b.report.On(track))
		}
	}
	g.sayLevel(lowest, on, shown, f)
}

// family are the steps of an artifact and of everything that it was made of, as
// far as there is any provenance.
func family(b builtArtifact, by map[string]builtArtifact, track slsa.Track) (steps []slsa.Step) {
	seen := map[string]bool{b.name: true}
	for due := []builtArtifact{b}; len(due) > 0; due = due[1:] {
		steps = append(steps, slsa.Step{ID: due[0].name, Level: due[0].report.Level(track), Inputs: due[0].inputs})
		for _, input := range due[0].inputs {
			if next, known := by[input]; known && !seen[input] {
				seen[input] = true
				due = append(due, next)
			}
		}
	}
	return steps
}

// sayLevel reports the lowest level on a track, what limits it, and the joined
// answers to its requirements. What is declared is always said.
func (g gathered) sayLevel(lowest slsa.Limit, on verdict.Levels, shown map[string]bool, f *facts) {
	word, track := on.Track, slsa.Track(on.Track)
	if track == slsa.Build {
		f.least = &verdict.Least{Track: on.Track, Level: lowest.Level, Artifacts: len(shown), Path: lowest.Path}
		word = "Build"
	}
	if on.Level != lowest.Level { // unknown inputs limit it, and no requirement
		on.Level, on.Next = lowest.Level, nil
	}
	on.Subject = lowest.Path[len(lowest.Path)-1]
	f.levels = append(f.levels, on)
	if !g.notes(track) {
		return
	}
	of, rest := "every built artifact", ""
	if g.release.manifest.isGiven() {
		of = "the artifacts with provenance from another tool"
	} else if n, first := g.uncounted(shown); n > 0 {
		of = fmt.Sprintf("%d of %d built artifacts", len(shown), len(shown)+n)
		rest = fmt.Sprintf("; the others have findings, or a verifier's summary in place of provenance, the first: %s", first)
	}
	for _, r := range on.Requirements {
		if r.DeclaredBy != "" {
			rest += "; " + r.ID + " is " + stateBy(r)
		}
	}
	if len(lowest.Path) > 1 || on.Differs() {
		of += ", limited by " + strings.Join(lowest.Path, " made of ")
	}
	f.note("%s level %d of %d for %s%s", word, lowest.Level, on.Most, of, rest)
}

// sayControls reports what people declare of the OpenSSF Baseline.
func (g gathered) sayControls(all []builtArtifact, f *facts) {
	var on verdict.Levels
	for _, b := range all {
		if more := b.report.On(slsa.Controls); len(more.Requirements) > 0 {
			on.Join(more)
		}
	}
	if len(on.Requirements) > 0 {
		f.levels = append(f.levels, on)
	}
}

// stateBy names who declares a requirement until when, or who says that it is not
// implementable, which has no end.
func stateBy(r verdict.Requirement) string {
	if r.Until == "" {
		return fmt.Sprintf("%s, says %q", r.State, r.DeclaredBy)
	}
	return fmt.Sprintf("%s by %q until %s", r.State, r.DeclaredBy, r.Until)
}

// fixLevel is the next act where a level is lower than required.
const fixLevel = "require a lower level, or use an artifact whose named part comes from a builder that reaches the level"

// fixLevels is the next act on the tracks that also depend on the source and on
// declarations.
const fixLevels = "require a lower level, or supply what the named requirement lacks: a summary of the source with --source-vsa, a declaration in the policy, or a signed one with --declaration"

// tooLow names the input that limits the level of an artifact and the first
// requirement that it lacks, or says why no level is known.
func tooLow(name string, want slsa.Demand, limit slsa.Limit, limiting slsa.Report, unknown error) verdict.Finding {
	word, fix := string(want.Track), fixLevels
	if want.Track == slsa.Build {
		word, fix = "Build", fixLevel
	}
	message, lacks := "the provenance shows a lower "+word+" level", ""
	var evidence []digest.Digest
	if short := limiting.Meet(want); short != nil {
		because := verdict.FindingOf(name, short)
		lacks, evidence = ": "+because.Message, because.Evidence
	}
	switch {
	case unknown != nil:
		message, lacks = fmt.Sprintf("no %s level can be computed over the inputs: %v", word, unknown), ""
	case len(limit.Path) > 1:
		message = "an input has a lower " + word + " level: " + limit.String()
	}
	return verdict.Find(verdict.Level, name, "%s", message+lacks).Differ(want.String(), slsa.Demand{Track: want.Track, Level: limit.Level}.String()).Citing(evidence...).
		Advise(fix)
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

// levelOf is the level that policy and user require of an artifact on a track.
func (g gathered) levelOf(a manifest.Artifact, track slsa.Track) int {
	return max(highest(g.release.session.Demands(g.release.Stage, a.Class), track), highest(g.release.Options.Scope.Levels, track))
}

func highest(list []slsa.Demand, track slsa.Track) (level int) {
	for _, d := range list {
		if d.Track == track {
			level = max(level, d.Level)
		}
	}
	return level
}

// demandLevel refuses artifacts without any level, where the user requires one
// besides the policy: no accepted provenance means that nothing is known about
// the build.
func (g gathered) demandLevel(track slsa.Track, judged map[string]builtArtifact, f *facts) {
	want := slsa.Demand{Track: track, Level: highest(g.release.Options.Scope.Levels, track)}
	if want.Level == 0 {
		return
	}
	refuse := func(subject, message string) {
		f.refuse(verdict.Find(verdict.Level, subject, "%s", message).Differ(want.String(), slsa.Demand{Track: track}.String()).Advise(fixLevel))
	}
	asked := 0
	for _, a := range g.release.manifest.Artifacts {
		if !g.release.covers(a) || !slices.Contains(policy.ChecksOf(a.Class), policy.Provenance) {
			continue
		}
		asked++
		_, vouched := g.vouched[a.Name]
		_, is := judged[a.Name]
		switch {
		case is || g.tooLow(a.Name):
		case vouched && track == slsa.Build && g.vouched.reaches(a.Name, want.Level):
		case vouched && track != slsa.Build:
			refuse(a.Name, "a verifier's summary replaces its provenance, and such a summary shows no level of "+string(track))
		default:
			refuse(a.Name, "no provenance that the policy accepts describes how this was built")
		}
	}
	if asked == 0 {
		refuse(g.release.manifest.Name, "none of the selected artifacts was built, so none has a level")
	}
}

// builtArtifact is an artifact with accepted provenance: the answers to all
// requirements, and its inputs from the release.
type builtArtifact struct {
	name   string
	report slsa.Report
	inputs []string
	uses   []input // of others
}

// built are the built artifacts. A copy that is missing or changed does not
// lower the artifacts made from it: their provenance names the bytes that the
// manifest lists.
func (g gathered) built(f *facts) (all []builtArtifact) {
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
		report, err := g.release.session.Level(got.evidence, g.release.question(a), g.late[a.Digests.SHA256]...)
		if err != nil && g.release.manifest.isGiven() {
			continue // reported elsewhere: the provenance is about another artifact
		}
		if err != nil {
			f.note("%s: the provenance shows no level: %v", a.Name, err)
		}
		report.Artifact = a.Name // provenance of many artifacts is judged once
		all = append(all, builtArtifact{a.Name, report, g.madeOf(got.claim, a.Name), g.release.manifest.inputsOf(got.claim.Dependencies)})
	}
	return all
}

// madeOf lists the artifacts of the release that a provenance names as inputs,
// matched by name and digest.
func (g gathered) madeOf(claim provenance.Claim, name string) (inputs []string) {
	for _, r := range claim.Dependencies {
		a, listed := g.release.manifest.Find(r.Name)
		if listed && a.Name != name && isBuilt(a) && r.Digest["sha256"] == a.Digests.SHA256.Hex() && !slices.Contains(inputs, a.Name) {
			inputs = append(inputs, a.Name)
		}
	}
	return inputs
}

func isBuilt(a manifest.Artifact) bool { return a.Provenance != "" }
