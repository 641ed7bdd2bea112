package intoto

// Predicate types that others define and we write. Our own are constants in the
// packages under attestations/.
const (
	// CosignSignature is what cosign 3 signs for an image.
	CosignSignature = "https://sigstore.dev/cosign/sign/v1"
	// Release lists the contents of a release of a package.
	Release = "https://in-toto.io/attestation/release/v0.2"
	// SPDXDocument is an SPDX document: the type of cosign's --type spdxjson.
	SPDXDocument = "https://spdx.dev/Document"
)

// IsSPDX reports whether the predicate is an SPDX document, by its type with or
// without a version: earlier releases of ours, and GitHub, write "/v2.3".
func (s Statement) IsSPDX() bool {
	return s.predicateType == SPDXDocument || s.predicateType == SPDXDocument+"/v2.3"
}
