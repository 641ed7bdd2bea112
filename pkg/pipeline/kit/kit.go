// Package kit puts accepted releases into kits, and takes them out again. Package
// backend/kit says what a kit is.
//
// Other projects should not import this package: it changes without notice.
package kit

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	releasemanifest "github.com/waybill-release/waybill/attestations/release-manifest/v1"
	"github.com/waybill-release/waybill/pkg/backend/kit"
	"github.com/waybill-release/waybill/pkg/backend/registry"
	"github.com/waybill-release/waybill/pkg/backend/store"
	"github.com/waybill-release/waybill/pkg/gate"
	"github.com/waybill-release/waybill/pkg/judge/policy"
	"github.com/waybill-release/waybill/pkg/judge/verify"
	"github.com/waybill-release/waybill/pkg/pipeline/promote"
	"github.com/waybill-release/waybill/pkg/release/manifest"
	"github.com/waybill-release/waybill/pkg/release/plan"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// Import judges a release, and copies it to other places if it is accepted: what
// the manifest lists, and what is beside it in its place, such as summaries.
func Import(ctx context.Context, g gate.Gate, r gate.Request, to promote.To) (gate.Decided, error) {
	decided, err := decide(ctx, g, r)
	if err != nil || decided.Verdict.Err() != nil {
		return decided, err
	}
	p, err := toCopy(ctx, r, decided.Verified(), Form{})
	if err != nil {
		return decided, err
	}
	if len(p.Images) > 0 && to.Images == nil {
		return decided, verdict.Refuse(verdict.Usage, "--to-images", "required, as the release has images: the registry to copy them to")
	}
	err = promote.Apply(ctx, p, promote.From{Files: r.Files, Images: r.Images}, to)
	return decided, verdict.AdviseOn("", err, "import into another place, or find out who wrote what is there, and remove it", verdict.FileConflict, verdict.TagConflict)
}

func decide(ctx context.Context, g gate.Gate, r gate.Request) (gate.Decided, error) {
	if g.Profile().Unsealed != nil {
		return gate.Decided{}, verdict.Refuse(verdict.Usage, "kit", "the release has no manifest, which lists what belongs into a kit").Advise("carry its files as --download keeps them, with the answers of the log: docs/how-to/air-gap.md")
	}
	return g.Decide(ctx, r)
}

// toCopy is what belongs to a release: what the manifest lists, and the summaries
// and the like beside it. Other files do not, and are not copied.
func toCopy(ctx context.Context, r gate.Request, m manifest.Manifest, form Form) (p promote.Plan, err error) {
	raw, err := store.Read(ctx, r.Files, releasemanifest.Name, verify.MaxBundle)
	if err != nil {
		return p, err
	}
	p = promote.Make(m, raw)
	known := map[string]bool{releasemanifest.Name: true}
	for _, f := range p.Files {
		known[f.Name] = true
	}
	all, err := r.Files.List(ctx)
	if errors.Is(err, store.ErrNotListable) {
		err = nil
	}
	for _, o := range all {
		former := slices.Contains(m.Former, o.Name)
		if err != nil || known[o.Name] || !former && !strings.HasSuffix(o.Name, gate.BundleSuffix) {
			continue // nothing else is evidence
		}
		raw, err = store.Read(ctx, r.Files, o.Name, verify.MaxBundle)
		_, other := verify.Read(raw)
		if former && manifest.PageName(digest.Of(digest.SHA256, raw)) == o.Name || other == nil {
			p.Files = append(p.Files, promote.File{Name: o.Name, Digests: digest.SetOf(raw), Size: int64(len(raw)), MediaType: plan.MediaBundle})
		}
	}
	if form.EvidenceOnly {
		p.Images, p.Files = nil, slices.DeleteFunc(p.Files, func(f promote.File) bool {
			a, _ := m.Find(f.Name)
			return slices.Contains(policy.ChecksOf(a.Class), policy.Provenance)
		})
	}
	return p, err
}

// Checkpoint is the checkpoint of the log that has the manifest in a kit. Its signature
// is yet to be verified. Without a kit there is none.
func Checkpoint(ctx context.Context, path string) (string, error) {
	if path == "" {
		return "", nil
	}
	if _, err := kit.Check(ctx, path); err != nil {
		return "", err
	}
	files, err := store.Open(path+"/"+kit.Files, nil)
	if err != nil {
		return "", err
	}
	raw, err := store.Read(ctx, files, releasemanifest.Name, verify.MaxBundle)
	if err != nil {
		return "", err
	}
	said, err := verify.Read(raw)
	if err == nil && len(said.Entries) == 0 {
		err = verdict.Refuse(verdict.EvidenceMissing, path, "its manifest is in no log, so there is no checkpoint")
	}
	if err != nil {
		return "", err
	}
	return said.Entries[0].Checkpoint, nil
}

// Form is how a kit is written: compressed, and without the images and the files
// that are built, which are somewhere already.
type Form struct{ Compressed, EvidenceOnly bool }

