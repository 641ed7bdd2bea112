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
	"os"
	"path/filepath"
	"slices"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	releasemanifest "github.com/waybill-release/waybill/attestations/release-manifest/v1"
	"github.com/waybill-release/waybill/pkg/backend/kit"
	"github.com/waybill-release/waybill/pkg/backend/registry"
	"github.com/waybill-release/waybill/pkg/backend/store"
	"github.com/waybill-release/waybill/pkg/gate"
	"github.com/waybill-release/waybill/pkg/judge/policy"
	"github.com/waybill-release/waybill/pkg/judge/verify"
	"github.com/waybill-release/waybill/pkg/pipeline/promote"
	"github.com/waybill-release/waybill/pkg/release/plan"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// Import judges a release, and copies it to other places if it is accepted: what
// the manifest lists, and what is beside it in its place, such as summaries.
func Import(ctx context.Context, g gate.Gate, r gate.Request, to promote.To) (gate.Decided, error) {
	return transfer(ctx, g, r, to, Form{})
}

func transfer(ctx context.Context, g gate.Gate, r gate.Request, to promote.To, form Form) (gate.Decided, error) {
	if g.Profile().Unsealed != nil {
		return gate.Decided{}, verdict.Refuse(verdict.Usage, "kit", "the release has no manifest, which lists what belongs into a kit").Advise("carry its files as --download keeps them, with the answers of the log: docs/how-to/air-gap.md")
	}
	decided, err := g.Decide(ctx, r)
	if err != nil || decided.Verdict.Err() != nil {
		return decided, err
	}
	raw, err := store.Read(ctx, r.Files, releasemanifest.Name, verify.MaxBundle)
	if err != nil {
		return decided, err
	}
	p := promote.Make(decided.Verified(), raw)
	known := map[string]bool{releasemanifest.Name: true}
	for _, f := range p.Files {
		known[f.Name] = true
	}
	all, err := r.Files.List(ctx)
	if errors.Is(err, store.ErrNotListable) {
		err = nil
	}
	for _, o := range all {
		if err == nil && !known[o.Name] {
			raw, err = store.Read(ctx, r.Files, o.Name, verify.MaxBundle)
			p.Files = append(p.Files, promote.File{Name: o.Name, Digests: digest.SetOf(raw), Size: int64(len(raw)), MediaType: plan.MediaBundle})
		}
	}
	if err != nil {
		return decided, err
	}
	if m := decided.Verified(); form.EvidenceOnly {
		p.Images, p.Files = nil, slices.DeleteFunc(p.Files, func(f promote.File) bool {
			a, _ := m.Find(f.Name)
			return slices.Contains(policy.ChecksOf(a.Class), policy.Provenance)
		})
	}
	return decided, promote.Apply(ctx, p, promote.From{Files: r.Files, Images: r.Images}, to)
}

// Form is how a kit is written: compressed, and without the images and the files
// that are built, which are somewhere already.
type Form struct{ Compressed, EvidenceOnly bool }

// Export judges a release, and writes it into a kit if it is accepted, with the
// policy and trust root. Every byte is hashed again while it is copied.
func Export(ctx context.Context, g gate.Gate, r gate.Request, path string, form Form) (decided gate.Decided, err error) {
	if err := kit.CheckNew(path); err != nil {
		return decided, err
	}
	temp, err := os.MkdirTemp(filepath.Dir(path), ".kit-")
	if err != nil {
		return decided, &verdict.UnavailableError{Place: path, Op: "writing the kit", Err: err}
	}
	defer os.RemoveAll(temp) //nolint:errcheck // it is temporary
	dir, files, to := filepath.Join(temp, "kit"), filepath.Join(temp, "kit", kit.Files), promote.To{}
	err = errors.Join(os.Mkdir(dir, 0o755), os.WriteFile(filepath.Join(dir, kit.LayoutName), []byte(kit.LayoutText), 0o644), os.WriteFile(filepath.Join(dir, kit.IndexName), []byte(emptyIndex), 0o644))
	if err == nil {
		to.Writer, err = store.OpenWriter(files)
	}
	if err == nil {
		to.Files, err = store.Open(files, nil)
	}
	if err == nil {
		to.Images, err = registry.OpenLayout(dir)
	}
	if err == nil {
		decided, err = transfer(ctx, g, r, to, form)
	}
	if err != nil || decided.Verdict.Err() != nil {
		return decided, err
	}
	if err := lists(g, dir); err != nil {
		return decided, err
	}
	all, err := store.Open(dir, nil)
	if err != nil {
		return decided, err
	}
	return decided, kit.Write(ctx, path, all, form.Compressed)
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
