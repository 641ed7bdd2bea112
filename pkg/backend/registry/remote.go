package registry

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/go-containerregistry/pkg/name"

	"github.com/waybill-release/waybill/pkg/backend/transport"
	"github.com/waybill-release/waybill/pkg/tool/order"
	"github.com/waybill-release/waybill/pkg/value/digest"
)

// Remote is a registry, or the part of one below a prefix. It is safe for
// concurrent use. Credentials for each registry come from the Docker
// configuration and its helpers.
type Remote struct {
	prefix string
	rt     http.RoundTripper

	greeted sync.Once // one access check of the registry at a time

	mu       sync.Mutex        // guards the maps, not their values, and open and silent
	open     http.RoundTripper // session for every repository, if the registry allows anonymous access
	sessions map[sessionKey]*session
	subjects map[string]*sync.Mutex // each is held while a referrer is pushed, see PushManifest

	silent      error // the error of a greeting that timed out, until silentUntil
	silentUntil time.Time

	whole       atomic.Bool // the registry rejected a blob in one request
	unmountable atomic.Bool // the registry did not mount a blob
	listless    atomic.Bool // the registry did not confirm a referrer

	written written
}

var _ interface {
	Source
	Sink
} = (*Remote)(nil)

// OpenRemote returns the registry at prefix, such as "registry.example/team" or
// "127.0.0.1:5000", reached through rt. Plain HTTP is used for loopback hosts
// only, TLS for all others. Nothing is read yet.
func OpenRemote(prefix string, rt http.RoundTripper) (*Remote, error) {
	prefix = strings.TrimSuffix(prefix, "/")
	host, _, _ := strings.Cut(prefix, "/")
	// A first element that could be a directory would silently mean a
	// repository of some default registry.
	if host != "localhost" && !strings.ContainsAny(host, ".:") || strings.Contains(prefix, "//") {
		return nil, usage("opening registry %q: the address must start with a host", prefix)
	}
	if rt == nil {
		return nil, usage("opening registry %q: no transport", prefix)
	}
	if _, err := name.NewRegistry(host, name.StrictValidation); err != nil {
		return nil, usage("opening registry: %w", err)
	}
	return &Remote{prefix: prefix, rt: newGuard(rt, host), sessions: map[sessionKey]*session{}, subjects: map[string]*sync.Mutex{}}, nil
}

// Prefix returns the opened prefix, without a slash at the end.
func (r *Remote) Prefix() string { return r.prefix }

// repository resolves repo below the prefix.
func (r *Remote) repository(repo string) (name.Repository, error) {
	full := r.prefix + "/" + repo
	opts := []name.Option{name.StrictValidation}
	host, path, _ := strings.Cut(full, "/")
	if err := checkRepository(path); err != nil {
		return name.Repository{}, err
	}
	if transport.Loopback(hostname(host)) {
		opts = append(opts, name.Insecure)
	}
	parsed, err := name.NewRepository(full, opts...)
	if err != nil {
		return name.Repository{}, usage("naming repository: %w", err)
	}
	return parsed, nil
}

// hostname removes the port.
func hostname(host string) string {
	if i := strings.LastIndexByte(host, ':'); i >= 0 && !strings.HasSuffix(host, "]") {
		host = host[:i]
	}
	return host
}

// Resolve implements [Source].
func (r *Remote) Resolve(ctx context.Context, repo, tag string) (Descriptor, error) {
	d, _, err := r.Manifest(ctx, repo, tag)
	return d, err
}

// Manifest is [Remote.Resolve], and also returns the bytes that were read.
func (r *Remote) Manifest(ctx context.Context, repo, tag string) (Descriptor, []byte, error) {
	op := fmt.Sprintf("resolving tag %q", tag)
	target, err := r.repository(repo)
	if err != nil {
		return Descriptor{}, nil, err
	}
	want, byDigest := asDigest(tag)
	if _, err := name.NewTag(target.Name()+":"+tag, name.StrictValidation); err != nil && !byDigest {
		return Descriptor{}, nil, usage("naming tag: %w", err)
	}
	raw, header, err := r.get(ctx, query{target: target, op: op, path: "manifests/" + tag, accept: manifestTypes()})
	if err != nil {
		return Descriptor{}, nil, err
	}
	d := Descriptor{
		MediaType: mediaType(header),
		Digest:    digest.Of(digest.SHA256, raw),
		Size:      int64(len(raw)),
	}
	if byDigest && !want.Equal(d.Digest) {
		return Descriptor{}, nil, tampered(target.Name(), want, fmt.Errorf("got %s", d.Digest))
	}
	if !d.IsManifest() {
		return Descriptor{}, nil, &FormError{Digest: d.Digest, Err: fmt.Errorf("unknown media type %q", d.MediaType)}
	}
	doc, err := parse(d, raw)
	if err != nil {
		return Descriptor{}, nil, err
	}
	d.ArtifactType, d.Annotations = doc.ArtifactType, doc.Annotations
	return d, raw, nil
}

