// Package promote copies a sealed release from one place to another: exactly
// what the manifest lists, by digest, with its evidence, and in an order in
// which a partial copy is never accepted.
//
// [Make] turns a manifest into a [Plan], a value; [Apply] does exactly that.
// Files go first, then images (blobs, platforms, index, evidence, and the
// tags by which older clients find evidence), then the images' own tags, and
// the manifest's bundle last: before it is there, no verifier accepts the
// place. A [Publisher] shows nothing before its publication, which is the last
// step: the manifest is written and everything is read back before the first
// tag. Every step first checks whether it is done, so a second run finishes
// what the first began.
//
//	p := promote.Make(manifest, bundle)
//	err := promote.Apply(ctx, p, from, to)
//
// Other projects should not import this package: it changes without notice.
package promote

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"sync"

	releasemanifest "github.com/waybill-release/waybill/attestations/release-manifest/v1"
	"github.com/waybill-release/waybill/pkg/backend/atonce"
	"github.com/waybill-release/waybill/pkg/backend/registry"
	"github.com/waybill-release/waybill/pkg/backend/store"
	"github.com/waybill-release/waybill/pkg/backend/tracing/span"
	"github.com/waybill-release/waybill/pkg/gate"
	"github.com/waybill-release/waybill/pkg/release/manifest"
	"github.com/waybill-release/waybill/pkg/release/plan"
	"github.com/waybill-release/waybill/pkg/tool/slice"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// writers limits how many files are copied at once.
const writers = 8

// Plan is what a promotion will do.
type Plan struct {
	Name   string  `json:"name"`
	Files  []File  `json:"files"`
	Images []Image `json:"images"`
	// Legacy means that images may have the tags by which older clients find
	// evidence.
	Legacy bool `json:"legacy,omitempty"`
	bundle []byte
	commit string // of the source
}

// File is one file to copy.
type File struct {
	Name      string     `json:"name"`
	Digests   digest.Set `json:"digests"`
	Size      int64      `json:"size"`
	MediaType string     `json:"mediaType"`
}

// Image is one image index to copy with its evidence, and to tag last.
type Image struct {
	Repository string        `json:"repository"`
	Digest     digest.Digest `json:"digest"`
	Size       int64         `json:"size"`
	MediaType  string        `json:"mediaType"`
	Tags       []string      `json:"tags"`
}

// From is where a release is read.
type From struct {
	Files  store.Place
	Images registry.Source
}

// To is where a release is written. The place and the registry are also read
// back.
type To struct {
	Files  store.Place
	Writer store.Writer
	Images Registry
	// Replaces is the digest of the manifest at the destination that the
	// plan's manifest may replace, being a later revision of it; zero
	// replaces none.
	Replaces digest.Digest
	// Left is called for each evidence tag that was not copied, with the
	// reason; may be nil.
	Left func(tag, why string)
	// Exclusive is called before each tag, and before the manifest: it fails
	// if this is no longer the only run. Nil skips the check.
	Exclusive func(context.Context) error
	// Progress is called with how much is copied, one call at a time; may be nil.
	Progress func(gate.Progress)
}

func (t To) tell(far gate.Progress) {
	if t.Progress != nil {
		t.Progress(far)
	}
}

// checkExclusive fails if this is no longer the only run. It is asked right before
// a write, after the destination was read; its error comes first, because what was
// read may be the work of the next run.
func (t To) checkExclusive(ctx context.Context) error {
	if t.Exclusive == nil {
		return nil
	}
	return t.Exclusive(ctx)
}

// Publisher is a place whose objects all become public at once. It is also the
// writer of the place, and reads what is not public yet.
type Publisher interface {
	store.Place
	// Begin prepares for a release of a commit, refuses names that the place
	// cannot have together, and reports whether it is public already.
	Begin(ctx context.Context, commit string, names []string) (public bool, err error)
	// Check checks that Publish will publish.
	Check(ctx context.Context) error
	// Publish makes what was written public, if it is all that is there.
	Publish(ctx context.Context) error
}

// Registry is a registry that can be read and written.
type Registry interface {
	registry.Source
	registry.Sink
}

