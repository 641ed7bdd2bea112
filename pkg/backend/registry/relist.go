package registry

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"

	"github.com/google/go-containerregistry/pkg/name"
	ggcr "github.com/google/go-containerregistry/pkg/v1/remote/transport"

	"github.com/waybill-release/waybill/pkg/value/digest"
)

// ErrKept is the answer of a registry that lets nobody delete, or not us.
var ErrKept = errors.New("the registry does not let it be deleted")

// Delete takes a manifest out of a repository, by its digest. One that is not
// there any more is no error. Tags that name it go with it, at some registries.
func (r *Remote) Delete(ctx context.Context, repo string, d digest.Digest) error {
	target, err := r.repository(repo)
	if err != nil {
		return err
	}
	q := query{target: target, op: "deleting " + d.String(), path: "manifests/" + d.String()}
	s, err := r.session(ctx, target, ggcr.DeleteScope)
	if err != nil {
		return q.unavailable(err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodDelete, target.Scheme()+"://"+target.RegistryStr()+"/v2/"+target.RepositoryStr()+"/"+q.path, nil)
	if err != nil {
		return fmt.Errorf("%s at %q: %w", q.op, target, err)
	}
	resp, err := s.client.Do(req)
	if err != nil {
		return q.unavailable(err)
	}
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, MaxManifest)) // so that the connection serves again
	_ = resp.Body.Close()
	switch resp.StatusCode {
	case http.StatusAccepted, http.StatusOK, http.StatusNoContent, http.StatusNotFound:
		r.written.forget(q)
		return nil
	case http.StatusMethodNotAllowed, http.StatusForbidden, http.StatusUnauthorized, http.StatusBadRequest, http.StatusNotImplemented:
		return fmt.Errorf("%s at %q: %w: it answered %q", q.op, target.Name(), ErrKept, resp.Status)
	}
	return q.unavailable(fmt.Errorf("the registry answered %q", resp.Status))
}

// forget is told what is gone, so that nobody waits for it.
func (w *written) forget(q query) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.lately, q.key())
	delete(w.before, q.key())
}

// Swap is a referrer that takes the place of another.
type Swap struct{ Of, Old, New digest.Digest }

// Relist takes a referrer out of the list of its subject, where that is kept
// under a tag, and only if the one in its place stands there: so whichever
// version of the list is read, one of the two is found. The manifest stays,
// unlisted, for somebody who writes back an older version of the list would
// name it again. Where there is no such tag nothing is done.
//
// Registries write tags without conditions. A referrer that another program
// lists between our reading and our writing can be lost from the list, as with
// every program that keeps one; who pushes one looks whether it is listed.
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
	d := blobOf(before.MediaType, after).Descriptor
	ref, err := name.NewTag(target.Name()+":"+tag, name.StrictValidation)
	if err != nil {
		return usage("naming tag: %w", err)
	}
	ref.Repository = target
	q := query{target: target, op: fmt.Sprintf("writing the list %q", tag), path: "manifests/" + tag, accept: manifestTypes()}
	if err := r.settle(ctx, q, r.put(ctx, ref, rawManifest{raw: after, mediaType: d.MediaType}), false); err != nil {
		return err
	}
	return r.named(ctx, repo, tag, d)
}

// in is the list without the old one; nil if it does not name that.
func (s Swap) in(d Descriptor, raw []byte) ([]byte, error) {
	var list struct {
		Manifests []json.RawMessage `json:"manifests"`
	}
	if !d.IsIndex() {
		return nil, &FormError{Digest: d.Digest, Err: errors.New("it stands where a list of referrers should be, and is none")}
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
		return nil, &DriftError{Place: AttachedTag(s.Of, ""), What: s.New.String() + ", which takes the place of " + s.Old.String(), Shown: len(rest)}
	}
	return edited(raw, "manifests", mustJSON(rest))
}

// AwaitReferrers demands that referrers stand in the list of their subject. A
// list that has not caught up is asked for again, as long as there is patience.
func AwaitReferrers(ctx context.Context, at Source, repo string, of digest.Digest, want ...Descriptor) error {
	return readBackReferrers(ctx, at, repo, of, want)
}

// Entries are the digests that an index lists, whether they are there or not.
func Entries(d Descriptor, raw []byte) ([]digest.Digest, error) {
	doc, err := parse(d, raw)
	if err != nil {
		return nil, err
	}
	list, err := descriptors(doc.Manifests)
	if err != nil {
		return nil, &FormError{Digest: d.Digest, Err: err}
	}
	var all []digest.Digest
	for _, e := range list {
		all = append(all, e.Digest)
	}
	return all, nil
}
