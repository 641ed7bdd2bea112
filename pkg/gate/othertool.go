package gate

import (
	"slices"

	"github.com/waybill-release/waybill/pkg/document/provenance"
	"github.com/waybill-release/waybill/pkg/judge/policy"
	"github.com/waybill-release/waybill/pkg/judge/verify"
	"github.com/waybill-release/waybill/pkg/release/manifest"
	"github.com/waybill-release/waybill/pkg/release/plan"
	"github.com/waybill-release/waybill/pkg/tool/plural"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// isGiven reports whether another tool made the release, as its manifest says.
// This lowers no requirement: the policy still decides.
func (m signedManifest) isGiven() bool {
	return len(m.Runs) > 0 && m.Runs[0].Kind == manifest.RunSeal
}

// isTheirs reports whether evidence is provenance of another tool's build, in a
// release that another tool made. Provenance of our own builder is always
// checked in full.
func (m signedManifest) isTheirs(e verify.Evidence) bool {
	if !m.isGiven() {
		return false
	}
	claim, err := provenance.Read(e.Statement())
	return err == nil && claim.BuildType != provenance.BuildType
}

// checkTheirs compares the provenance of another tool's builder with policy and
// manifest. Such provenance cannot name our run or our release.yaml. It must
// name the manifest's commit; the policy says which source and builder it must
// name.
func (s *sealed) checkTheirs(name string, e verify.Evidence) error {
	claim, err := provenance.Read(e.Statement())
	if err != nil {
		return err
	}
	if err := s.Policy.Provenance(e, s.manifest.Version.String()); err != nil {
		return err
	}
	if got, want := claim.Source.Commit, s.manifest.Source.Commit; got != want {
		return &verdict.Error{Finding: verdict.Find(verdict.SourceCommit, name, "built from another commit than the manifest names").
			Differ(want, got).Citing(e.Bundle())}
	}
	return nil
}

// sayUnproven reports for how many artifacts of a release from another tool no
// provenance shows a level.
func (g gathered) sayUnproven(shown int, f *facts) {
	var names []string
	for _, a := range g.release.manifest.Artifacts {
		if !slices.Contains([]plan.Class{plan.Binary, plan.Archive, plan.Other, plan.Image, plan.ImageChild}, a.Class) {
			continue
		}
		if !g.rests(a) {
			names = append(names, a.Name)
		}
	}
	switch {
	case shown == 0:
		f.note("Build level 0 of 3: another tool made these files, and no provenance that the policy accepts describes their build")
	case len(names) > 0:
		f.note("Build level 0 of 3 for %s of another tool, without provenance that the policy accepts: %s", plural.Of(len(names), "artifact"), firstFew(names))
	}
}

// rests reports whether an artifact has provenance that the policy accepts.
func (g gathered) rests(a manifest.Artifact) bool {
	if a.Provenance == "" || !g.holds(a.Name) || g.release.Policy.Asks(g.release.Stage, a.Class, policy.Provenance) == policy.Off {
		return false
	}
	got := g.release.builds[a.Provenance]()
	if got.unread != nil || got.refused != nil || got.run != nil {
		return false
	}
	_, err := g.release.session.Level(got.evidence, g.release.question(a))
	return err == nil
}