// Make plans the promotion of a verified manifest, given the bundle from
// which it was verified.
func Make(m manifest.Manifest, bundle []byte) Plan {
	p := Plan{Name: m.Name + " " + m.Version.String(), bundle: bundle, commit: m.Source.Commit, Legacy: mayBeLegacy(m)}
	for _, page := range m.Pages {
		p.Files = append(p.Files, File{Name: page.Name, Digests: page.Digests, Size: page.Size, MediaType: manifest.PageMedia})
	}
	for _, a := range m.Artifacts {
		switch {
		case a.Class == plan.Image:
			p.Images = append(p.Images, Image{
				Repository: a.Repository, Digest: a.Digests.SHA256, Size: a.Size, MediaType: a.MediaType, Tags: a.Tags,
			})
		case !a.IsImage():
			p.Files = append(p.Files, File{Name: a.Name, Digests: a.Digests, Size: a.Size, MediaType: a.MediaType})
		}
	}
	return p
}

// Extent says how much the plan moves, the manifest included.
func (p Plan) Extent() string {
	return fmt.Sprintf("files %d, images %d", len(p.Files)+1, len(p.Images))
}

// Apply does what the plan says.
func Apply(ctx context.Context, p Plan, from From, to To) error {
	whole, _ := to.Writer.(Publisher)
	if whole == nil {
		return apply(ctx, p, from, to, nil)
	}
	public, err := whole.Begin(ctx, p.commit, p.names())
	if err != nil {
		return err
	}
	if public {
		if err := checkPublic(ctx, whole); err != nil {
			return err
		}
		return apply(ctx, p, from, to, nil)
	}
	return apply(ctx, p, from, to, whole)
}

// checkPublic refuses a place that somebody made public without a manifest: users
// would see each file as soon as it is written.
func checkPublic(ctx context.Context, whole Publisher) error {
	body, _, err := whole.Open(ctx, releasemanifest.Name)
	if errors.Is(err, store.ErrNotFound) {
		return verdict.Refuse(verdict.FileConflict, whole.URI(), "it is public already, and has no manifest: what is written would be public before all of it is there").
			Advise("delete the release there or make it a draft, then run the command again; nothing was written")
	}
	if err != nil {
		return err
	}
	return body.Close()
}

// names are those of all files, the manifest's included.
func (p Plan) names() []string {
	return append([]string{releasemanifest.Name}, slice.Map(p.Files, func(f File) string { return f.Name })...)
}

// apply copies a release. A draft, which may be nil, becomes public after the
// tags, and is checked before them: a tag is public at once, so none is written
// for a release that could not be published.
func apply(ctx context.Context, p Plan, from From, to To, draft Publisher) error {
	for _, image := range p.Images {
		if err := checkRepository(ctx, image, to.Images); err != nil {
			return fmt.Errorf("promoting image %s: %w", image.Repository, err)
		}
	}
	if err := copyFiles(ctx, p, from, to); err != nil {
		return err
	}
	for i, image := range p.Images {
		to.tell(gate.Progress{What: "copying", Unit: "images", Files: i, OfFiles: len(p.Images)})
		if err := copyWhole(ctx, p, image, from, to); err != nil {
			return fmt.Errorf("promoting image %s: %w", image.Repository, err)
		}
	}
	if draft != nil {
		if err := commit(ctx, p, to); err != nil {
			return err
		}
		if err := draft.Check(ctx); err != nil {
			return err
		}
	}
	for _, image := range p.Images {
		if err := tagImage(ctx, image, to); err != nil {
			return fmt.Errorf("tagging image %s: %w", image.Repository, err)
		}
	}
	if draft == nil {
		return commit(ctx, p, to)
	}
	if err := to.checkExclusive(ctx); err != nil {
		return err
	}
	return draft.Publish(ctx)
}

func commit(ctx context.Context, p Plan, to To) error {
	if err := to.checkExclusive(ctx); err != nil {
		return err
	}
	f := File{
		Name: releasemanifest.Name, Digests: digest.SetOf(p.bundle), Size: int64(len(p.bundle)), MediaType: plan.MediaBundle,
	}
	err := put(ctx, f, to, func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(p.bundle)), nil })
	if err == nil || to.Replaces.IsZero() {
		return err
	}
	return replace(ctx, p, to, err)
}

// replace replaces the older manifest, if that is the conflict. A manifest
// that someone else has written in the meantime is kept.
func replace(ctx context.Context, p Plan, to To, conflict error) error {
	err := store.Replace(ctx, to.Files, to.Writer, releasemanifest.Name, store.Replacement{Old: to.Replaces, New: p.bundle, MediaType: plan.MediaBundle})
	if errors.Is(err, store.ErrChanged) {
		return conflict
	}
	return err
}

// checkRepository checks, before anything is written, that the registry accepts
// pushes to the repository of an image: one that does not would leave a half copy.
func checkRepository(ctx context.Context, image Image, at Registry) error {
	remote, can := at.(interface {
		ProbePush(ctx context.Context, repo string) error
	})
	if !can {
		return nil
	}
	err := remote.ProbePush(ctx, image.Repository)
	if errors.Is(err, fs.ErrPermission) {
		return &verdict.UnavailableError{Place: image.Repository, Op: "asking to push", Err: err}
	}
	return err
}

