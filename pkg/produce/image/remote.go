package image

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	ggcr "github.com/google/go-containerregistry/pkg/v1/remote/transport"

	"github.com/waybill-release/waybill/pkg/backend/registry"
	"github.com/waybill-release/waybill/pkg/backend/transport"
	"github.com/waybill-release/waybill/pkg/tool/strictjson"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// FromRemote returns the base "host/repository@sha256:…", an index or the
// image of one platform, reached through t. Credentials come from the Docker
// configuration. Plain HTTP is spoken to loopback hosts only.
//
// Layers are fetched when the built image is written, under the context of
// [Build].
func FromRemote(ctx context.Context, ref string, t http.RoundTripper) (Base, error) {
	pin, err := parseRef(ref)
	if err != nil {
		return nil, err
	}
	if t == nil {
		return nil, verdict.Refuse(verdict.Usage, ref, "no transport")
	}
	r := &remoteBase{ref: ref, transport: &loopbackHTTP{next: t}}
	root, err := remote.Get(pin, r.options(ctx)...)
	if err != nil {
		return nil, r.failed(err)
	}
	b := &pinned{root: hashOf(pin), name: ref, open: func(ctx context.Context, h v1.Hash) (v1.Image, error) {
		image, err := remote.Image(pin.Digest(h.String()), r.options(ctx)...)
		if err != nil {
			return nil, r.failed(err)
		}
		return image, nil
	}}
	switch {
	case root.MediaType.IsIndex():
		if err := b.lists(root.Manifest); err != nil {
			return nil, verdict.Wrap(verdict.Tampered, ref, err)
		}
	case !root.MediaType.IsImage():
		return nil, verdict.Refuse(verdict.FileType, ref, "media type %q is no image", root.MediaType)
	}
	return b, nil
}

// parseRef wants a host and a digest: a tag may name something else tomorrow.
func parseRef(ref string) (name.Digest, error) {
	host, _, _ := strings.Cut(ref, "/")
	opts := []name.Option{name.StrictValidation}
	hostname, _, _ := strings.Cut(host, ":")
	if transport.Loopback(hostname) || strings.HasPrefix(host, "[::1]") {
		opts = append(opts, name.Insecure)
	}
	_, sum, _ := strings.Cut(ref, "@")
	d, err := digest.Parse(sum)
	switch {
	case err != nil || d.Algorithm() != digest.SHA256:
		return name.Digest{}, verdict.Refuse(verdict.ConfigParse, ref, "want host/repository@sha256:…")
	case host != "localhost" && !strings.ContainsAny(host, ".:"):
		return name.Digest{}, verdict.Refuse(verdict.ConfigParse, ref, "the reference does not start with a host")
	}
	pinned, err := name.NewDigest(ref, opts...)
	if err != nil {
		return name.Digest{}, verdict.Wrap(verdict.ConfigParse, ref, err)
	}
	return pinned, nil
}

// pinned is a base whose root, which a digest names, was read.
type pinned struct {
	root     v1.Hash // an index, or the image of one platform
	name     string
	index    bool
	children []v1.Descriptor // of an index
	open     func(context.Context, v1.Hash) (v1.Image, error)
}

// lists takes the root as an index.
func (b *pinned) lists(raw []byte) error {
	var index v1.IndexManifest
	err := decode(raw, b.root, &index)
	b.index, b.children = true, index.Manifests
	return err
}

// Image implements [Base]. An image of one platform is its own child; [read]
// holds its configuration against the platform. Two images for a platform are
// refused: nothing says which of them to use.
func (b *pinned) Image(ctx context.Context, platform string) (v1.Image, error) {
	if !b.index {
		return b.open(ctx, b.root)
	}
	var found []v1.Hash
	var offered []string
	for _, d := range b.children {
		if !d.MediaType.IsImage() || d.Platform == nil {
			continue
		}
		offered = append(offered, d.Platform.String())
		if platformOf(d.Platform) == normal(platform) {
			found = append(found, d.Digest)
		}
	}
	if len(found) != 1 {
		return nil, verdict.Refuse(verdict.Platform, platform, "%d images of the base %s are for it; it has %q",
			len(found), b.name, offered)
	}
	return b.open(ctx, found[0])
}

// remoteBase is how a registry is asked for a base.
type remoteBase struct {
	ref       string
	transport http.RoundTripper
}

// options: retries are the transport's business.
func (b *remoteBase) options(ctx context.Context) []remote.Option {
	return []remote.Option{
		remote.WithContext(ctx), remote.WithTransport(b.transport), remote.WithAuthFromKeychain(authn.DefaultKeychain),
		remote.WithRetryBackoff(remote.Backoff{Steps: 1}), remote.WithRetryStatusCodes(),
	}
}

// failed tells what is not there from what did not answer. A registry that
// serves other bytes than those of the digest gave no answer either.
func (b *remoteBase) failed(err error) error {
	var answer *ggcr.Error
	if errors.As(err, &answer) && answer.StatusCode == http.StatusNotFound {
		return fmt.Errorf("reading base %s: %w", b.ref, registry.ErrNotFound)
	}
	return &registry.UnavailableError{Place: b.ref, Op: "reading base", Err: err}
}

// loopbackHTTP lets plain HTTP pass to this machine only; the library takes
// private networks for local ones.
type loopbackHTTP struct{ next http.RoundTripper }

// RoundTrip implements [http.RoundTripper].
func (l *loopbackHTTP) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.URL.Scheme != "https" && !transport.Loopback(req.URL.Hostname()) {
		return nil, fmt.Errorf("speaking to %q: plain HTTP is for this machine only", req.URL.Host)
	}
	return l.next.RoundTrip(req)
}

func hashOf(ref name.Digest) v1.Hash {
	algorithm, hex, _ := strings.Cut(ref.DigestStr(), ":")
	return v1.Hash{Algorithm: algorithm, Hex: hex}
}

// decode reads a document after holding its bytes against the digest that
// names it.
func decode(raw []byte, named v1.Hash, v any) error {
	want, err := digest.Parse(named.String())
	if err != nil {
		return err
	}
	if got := digest.Of(want.Algorithm(), raw); !got.Equal(want) {
		return &digest.MismatchError{Want: want, Got: got}
	}
	return decodeStrict(raw, v)
}

// decodeStrict reads a document that has one meaning only. Others may add
// fields.
func decodeStrict(raw []byte, v any) error {
	return strictjson.UnmarshalOpen(raw, v, strictjson.MaxSize(registry.MaxManifest))
}
