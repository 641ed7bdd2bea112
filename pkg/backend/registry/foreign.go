package registry

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	ggcr "github.com/google/go-containerregistry/pkg/v1/remote/transport"

	"github.com/waybill-release/waybill/pkg/backend/store"
	"github.com/waybill-release/waybill/pkg/value/digest"
)

// Foreign is an OCI image layout written by another tool. Such layouts have no
// repositories: an entry of index.json has a full name or only a tag. An entry
// with only a tag matches every repository.
type Foreign struct{ LayoutReader }

var _ Source = (*Foreign)(nil)

// OpenForeign opens the layout in the directory dir. Nothing is read yet.
func OpenForeign(dir string) (*Foreign, error) {
	place, err := store.Open(dir, nil)
	if err != nil {
		return nil, err
	}
	return &Foreign{LayoutReader{place}}, nil
}

// reference is the name of an entry of index.json; an empty repository matches
// any.
type reference struct{ repository, tag string }

func (r reference) means(repo, tag string) bool {
	return r.tag == tag && (r.repository == "" || r.repository == repo || strings.HasSuffix(r.repository, "/"+repo))
}

func referenceOf(e v1.Descriptor) reference {
	name := cmp.Or(e.Annotations[AnnotationImageName], e.Annotations[AnnotationRefName])
	name, _, _ = strings.Cut(name, "@")
	i := strings.LastIndexByte(name, ':')
	if i < 0 || i < strings.LastIndexByte(name, '/') {
		return reference{tag: name}
	}
	return reference{name[:i], name[i+1:]}
}

// References lists the names of all images of the layout, sorted:
// REPOSITORY:TAG, or :TAG without a repository.
func (f *Foreign) References(ctx context.Context) (names []string, err error) {
	index, err := f.index(ctx)
	if err != nil {
		return nil, err
	}
	for _, e := range index.Manifests {
		if r := referenceOf(e); r.tag != "" {
			names = append(names, r.repository+":"+r.tag)
		}
	}
	slices.Sort(names)
	return names, nil
}

// Means reports whether a name of [Foreign.References] matches a tag.
func (f *Foreign) Means(name, repo, tag string) bool {
	i := strings.LastIndexByte(name, ':')
	return i >= 0 && reference{name[:i], name[i+1:]}.means(repo, tag)
}

// Resolve implements [Source]. Two entries of one name are refused as
// ambiguous.
func (f *Foreign) Resolve(ctx context.Context, repo, tag string) (Descriptor, error) {
	index, err := f.index(ctx)
	if err != nil {
		return Descriptor{}, err
	}
	want, byDigest := asDigest(tag)
	var found []v1.Descriptor
	for _, e := range index.Manifests {
		if byDigest && e.Digest.String() == want.String() || !byDigest && referenceOf(e).means(repo, tag) {
			found = append(found, e)
		}
	}
	switch {
	case len(found) == 0:
		return Descriptor{}, fmt.Errorf("resolving %q of %q in the layout %q: %w", tag, repo, f.place.URI(), ErrNotFound)
	case slices.ContainsFunc(found, func(e v1.Descriptor) bool { return e.Digest != found[0].Digest }):
		return Descriptor{}, usage("resolving %q of %q: the layout %q has two images of that name", tag, repo, f.place.URI())
	}
	return fromWire(found[0])
}

// Referrers implements [Source], by reading every manifest of the index.
func (f *Foreign) Referrers(ctx context.Context, repo string, d digest.Digest) ([]Descriptor, error) {
	index, err := f.index(ctx)
	if err != nil {
		return nil, err
	}
	return f.referring(ctx, repo, index.Manifests, d)
}

// Tags implements [Source].
func (f *Foreign) Tags(ctx context.Context, repo string) ([]string, error) {
	index, err := f.index(ctx)
	if err != nil {
		return nil, err
	}
	var tags []string
	for _, e := range index.Manifests {
		if r := referenceOf(e); r.tag != "" && r.means(repo, r.tag) {
			tags = append(tags, r.tag)
		}
	}
	slices.Sort(tags)
	return slices.Compact(tags), nil
}

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

// Renamed is a source in which every repository is the one named As.
type Renamed struct {
	Source
	As string
}

// Resolve implements [Source].
func (r Renamed) Resolve(ctx context.Context, _, tag string) (Descriptor, error) {
	return r.Source.Resolve(ctx, r.As, tag)
}

// Fetch implements [Source].
func (r Renamed) Fetch(ctx context.Context, _ string, d Descriptor) (io.ReadCloser, error) {
	return r.Source.Fetch(ctx, r.As, d)
}

// Referrers implements [Source].
func (r Renamed) Referrers(ctx context.Context, _ string, d digest.Digest) ([]Descriptor, error) {
	return r.Source.Referrers(ctx, r.As, d)
}

// Tags implements [Source].
func (r Renamed) Tags(ctx context.Context, _ string) ([]string, error) {
	return r.Source.Tags(ctx, r.As)
}
