package gate

import (
	"context"
	"maps"
	"slices"

	sbomlist "github.com/waybill-release/waybill/attestations/sbom-list/v1"
	"github.com/waybill-release/waybill/pkg/judge/policy"
	"github.com/waybill-release/waybill/pkg/judge/verify"
	"github.com/waybill-release/waybill/pkg/release/manifest"
	"github.com/waybill-release/waybill/pkg/release/plan"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// sbomList is the signed list of a release's SBOMs, verified and compared with
// the manifest, or why it does not count. The zero sbomList was not read.
type sbomList struct {
	listed   bool // in the manifest
	evidence verify.Evidence
	proof    verdict.Proof
	err      error
}

// readSBOMList reads the list of SBOMs, if the manifest lists one and it or an
// SBOM is in scope.
func readSBOMList(ctx context.Context, s *sealed) (l sbomList) {
	a, there := s.manifest.Find(sbomlist.Name)
	if !there || !a.IsSBOMList() || s.Options.Scope.Depth == OnlyFiles {
		return l
	}
	covered := s.covers(a)
	for _, sbom := range s.manifest.Artifacts {
		covered = covered || sbom.Class == plan.SBOM && s.covers(sbom)
	}
	if l.listed = covered; !covered {
		return l
	}
	raw, err := s.readListed(ctx, a.Name)
	if err != nil {
		l.err = err
		return l
	}
	if l.evidence, err = s.Verifier.Attestation(raw); err != nil {
		l.err = inBundle(a.Name, a.Name, err)
		return l
	}
	l.proof, l.err = s.Policy.Judge(l.evidence, policy.Ask{
		Role: policy.Release, Kind: sbomlist.PredicateType, Subject: a.Name, Stage: s.Stage, Class: plan.SBOM, Whole: true,
	})
	if l.err == nil {
		l.err = s.manifest.agrees(l.evidence)
	}
	return l
}

// agrees requires that a list of SBOMs is of this release and lists its SBOMs,
// all of them and nothing else.
func (m signedManifest) agrees(e verify.Evidence) error {
	differ := func(code verdict.Code, want, got, format string, args ...any) error {
		return &verdict.Error{Finding: verdict.Find(code, sbomlist.Name, format, args...).Differ(want, got).Citing(e.Bundle())}
	}
	p, err := sbomlist.Parse(e.Statement())
	if err != nil {
		return err
	}
	if want, got := m.Name+" "+m.Version.String(), p.Name+" "+p.Version; got != want {
		return differ(verdict.Version, want, got, "the list is of another release")
	}
	sboms := map[string]manifest.Artifact{}
	for _, a := range m.Artifacts {
		if a.Class == plan.SBOM {
			sboms[a.Name] = a
		}
	}
	for _, s := range e.Statement().Subjects() {
		a, is := sboms[s.Name]
		switch {
		case !is:
			return differ(verdict.Conflict, "only SBOMs of the manifest", s.Name, "the list has %s, which the manifest does not list as an SBOM", s.Name)
		case !a.Digests.Equal(s.Digests):
			return differ(verdict.Conflict, a.Digests.SHA256.String(), s.Digests.SHA256.String(), "the list has another digest of %s than the manifest", s.Name)
		}
		delete(sboms, s.Name)
	}
	if left := slices.Sorted(maps.Keys(sboms)); len(left) > 0 {
		return differ(verdict.Conflict, left[0], "not listed", "the list leaves out SBOMs of the manifest: %s", firstFew(left))
	}
	return nil
}

// checkSBOMList reports the list of SBOMs. Where the policy requires a
// signature of each SBOM, the SBOMs in scope have the proofs.
func checkSBOMList(_ context.Context, g gathered) (f facts) {
	switch l := g.list; {
	case !l.listed || !g.holds(sbomlist.Name): // or reported already
	case l.err != nil:
		f.fail(sbomlist.Name, l.err)
	default:
		f.prove(l.proof)
	}
	return f
}

// sbomItem is an SBOM whose signature is the list of SBOMs.
func (g gathered) sbomItem(a manifest.Artifact) item {
	i := item{question: g.release.question(a)}
	switch l := g.list; {
	case !l.listed:
		i.question.Why[policy.Signature] = verdict.Refuse(verdict.Unsigned, a.Name, "the manifest lists no %s, the signed list of the SBOMs", sbomlist.Name)
	case l.err != nil || !g.holds(sbomlist.Name):
		i.reported = verdict.Unsigned // the list has a finding of its own
	default:
		i.evidence = []verify.Evidence{l.evidence}
	}
	return i
}
