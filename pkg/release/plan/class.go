package plan

import "strings"

// Class is the kind of an artifact. It decides which evidence the artifact can
// have.
type Class string

// The classes. Steps make the first four; a platform of an image is beside its
// index. The others are metadata about them.
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
	// Checksum is a sidecar: it contains only the digest of one file, in
	// hexadecimal.
	Checksum Class = "checksum"
	// ProvenanceV02 repeats a Provenance in the legacy form for older readers.
	// It is not evidence.
	ProvenanceV02 Class = "provenance-v0.2"
)

// Kind is a kind of evidence.
type Kind string

// The kinds of evidence. A file has a bundle beside it, an image a signature in
// the registry.
const (
	KindProvenance Kind = "provenance"
	KindSBOM       Kind = "sbom"
	kindBundle     Kind = "bundle"
	kindSignature  Kind = "signature"
)

// kindsOf lists the evidence that an artifact of a class can have. By default
// it has all of it.
func kindsOf(c Class) []Kind {
	switch c {
	case Binary, Archive, Other:
		return []Kind{KindProvenance, KindSBOM, kindBundle}
	case Image:
		return []Kind{KindProvenance, KindSBOM, kindSignature}
	}
	return nil
}

// The places of artifacts.
const (
	placeFiles  = "files"
	placeImages = "images"
)

// Media types of artifacts.
const (
	MediaBundle   = "application/vnd.dev.sigstore.bundle.v0.3+json"
	mediaSPDX     = "application/spdx+json"
	mediaTagValue = "text/spdx"
	mediaOctet    = "application/octet-stream"
	mediaGzip     = "application/gzip"
	mediaZip      = "application/zip"
	mediaYAML     = "application/yaml"
	mediaText     = "text/plain"
	mediaLines    = "application/jsonl"
	mediaIndex    = "application/vnd.oci.image.index.v1+json"
	mediaImage    = "application/vnd.oci.image.manifest.v1+json"
)

// ProvenanceName is the name of the provenance file of a step.
func ProvenanceName(instance string) string { return "provenance/" + instance + ".sigstore.json" }

// ProvenanceV02Name is the name of that file in the legacy form. It has a
// directory of its own, which no step's name can be: a step's name has no
// slash.
func ProvenanceV02Name(instance string) string {
	return "provenance/v0.2/" + instance + ".sigstore.json"
}

// SBOMName is the name of the SBOM file of an artifact.
func SBOMName(artifact string) string {
	if image, ok := strings.CutPrefix(artifact, "oci/"); ok {
		artifact = "image/" + image
	}
	return artifact + ".spdx.json"
}

// BundleName is the name of the signature file of an artifact.
func BundleName(artifact string) string { return artifact + ".sigstore.json" }

// sbomMedia is the media type of an SBOM, by its file name.
func sbomMedia(name string) string {
	if strings.HasSuffix(name, ".spdx") {
		return mediaTagValue
	}
	return mediaSPDX
}
