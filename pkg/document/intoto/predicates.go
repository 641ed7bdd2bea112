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
