package sbom

import (
	"cmp"
	"context"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/waybill-release/waybill/pkg/backend/registry"
	"github.com/waybill-release/waybill/pkg/document/spdx"
	"github.com/waybill-release/waybill/pkg/judge/sbomcheck"
	"github.com/waybill-release/waybill/pkg/tool/slice"
	"github.com/waybill-release/waybill/pkg/value/digest"
)

// Within reads a file again, once, and compares its document with its contents:
// files, modules of programs, packages. If the bytes differ from those that the
// document describes, only that is reported: their contents will differ, too.
func Within(ctx context.Context, a sbomcheck.Artifact, c Content) (sbomcheck.Found, error) {
	made, err := Describe(ctx, again(a.Document), a.Name, c, nil)
	if err != nil {
		return sbomcheck.Found{}, err
	}
	found := sbomcheck.Found{Digests: made.Digests}
	if _, sum := a.Document.Describes(); sum.Equal(made.Digests.SHA256) {
		found.Findings = append(sbomcheck.Files(a, made.Draft.Files), sbomcheck.Components(a, made.Draft)...)
		found.Findings = append(found.Findings, compareUnlisted(a, made)...)
	}
	return found, nil
}

// WithinImage is [Within] for an image.
func WithinImage(ctx context.Context, a sbomcheck.Artifact, c ImageContent) (sbomcheck.Found, error) {
	if c.Layers == nil {
		c.Layers = &Layers{}
	}
	made, err := Image(ctx, again(a.Document), a.Name, c)
	if err != nil {
		return sbomcheck.Found{}, err
	}
	found := sbomcheck.Found{Digests: c.Index, Findings: sbomcheck.Files(a, made.Draft.Files)}
	found.Findings = append(found.Findings, sbomcheck.Components(a, made.Draft)...)
	put, err := comparePlaced(ctx, a, c)
	found.Findings = append(found.Findings, put...)
	return found, err
}

// again returns an input for a description that is compared, never written.
func again(doc spdx.Document) Input {
	at, err := time.Parse(time.RFC3339, doc.Created())
	if err != nil {
		at = time.Unix(0, 0)
	}
	programs := sbomcheck.Programs(doc) // these have a SHA-512 in any case
	return Input{
		Name: "compared", Version: cmp.Or(doc.DescribedVersion(), spdx.NoAssertion), Created: at, Namespace: "https://waybill.invalid/",
		strong: slices.ContainsFunc(doc.Files(), func(f spdx.File) bool { return !f.Digests.SHA512.IsZero() && !programs[f.ID] }),
		listed: listedIn(doc),
	}
}

// Served returns what a registry serves of an image, without its contents.
func Served(c ImageContent) sbomcheck.Image {
	out := sbomcheck.Image{}
	for _, p := range c.Platforms {
		layers := slice.Map(p.Layers, func(l Layer) digest.Digest { return l.Digest })
		out[p.Platform] = sbomcheck.Platform{Manifest: p.Digest, Config: p.Config, Layers: layers}
	}
	return out
}

// Summary counts the parts of a document.
type Summary struct {
	Name     string        `json:"name"`
	Digest   digest.Digest `json:"-"`
	Packages []Row         `json:"packages"`
	Files    int           `json:"files"`
	Unknown  []string      `json:"unknown"`
}

// Row is one package of a summary.
type Row struct {
	Name    string `json:"name"`
	Version string `json:"version"`
	Licence string `json:"licence"`
	PURL    string `json:"purl"`
}

// Summarise lists the packages of a document by name.
func Summarise(m Made) Summary {
	s := Summary{Name: m.Draft.Name, Digest: m.Digests.SHA256, Files: len(m.Draft.Files)}
	s.Packages = slice.Map(m.Draft.Packages[1:], func(p spdx.Package) Row { return Row{p.Name, p.Version, p.Licence, p.PURL} })
	slices.SortFunc(s.Packages, func(a, b Row) int {
		return cmp.Or(strings.Compare(a.Name, b.Name), strings.Compare(a.Version, b.Version), strings.Compare(a.PURL, b.PURL))
	})
	for _, r := range m.Draft.Relationships {
		if r.To == spdx.NoAssertion {
			s.Unknown = append(s.Unknown, r.Comment)
		}
	}
	return s
}

// Look examines the contents of artifacts while a release is verified.
type Look struct {
	// Layers caches layers across images, if it is not nil.
	Layers *Layers
}

// File is [Within] for a stream.
func (Look) File(ctx context.Context, a sbomcheck.Artifact, body io.Reader) (sbomcheck.Found, error) {
	content, done, err := Readable(body)
	if err != nil {
		return sbomcheck.Found{}, err
	}
	defer done()
	return Within(ctx, a, content)
}

// Image is [WithinImage] for an image in a registry.
func (l Look) Image(ctx context.Context, a sbomcheck.Artifact, src registry.Source, repo string, node *registry.Node) (sbomcheck.Found, error) {
	content, err := FromRegistry(ctx, src, repo, node)
	if err != nil {
		return sbomcheck.Found{}, err
	}
	content.Layers = l.Layers
	return WithinImage(ctx, a, content)
}
