package registry

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/waybill-release/waybill/pkg/value/digest"
)

// maxListing bounds all pages of a listing together: one page may name every
// digest.
const maxListing = 256 << 20

// Listing is what a registry claims to hold in a repository, good enough for
// planning: no manifest was read.
type Listing struct {
	// Tags are all tags, each with its digest if the list names it, else with
	// the zero Digest.
	Tags map[string]digest.Digest
	// Digests are all manifests, tagged or not, if the list names them, else
	// nil.
	Digests map[digest.Digest]bool
	// Pages is the number of requests sent.
	Pages int
}

// Listing lists a repository in one request per page. Google's registries list
// the manifests with their tags; other registries list only the tags, see
// [Remote.Claimed].
func (r *Remote) Listing(ctx context.Context, repo string) (Listing, error) {
	target, err := r.repository(repo)
	if err != nil {
		return Listing{}, err
	}
	l := Listing{Tags: map[string]digest.Digest{}}
	q := query{target: target, op: "listing tags", path: "tags/list"}
	bound := &counting{left: maxListing}
	for seen := map[string]bool{}; l.Pages < maxPages; {
		seen[q.path] = true
		next, err := r.listPage(ctx, q, &l, bound)
		if err != nil {
			return Listing{}, err
		}
		if next == "" {
			return l, nil
		}
		if seen[next] {
			return Listing{}, q.unavailable(errors.New("the list does not advance"))
		}
		q.path = next
	}
	return Listing{}, tooLarge(target.Name(), "pages of a list", maxPages)
}

// listPage reads one page as a stream, within the rest of the limit, and
// returns the path of the next page.
func (r *Remote) listPage(ctx context.Context, q query, l *Listing, bound *counting) (string, error) {
	resp, err := r.ask(ctx, q)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	l.Pages++
	bound.r = resp.Body
	if err := l.read(bound); err != nil {
		return "", q.unavailable(err)
	}
	next, err := q.next(resp.Header.Get("Link"))
	if err != nil {
		return "", q.unavailable(err)
	}
	return next, nil
}

// counting fails after its limit of bytes.
type counting struct {
	r    io.Reader
	left int64
}

// Read implements [io.Reader].
func (c *counting) Read(p []byte) (int, error) {
	if c.left <= 0 {
		return 0, fmt.Errorf("the list has more than %d bytes", int64(maxListing))
	}
	n, err := c.r.Read(p[:min(int64(len(p)), c.left)])
	c.left -= int64(n)
	return n, err
}

// read reads a page key by key, without keeping it in memory.
func (l *Listing) read(r io.Reader) error {
	in := json.NewDecoder(r)
	err := inObject(in, func(key string) error {
		switch key {
		case "tags":
			var tags []string
			if err := in.Decode(&tags); err != nil {
				return err
			}
			for _, tag := range tags {
				if _, known := l.Tags[tag]; !known {
					l.Tags[tag] = digest.Digest{}
				}
			}
			return nil
		case "manifest":
			return inObject(in, func(name string) error { return l.manifest(in, name) })
		}
		var other json.RawMessage
		return in.Decode(&other)
	})
	if err != nil {
		return err
	}
	if _, err := in.Token(); err != io.EOF {
		return errors.New("the list has trailing data")
	}
	return nil
}

func (l *Listing) manifest(in *json.Decoder, name string) error {
	d, err := digest.Parse(name)
	if err != nil {
		return err
	}
	var e struct {
		Tags []string `json:"tag"`
	}
	if err := in.Decode(&e); err != nil {
		return err
	}
	if l.Digests == nil {
		l.Digests = map[digest.Digest]bool{}
	}
	l.Digests[d] = true
	for _, tag := range e.Tags {
		if other := l.Tags[tag]; !other.IsZero() && !other.Equal(d) {
			return fmt.Errorf("the list names two digests for the tag %q: %s and %s", tag, other, d)
		}
		l.Tags[tag] = d
	}
	return nil
}

// inObject iterates over the keys of an object; null has none.
func inObject(in *json.Decoder, value func(key string) error) error {
	t, err := in.Token()
	if err != nil || t == nil {
		return err
	}
	if t != json.Delim('{') {
		return fmt.Errorf("the list has %v, want an object", t)
	}
	for in.More() {
		key, err := in.Token()
		if err != nil {
			return err
		}
		if err := value(fmt.Sprint(key)); err != nil {
			return err
		}
	}
	_, err = in.Token()
	return err
}

// Claimed returns what the registry claims for a tag, or, for a digest, that it
// exists. The manifest is read only if the registry does not say.
func (r *Remote) Claimed(ctx context.Context, repo, tag string) (digest.Digest, error) {
	target, err := r.repository(repo)
	if err != nil {
		return digest.Digest{}, err
	}
	if _, byDigest := asDigest(tag); !byDigest {
		if err := checkTag(repo, tag); err != nil {
			return digest.Digest{}, err
		}
	}
	resp, err := r.ask(ctx, query{
		target: target, op: fmt.Sprintf("resolving tag %q", tag), method: http.MethodHead, path: "manifests/" + tag, accept: manifestTypes(),
	})
	if err != nil {
		return digest.Digest{}, err
	}
	_ = resp.Body.Close() // a HEAD answer has no body
	if d, err := digest.Parse(resp.Header.Get("Docker-Content-Digest")); err == nil {
		return d, nil
	}
	d, err := r.Resolve(ctx, repo, tag)
	return d.Digest, err
}
