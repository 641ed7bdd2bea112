package sbom

import (
	"cmp"
	"context"
	"crypto/sha1" // given in documents; never relied on
	"encoding/hex"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/waybill-release/waybill/pkg/document/spdx"
	"github.com/waybill-release/waybill/pkg/judge/sbomcheck"
	"github.com/waybill-release/waybill/pkg/sbom/gomod"
	"github.com/waybill-release/waybill/pkg/tool/slice"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// Question is a document and what to compare it with: a file, a directory or an
// image.
type Question struct {
	Document  spdx.Document
	Content   *Content
	Directory fs.FS
	// Image is one that a registry serves or a layout holds; with Content, the
	// one that the file holds.
	Image *ImageContent
	// Platform selects a platform of the image. Without it, a document with the
	// digest of one platform is compared with that platform, and any other with
	// the whole image.
	Platform string
	// GoSum are the bytes of go.sum at the source commit, or nil.
	GoSum []byte
	// Complete requires that nothing was left unexamined.
	Complete bool
}

// held is the result of a comparison.
type held struct {
	sbomcheck.Found
	// As says what the document was compared with: "a file", "the image of
	// linux/amd64".
	As string
}

// compareDocument compares a document with the bytes that it is about: their
// digest, the files, modules and packages in them, and the layers that are
// served. Documents of other tools are compared by what any tool states: see
// [sbomcheck.Foreign].
func compareDocument(ctx context.Context, q Question) (held, error) {
	name, _ := q.Document.Describes()
	name = cmp.Or(name, q.Document.Name(), "artifact") // a document of several things
	h := comparison{Question: q, a: sbomcheck.Artifact{Name: name, Document: q.Document}, facts: sbomcheck.Release{Complete: q.Complete}}
	if q.GoSum != nil {
		sums, err := gomod.ParseSums(q.GoSum)
		if err != nil {
			return held{}, verdict.Wrap(verdict.ConfigParse, "go.sum", err)
		}
		h.facts.GoSum = sums
	}
	made, as, err := h.read(ctx)
	if err != nil {
		return held{}, err
	}
	out := held{Found: sbomcheck.Found{Digests: h.a.Digests}, As: as}
	if sbomcheck.Ours(q.Document) {
		out.Findings, out.Left = h.ours(made)
		rest := sbomcheck.Uncompared(h.a)
		if out.Left = append(out.Left, rest...); q.Complete {
			out.Findings = append(out.Findings, h.uncompared(rest)...)
		}
		return out, nil
	}
	out.Findings, out.Left, err = h.foreign(ctx, made)
	return out, err
}

// comparison is one document and the facts to compare with it.
type comparison struct {
	Question
	a     sbomcheck.Artifact
	facts sbomcheck.Release
	// viaConfig says that the document belongs to an image without a manifest,
	// as its configuration shows.
	viaConfig bool
	content   *ImageContent // the image that was read, if it is one
	put       []verdict.Finding
}

// read describes the subject of the document again.
func (h *comparison) read(ctx context.Context) (made Made, as string, err error) {
	in := again(h.Document)
	if !sbomcheck.Ours(h.Document) {
		in.Version = spdx.NoAssertion // a foreign document may state a digest
	}
	switch {
	case h.Image != nil && (h.Content == nil || h.Platform != "" || h.platform() != "" || h.Image.Index.SHA256.Equal(sbomcheck.Claimed(h.Document))):
		return h.image(ctx, in)
	case h.Platform != "":
		return Made{}, "", verdict.Refuse(verdict.Usage, "--platform", "%q: not an image", h.Platform)
	case h.Content != nil:
		made, err = Describe(ctx, in, h.a.Name, *h.Content, nil)
		if h.a.Digests = made.Digests; err == nil {
			err = h.compareSHA1()
		}
		return made, "a file", err
	case h.Directory != nil && slices.ContainsFunc(sbomcheck.Omitted(h.Document), func(n string) bool {
		return strings.HasPrefix(n, sbomcheck.NotExamined+"files: ")
	}):
		made, err = Packages(in, h.a.Name, h.Directory)
		return made, "the packages of a directory", err
	case h.Directory != nil:
		made, err = Directory(in, h.a.Name, h.Directory, nil)
		return made, "a directory", err
	}
	return Made{}, "", verdict.Refuse(verdict.NoArtifact, h.a.Name, "no file, directory or image was given to compare the SBOM with")
}

// compareSHA1 computes the SHA-1 of the file, if the document states one.
func (h *comparison) compareSHA1() error {
	if sbomcheck.SHA1(h.Document) == "" {
		return nil
	}
	sum := sha1.New() // SHA-1 proves nothing, but must match
	if _, err := io.Copy(sum, io.NewSectionReader(h.Content, 0, h.Content.Size)); err != nil {
		return verdict.Wrap(verdict.PlaceDown, h.a.Name, err)
	}
	h.a.SHA1 = hex.EncodeToString(sum.Sum(nil))
	return nil
}

// platform returns the platform whose digest the document states, or "".
func (h *comparison) platform() string {
	claimed := sbomcheck.Claimed(h.Document)
	if h.Image.Index.SHA256.Equal(claimed) {
		return ""
	}
	return slice.First(h.Image.Platforms, func(p ImagePlatform) bool {
		return p.Digest.Equal(claimed) || p.Config.Equal(claimed) || h.configured(p)
	}).Platform
}

// configured reports whether a saved image, which has no manifest, has the
// configuration in the manifest that the document is about.
func (h *comparison) configured(p ImagePlatform) bool {
	listed := sbomcheck.Platforms(h.Document)[p.Platform]
	return p.Digest.IsZero() && p.Config.Equal(listed.Config) && listed.Manifest.Equal(sbomcheck.Claimed(h.Document))
}

func (h *comparison) image(ctx context.Context, in Input) (made Made, as string, err error) {
	content, as := *h.Image, "an image of one platform"
	if len(content.Platforms) == 0 {
		return Made{}, "", verdict.Refuse(verdict.Platform, h.a.Name, "an image without platforms")
	}
	if len(content.Platforms) > 1 {
		as = "the image of all platforms"
	}
	platform := h.Platform
	platform = cmp.Or(platform, h.platform())
	if platform != "" {
		if content, err = content.Only(platform); err != nil {
			return Made{}, "", err
		}
		if as = "the image of " + platform; content.Index.SHA256.Equal(h.Image.Index.SHA256) {
			content.Index = h.Image.Index // the only platform, with all digests
		}
	}
	saved := content.Platforms[0].Digest.IsZero()
	if saved {
		as += ", as it was saved"
	}
	h.a.Digests, h.facts.Images = content.Index, map[string]sbomcheck.Image{h.a.Name: Served(content)}
	if saved && h.configured(content.Platforms[0]) {
		h.a.Digests, h.viaConfig = digest.Set{SHA256: sbomcheck.Claimed(h.Document)}, true
	}
	content.Layers = &Layers{}
	h.content = &content
	if made, err = Image(ctx, in, h.a.Name, content); err != nil || !sbomcheck.Ours(h.Document) {
		return made, as, err
	}
	h.put, err = comparePlaced(ctx, h.a, content)
	return made, as, err
}

// ours compares a document of Waybill in every detail.
func (h *comparison) ours(made Made) (findings []verdict.Finding, left []string) {
	a := h.a
	if h.Directory != nil {
		// A directory has no digest: its files are compared.
		if _, sum := a.Document.Describes(); !sum.IsZero() {
			return []verdict.Finding{verdict.Find(verdict.SBOMSubject, a.Name, "the SBOM describes a file, but this is a directory")}, nil
		}
		if findings = sbomcheck.Named(a); h.facts.GoSum != nil {
			findings = append(findings, sbomcheck.Known(a, h.facts.GoSum)...)
		}
		if h.Complete {
			findings = append(findings, sbomcheck.Complete(a)...)
		}
	} else {
		h.facts.Artifacts = []sbomcheck.Artifact{a}
		findings = h.facts.Findings()
		if _, sum := a.Document.Describes(); !sum.Equal(a.Digests.SHA256) {
			return findings, nil // other bytes have other contents
		}
	}
	if h.viaConfig {
		findings = append(findings, h.put...)
		// Its layers are uncompressed, unlike those in the registry.
		all, left := sbomcheck.Foreign(a, made.Draft)
		return append(findings, all...), append(left, "digests of manifest and layers: a saved image has none; its configuration was compared")
	}
	findings = append(append(findings, h.put...), sbomcheck.Files(a, made.Draft.Files)...)
	findings = append(findings, compareUnlisted(a, made)...)
	return append(findings, sbomcheck.Components(a, made.Draft)...), nil
}

// unnamed reports whether the file holds an image without a manifest.
func (h *comparison) unnamed() bool {
	return h.Image != nil && len(h.Image.Platforms) == 1 && h.Image.Platforms[0].Digest.IsZero()
}

// foreign compares a document of another tool by what any tool states.
func (h *comparison) foreign(ctx context.Context, made Made) (findings []verdict.Finding, left []string, err error) {
	if h.Directory == nil {
		if findings = sbomcheck.Bytes(h.a); len(findings) > 0 && h.unnamed() {
			return findings, []string{"a saved image has no manifest digest: compare the SBOM with the image in a registry or an OCI layout"}, nil
		} else if len(findings) > 0 {
			return findings, nil, nil
		}
	}
	if h.content != nil {
		if made.Draft.Files, err = h.listed(ctx); err != nil {
			return nil, nil, err
		}
	}
	all, left := sbomcheck.Foreign(h.a, made.Draft)
	findings = append(sbomcheck.Named(h.a), all...)
	if h.facts.GoSum != nil {
		findings = append(findings, sbomcheck.Summed(h.a, made.Draft, h.facts.GoSum)...)
	}
	left = append(append(left, sbomcheck.Uncompared(h.a)...), sbomcheck.Unexamined(made.Draft.Relationships)...)
	if !h.Complete {
		return findings, left, nil
	}
	return append(findings, h.uncompared(left)...), nil, nil
}

// uncompared refuses the parts that were not compared.
func (h *comparison) uncompared(left []string) []verdict.Finding {
	return slice.Map(left, func(note string) verdict.Finding {
		return verdict.Find(verdict.SBOMIncomplete, h.a.Name, "not compared: %.500q", note)
	})
}

// listed hashes the files of the image that the document lists.
func (h *comparison) listed(ctx context.Context) ([]spdx.File, error) {
	names := slice.Set(h.Document.Files(), func(f spdx.File) string { return strings.TrimPrefix(path.Clean("/"+f.Name), "/") })
	return filesOf(ctx, *h.content, names)
}
