package registry

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/waybill-release/waybill/pkg/digest"
	"github.com/waybill-release/waybill/pkg/store"
)

// Annotations of the entries of a layout's index.
const (
	annotationRefName    = "org.opencontainers.image.ref.name" // "repo:tag"
	annotationRepository = "vnd.waybill.repository"
)

// Layout is an OCI image layout on disk (image specification, "Image
// Layout"). It holds several repositories: each manifest has an entry in
// index.json that names its repository by the annotation
// "vnd.waybill.repository", and each tag has one whose
// "org.opencontainers.image.ref.name" is "repo:tag". It is safe for concurrent
// use within one process; two processes must not write to one layout.
type Layout struct {
	place  store.Place
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
	return &Layout{place: place, writer: writer}, nil
}

func blobName(d digest.Digest) string { return "blobs/" + d.Algorithm().String() + "/" + d.Hex() }

// index reads index.json. A directory without one is no layout.
func (l *Layout) index(ctx context.Context) (v1.IndexManifest, error) {
	fail := func(err error) (v1.IndexManifest, error) {
		return v1.IndexManifest{}, &UnavailableError{Place: l.place.URI(), Op: "reading index.json", Err: err}
	}
	body, size, err := l.place.Open(ctx, "index.json")
	var notAFile *store.FileTypeError
	if errors.As(err, &notAFile) {
		return v1.IndexManifest{}, err // it answers, and it lies
	}
	if err != nil {
		return fail(err)
	}
	if size > 16*MaxManifest { // one entry for each manifest of all repositories
		_ = body.Close()
		return fail(fmt.Errorf("it has %d bytes", size))
	}
	raw, err := fetchAll(body)
	if err != nil {
		return fail(err)
	}
	var index v1.IndexManifest
	if err := decodeOpen(raw, &index); err != nil {
		return fail(err)
	}
	return index, nil
}

// entries returns the index entries of repo.
func (l *Layout) entries(ctx context.Context, repo string) ([]v1.Descriptor, error) {
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
func (l *Layout) Resolve(ctx context.Context, repo, tag string) (Descriptor, error) {
	entries, err := l.entries(ctx, repo)
	if err != nil {
		return Descriptor{}, err
	}
	want, byDigest := asDigest(tag)
	for _, e := range entries {
		if e.Annotations[annotationRefName] != repo+":"+tag && (!byDigest || e.Digest.String() != want.String()) {
			continue
		}
		d, err := fromWire(e)
		if err != nil {
			return Descriptor{}, err
		}
		doc, _, err := l.manifest(ctx, repo, d)
		if err != nil {
			return Descriptor{}, err
		}
		d.ArtifactType, d.Annotations = doc.ArtifactType, doc.Annotations
		return d, nil
	}
	return Descriptor{}, fmt.Errorf("resolving tag %q of %q: %w", tag, repo, ErrNotFound)
}

// Fetch implements [Source].
func (l *Layout) Fetch(ctx context.Context, _ string, d Descriptor) (io.ReadCloser, error) {
	if d.Digest.IsZero() {
		return nil, errors.New("reading layout: no digest")
	}
	if d.IsManifest() && d.Size > MaxManifest {
		return nil, &LimitError{Place: l.place.URI(), What: d.Digest.String(), Limit: MaxManifest}
	}
	body, _, err := l.place.Open(ctx, blobName(d.Digest))
	if errors.Is(err, store.ErrNotFound) {
		return nil, fmt.Errorf("reading %s at %q: %w", d.Digest, l.place.URI(), ErrNotFound)
	}
	if err != nil {
		return nil, err
	}
	return verified(body, l.place.URI(), d), nil
}

// manifest reads and parses one manifest.
func (l *Layout) manifest(ctx context.Context, repo string, d Descriptor) (document, []byte, error) {
	body, err := l.Fetch(ctx, repo, d)
	if err != nil {
		return document{}, nil, err
	}
	raw, err := fetchAll(body)
	if err != nil {
		return document{}, nil, err
	}
	doc, err := parse(d, raw)
	return doc, raw, err
}

// Referrers implements [Source], by reading every manifest of the repository.
func (l *Layout) Referrers(ctx context.Context, repo string, d digest.Digest) ([]Descriptor, error) {
	entries, err := l.entries(ctx, repo)
	if errors.Is(err, ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return l.referring(ctx, repo, entries, d)
}

// referring are those of some entries whose subject is d.
func (l *Layout) referring(ctx context.Context, repo string, entries []v1.Descriptor, d digest.Digest) ([]Descriptor, error) {
	var found []Descriptor
	for _, e := range entries {
		candidate, err := fromWire(e)
		if err != nil {
			return nil, err
		}
		doc, _, err := l.manifest(ctx, repo, candidate)
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
func (l *Layout) Tags(ctx context.Context, repo string) ([]string, error) {
	entries, err := l.entries(ctx, repo)
	if err != nil {
		return nil, err
	}
	var tags []string
	for _, e := range entries {
		if tag, ok := strings.CutPrefix(e.Annotations[annotationRefName], repo+":"); ok {
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
