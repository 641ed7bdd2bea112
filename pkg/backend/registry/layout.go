package registry

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
	"sync"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/waybill-release/waybill/pkg/backend/store"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// Annotations of entries of a layout's index. Build tools write the full name
// of an image as containerd does, and only the tag into the other annotation.
const (
	AnnotationRefName    = "org.opencontainers.image.ref.name"
	AnnotationImageName  = "io.containerd.image.name"
	annotationRepository = "vnd.waybill.repository"
)

// LayoutReader reads an OCI image layout (image specification, "Image Layout")
// from any file source. It is safe for concurrent use.
type LayoutReader struct{ place files }

// files opens the files of a layout, as a [store.Place] does.
type files interface {
	URI() string
	Open(ctx context.Context, name string) (io.ReadCloser, int64, error)
}

// Layout is an OCI image layout on disk. It holds several repositories: each
// manifest has an entry in index.json that names its repository by the
// annotation "vnd.waybill.repository", and each tag has one whose
// "org.opencontainers.image.ref.name" is "repo:tag". It is safe for concurrent
// use within one process; two processes must not write to one layout.
type Layout struct {
	LayoutReader
	writer store.Writer

	mu sync.Mutex // held while index.json is read, changed and written
}

var _ interface {
	Source
	Sink
} = (*Layout)(nil)

// OpenLayout returns the layout in the directory dir, which is made when
// something is first written to it. Nothing is read yet.
func OpenLayout(dir string) (*Layout, error) {
	place, err := store.Open(dir, nil)
	if err != nil {
		return nil, err
	}
	writer, err := store.OpenWriter(dir)
	if err != nil {
		return nil, err
	}
	return &Layout{LayoutReader: LayoutReader{place}, writer: writer}, nil
}

// ReadLayout reads the layout whose files dir opens; dir decides which links
// are followed.
func ReadLayout(dir fs.FS) *LayoutReader { return &LayoutReader{tree{dir}} }

// tree is an already open directory.
type tree struct{ dir fs.FS }

// URI implements files.
func (tree) URI() string { return "image layout" }

// Open implements files.
func (t tree) Open(_ context.Context, name string) (io.ReadCloser, int64, error) {
	f, err := t.dir.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, 0, notHeld(name)
	}
	if err != nil {
		return nil, 0, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = verdict.Refuse(verdict.FileType, name, "not a regular file")
	}
	if err != nil {
		return nil, 0, errors.Join(err, f.Close())
	}
	return f, info.Size(), nil
}

func notHeld(name string) error {
	return verdict.Refuse(verdict.Missing, quoted(name), "the image names this file, but the layout or archive lacks it")
}

// quoted shortens foreign text.
func quoted(name string) string { return fmt.Sprintf("%.200q", name) }

func blobName(d digest.Digest) string { return "blobs/" + d.Algorithm().String() + "/" + d.Hex() }

// whole reads a file of at most limit bytes.
func (l *LayoutReader) whole(ctx context.Context, name string, limit int64) ([]byte, error) {
	body, size, err := l.place.Open(ctx, name)
	if err != nil {
		return nil, err
	}
	if size > limit {
		_ = body.Close()
		return nil, tooLarge(l.place.URI(), quoted(name), limit)
	}
	return fetchAll(body)
}

// index reads index.json. A directory without one is not a layout.
func (l *LayoutReader) index(ctx context.Context) (v1.IndexManifest, error) {
	var index v1.IndexManifest
	raw, err := l.whole(ctx, "index.json", 16*MaxManifest) // one entry for each manifest of all repositories
	if err == nil {
		err = decodeOpen(raw, &index)
	}
	switch {
	case err != nil && verdict.FindingOf("", err).Code == verdict.FileType:
		return v1.IndexManifest{}, err // an invalid answer, not a missing one
	case err != nil:
		return v1.IndexManifest{}, &verdict.UnavailableError{Place: l.place.URI(), Op: "reading index.json", Err: err}
	}
	return index, nil
}

// Listed returns the entries of index.json.
func (l *LayoutReader) Listed(ctx context.Context) ([]Descriptor, error) {
	raw, err := l.whole(ctx, "index.json", MaxManifest)
	if err != nil {
		return nil, err
	}
	return ListedIn(raw)
}

// ListedIn returns the entries of an index without other checks.
func ListedIn(index []byte) (list []Descriptor, err error) {
	doc, err := parseDocument(index)
	if err == nil {
		list, err = descriptors(doc.Manifests)
	}
	if err != nil {
		return nil, verdict.Wrap(verdict.FileType, "index.json", err)
	}
	return list, nil
}

