package k8slayout

import (
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/waybill-release/waybill/pkg/release/plan"
	"github.com/waybill-release/waybill/pkg/tool/pattern"
	"github.com/waybill-release/waybill/pkg/value/digest"
)

// The documents that every Kubernetes release has beside its artifacts.
const (
	SHA256Sums  = "SHA256SUMS"
	SHA512Sums  = "SHA512SUMS"
	ReleaseSBOM = "kubernetes-release.spdx"
	SourceSBOM  = "kubernetes-source.spdx"
	Provenance  = "provenance.json"
	// ImageProvenance is written where a release is staged, and attached to its
	// images.
	ImageProvenance = "image-provenance.json"
)

// Suffixes of the files that accompany an artifact.
const (
	SignatureSuffix   = ".sig"
	CertificateSuffix = ".cert"
	// TagSuffix replaces the .tar of an image archive: the file contains the
	// tag of the image.
	TagSuffix = ".docker_tag"
)

// written are the documents that are added last: they have no checksums,
// sidecars or signatures.
var written = map[string]bool{Provenance: true, ImageProvenance: true, "release-notes.json": true, "announcement.html": true}

// Layout lists the documents that every release has because of how it is
// published: those that the other witnesses are read from.
func Layout() Witness {
	return Witness{name: "the layout", claims: map[string]digest.Set{
		SHA256Sums: {}, SHA512Sums: {}, ReleaseSBOM: {}, SourceSBOM: {}, Provenance: {},
	}}
}

// Kind is what a release file is, and which files accompany it.
type Kind struct {
	Class plan.Class
	// Of is the file that this one accompanies; empty for an artifact.
	Of string
	// Signed says that a signature and a certificate accompany it.
	Signed bool
	// Summed says that it has hash sidecars and is listed in the checksum
	// files.
	Summed bool
}

// KindOf derives the kind of a file from its name, by the rules with which the
// Kubernetes tools publish: pkg/release and cmd/krel of kubernetes/release,
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

// inSums reports whether SHA256SUMS and SHA512SUMS should list a file.
func inSums(name string) bool {
	k := KindOf(name)
	return k.Summed && k.Class != plan.Sums
}

// inSBOM reports whether the SBOM of the release should list a file.
func inSBOM(name string) bool {
	c := KindOf(name).Class
	return c == plan.Binary || c == plan.Archive
}

// platformInName finds the platform in a file name: the directory below bin, or
// the end of the name of an archive.
var platformInName = pattern.Lazy(`(?:^bin/(linux|darwin|windows)/([a-z0-9]+)/|-(linux|darwin|windows)-([a-z0-9]+)\.tar\.gz$)`)

// PlatformOf derives the platform of a file from its name; empty for a file
// that is for all platforms. An accompanying file has the platform of its
// artifact.
func PlatformOf(name string) string {
	if of := KindOf(name).Of; of != "" {
		name = of
	}
	m := platformInName().FindStringSubmatch(name)
	if m == nil {
		return ""
	}
	return m[1] + m[3] + "/" + m[2] + m[4]
}

// For returns the files of the set that are for a platform, or for all
// platforms.
func (s Set) For(platform string) Set {
	part := Set{witnesses: slices.Clone(s.witnesses)}
	for i, w := range part.witnesses {
		part.witnesses[i].claims = maps.Clone(w.claims)
		maps.DeleteFunc(part.witnesses[i].claims, func(name string, _ digest.Set) bool {
			of := PlatformOf(name)
			return of != "" && of != platform
		})
		part.witnesses[i].images = maps.Clone(w.images)
		maps.DeleteFunc(part.witnesses[i].images, func(i Image, _ Built) bool { return i.Platform != platform })
	}
	return part
}

// Claim is the digest set that the first witness gives for a file; zero if none
// does.
func (s Set) Claim(name string) digest.Set {
	for _, w := range s.witnesses {
		if set := w.claims[name]; !set.IsZero() {
			return set
		}
	}
	return digest.Set{}
}