// asDigest parses a digest given instead of a tag. A tag has no colon, so they
// cannot be confused.
func asDigest(tag string) (digest.Digest, bool) {
	d, err := digest.Parse(tag)
	return d, err == nil && d.Algorithm() == digest.SHA256
}

// Fetch implements [Source].
func (r *Remote) Fetch(ctx context.Context, repo string, d Descriptor) (io.ReadCloser, error) {
	target, err := r.repository(repo)
	if err != nil {
		return nil, err
	}
	q := query{target: target, op: "reading " + d.Digest.String(), path: "blobs/" + d.Digest.String()}
	if d.IsManifest() {
		if d.Size > MaxManifest {
			return nil, tooLarge(target.Name(), d.Digest.String(), MaxManifest)
		}
		q.path, q.accept = "manifests/"+d.Digest.String(), []string{d.MediaType}
	}
	resp, err := r.ask(ctx, q)
	if err != nil {
		return nil, err
	}
	return verified(resp.Body, target.Name(), d), nil
}

// tagsPath asks for pages of tagsOfPage tags.
const (
	tagsOfPage = 1000
	tagsPath   = "tags/list?n=1000"
)

// Tags implements [Source].
func (r *Remote) Tags(ctx context.Context, repo string) ([]string, error) {
	target, err := r.repository(repo)
	if err != nil {
		return nil, err
	}
	var tags []string
	known := map[string]bool{}
	err = r.pages(ctx, query{target: target, op: "listing tags", path: tagsPath}, func(raw []byte) (string, error) {
		var page struct {
			Tags []string `json:"tags"`
		}
		if err := decodeOpen(raw, &page); err != nil {
			return "", err
		}
		before := len(known)
		for _, tag := range page.Tags {
			known[tag] = true
		}
		tags = append(tags, page.Tags...)
		if len(page.Tags) != tagsOfPage || len(known) == before {
			return "", nil
		}
		// Some registries end a full page and do not say that more follow: an
		// extra tag would be hidden behind it.
		return tagsPath + "&last=" + url.QueryEscape(page.Tags[len(page.Tags)-1]), nil
	})
	if err != nil {
		return nil, err
	}
	slices.Sort(tags)
	return slices.Compact(tags), nil
}

// Referrers implements [Source]. A registry without the referrers API keeps
// the list under a tag (distribution specification, "Referrers Tag Schema").
func (r *Remote) Referrers(ctx context.Context, repo string, d digest.Digest) ([]Descriptor, error) {
	return r.referrers(ctx, repo, d, "")
}

// ReferrersOf lists the referrers of one artifact type. A registry may list the
// others, too.
func (r *Remote) ReferrersOf(ctx context.Context, repo string, d digest.Digest, kind string) ([]Descriptor, error) {
	return r.referrers(ctx, repo, d, "?artifactType="+url.QueryEscape(kind))
}

// referrers asks the referrers API, and where a registry lacks that, reads the
// list under the tag of the digest.
func (r *Remote) referrers(ctx context.Context, repo string, d digest.Digest, filter string) ([]Descriptor, error) {
	target, err := r.repository(repo)
	if err != nil {
		return nil, err
	}
	if d.IsZero() {
		return nil, errors.New("listing referrers: no digest")
	}
	var found []Descriptor
	collect := func(raw []byte) (string, error) {
		found, err = appendReferrers(found, raw)
		return "", err
	}
	q := query{target: target, op: "listing referrers of " + d.String(), path: "referrers/" + d.String() + filter, accept: []string{MediaTypeIndex}}
	switch err := r.pages(ctx, q, collect); {
	case err == nil:
		return sortReferrers(found), nil
	case !errors.Is(err, ErrNotFound) && !errors.Is(err, errNoAPI):
		return nil, err
	}
	found = nil
	q.path = "manifests/" + d.Algorithm().String() + "-" + d.Hex()
	switch err := r.pages(ctx, q, collect); {
	case errors.Is(err, ErrNotFound):
		return nil, nil // by the specification, a missing tag means no referrers
	case err != nil:
		return nil, err
	}
	return sortReferrers(found), nil
}

func appendReferrers(found []Descriptor, raw []byte) ([]Descriptor, error) {
	var list document
	if err := decodeOpen(raw, &list); err != nil {
		return nil, err
	}
	if list.MediaType != "" && list.MediaType != MediaTypeIndex {
		return nil, fmt.Errorf("the list of referrers is of type %q", list.MediaType)
	}
	for _, e := range list.Manifests {
		d, err := e.descriptor()
		if err != nil {
			return nil, err
		}
		found = append(found, d)
	}
	return found, nil
}

func sortReferrers(found []Descriptor) []Descriptor {
	order.Sort(found, func(a, b Descriptor) int { return strings.Compare(a.Digest.String(), b.Digest.String()) })
	return slices.CompactFunc(found, func(a, b Descriptor) bool { return a.Digest.Equal(b.Digest) })
}
