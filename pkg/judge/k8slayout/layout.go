package k8slayout

import (
	"path"
	"strings"

	"github.com/waybill-release/waybill/pkg/release/plan"
	"github.com/waybill-release/waybill/pkg/value/digest"
)

// The documents that every release of Kubernetes has, beside what it is about.
const (
	SHA256Sums  = "SHA256SUMS"
	SHA512Sums  = "SHA512SUMS"
	ReleaseSBOM = "kubernetes-release.spdx"
	SourceSBOM  = "kubernetes-source.spdx"
	Provenance  = "provenance.json"
)

// Suffixes of what lies beside a file.
const (
	SignatureSuffix   = ".sig"
	CertificateSuffix = ".cert"
	// TagSuffix takes the place of an archive's .tar: the file says the tag of
	// the image in it.
	TagSuffix = ".docker_tag"
)

// written are the documents that are added when everything else is done: no
// sum, no sidecar and no signature is made of them.
var written = map[string]bool{Provenance: true, "release-notes.json": true, "announcement.html": true}

// Layout is what every release has for being published at all: the documents
// that the other witnesses are read from.
func Layout() Witness {
	return Witness{name: "the layout", claims: map[string]digest.Set{
		SHA256Sums: {}, SHA512Sums: {}, ReleaseSBOM: {}, SourceSBOM: {}, Provenance: {},
	}}
}

// Kind is what a file of such a release is, and what lies beside it.
type Kind struct {
	Class plan.Class
	// Of is the file that it lies beside; empty for a file of its own.
	Of string
	// Signed says that a signature and a certificate lie beside it.
	Signed bool
	// Summed says that it has hash sidecars and stands in the sums.
	Summed bool
}

// KindOf tells by its name what a file is. The rules are those by which the
// tools of Kubernetes publish: pkg/release and cmd/krel of kubernetes/release,
// read at f618b2a308bc76e90e987e45ab17c85778dd5993.
func KindOf(name string) Kind {
	if written[name] {
		return Kind{Class: plan.Provenance}
	}
	for _, suffix := range []string{SignatureSuffix, CertificateSuffix, ".sha256", ".sha512"} {
		if of, beside := strings.CutSuffix(name, suffix); beside {
			class := plan.Checksum
			if suffix == SignatureSuffix || suffix == CertificateSuffix {
				class = plan.Signature
			}
			return Kind{Class: class, Of: of}
		}
	}
	switch {
	case name == SHA256Sums, name == SHA512Sums:
		return Kind{Class: plan.Sums, Summed: true}
	case strings.HasSuffix(name, TagSuffix):
		return Kind{Class: plan.Checksum, Summed: true}
	case strings.HasSuffix(name, ".tar.gz"):
		return Kind{Class: plan.Archive, Signed: true, Summed: true}
	case strings.HasPrefix(name, "bin/") && path.Ext(name) != ".tar":
		return Kind{Class: plan.Binary, Signed: true, Summed: true}
	}
	return Kind{Class: plan.Other, Signed: true, Summed: true}
}

// inSums reports whether SHA256SUMS and SHA512SUMS are written over a file.
func inSums(name string) bool {
	k := KindOf(name)
	return k.Summed && k.Class != plan.Sums
}

// inSBOM reports whether the release's SBOM is written over a file.
func inSBOM(name string) bool {
	c := KindOf(name).Class
	return c == plan.Binary || c == plan.Archive
}
