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
// image of one platform, through t. Credentials come from the Docker
// configuration. Plain HTTP is used for loopback hosts only.
//
// Layers are fetched when the built image is written, under the context of
// [Build].
func FromRemote(ctx context.Context, ref string, t http.RoundTripper) (Base, error) {
	pin, err := parseRef(ref)
	if err != nil {
		return nil, err
	}
	if t == nil {
		return nil, verdict.Refuse(verdict.Usage, ref, "a transport is required")
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
		return nil, verdict.Refuse(verdict.FileType, ref, "media type %q is not an image", root.MediaType)
	}
	return b, nil
}

// parseRef requires a host and a digest: a tag may name something else
// tomorrow.
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

// pinned is a base whose root document was read, by its digest.
type pinned struct {
	root     v1.Hash // an index, or the image of one platform
	name     string
	index    bool
	children []v1.Descriptor // of an index
	open     func(context.Context, v1.Hash) (v1.Image, error)
}

// lists reads the root as an index.
func (b *pinned) lists(raw []byte) error {
	var index v1.IndexManifest
	err := decode(raw, b.root, &index)
	b.index, b.children = true, index.Manifests
	return err
}

// Image implements [Base]. A single-platform image is its own child; [read]
// compares its configuration with the platform. Two images for one platform
// are refused, because the choice would be arbitrary.
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
		return nil, verdict.Refuse(verdict.Platform, platform, "want one image for this platform in the base %[2]s, got %[1]d; it has %[3]q",
			len(found), b.name, offered)
	}
	return b.open(ctx, found[0])
}

type remoteBase struct {
	ref       string
	transport http.RoundTripper
}

// options disables retries, which the transport does.
func (b *remoteBase) options(ctx context.Context) []remote.Option {
	return []remote.Option{
		remote.WithContext(ctx), remote.WithTransport(b.transport), remote.WithAuthFromKeychain(authn.DefaultKeychain),
		remote.WithRetryBackoff(remote.Backoff{Steps: 1}), remote.WithRetryStatusCodes(),
	}
}

// failed distinguishes a missing image from a registry that did not answer.
// Bytes with a wrong digest also count as no answer.
func (b *remoteBase) failed(err error) error {
	if answer, is := errors.AsType[*ggcr.Error](err); is && answer.StatusCode == http.StatusNotFound {
		return fmt.Errorf("reading base %s: %w", b.ref, registry.ErrNotFound)
	}
	return &verdict.UnavailableError{Place: b.ref, Op: "reading base", Err: err}
}

// loopbackHTTP permits plain HTTP to this machine only; the library also
// permits private networks.
type loopbackHTTP struct{ next http.RoundTripper }

// RoundTrip implements [http.RoundTripper].
func (l *loopbackHTTP) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.URL.Scheme != "https" && !transport.Loopback(req.URL.Hostname()) {
		return nil, fmt.Errorf("connecting to %q: plain HTTP is for this machine only", req.URL.Host)
	}
	return l.next.RoundTrip(req)
}

func hashOf(ref name.Digest) v1.Hash {
	algorithm, hex, _ := strings.Cut(ref.DigestStr(), ":")
	return v1.Hash{Algorithm: algorithm, Hex: hex}
}

// decode verifies the digest of a document and parses it.
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

// decodeStrict parses a document unambiguously. Unknown fields are permitted.
func decodeStrict(raw []byte, v any) error {
	return strictjson.UnmarshalOpen(raw, v, strictjson.MaxSize(registry.MaxManifest))
}