// Export judges a release, and writes it into a kit if it is accepted, with the
// policy and trust root. The kit is written first and judged itself, so that each
// byte of a file is hashed once, and appears only then. If that fails, if the place
// cannot be listed, or if the kit is to have evidence only, the release is judged where
// it is; then each byte is hashed again while it is copied.
func Export(ctx context.Context, g gate.Gate, r gate.Request, path string, form Form) (decided gate.Decided, err error) {
	temp, remove, err := kit.Temp(path)
	if err != nil {
		return decided, err
	}
	defer remove()
	first, inKit := filepath.Join(temp, "first"+kit.Suffix), r
	_, failed := r.Files.List(ctx)
	m, refused := g.Manifest(ctx, r)
	if failed = errors.Join(failed, refused); failed == nil && !form.EvidenceOnly && g.Profile().Unsealed == nil {
		failed = exporting{g, r, form}.pack(ctx, m, first, false)
		files, wrong := store.Open(first+"/"+kit.Files, nil)
		if inKit.Files = (copyOf{files, r.Files.URI()}); r.Images != nil {
			inKit.Images, refused = registry.OpenLayout(first)
		}
		if errors.Join(failed, wrong, refused) == nil {
			decided, failed = g.Decide(ctx, inKit)
		}
		if failed == nil && decided.Verdict.Err() == nil && len(decided.Verified().Artifacts) == len(m.Artifacts) {
			return decided, kit.Publish(first, path)
		}
	}
	if decided, err = decide(ctx, g, r); err != nil || decided.Verdict.Err() != nil {
		return decided, err
	}
	if err = (exporting{g, r, form}).pack(ctx, decided.Verified(), first, true); err == nil {
		err = kit.Publish(first, path)
	}
	return decided, err
}

// copyOf is a copy of another place.
type copyOf struct {
	store.Place
	uri string
}

// URI implements [store.Place].
func (c copyOf) URI() string { return c.uri }

// exporting is what goes into a kit, and how.
type exporting struct {
	gate.Gate
	from gate.Request
	Form
}

// pack writes a kit, with files that are hashed while they are copied or, if they
// are judged in the kit, are not.
func (e exporting) pack(ctx context.Context, m manifest.Manifest, path string, hashed bool) error {
	p, err := toCopy(ctx, e.from, m, e.Form)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp(filepath.Dir(path), "parts-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // it is temporary
	files, to := filepath.Join(dir, kit.Files), promote.To{}
	err = errors.Join(os.WriteFile(filepath.Join(dir, kit.LayoutName), []byte(kit.LayoutText), 0o644), os.WriteFile(filepath.Join(dir, kit.IndexName), []byte(emptyIndex), 0o644))
	if err == nil {
		to.Writer, err = store.OpenWriter(files)
	}
	if err == nil {
		to.Files, err = store.Open(files, nil)
	}
	if err == nil {
		to.Images, err = registry.OpenLayout(dir)
	}
	copied := p.Files
	if p.Files = nil; err == nil { // only the images, and the manifest
		err = promote.Apply(ctx, p, promote.From{Files: e.from.Files, Images: e.from.Images}, to)
	}
	if err == nil {
		err = lists(e.Gate, dir)
	}
	rest, failed := store.Open(dir, nil)
	if err := errors.Join(err, failed); err != nil {
		return err
	}
	var entries []kit.Entry
	for _, f := range copied {
		entries = append(entries, kit.Entry{Object: store.Object{Name: kit.Files + f.Name, Size: f.Size}, Open: func(ctx context.Context, _ string) (io.ReadCloser, int64, error) {
			body, _, err := e.from.Files.Open(ctx, f.Name)
			if err != nil || !hashed {
				return body, f.Size, err
			}
			return struct {
				io.Reader
				io.Closer
			}{digest.NewVerifyingReader(body, f.Digests.SHA256, f.Size), body}, f.Size, nil
		}})
	}
	return kit.Write(ctx, path, rest, e.Compressed, entries...)
}

const emptyIndex = `{"schemaVersion":2,"mediaType":"application/vnd.oci.image.index.v1+json","manifests":[]}`

// lists writes the lists of the layout in one order, and whom to believe.
func lists(g gate.Gate, dir string) error {
	trust, _, err := g.Profile().Carried()
	var index v1.IndexManifest
	raw, unread := os.ReadFile(filepath.Join(dir, kit.IndexName))
	err = errors.Join(err, unread, json.Unmarshal(raw, &index))
	slices.SortFunc(index.Manifests, func(a, b v1.Descriptor) int {
		x, _ := json.Marshal(a) // texts and numbers can be marshalled
		y, _ := json.Marshal(b)
		return bytes.Compare(x, y)
	})
	raw, failed := json.Marshal(index)
	err = errors.Join(err, failed)
	for name, raw := range trust {
		at := filepath.Join(dir, kit.Trust, filepath.FromSlash(name))
		err = errors.Join(err, os.MkdirAll(filepath.Dir(at), 0o755), os.WriteFile(at, raw, 0o644))
	}
	return errors.Join(err, os.WriteFile(filepath.Join(dir, kit.IndexName), raw, 0o644))
}
