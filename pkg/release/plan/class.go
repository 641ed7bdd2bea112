package plan

import "strings"

// Class is the kind of an artifact; it decides what evidence it can have.
type Class string

// The classes. The first four are made by steps, a platform of an image beside
// its index; the others are made about them.
const (
	Binary     Class = "binary"
	Archive    Class = "archive"
	Other      Class = "file"
	Image      Class = "image"
	ImageChild Class = "image-child"
	SBOM       Class = "sbom"
	Provenance Class = "provenance"
	Signature  Class = "signature"
	ConfigFile Class = "config"
	Sums       Class = "sums"
	// Checksum is a sidecar: the digest of one file, in hexadecimal, and
	// nothing else.
	Checksum Class = "checksum"
	// ProvenanceV02 is what a Provenance says in the legacy form, for readers
	// that know no other. It is evidence of nothing.
	ProvenanceV02 Class = "provenance-v0.2"
)

// Kind is a kind of evidence.
type Kind string

// The kinds of evidence. Files have a bundle beside them, images a signature
// in the registry.
const (
	KindProvenance Kind = "provenance"
	KindSBOM       Kind = "sbom"
	KindBundle     Kind = "bundle"
	KindSignature  Kind = "signature"
)

// kindsOf lists the evidence that an artifact of a class can have; all of it
// is the default.
func kindsOf(c Class) []Kind {
	switch c {
	case Binary, Archive, Other:
		return []Kind{KindProvenance, KindSBOM, KindBundle}
	case Image:
		return []Kind{KindProvenance, KindSBOM, KindSignature}
	}
	return nil
}

// The places of artifacts.
const (
	PlaceFiles  = "files"
	PlaceImages = "images"
)

// Media types of artifacts.
const (
	MediaBundle   = "application/vnd.dev.sigstore.bundle.v0.3+json"
	MediaSPDX     = "application/spdx+json"
	MediaTagValue = "text/spdx"
	mediaOctet    = "application/octet-stream"
	mediaGzip     = "application/gzip"
	mediaYAML     = "application/yaml"
	mediaText     = "text/plain"
	mediaIndex    = "application/vnd.oci.image.index.v1+json"
	mediaImage    = "application/vnd.oci.image.manifest.v1+json"
)

// ProvenanceName is the file that carries the provenance of a step.
func ProvenanceName(instance string) string { return "provenance/" + instance + ".sigstore.json" }

// ProvenanceV02Name is the file that carries it in the legacy form. It has a
// directory of its own: no name of a step has a slash.
func ProvenanceV02Name(instance string) string {
	return "provenance/v0.2/" + instance + ".sigstore.json"
}

// SBOMName is the file that carries the SBOM of an artifact.
func SBOMName(artifact string) string {
	if image, ok := strings.CutPrefix(artifact, "oci/"); ok {
		artifact = "image/" + image
	}
	return artifact + ".spdx.json"
}

// BundleName is the file that carries the signature of an artifact.
func BundleName(artifact string) string { return artifact + ".sigstore.json" }

// sbomMedia is the form of an SBOM, as its name says it.
func sbomMedia(name string) string {
	if strings.HasSuffix(name, ".spdx") {
		return MediaTagValue
	}
	return MediaSPDX
}
