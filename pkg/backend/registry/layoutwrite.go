package registry

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/waybill-release/waybill/pkg/backend/store"
)

const layoutFile = `{"imageLayoutVersion":"1.0.0"}`

// PushBlob implements [Sink].
func (l *Layout) PushBlob(ctx context.Context, _ string, d Descriptor, open func() (io.ReadCloser, error)) error {
	if l.holds(ctx, d) {
		return nil
	}
	body, err := open()
	if err != nil {
		return err
	}
	defer body.Close()
	return l.writer.Put(ctx, blobName(d.Digest), d.Size, verified(body, "source of "+l.place.URI(), d), store.PutOptions{})
}

// holds reports whether the bytes of d exist and match. Others may be able to
// write to the disk of a layout, so a name proves nothing.
func (l *Layout) holds(ctx context.Context, d Descriptor) bool {
	body, err := l.Fetch(ctx, "", d)
	if err != nil {
		return false
	}
	defer body.Close()
	_, err = io.Copy(io.Discard, body)
	return err == nil
}

// PushManifest implements [Sink].
func (l *Layout) PushManifest(ctx context.Context, repo string, d Descriptor, raw []byte) error {
	if err := checkRepository(repo); err != nil {
		return err
	}
	doc, err := checkManifest(l.place.URI(), d, raw)
	if err != nil {
		return err
	}
	if !l.holds(ctx, d) {
		if err := l.writer.Put(ctx, blobName(d.Digest), d.Size, strings.NewReader(string(raw)), store.PutOptions{}); err != nil {
			return err
		}
	}
	entry := mustWire(d)
	entry.ArtifactType = doc.ArtifactType
	entry.Annotations = map[string]string{annotationRepository: repo}
	return l.change(ctx, func(index *v1.IndexManifest) {
		if !slices.ContainsFunc(index.Manifests, func(e v1.Descriptor) bool {
			return e.Digest == entry.Digest && e.Annotations[annotationRepository] == repo
		}) {
			index.Manifests = append(index.Manifests, entry)
		}
	})
}

// Tag implements [Sink].
func (l *Layout) Tag(ctx context.Context, repo, tag string, d Descriptor) error {
	if err := checkTag(repo, tag); err != nil {
		return err
	}
	if _, _, err := readDocument(ctx, l, repo, d); err != nil {
		return err
	}
	entry, err := d.wire()
	if err != nil {
		return err
	}
	ref := repo + ":" + tag
	entry.Annotations = map[string]string{annotationRepository: repo, AnnotationRefName: ref}
	return l.change(ctx, func(index *v1.IndexManifest) {
		index.Manifests = slices.DeleteFunc(index.Manifests, func(e v1.Descriptor) bool {
			return e.Annotations[AnnotationRefName] == ref
		})
		index.Manifests = append(index.Manifests, entry)
	})
}

// change rewrites index.json, and creates a layout if there is none.
func (l *Layout) change(ctx context.Context, edit func(*v1.IndexManifest)) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	index, err := l.index(ctx)
	if err != nil {
		if index, err = l.begin(ctx, err); err != nil {
			return err
		}
	}
	edit(&index)
	return l.rewrite(ctx, index)
}

func (l *Layout) rewrite(ctx context.Context, index v1.IndexManifest) error {
	raw, err := json.Marshal(index)
	if err != nil {
		return fmt.Errorf("writing index.json: %w", err)
	}
	return l.writer.Put(ctx, "index.json", int64(len(raw)), strings.NewReader(string(raw)), store.PutOptions{})
}

// begin creates an empty layout if unread says that there is none yet.
func (l *Layout) begin(ctx context.Context, unread error) (v1.IndexManifest, error) {
	if !errors.Is(unread, store.ErrNotFound) {
		return v1.IndexManifest{}, unread
	}
	err := l.writer.Put(ctx, "oci-layout", int64(len(layoutFile)), strings.NewReader(layoutFile), store.PutOptions{})
	return v1.IndexManifest{SchemaVersion: 2, MediaType: types.OCIImageIndex, Manifests: []v1.Descriptor{}}, err
}
