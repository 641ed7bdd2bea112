package pipeline

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/waybill-release/waybill/pkg/backend/git"
	"github.com/waybill-release/waybill/pkg/backend/registry"
	"github.com/waybill-release/waybill/pkg/backend/store"
	"github.com/waybill-release/waybill/pkg/document/spdx"
	"github.com/waybill-release/waybill/pkg/gate"
	"github.com/waybill-release/waybill/pkg/judge/sbomcheck"
	"github.com/waybill-release/waybill/pkg/produce/checkout"
	"github.com/waybill-release/waybill/pkg/produce/sandbox"
	"github.com/waybill-release/waybill/pkg/produce/seal"
	"github.com/waybill-release/waybill/pkg/produce/workspace"
	"github.com/waybill-release/waybill/pkg/release/plan"
	"github.com/waybill-release/waybill/pkg/sbom"
	"github.com/waybill-release/waybill/pkg/tool/slice"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

func describe(ctx context.Context, t tools, in facts) (facts, error) {
	if in.plan.IsGiven() {
		return in, verdict.Refuse(verdict.Usage, plan.ConfigName, "release.yaml says that another tool makes the outputs; its SBOMs are used unchanged")
	}
	d := newDescriber(in.plan, in.w, in.examined, t.Maker)
	d.tell, d.in.During = t.tell, true
	if err := d.describeAll(ctx); err != nil {
		return in, err
	}
	t.Report(ctx, "wrote %d SBOMs", len(d.all)+1)
	return in, nil
}

func newDescriber(p plan.Plan, w *workspace.Workspace, examined *sbomcheck.Examined, maker Maker) *describer {
	return &describer{plan: p, w: w, examined: examined, entries: map[digest.Digest]sbom.Entry{}, modules: sbom.Licences{Modules: os.DirFS(filepath.Join(w.Fetched(), "modules"))}, in: sbom.Input{
		Name: p.Name, Version: p.Version.String(), Created: w.Identity().Commit.Time, Namespace: p.Files,
		Supplier: cmp.Or(p.SBOMs.Supplier, p.Repository), Tool: maker.Version,
	}}
}

// describer writes SBOMs in dependency order, so each can refer to earlier
// ones.
type describer struct {
	tell    func(gate.Progress)
	plan    plan.Plan
	w       *workspace.Workspace
	in      sbom.Input
	entries map[digest.Digest]sbom.Entry
	all     []sbom.Entry
	plain   []sbom.Entry // artifacts without an SBOM
	layers  sbom.Layers  // shared by images
	modules sbom.Licences
	// examined remembers which documents were made of which bytes: later acts
	// of this run then only hash both.
	examined *sbomcheck.Examined
}

// describeAll describes contained artifacts before those that contain them. A
// failure does not stop the others: the release fails with all of them.
func (d *describer) describeAll(ctx context.Context) error {
	var failed []error
	far := gate.Progress{OfFiles: len(slices.DeleteFunc(slices.Clone(d.plan.Artifacts), func(a plan.Artifact) bool { return !a.IsBuilt() }))}
	for _, class := range []plan.Class{plan.Binary, plan.Other, plan.Archive, plan.Image} {
		for _, a := range d.plan.Artifacts {
			if a.Class != class || !a.IsBuilt() {
				continue
			}
			d.tell(far)
			far.Files++
			describe := d.describe
			if !a.Has(plan.KindSBOM) {
				describe = d.name
			}
			if err := describe(ctx, a); err != nil {
				failed = append(failed, fmt.Errorf("describing %q: %w", a.Name, err))
			}
			if ctx.Err() != nil {
				return ctx.Err()
			}
		}
	}
	if len(failed) > 0 {
		return errors.Join(failed...)
	}
	return d.whole(ctx)
}

