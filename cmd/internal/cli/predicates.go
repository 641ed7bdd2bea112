package cli

import (
	sbomlist "github.com/waybill-release/waybill/attestations/sbom-list/v1"
	"github.com/waybill-release/waybill/pkg/document/intoto"
)

// predicateNames maps the names that people use on the command line, as in
// cosign, to predicate types.
func predicateNames() map[string]string {
	return map[string]string{
		"slsaprovenance":   "https://slsa.dev/provenance/v0.2",
		"slsaprovenance02": "https://slsa.dev/provenance/v0.2",
		"slsaprovenance1":  "https://slsa.dev/provenance/v1",
		"vsa":              "https://slsa.dev/verification_summary/v1",
		"spdx":             intoto.SPDXDocument,
		"spdxjson":         intoto.SPDXDocument,
		"spdx23":           intoto.SPDXDocument + "/v2.3",
		"cyclonedx":        "https://cyclonedx.org/bom",
		"vuln":             "https://cosign.sigstore.dev/attestation/vuln/v1",
		"openvex":          "https://openvex.dev/ns",
		"link":             "https://in-toto.io/Link/v1",
		"release":          intoto.Release,
		"release01":        "https://in-toto.io/attestation/release/v0.1",
		"manifest":         "https://github.com/waybill-release/waybill/attestations/release-manifest/v1",
		"sbom-list":        sbomlist.PredicateType,
		"signature":        intoto.CosignSignature,
		"custom":           "https://cosign.sigstore.dev/attestation/v1",
	}
}
