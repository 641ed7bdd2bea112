package registry

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	ggcr "github.com/google/go-containerregistry/pkg/v1/remote/transport"
	"golang.org/x/sync/errgroup"

	"github.com/waybill-release/waybill/pkg/backend/transport"
	"github.com/waybill-release/waybill/pkg/tool/slice"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// ErrKept is the answer of a registry that does not allow deletion, or not by
// us.
var ErrKept = errors.New("the registry does not allow the deletion")

// Delete removes a manifest from a repository, by its digest. A missing one is
// no error. In some registries its tags are removed, too.
func (r *Remote) Delete(ctx context.Context, repo string, d digest.Digest) error {
	target, err := r.repository(repo)
	if err != nil {
		return err
	}
	q := query{target: target, op: "deleting " + d.String(), method: http.MethodDelete, path: "manifests/" + d.String()}
	s, err := r.session(ctx, target, ggcr.DeleteScope)
	if err != nil {
		return q.unavailable(err)
	}
	resp, err := q.send(ctx, s, nil, "")
	if err != nil {
		return q.unavailable(err)
	}
	switch resp.StatusCode {
	case http.StatusAccepted, http.StatusOK, http.StatusNoContent, http.StatusNotFound:
		r.written.forget(q)
		return nil
	case http.StatusMethodNotAllowed, http.StatusForbidden, http.StatusUnauthorized, http.StatusBadRequest, http.StatusNotImplemented:
		return fmt.Errorf("%s at %q: %w: status %q", q.op, target.Name(), ErrKept, resp.Status)
	}
	return q.unavailable(fmt.Errorf("the registry answered %q", resp.Status))
}

// forget drops a write from the record, so that later reads do not wait for it.
func (w *written) forget(q query) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.lately, q.key())
	delete(w.before, q.key())
}

// Swap is a referrer that replaces another.
type Swap struct{ Of, Old, New digest.Digest }