func (d *describer) describe(ctx context.Context, a plan.Artifact) error {
	set, document, err := d.document(ctx, a)
	if errors.Is(err, store.ErrNotFound) || errors.Is(err, registry.ErrNotFound) {
		return verdict.Refuse(verdict.SealMissing, a.Name, "planned, but not built; run waybill build first")
	}
	if err != nil {
		return err
	}
	name := plan.SBOMName(a.Name)
	if err := d.put(ctx, name, document); err != nil {
		return err
	}
	entry := sbom.Entry{Artifact: a.Name, Digests: set, SBOM: name, SBOMDigest: digest.SetOf(document)}
	d.examined.Agree(a.Name, set.SHA256, entry.SBOMDigest.SHA256)
	d.entries[set.SHA256] = entry
	d.all = append(d.all, entry)
	return nil
}

// name only lists an artifact, which has no SBOM of its own.
func (d *describer) name(ctx context.Context, a plan.Artifact) error {
	e := sbom.Entry{Artifact: a.Name}
	if a.Class == plan.Image {
		node, err := d.graph(ctx, a)
		if err != nil {
			return err
		}
		e.Digests = digest.SetOf(node.Raw)
	} else {
		body, err := d.w.OpenFile(a.Name)
		if err != nil {
			return err
		}
		defer body.Close()
		if e.Digests, _, err = digest.Sum(body); err != nil {
			return err
		}
	}
	d.plain = append(d.plain, e)
	return nil
}

func (d *describer) document(ctx context.Context, a plan.Artifact) (digest.Set, []byte, error) {
	if a.Class == plan.Image {
		return d.image(ctx, a)
	}
	body, err := d.w.OpenFile(a.Name)
	if err != nil {
		return digest.Set{}, nil, notThere(err)
	}
	defer body.Close()
	info, err := body.Stat()
	if err != nil {
		return digest.Set{}, nil, err
	}
	// Reading for the SBOM also computes the digests.
	describe := sbom.Describe
	if a.Class == plan.Binary {
		describe = func(_ context.Context, in sbom.Input, name string, c sbom.Content, _ sbom.Members) (sbom.Made, error) {
			return sbom.Binary(in, name, c)
		}
	}
	made, err := describe(ctx, d.in, a.Name, sbom.Content{ReaderAt: body, Size: info.Size()}, d.find)
	return d.encoded(made, err)
}

// encoded writes a document, and returns the digests of its artifact.
func (d *describer) encoded(made sbom.Made, err error) (digest.Set, []byte, error) {
	if err != nil {
		return digest.Set{}, nil, err
	}
	d.modules.Declare(&made.Draft)
	document, err := made.Encode()
	return made.Digests, document, err
}

// notThere maps a missing file to a planned artifact that was not built.
func notThere(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return store.ErrNotFound
	}
	return err
}

func (d *describer) image(ctx context.Context, a plan.Artifact) (digest.Set, []byte, error) {
	node, err := d.graph(ctx, a)
	if err != nil {
		return digest.Set{}, nil, err
	}
	content, err := sbom.FromRegistry(ctx, d.w.Images(), a.Repository, node)
	if err != nil {
		return digest.Set{}, nil, err
	}
	for i := range content.Platforms {
		content.Platforms[i].Files = d.filesOf(a, content.Platforms[i].Platform)
	}
	content.Layers = &d.layers
	if err := d.children(ctx, a, content); err != nil {
		return digest.Set{}, nil, err
	}
	made, err := sbom.Image(ctx, d.in, a.Name, content)
	return d.encoded(made, err)
}

// children describes the image of each platform separately, for users who
// pull a single platform and look up its referrers. These documents are
// attached but are no files of the release: the document of the index says
// the same.
func (d *describer) children(ctx context.Context, index plan.Artifact, content sbom.ImageContent) error {
	for _, a := range d.plan.Artifacts {
		if a.Class != plan.ImageChild || a.Of != index.Name {
			continue
		}
		one, err := content.Only(a.Platform)
		if err != nil {
			return err
		}
		_, document, err := d.encoded(sbom.Image(ctx, d.in, a.Name, one))
		if err != nil {
			return err
		}
		if err := seal.KeepSBOM(d.w, a.Name, document); err != nil {
			return err
		}
		d.examined.Agree(a.Name, one.Index.SHA256, digest.Of(digest.SHA256, document))
	}
	return nil
}

