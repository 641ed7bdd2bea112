package registry

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/url"
	"slices"

	ggcr "github.com/google/go-containerregistry/pkg/v1/remote/transport"
)

// Through returns a transport that authenticates for requests of a method to a
// repository, and the address of the registry. It follows no redirects.
func (r *Remote) Through(ctx context.Context, repo, method string) (http.RoundTripper, *url.URL, error) {
	target, err := r.repository(repo)
	if err != nil {
		return nil, nil, err
	}
	scope := ggcr.PushScope
	switch method {
	case http.MethodGet, http.MethodHead:
		scope = ggcr.PullScope
	case http.MethodDelete:
		scope = ggcr.DeleteScope
	}
	s, err := r.session(ctx, target, scope)
	if err != nil {
		return nil, nil, err
	}
	return s.client.Transport, &url.URL{Scheme: target.Scheme(), Host: target.RegistryStr()}, nil
}

// CheckEvidence returns a [NoEvidenceError] unless a manifest, which need not be
// in its repository yet, is evidence about another: a referrer that cannot be
// run as an image, a list of such referrers, or [AttachedEvidence].
func (d Descriptor) CheckEvidence(ctx context.Context, src Source, repo string, raw []byte) error {
	src = withManifest{src, d, raw}
	if d.IsIndex() {
		return ReferrersTag(ctx, src, repo, d)
	}
	node, err := Graph(ctx, src, repo, d)
	switch {
	case err != nil:
		return err
	case slices.ContainsFunc(node.Layers, isImagePart):
		return &NoEvidenceError{Tag: repo + "@" + d.Digest.String(), Why: "it has the layers of an image"}
	case !node.Subject.Digest.IsZero() && !node.isRunnable():
		return nil
	}
	_, err = AttachedEvidence(ctx, src, repo, d)
	return err
}

// withManifest is a source and one more manifest with the right digest.
type withManifest struct {
	Source
	d   Descriptor
	raw []byte
}

// Fetch implements [Source].
func (w withManifest) Fetch(ctx context.Context, repo string, d Descriptor) (io.ReadCloser, error) {
	if d.IsManifest() && d.Digest.Equal(w.d.Digest) {
		return io.NopCloser(bytes.NewReader(w.raw)), nil
	}
	return w.Source.Fetch(ctx, repo, d)
}
