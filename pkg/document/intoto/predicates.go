package intoto

// Predicate types that others define and we write. Our own are constants in the
// packages under attestations/.
const (
	// CosignSignature is what cosign 3 signs for an image.
	CosignSignature = "https://sigstore.dev/cosign/sign/v1"
	// Release lists the contents of a release of a package. Both versions have
	// its field.
	Release = "https://in-toto.io/attestation/release/v0.1"
	// SPDXDocument is an SPDX document as a predicate.
	SPDXDocument = "https://spdx.dev/Document/v2.3"
)

// ShortNames maps the names that people use on the command line, as in cosign,
// to predicate types.
func ShortNames() map[string]string {
	return map[string]string{
		"slsaprovenance":   "https://slsa.dev/provenance/v0.2",
		"slsaprovenance02": "https://slsa.dev/provenance/v0.2",
		"slsaprovenance1":  "https://slsa.dev/provenance/v1",
		"vsa":              "https://slsa.dev/verification_summary/v1",
		"spdx":             "https://spdx.dev/Document",
		"spdxjson":         "https://spdx.dev/Document",
		"spdx23":           SPDXDocument,
		"cyclonedx":        "https://cyclonedx.org/bom",
		"vuln":             "https://cosign.sigstore.dev/attestation/vuln/v1",
		"openvex":          "https://openvex.dev/ns",
		"link":             "https://in-toto.io/Link/v1",
		"release":          Release,
		"manifest":         "https://github.com/waybill-release/waybill/attestations/release-manifest/v1",
		"signature":        CosignSignature,
		"custom":           "https://cosign.sigstore.dev/attestation/v1",
	}
}
