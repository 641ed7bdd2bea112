package sign

import (
	"testing"

	channelindex "github.com/waybill-release/waybill/attestations/channel/v1"
	exception "github.com/waybill-release/waybill/attestations/exception/v1"
	featuretransition "github.com/waybill-release/waybill/attestations/feature-transition/v1"
	knowndefects "github.com/waybill-release/waybill/attestations/known-defects/v1"
	signedpolicy "github.com/waybill-release/waybill/attestations/policy/v1"
	releasemanifest "github.com/waybill-release/waybill/attestations/release-manifest/v1"
	releasesignoff "github.com/waybill-release/waybill/attestations/release-signoff/v1"
	"github.com/waybill-release/waybill/pkg/document/openvex"
	"github.com/waybill-release/waybill/pkg/document/promotionrecord"
	"github.com/waybill-release/waybill/pkg/document/provenance"
	"github.com/waybill-release/waybill/pkg/document/vsa"
	"github.com/waybill-release/waybill/pkg/judge/policy"
)

// TestMayState: a builder, the verifier, the policy's officer, whoever tends
// the channels, whoever signs off and the reconciler of features sign their own
// kinds and nothing else; nobody else signs those.
func TestMayState(t *testing.T) {
	owner := map[string]policy.Role{
		provenance.PredicateType:              policy.Builder,
		provenance.PredicateTypeV02:           policy.Builder,
		provenance.PredicateTypeV01:           policy.Builder,
		signedpolicy.PredicateType:            policy.Officer,
		exception.PredicateType:               policy.Officer,
		knowndefects.PredicateType:            policy.Officer,
		channelindex.PredicateType:            policy.Channels,
		releasesignoff.PredicateType:          policy.Signoffs,
		releasesignoff.SVRType:                policy.Signoffs,
		vsa.PredicateType:                     policy.Verifier,
		promotionrecord.PredicateType:         policy.Verifier,
		featuretransition.PredicateType:       policy.Reconciler,
		openvex.PredicateType:                 openvex.Role,
		openvex.Context:                       openvex.Role,
		releasemanifest.PredicateType:         "",
		"https://example.test/predicate/v1":   "",
		exception.PredicateType + "/../v1":    "",
		"https://slsa.dev/provenance/v1?more": "",
	}
	for kind, of := range owner {
		for _, role := range []policy.Role{policy.Builder, policy.Release, policy.Verifier, policy.Officer, policy.Channels, policy.Signoffs, policy.Reconciler, openvex.Role} {
			want := of == role || of == "" && role == policy.Release
			if got := mayState(role, kind); got != want {
				t.Errorf("the %s role signs %s: %t, want %t", role, kind, got, want)
			}
		}
	}
}
