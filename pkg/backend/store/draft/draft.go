// Package draft writes a release on GitHub, which becomes public as a whole.
//
//	r, err := draft.Open("github://example/lantern/v1.0.0/", rt)
//	…
//	public, err := r.Begin(ctx, commit, names)
//	err = r.Put(ctx, "bin/tool", size, body, store.PutOptions{IfAbsent: true})
//	…
//	err = r.Publish(ctx)
//
// [Release.Begin] finds the release or the draft that an earlier run left, and
// compares its tag with the commit. The first write makes a draft if there is
// neither: only owners see it. Each asset is sent with its exact size and read
// back: name, label, size, state and digest. [Release.Publish] reads everything
// back again, publishes the draft, and reads what is public. Of several runs at
// once, one makes the draft, and the others continue it or are refused; none
// publishes assets that it did not write or read, or a text that somebody wrote
// into the draft. After the publication, objects can be added and replaced,
// unless the repository makes its releases immutable.
//
// GitHub cannot replace an asset in one step: the new one is uploaded as
// [github.Replacing], the old one is deleted, and the new one gets its name. A
// run that finds such an asset completes the replacement if the old asset is
// gone, and otherwise deletes the new one.
//
// Each file is written to a temporary file before it is sent: GitHub demands its
// size, and a source that breaks off leaves nothing.
//
// Other projects should not import this package: it changes without notice.
package draft

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strings"
	"sync"

	"github.com/waybill-release/waybill/pkg/backend/github"
	"github.com/waybill-release/waybill/pkg/backend/store"
	"github.com/waybill-release/waybill/pkg/tool/plural"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// Release is a release that is read and written, before and after it is
// public. It is safe for concurrent use.
type Release struct {
	api *github.Client

	mu      sync.Mutex // guards the fields below
	commit  string     // that the tag must name; empty before [Release.Begin]
	release github.Release
	held    github.Listing // nil before the first listing
	left    github.Listing // what an earlier run left unfinished
	known   github.Listing // the assets that this run wrote or read
}

var _ interface {
	store.Place
	store.Writer
	store.Prober
} = (*Release)(nil)

// Open returns the release at uri. Nothing is requested yet.
func Open(uri string, rt http.RoundTripper) (*Release, error) {
	api, err := github.New(uri, rt)
	if err != nil {
		return nil, err
	}
	return &Release{api: api, known: github.Listing{}}, nil
}

// URI implements [store.Place].
func (r *Release) URI() string { return r.api.URI() }