// Document reads a whole manifest, index or configuration of up to
// [MaxManifest] bytes, and verifies its digest.
func (l *LayoutReader) Document(ctx context.Context, d digest.Digest) ([]byte, error) {
	body, size, err := l.Blob(ctx, d)
	if err != nil {
		return nil, err
	}
	if size > MaxManifest {
		_ = body.Close()
		return nil, tooLarge(l.place.URI(), d.String(), MaxManifest)
	}
	return fetchAll(verified(body, l.place.URI(), Descriptor{Digest: d, Size: size}))
}

// Blob opens a blob without verifying it, for callers that verify the digest
// themselves. All others call [LayoutReader.Fetch].
func (l *LayoutReader) Blob(ctx context.Context, d digest.Digest) (io.ReadCloser, int64, error) {
	if d.IsZero() {
		return nil, 0, errors.New("reading layout: no digest")
	}
	body, size, err := l.place.Open(ctx, blobName(d))
	if errors.Is(err, store.ErrNotFound) {
		return nil, 0, fmt.Errorf("reading %s at %q: %w", d, l.place.URI(), ErrNotFound)
	}
	return body, size, err
}

func (l *LayoutReader) entries(ctx context.Context, repo string) ([]v1.Descriptor, error) {
	index, err := l.index(ctx)
	if err != nil {
		return nil, err
	}
	found := slices.DeleteFunc(index.Manifests, func(d v1.Descriptor) bool {
		return d.Annotations[annotationRepository] != repo
	})
	if len(found) == 0 {
		return nil, fmt.Errorf("reading repository %q of %q: %w", repo, l.place.URI(), ErrNotFound)
	}
	return found, nil
}

// Resolve implements [Source].
func (l *LayoutReader) Resolve(ctx context.Context, repo, tag string) (Descriptor, error) {
	entries, err := l.entries(ctx, repo)
	if err != nil {
		return Descriptor{}, err
	}
	want, byDigest := asDigest(tag)
	for _, e := range entries {
		if e.Annotations[AnnotationRefName] != repo+":"+tag && (!byDigest || e.Digest.String() != want.String()) {
			continue
		}
		d, err := fromWire(e)
		if err != nil {
			return Descriptor{}, err
		}
		doc, _, err := readDocument(ctx, l, repo, d)
		if err != nil {
			return Descriptor{}, err
		}
		d.ArtifactType, d.Annotations = doc.ArtifactType, doc.Annotations
		return d, nil
	}
	return Descriptor{}, fmt.Errorf("resolving tag %q of %q: %w", tag, repo, ErrNotFound)
}

// Fetch implements [Source].
func (l *LayoutReader) Fetch(ctx context.Context, _ string, d Descriptor) (io.ReadCloser, error) {
	if d.IsManifest() && d.Size > MaxManifest {
		return nil, tooLarge(l.place.URI(), d.Digest.String(), MaxManifest)
	}
	body, _, err := l.Blob(ctx, d.Digest)
	if err != nil {
		return nil, err
	}
	return verified(body, l.place.URI(), d), nil
}

// Referrers implements [Source], by reading every manifest of the repository.
func (l *LayoutReader) Referrers(ctx context.Context, repo string, d digest.Digest) ([]Descriptor, error) {
	entries, err := l.entries(ctx, repo)
	if errors.Is(err, ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return l.referring(ctx, repo, entries, d)
}

// referring returns the entries whose subject is d.
func (l *LayoutReader) referring(ctx context.Context, repo string, entries []v1.Descriptor, d digest.Digest) ([]Descriptor, error) {
	var found []Descriptor
	for _, e := range entries {
		candidate, err := fromWire(e)
		if err != nil {
			return nil, err
		}
		doc, _, err := readDocument(ctx, l, repo, candidate)
		if err != nil {
			return nil, err
		}
		if doc.Subject == nil || doc.Subject.Digest != d.String() {
			continue
		}
		candidate.ArtifactType, candidate.Annotations = doc.kind(), doc.Annotations
		found = append(found, candidate)
	}
	return sortReferrers(found), nil
}

// Tags implements [Source].
func (l *LayoutReader) Tags(ctx context.Context, repo string) ([]string, error) {
	entries, err := l.entries(ctx, repo)
	if err != nil {
		return nil, err
	}
	var tags []string
	for _, e := range entries {
		if tag, ok := strings.CutPrefix(e.Annotations[AnnotationRefName], repo+":"); ok {
			tags = append(tags, tag)
		}
	}
	slices.Sort(tags)
	return slices.Compact(tags), nil
}

// fromWire parses an index entry, without our own annotations.
func fromWire(e v1.Descriptor) (Descriptor, error) {
	d, err := digest.Parse(e.Digest.String())
	if err != nil {
		return Descriptor{}, fmt.Errorf("reading index.json: %w", err)
	}
	return Descriptor{MediaType: string(e.MediaType), Digest: d, Size: e.Size}, nil
}
