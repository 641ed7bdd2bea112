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

// maxListing bounds the pages of a listing together: one page may name every
// digest.
const maxListing = 256 << 20

// Listing is what a registry says that a repository has. It is a claim, good
// for planning: no manifest was read.
type Listing struct {
	// Tags are all tags, with what each names where the list says so, else with
	// the zero Digest.
	Tags map[string]digest.Digest
	// Digests are all manifests, tagged or not, where the list names them; nil
	// where it does not.
	Digests map[digest.Digest]bool
	// Pages is how many requests it took.
	Pages int
}

// Listing lists a repository in as few requests as there are pages. Google's
// registries name the manifests in the list of tags, with their tags; of others
// the tags alone are known, see [Remote.Claimed].
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
		if err != nil || next == "" {
			return l.orNothing(err)
		}
		if seen[next] {
			return Listing{}, q.unavailable(errors.New("the list does not advance"))
		}
		q.path = next
	}
	return Listing{}, &LimitError{Place: target.Name(), What: "pages of a list", Limit: maxPages}
}

// orNothing is the listing, unless it failed.
func (l Listing) orNothing(err error) (Listing, error) {
	if err != nil {
		return Listing{}, err
	}
	return l, nil
}

// listPage reads one page as it comes, within what is left of the bound, and
// returns the path of the next.
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

// counting refuses more than it was told to let pass.
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

// manifestEntry is what Google's registries say of a manifest in the list.
type manifestEntry struct {
	Tags []string `json:"tag"`
}

// read reads a page key by key, without holding all of it.
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
		return errors.New("the list goes on after its end")
	}
	return nil
}

// manifest reads one entry of the manifests.
func (l *Listing) manifest(in *json.Decoder, name string) error {
	d, err := digest.Parse(name)
	if err != nil {
		return err
	}
	var e manifestEntry
	if err := in.Decode(&e); err != nil {
		return err
	}
	if l.Digests == nil {
		l.Digests = map[digest.Digest]bool{}
	}
	l.Digests[d] = true
	for _, tag := range e.Tags {
		if other := l.Tags[tag]; !other.IsZero() && !other.Equal(d) {
			return fmt.Errorf("the list has the tag %q for %s and for %s", tag, other, d)
		}
		l.Tags[tag] = d
	}
	return nil
}

// inObject goes over the keys of an object; null has none.
func inObject(in *json.Decoder, value func(key string) error) error {
	t, err := in.Token()
	if err != nil || t == nil {
		return err
	}
	if t != json.Delim('{') {
		return fmt.Errorf("the list has %v where an object should be", t)
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

// Claimed is what a registry says that a tag names, or, in place of a tag, that
// it has a digest. No manifest is read, unless the registry does not say.
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
	_ = resp.Body.Close() // a HEAD has none
	if d, err := digest.Parse(resp.Header.Get("Docker-Content-Digest")); err == nil {
		return d, nil
	}
	d, err := r.Resolve(ctx, repo, tag)
	return d.Digest, err
}
