package policy

import (
	"slices"
	"strings"

	channelindex "github.com/waybill-release/waybill/attestations/channel/v1"
	exception "github.com/waybill-release/waybill/attestations/exception/v1"
	featuretransition "github.com/waybill-release/waybill/attestations/feature-transition/v1"
	knowndefects "github.com/waybill-release/waybill/attestations/known-defects/v1"
	signedpolicy "github.com/waybill-release/waybill/attestations/policy/v1"
	releasemanifest "github.com/waybill-release/waybill/attestations/release-manifest/v1"
	releasesignoff "github.com/waybill-release/waybill/attestations/release-signoff/v1"
	sbomlist "github.com/waybill-release/waybill/attestations/sbom-list/v1"
	"github.com/waybill-release/waybill/pkg/document/intoto"
	"github.com/waybill-release/waybill/pkg/document/openvex"
	"github.com/waybill-release/waybill/pkg/document/promotionrecord"
	"github.com/waybill-release/waybill/pkg/document/provenance"
	"github.com/waybill-release/waybill/pkg/document/rebuildrecord"
	"github.com/waybill-release/waybill/pkg/document/vsa"
	"github.com/waybill-release/waybill/pkg/judge/verify"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// Owner is the one role that signs evidence of a kind; empty for a kind without
// such a role. With one owner for each kind, the signer of a release cannot
// sign its verification summary, and the verifier cannot sign the release.
func Owner(kind string) Role {
	switch kind {
	case provenance.PredicateType, provenance.PredicateTypeV02, provenance.PredicateTypeV01:
		return Builder
	case signedpolicy.PredicateType, knowndefects.PredicateType, exception.PredicateType:
		return Officer
	case channelindex.PredicateType:
		return Channels
	case releasesignoff.PredicateType, releasesignoff.SVRType:
		return Signoffs
	case vsa.PredicateType, promotionrecord.PredicateType:
		return Verifier
	case openvex.PredicateType, openvex.Context:
		return vexSigner
	case rebuildrecord.PredicateType:
		return rebuilder
	case featuretransition.PredicateType:
		return Reconciler
	case releasemanifest.PredicateType, sbomlist.PredicateType, intoto.Release, intoto.SPDXDocument, intoto.SPDXDocument + "/v2.3", intoto.CosignSignature, verify.KindImage, kindBlob,
		"https://in-toto.io/attestation/release/v0.1", "https://packslip.dev/release/v1": // of earlier releases; of packslips
		return Release
	}
	return ""
}

// States checks evidence without a release in question: its signer may act in
// the role that owns its kind, or may add it late, and provenance describes a
// build that the policy expects, of the version that it names itself. The
// returned role is the one in which the policy lists the signer, even if the
// evidence is refused.
func States(p Policy, e verify.Evidence) (Role, error) {
	f, q := factOf(e), Question{Subject: e.Kind()}
	at, _ := p.actors.entryOf(&f)
	switch owner := Owner(f.kind); {
	case e.IsZero():
		return "", verdict.Refuse(verdict.EvidenceMissing, "evidence", "no evidence was given")
	case slices.ContainsFunc(stages(), func(s Stage) bool {
		return owner != Builder && p.IsLate(e, Question{Subject: "late evidence", Stage: s})
	}):
		return at.role, nil
	case owner == "":
		return at.role, verdict.Refuse(verdict.PredicateType, f.kind, "the policy has no role that signs statements of this kind")
	case owner == Builder:
		return at.role, p.Provenance(e, f.namedVersion())
	default:
		return at.role, say(p.actors.acts(&f, owner, &q))
	}
}

// namedVersion is the version whose tag the provenance says was built; empty if
// it names no tag.
func (f *fact) namedVersion() string {
	claim, err := f.claim()
	if err != nil {
		return ""
	}
	version, is := strings.CutPrefix(claim.Source.Ref, "refs/tags/")
	if !is {
		return ""
	}
	return version
}