func copyFiles(ctx context.Context, p Plan, from From, to To) error {
	far := gate.Progress{What: "copying", Unit: "files", OfFiles: len(p.Files)}
	for _, f := range p.Files {
		far.OfBytes += f.Size
	}
	to.tell(far)
	var mu sync.Mutex // guards far, and serializes reports
	return atonce.Try(ctx, writers, p.Files, func(ctx context.Context, _ int, f File) error {
		defer func() {
			mu.Lock()
			defer mu.Unlock()
			far.Files, far.Bytes = far.Files+1, far.Bytes+f.Size
			to.tell(far)
		}()
		return put(ctx, f, to, func() (io.ReadCloser, error) {
			body, _, err := from.Files.Open(ctx, f.Name)
			return body, err
		})
	})
}

// put writes one file, unless the same bytes are there. Other bytes under the
// name are never overwritten. The bytes are verified while they are written,
// so a source that changed since it was verified cannot get through.
func put(ctx context.Context, f File, to To, open func() (io.ReadCloser, error)) error {
	body, err := open()
	if err != nil {
		return err
	}
	defer body.Close()
	checked := digest.NewVerifyingReader(body, f.Digests.SHA256, f.Size)
	err = to.Writer.Put(ctx, f.Name, f.Size, checked, store.PutOptions{IfAbsent: true, MediaType: f.MediaType})
	if !errors.Is(err, store.ErrExists) {
		return err
	}
	there, _, err := to.Files.Open(ctx, f.Name)
	if err != nil {
		return err
	}
	defer there.Close()
	got, _, err := digest.SumSHA256(there)
	if err != nil {
		return fmt.Errorf("reading %q back: %w", f.Name, err)
	}
	if !got.Equal(f.Digests.SHA256) {
		return conflict(f.Name, f.Digests.SHA256, got)
	}
	return nil
}

// copyWhole copies an image with its evidence, in one span.
func copyWhole(ctx context.Context, p Plan, image Image, from From, to To) (err error) {
	ctx, end := span.Start(ctx, span.PromoteEdge,
		span.PipelineTaskName.String("promote "+image.Repository), span.PipelineTaskType.String("deploy"), span.ArtifactHash.String(image.Digest.String()))
	defer func() { end(err) }()
	if err := copyImage(ctx, image, from, to); err != nil || !p.Legacy {
		return err
	}
	return copyAttached(ctx, image, from, to)
}

func copyImage(ctx context.Context, image Image, from From, to To) error {
	if to.Images == nil || from.Images == nil {
		return verdict.Refuse(verdict.ConfigParse, image.Repository, "the release has images, but the profile names no registry")
	}
	d := registry.Descriptor{MediaType: image.MediaType, Digest: image.Digest, Size: image.Size}
	if err := untagged(ctx, image, to.Images, image.Tags...); err != nil {
		return err
	}
	_, err := registry.Copy(ctx, to.Images, from.Images, image.Repository, d)
	return err
}

// untagged demands that each tag names this image, or does not exist.
func untagged(ctx context.Context, image Image, to Registry, tags ...string) error {
	for _, tag := range tags {
		held, err := to.Resolve(ctx, image.Repository, tag)
		if err == nil && !held.Digest.Equal(image.Digest) {
			return &verdict.Error{Finding: verdict.Find(verdict.TagConflict, image.Repository+":"+tag, "the tag names another image").
				Differ(image.Digest.String(), held.Digest.String())}
		}
		if err != nil && !errors.Is(err, registry.ErrNotFound) {
			return err
		}
	}
	return nil
}

// tagImage reads an image back and tags it. Copying takes a while, so each
// tag is read again immediately before it is written; the registry client
// reads it immediately after, and answers TAG_RACE.
func tagImage(ctx context.Context, image Image, to To) error {
	d := registry.Descriptor{MediaType: image.MediaType, Digest: image.Digest, Size: image.Size}
	if _, err := registry.Graph(ctx, to.Images, image.Repository, d); err != nil {
		return fmt.Errorf("reading back: %w", err)
	}
	for _, tag := range image.Tags {
		moved := untagged(ctx, image, to.Images, tag)
		if err := cmp.Or(to.checkExclusive(ctx), moved); err != nil {
			return err
		}
		if err := to.Images.Tag(ctx, image.Repository, tag, d); err != nil {
			return err
		}
	}
	return nil
}
