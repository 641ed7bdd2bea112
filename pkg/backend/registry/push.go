package registry

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	ggcr "github.com/google/go-containerregistry/pkg/v1/remote/transport"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/waybill-release/waybill/pkg/value/digest"
)

// PushBlob implements [Sink].
func (r *Remote) PushBlob(ctx context.Context, repo string, d Descriptor, open func() (io.ReadCloser, error)) error {
	target, err := r.repository(repo)
	if err != nil {
		return err
	}
	q := query{target: target, op: "writing " + d.Digest.String(), path: "blobs/" + d.Digest.String()}
	there, done, err := r.written.waitForPush(ctx, q)
	if there || err != nil {
		return err
	}
	defer done()
	s, err := r.session(ctx, target, ggcr.PushScope)
	if err != nil {
		return q.unavailable(err)
	}
	if taken, err := r.pushSmall(ctx, s, q, d, open); taken || err != nil {
		return err
	}
	layer, err := newLayer(target.Name(), d, open)
	if err != nil {
		return err
	}
	return r.finishWrite(ctx, q, q.failed(s.pusher.Upload(ctx, target, layer)), false)
}

// PushManifest implements [Sink]. If the registry has no referrers API, a
// manifest with a subject is also added to the list under the fallback tag.
//
// Images are read back before every tag is written, so they are not checked
// here. A referrer is not part of the image, so its presence is checked here.
func (r *Remote) PushManifest(ctx context.Context, repo string, d Descriptor, raw []byte) error {
	return r.pushManifest(ctx, repo, d, raw, true)
}

// pushManifest is PushManifest; with look false, a referrer that the registry
// confirms to list is not looked up.
func (r *Remote) pushManifest(ctx context.Context, repo string, d Descriptor, raw []byte, look bool) error {
	target, err := r.repository(repo)
	if err != nil {
		return err
	}
	doc, err := checkManifest(target.Name(), d, raw)
	if err != nil {
		return err
	}
	q := query{
		target: target, op: "writing " + d.Digest.String(),
		path: "manifests/" + d.Digest.String(), accept: []string{d.MediaType},
	}
	content := rawManifest{raw: raw, mediaType: d.MediaType}
	if doc.Subject == nil { // writing again costs no more than a lookup
		return r.finishWrite(ctx, q, r.put(ctx, target.Digest(d.Digest.String()), content), false)
	}
	if r.putReferrer(ctx, q, doc.Subject.Digest, content) {
		return r.finishWrite(ctx, q, nil, look)
	}
	// The list of referrers is read, extended and written: two concurrent
	// pushes could lose one. Other processes can still interfere.
	list := r.referrersOf(target.Name() + "@" + doc.Subject.Digest)
	list.Lock()
	defer list.Unlock()
	if err := r.put(ctx, target.Digest(d.Digest.String()), content); err != nil {
		return err // the manifest may exist, but not the list
	}
	return r.finishWrite(ctx, q, nil, true)
}

// Tag implements [Sink]. It reads back the tag.
func (r *Remote) Tag(ctx context.Context, repo, tag string, d Descriptor) error {
	raw, err := Read(ctx, r, repo, d, MaxManifest)
	if err != nil {
		return err
	}
	return r.TagManifest(ctx, repo, tag, d, raw)
}

// TagManifest is [Remote.Tag] for callers that have the bytes of the manifest
// and know that the registry has them, too.
func (r *Remote) TagManifest(ctx context.Context, repo, tag string, d Descriptor, raw []byte) error {
	target, err := r.repository(repo)
	if err != nil {
		return err
	}
	if _, err := checkManifest(target.Name(), d, raw); err != nil {
		return err
	}
	ref, err := name.NewTag(target.Name()+":"+tag, name.StrictValidation)
	if err != nil {
		return usage("naming tag: %w", err)
	}
	ref.Repository = target
	q := query{target: target, op: fmt.Sprintf("writing tag %q", tag), path: "manifests/" + tag, accept: manifestTypes()}
	if err := r.finishWrite(ctx, q, r.put(ctx, ref, rawManifest{raw: raw, mediaType: d.MediaType}), false); err != nil {
		return err
	}
	return r.checkTagged(ctx, repo, tag, d)
}

func (r *Remote) put(ctx context.Context, ref name.Reference, m rawManifest) error {
	q := query{target: ref.Context(), op: fmt.Sprintf("writing %q", ref.Identifier())}
	s, err := r.session(ctx, ref.Context(), ggcr.PushScope)
	if err != nil {
		return q.unavailable(err)
	}
	return q.failed(s.pusher.Put(ctx, ref, m))
}

// failed classifies an error of the library: a fault of the source keeps its
// kind, all else means that the registry did not accept the write.
func (q query) failed(err error) error {
	var coded interface{ Code() string }
	if err == nil || errors.As(err, &coded) {
		return err
	}
	return q.unavailable(err)
}

// checkManifest refuses to write bytes that do not match the digest.
func checkManifest(place string, d Descriptor, raw []byte) (document, error) {
	if got := digest.Of(digest.SHA256, raw); !got.Equal(d.Digest) {
		return document{}, tampered(place, d.Digest, &digest.MismatchError{Want: d.Digest, Got: got})
	}
	if int64(len(raw)) != d.Size {
		return document{}, tampered(place, d.Digest, &digest.SizeError{Want: d.Size, Got: int64(len(raw))})
	}
	if d.Size > MaxManifest {
		return document{}, tooLarge(place, d.Digest.String(), MaxManifest)
	}
	return parse(d, raw)
}

// rawManifest writes the original bytes, because a re-encoding would change the
// digest.
type rawManifest struct {
	raw       []byte
	mediaType string
}

// RawManifest implements remote.Taggable.
func (m rawManifest) RawManifest() ([]byte, error) { return m.raw, nil }

// MediaType is required by the library.
func (m rawManifest) MediaType() (types.MediaType, error) { return types.MediaType(m.mediaType), nil }

// layer is a blob being uploaded.
type layer struct {
	place string
	d     Descriptor
	hash  v1.Hash
	open  func() (io.ReadCloser, error)
}

func newLayer(place string, d Descriptor, open func() (io.ReadCloser, error)) (*layer, error) {
	hash, err := v1.NewHash(d.Digest.String())
	if err != nil {
		return nil, fmt.Errorf("describing blob: %w", err)
	}
	return &layer{place: place, d: d, hash: hash, open: open}, nil
}

// Digest implements [v1.Layer].
func (l *layer) Digest() (v1.Hash, error) { return l.hash, nil }

// DiffID implements [v1.Layer]; unsupported, because a blob is not unpacked
// here.
func (l *layer) DiffID() (v1.Hash, error) {
	return v1.Hash{}, errors.New("registry: blobs are not unpacked here")
}

// Compressed implements [v1.Layer]: the stored bytes.
func (l *layer) Compressed() (io.ReadCloser, error) {
	body, err := l.open()
	if err != nil {
		return nil, err
	}
	return &upload{ReadCloser: verified(body, "source of "+l.place, l.d)}, nil
}

// Uncompressed implements [v1.Layer]; unsupported, because a blob is not
// unpacked here.
func (l *layer) Uncompressed() (io.ReadCloser, error) {
	return nil, errors.New("registry: blobs are not unpacked here")
}

// Size implements [v1.Layer].
func (l *layer) Size() (int64, error) { return l.d.Size, nil }

// MediaType implements [v1.Layer]. The library silently skips blobs of some
// media types, so every blob gets a type that is written.
func (l *layer) MediaType() (types.MediaType, error) { return "application/octet-stream", nil }