// Relist removes a referrer from the list of its subject, where that list is a
// tag, and only if its replacement is listed: every version of the list then
// has at least one of the two. The manifest itself stays, because another
// writer may restore an older version of the list. Without such a tag nothing
// is done.
//
// Registries cannot write tags conditionally. A referrer that another program
// lists between our read and our write can be lost from the list, as with every
// program that maintains one; a writer must check afterwards that its referrer
// is listed.
func (r *Remote) Relist(ctx context.Context, repo string, s Swap) error {
	target, err := r.repository(repo)
	if err != nil {
		return err
	}
	list := r.referrersOf(target.Name() + "@" + s.Of.String())
	list.Lock()
	defer list.Unlock()
	tag := AttachedTag(s.Of, "")
	before, raw, err := r.Manifest(ctx, repo, tag)
	if errors.Is(err, ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	after, err := s.in(before, raw)
	if err != nil || after == nil {
		return err
	}
	return r.TagManifest(ctx, repo, tag, blobOf(before.MediaType, after).Descriptor, after)
}

// in returns the list without the old referrer; nil if the list does not name
// that.
func (s Swap) in(d Descriptor, raw []byte) ([]byte, error) {
	var list struct {
		Manifests []json.RawMessage `json:"manifests"`
	}
	if !d.IsIndex() {
		return nil, &FormError{Digest: d.Digest, Err: errors.New("not a list of referrers, although its tag is that of one")}
	}
	if err := decodeOpen(raw, &list); err != nil {
		return nil, &FormError{Digest: d.Digest, Err: err}
	}
	names := func(entry json.RawMessage, wanted digest.Digest) bool {
		var e element
		return decodeOpen(entry, &e) == nil && e.Digest == wanted.String()
	}
	rest := slices.DeleteFunc(slices.Clone(list.Manifests), func(e json.RawMessage) bool { return names(e, s.Old) })
	if len(rest) == len(list.Manifests) {
		return nil, nil
	}
	if !slices.ContainsFunc(rest, func(e json.RawMessage) bool { return names(e, s.New) }) {
		return nil, drift(AttachedTag(s.Of, ""), s.New.String()+", which replaces "+s.Old.String())
	}
	return edited(raw, "manifests", mustJSON(rest))
}

// Entries returns the digests that an index lists, whether they exist or not.
func Entries(d Descriptor, raw []byte) (all []digest.Digest, err error) {
	doc, err := parse(d, raw)
	if err != nil {
		return nil, err
	}
	list, err := descriptors(doc.Manifests)
	if err != nil {
		return nil, &FormError{Digest: d.Digest, Err: err}
	}
	return slice.Map(list, func(e Descriptor) digest.Digest { return e.Digest }), nil
}

// readBackAtOnce is how many lists and blobs of one image are read back
// concurrently, beside its manifests: registries with a rate limit refuse
// bursts.
const readBackAtOnce = 8

// drift reports a registry that does not show what it accepted.
func drift(place, what string) error {
	return verdict.Coded("REPLICA_DRIFT", "reading back at %q: the registry accepted %s but does not list it", place, what)
}

// ReadBack checks that a place shows everything that was copied: each manifest
// by its bytes, the referrers of each in its list, and each blob; all three
// concurrently. What a registry lost is unavailable, because a retry may
// succeed; what it has but does not show is drift. A missing manifest
// is reported first.
func ReadBack(ctx context.Context, at Source, repo string, c Copied) error {
	manifests, below := errgroup.WithContext(ctx)
	_ = c.Image.Walk(func(n *Node) error { // the visitor returns no error
		manifests.Go(func() error { // the bytes are verified: what they name need not be checked again
			if _, err := Read(below, at, repo, n.Descriptor, MaxManifest); err != nil {
				return fmt.Errorf("reading back: %w", err)
			}
			return nil
		})
		return nil
	})
	group, inner := errgroup.WithContext(below)
	group.SetLimit(readBackAtOnce)
	for of, list := range c.Referrers { // the image's blobs, and those of its referrers
		if len(list) > 0 {
			group.Go(func() error { return AwaitReferrers(inner, at, repo, of, list...) })
		}
	}
	remote, is := at.(*Remote)
	for _, b := range c.Blobs {
		if !is {
			break // a layout read back what it wrote
		}
		group.Go(func() error {
			there, err := remote.Holds(inner, repo, b)
			if err == nil && !there {
				err = drift(remote.prefix+"/"+repo, "the blob "+b.Digest.String())
			}
			return err
		})
	}
	shown := group.Wait()
	if err := manifests.Wait(); err != nil {
		return err
	}
	return shown
}

// AwaitReferrers checks that referrers are in the list of their subject. A stale
// list is requested again until the patience ends.
func AwaitReferrers(ctx context.Context, at Source, repo string, of digest.Digest, want ...Descriptor) error {
	patience, _ := transport.Patience() // a wrong value is reported by the transport
	begun, wait := time.Now(), min(100*time.Millisecond, patience/16)
	for {
		there, err := at.Referrers(ctx, repo, of)
		if err != nil {
			return fmt.Errorf("reading back: %w", err)
		}
		lacks := slices.IndexFunc(want, func(d Descriptor) bool {
			return !slices.ContainsFunc(there, func(o Descriptor) bool { return o.Digest.Equal(d.Digest) })
		})
		if lacks < 0 {
			return nil
		}
		missing := want[lacks]
		if time.Since(begun)+wait > patience {
			if _, err := Graph(ctx, at, repo, missing); err != nil { // the manifest is lost, not only unlisted
				return fmt.Errorf("reading back: %w", err)
			}
			return drift(repo, fmt.Sprintf("%s, which refers to %s", missing.Digest, of))
		}
		if err := transport.Sleep(ctx, wait); err != nil {
			return err
		}
		wait *= 2
	}
}