// Begin refuses names that cannot all be assets of one release, finds the
// release, refuses a tag that does not name the commit, and reports whether the
// release is public already.
func (r *Release) Begin(ctx context.Context, commit string, names []string) (public bool, err error) {
	if err := github.CheckNames(names); err != nil {
		return false, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.find(ctx); err != nil {
		return false, err
	}
	r.commit = commit
	return r.release.ID != 0 && !r.release.Draft, r.api.CheckTag(ctx, commit)
}

// find finds the release: the published one, else the oldest draft, else none;
// mu is held.
func (r *Release) find(ctx context.Context) error {
	if r.held != nil {
		return ctx.Err()
	}
	found, err := r.api.Published(ctx)
	if errors.Is(err, github.ErrNotFound) {
		var drafts []github.Release
		if drafts, err = r.api.Drafts(ctx); len(drafts) > 0 {
			found = drafts[0]
		}
	}
	if err != nil {
		return err
	}
	r.release = found
	if err := r.list(ctx); err != nil {
		return err
	}
	r.left = maps.Clone(r.held)
	maps.DeleteFunc(r.left, func(_ string, a github.Asset) bool { return !a.Replaces() && (a.Whole() || !found.Draft) })
	return nil
}

// list reads the assets; mu is held.
func (r *Release) list(ctx context.Context) (err error) {
	if r.held = (github.Listing{}); r.release.ID != 0 {
		r.held, err = r.api.Assets(ctx, r.release.ID)
	}
	return err
}

// mend completes replacements that an earlier run broke off, or undoes them,
// and deletes what it half uploaded to a draft; mu is held.
func (r *Release) mend(ctx context.Context) (err error) {
	for name, a := range r.left {
		if a.Replaces() && name != a.Name {
			err = r.api.Rename(ctx, a, name)
			a.Name, a.Label = github.AssetOf(name).Name, github.AssetOf(name).Label
			r.held[name] = a
			if _, read := r.known[name]; read {
				r.known[name] = a
			}
		} else {
			err = r.api.Delete(ctx, a)
			delete(r.held, name)
		}
		if err != nil {
			r.held = nil // read again next time
			return err
		}
	}
	r.left = nil
	return nil
}

// List implements [store.Place]: the objects of the draft, until the release
// is public.
func (r *Release) List(ctx context.Context) (objects []store.Object, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.find(ctx); err != nil {
		return nil, err
	}
	if err := r.list(ctx); err != nil {
		return nil, err
	}
	for _, name := range r.held.Sorted() {
		if err := store.CheckName(name); err != nil {
			return nil, fmt.Errorf("listing %q: %w", r.URI(), err)
		}
		objects = append(objects, store.Object{Name: name, Size: r.held[name].Size, Generation: fmt.Sprint(r.held[name].ID)})
	}
	return objects, nil
}

// Open implements [store.Place].
func (r *Release) Open(ctx context.Context, name string) (io.ReadCloser, int64, error) {
	if err := store.CheckName(name); err != nil {
		return nil, 0, fmt.Errorf("reading at %q: %w", r.URI(), err)
	}
	a, there, err := r.look(ctx, name)
	var body io.ReadCloser
	if err == nil && there && a.Whole() {
		if body, err = r.api.Download(ctx, a); err == nil {
			return body, a.Size, nil
		}
	}
	if err != nil && !errors.Is(err, github.ErrNotFound) {
		return nil, 0, err
	}
	return nil, 0, fmt.Errorf("reading %q at %q: %w", name, r.URI(), store.ErrNotFound)
}

// look finds the asset of an object, and remembers that it is read.
func (r *Release) look(ctx context.Context, name string) (github.Asset, bool, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.find(ctx); err != nil {
		return github.Asset{}, false, err
	}
	a, there := r.held[name]
	if there {
		r.known[name] = a
	}
	return a, there, nil
}

// ready makes a draft if there is no release yet; mu is held. If another run
// made one at the same time, the older one is kept.
func (r *Release) ready(ctx context.Context) error {
	if err := r.find(ctx); err != nil {
		return err
	}
	if r.release.ID != 0 {
		return r.mend(ctx)
	}
	if !r.api.HasToken() {
		return verdict.Refuse("CREDENTIAL_REFUSED", r.URI(), "writing needs a token, and none was found").
			Advise("set GH_TOKEN, or GH_ENTERPRISE_TOKEN for a host of your own that GH_HOST names, to a token that may write contents")
	}
	if err := r.api.CheckTag(ctx, r.commit); err != nil {
		return err
	}
	made, err := r.api.Create(ctx, r.api.Tag)
	if errors.Is(err, github.ErrExists) {
		return r.otherRun("has published the release")
	}
	if err != nil {
		return err
	}
	drafts, err := r.api.Drafts(ctx)
	if err != nil {
		return err
	}
	if len(drafts) > 0 && drafts[0].ID < made.ID {
		if err := r.api.Discard(ctx, made.ID); err != nil {
			return err
		}
		return r.otherRun("made a draft at the same time")
	}
	r.release = made
	return nil
}

// otherRun is the error of a run that another one overtook.
func (r *Release) otherRun(did string) error {
	r.held = nil // read again next time
	return verdict.Refuse(verdict.Busy, r.URI(), "another run %s", did).
		Advise("wait until the other run has ended, then run the command again: it completes what is missing")
}

// Check checks that the draft contains exactly the assets that this run wrote
// or read, and no text, and that the tag names the commit: that it can be
// published.
func (r *Release) Check(ctx context.Context) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.check(ctx)
}

func (r *Release) check(ctx context.Context) error {
	if err := r.ready(ctx); err != nil || !r.release.Draft {
		return err
	}
	now, err := r.api.Release(ctx, r.release.ID)
	switch {
	case errors.Is(err, github.ErrNotFound):
		return r.otherRun("deleted the draft")
	case err != nil:
		return err
	case !now.Draft || now.Tag != r.api.Tag:
		return r.otherRun("published the draft, or gave it another tag")
	case now.Text != "" || now.Title != "" && now.Title != now.Tag:
		return verdict.Refuse(verdict.FileConflict, r.URI(), "somebody wrote the title %.100q or a text of %s into the draft", now.Title, plural.Of(len(now.Text), "byte")).
			Advise("empty both at GitHub and run the command again; add the text after the publication. Nothing was published")
	}
	if err := r.readBack(ctx); err != nil {
		return err
	}
	return r.api.CheckTag(ctx, r.commit)
}

// Publish makes the draft public, if [Release.Check] finds nothing. For a
// release that is public already it does nothing.
func (r *Release) Publish(ctx context.Context) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.check(ctx); err != nil || !r.release.Draft {
		return err
	}
	if err := r.api.Publish(ctx, r.release.ID); errors.Is(err, github.ErrExists) {
		return r.otherRun("published the release first")
	} else if err != nil {
		return err
	}
	public, err := r.api.Published(ctx)
	if err != nil {
		return err
	}
	if public.ID != r.release.ID {
		return r.otherRun("published another release of this tag")
	}
	r.release = public
	return r.readBack(ctx)
}