// graph is an image as built.
func (d *describer) graph(ctx context.Context, a plan.Artifact) (*registry.Node, error) {
	return registry.Target{Source: d.w.Images(), Repository: a.Repository}.Graph(ctx, d.plan.Version.ImageTag())
}

// filesOf maps paths in an image to the artifacts that were copied there.
func (d *describer) filesOf(a plan.Artifact, platform string) map[string]sbom.Entry {
	files := map[string]sbom.Entry{}
	for _, s := range d.plan.Steps {
		if s.Image == nil || s.Instance != a.Step {
			continue
		}
		for _, pf := range s.Image.Platforms {
			if pf.Platform != platform {
				continue
			}
			for path, artifact := range pf.Files {
				files[path] = d.byName(artifact)
			}
		}
	}
	return files
}

func (d *describer) byName(artifact string) sbom.Entry {
	return slice.First(d.all, func(e sbom.Entry) bool { return e.Artifact == artifact })
}

func (d *describer) find(sum digest.Digest) (sbom.Entry, bool) {
	e, ok := d.entries[sum]
	return e, ok
}

func (d *describer) put(ctx context.Context, name string, document []byte) error {
	return d.w.Writer().Put(ctx, name, int64(len(document)), bytes.NewReader(document), store.PutOptions{})
}

// whole writes the documents about the whole release: of its source, if
// planned, and of everything that was built from it.
func (d *describer) whole(ctx context.Context) error {
	source, err := d.source(ctx)
	if err != nil {
		return err
	}
	made, err := sbom.Release(d.in, slices.Concat(d.all, d.plain), source)
	if err != nil {
		return err
	}
	_, err = d.write(ctx, d.plan.SBOMs.Release, made)
	return err
}

// source describes the source of the commit. The entry is zero if none is
// planned.
func (d *describer) source(ctx context.Context) (sbom.Entry, error) {
	name := d.plan.SBOMs.Source
	if name == "" {
		return sbom.Entry{}, nil
	}
	scratch, err := d.w.Scratch("source")
	if err != nil {
		return sbom.Entry{}, err
	}
	defer func() { _ = sandbox.Remove(ctx, scratch) }()
	dir := filepath.Join(scratch, "src")
	if err := checkOut(ctx, d.w.Identity().Commit, dir); err != nil {
		return sbom.Entry{}, err
	}
	made, err := sbom.Directory(d.in, "source", os.DirFS(dir), d.find)
	if err != nil {
		return sbom.Entry{}, fmt.Errorf("describing the source: %w", err)
	}
	document, err := d.write(ctx, name, made)
	if err != nil {
		return sbom.Entry{}, err
	}
	d.examined.Agree(name, seal.ContentOf(d.w.Identity().Commit), digest.Of(digest.SHA256, document))
	return sbom.Entry{Artifact: "source", Digests: made.Digests, SBOM: name, SBOMDigest: digest.SetOf(document)}, nil
}

// checkOut checks out the source as a build does: in a sandbox if possible,
// and verified.
func checkOut(ctx context.Context, c git.Commit, dir string) error {
	repo, err := c.Open(ctx)
	if err != nil {
		return err
	}
	defer repo.Close()
	return checkout.Checkout(ctx, sandbox.Examine(ctx).Mode, repo, c, dir)
}

// write writes a document in the format that its name demands.
func (d *describer) write(ctx context.Context, name string, made sbom.Made) ([]byte, error) {
	d.modules.Declare(&made.Draft)
	encode := made.Encode
	if strings.HasSuffix(name, ".spdx") {
		encode = func() ([]byte, error) { return spdx.EncodeTagValue(made.Draft) }
	}
	document, err := encode()
	if err != nil {
		return nil, err
	}
	return document, d.put(ctx, name, document)
}