// readBack lists the release again and compares it with what this run wrote
// and read; mu is held.
func (r *Release) readBack(ctx context.Context) error {
	if err := r.list(ctx); err != nil {
		return err
	}
	for _, name := range r.held.Sorted() {
		a := r.held[name]
		was, known := r.known[name]
		was.Digest = a.Digest // of bytes that never change; GitHub may compute it later
		switch {
		case !known:
			return r.foreign(name, "the release has an asset that this run neither wrote nor compared")
		case was.ID != a.ID:
			return r.foreign(name, "the asset was replaced while this run published the release")
		case was != a:
			return r.foreign(name, "name, size or state of the asset was changed while this run published the release")
		}
	}
	for _, name := range r.known.Sorted() {
		if _, there := r.held[name]; !there {
			return r.foreign(name, "the asset was deleted, or got another name, while this run published the release")
		}
	}
	return nil
}

// foreign refuses what others did to the release.
func (r *Release) foreign(name, what string) error {
	advice := "find out who else writes the release; delete the draft at GitHub, and run the command again. Nothing was published"
	if !r.release.Draft {
		advice = "find out who else writes the release; it is public, so verify it"
	}
	return verdict.Refuse(verdict.FileConflict, name, "%s, %s", what, r.URI()).Advise(advice)
}

// MayWrite implements [store.Prober]: it asks for the permissions of the token.
func (r *Release) MayWrite(ctx context.Context) error { return r.api.MayWrite(ctx) }

// ProbeWrite implements [store.Prober]: it makes a draft, of a tag that does not
// exist, and deletes it.
func (r *Release) ProbeWrite(ctx context.Context) error {
	if err := r.api.MayWrite(ctx); err != nil {
		return err
	}
	made, err := r.api.Create(ctx, strings.TrimPrefix(store.ProbeName(), "."))
	if err != nil {
		return err
	}
	if err := r.api.Discard(ctx, made.ID); err != nil {
		return fmt.Errorf("deleting the draft %q, which was made as a test: %w", made.Tag, err)
	}
	return nil
}

// Put implements [store.Writer].
func (r *Release) Put(ctx context.Context, name string, size int64, from io.Reader, opts store.PutOptions) error {
	if err := store.CheckName(name); err != nil {
		return fmt.Errorf("writing at %q: %w", r.URI(), err)
	}
	content, err := spool(from, size)
	if err != nil {
		return fmt.Errorf("writing %q: %w", name, err)
	}
	defer content.discard()
	if content.size > github.MaxSize {
		return verdict.Refuse(verdict.Limit, name, "%d bytes: an asset on GitHub has at most %d", content.size, github.MaxSize).Advise("publish a smaller file, or use a bucket for the files")
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	release, old, err := r.admit(ctx, name, opts.IfAbsent)
	if err != nil {
		return err
	}
	a := github.AssetOf(name)
	if old.ID != 0 { // under another name first: it replaces the old one when it is whole
		a = github.Replacing(name, content.sum)
	}
	made, err := r.upload(ctx, release, a, opts.MediaType, content)
	if err == nil && old.ID != 0 {
		if err = r.api.Delete(ctx, old); err == nil {
			err = r.api.Rename(ctx, made, name)
		}
		a = github.AssetOf(name)
		if made.Name, made.Label = a.Name, a.Label; errors.Is(err, github.ErrNotFound) { // another run undid the replacement
			made, err = r.upload(ctx, release, a, opts.MediaType, content)
		}
	}
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.known[name] = made; r.held != nil {
		r.held[name] = made
	}
	return nil
}

func (r *Release) admit(ctx context.Context, name string, ifAbsent bool) (release int64, old github.Asset, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.ready(ctx); err != nil {
		return 0, github.Asset{}, err
	}
	for other, a := range r.held {
		if other != name && a.Name == github.Flat(name) {
			return 0, github.Asset{}, github.Collision(name, other)
		}
	}
	old, there := r.held[name]
	switch {
	case there && ifAbsent && old.Whole():
		return 0, github.Asset{}, fmt.Errorf("writing %q at %q: %w", name, r.URI(), store.ErrExists)
	case r.release.Immutable && !r.release.Draft:
		return 0, github.Asset{}, verdict.Refuse(verdict.FileConflict, name, "the release is public and immutable, and lacks this file or has another one: GitHub allows no asset to be added or replaced").
			Advise("release a new version; to add records after the publication, switch immutable releases off in the repository's settings, or remove records: from the profile")
	}
	return r.release.ID, old, nil
}
