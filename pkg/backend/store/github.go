package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/waybill-release/waybill/pkg/backend/github"
	"github.com/waybill-release/waybill/pkg/tool/strictjson"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// Files in which a downloaded release has the listing of its assets, as GitHub's
// API answers it, and the attestations, one a line.
const recordedListing, recordedBundles = "assets.json", "attestations.jsonl"

// releasePlace reads a published release on GitHub. It never reads a draft,
// which users do not see. The listing is read once for all objects, since each
// request counts against GitHub's rate limit; [releasePlace.List] renews it.
type releasePlace struct {
	api *github.Client

	mu     sync.Mutex // guards listed
	listed github.Listing
}

func openRelease(uri string, rt http.RoundTripper) (Place, error) {
	api, err := github.New(uri, rt)
	if err != nil {
		return nil, err
	}
	return &releasePlace{api: api}, nil
}

// URI implements [Place].
func (p *releasePlace) URI() string { return p.api.URI() }

// List implements [Place]. A release that does not exist has no objects.
func (p *releasePlace) List(ctx context.Context) ([]Object, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.renew(ctx); err != nil {
		return nil, err
	}
	return assetObjects(p.URI(), p.listed)
}

// renew reads the listing; mu is held.
func (p *releasePlace) renew(ctx context.Context) (err error) {
	p.listed = nil
	release, err := p.api.Published(ctx)
	if errors.Is(err, github.ErrNotFound) {
		p.listed = github.Listing{}
		return nil
	}
	if err != nil {
		return err
	}
	p.listed, err = p.api.Assets(ctx, release.ID)
	return err
}

// Evidence returns what the tag names, the commit last, and GitHub's bundles.
func (p *releasePlace) Evidence(ctx context.Context, subjects []string) (commits []string, bundles [][]byte, err error) {
	if commits, err = p.api.TagOf(ctx); err == nil {
		bundles, err = p.api.Attestations(ctx, append(subjects, "sha1:"+commits[0]))
	}
	return commits, bundles, err
}

// CheckTag refuses a release whose tag names another commit.
func (p *releasePlace) CheckTag(ctx context.Context, commit string) error {
	return p.api.CheckTag(ctx, commit)
}

// assetObjects are the objects of a listing, sorted.
func assetObjects(uri string, assets github.Listing) ([]Object, error) {
	objects := make([]Object, 0, len(assets))
	for _, name := range assets.Sorted() {
		if err := CheckName(name); err != nil {
			return nil, fmt.Errorf("listing %q: %w", uri, err)
		}
		objects = append(objects, Object{Name: name, Size: assets[name].Size, Generation: fmt.Sprint(assets[name].ID)})
	}
	return objects, nil
}

// Open implements [Place].
func (p *releasePlace) Open(ctx context.Context, name string) (io.ReadCloser, int64, error) {
	a, err := p.find(ctx, name)
	if err != nil {
		return nil, 0, err
	}
	body, err := p.api.Download(ctx, a)
	if errors.Is(err, github.ErrNotFound) {
		return nil, 0, p.vanished(ctx, name)
	}
	if err != nil {
		return nil, 0, err
	}
	return body, a.Size, nil
}

func (p *releasePlace) find(ctx context.Context, name string) (github.Asset, error) {
	if err := CheckName(name); err != nil {
		return github.Asset{}, fmt.Errorf("reading at %q: %w", p.URI(), err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return github.Asset{}, err
	}
	if p.listed == nil {
		if err := p.renew(ctx); err != nil {
			return github.Asset{}, err
		}
	}
	return findAsset(p.URI(), p.listed, name)
}

// findAsset finds an object; one whose upload was not finished does not exist.
func findAsset(uri string, assets github.Listing, name string) (github.Asset, error) {
	a, there := assets[name]
	switch {
	case !there:
		return github.Asset{}, fmt.Errorf("reading %s at %q: %w", quote(name), uri, ErrNotFound)
	case !a.Whole():
		return github.Asset{}, fmt.Errorf("reading %s at %q: its upload was not finished: %w", quote(name), uri, ErrNotFound)
	}
	return a, nil
}

// vanished is the error for an asset that was listed and is gone: it was
// deleted, or replaced by another one.
func (p *releasePlace) vanished(ctx context.Context, name string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.renew(ctx); err != nil {
		return err
	}
	if _, err := findAsset(p.URI(), p.listed, name); err != nil {
		return err
	}
	return verdict.Refuse("PLACE_CHANGED", name, "the asset was replaced at %q after the release was listed", p.URI())
}

// recordedRelease is a downloaded release: its assets under their flat names,
// in a directory with the listing that was recorded.
type recordedRelease struct {
	uri    string
	listed github.Listing
	files  *dir
}

func openRecorded(path string) (Place, error) {
	files, err := openDir(path)
	if err != nil {
		return nil, err
	}
	uri := "github+file://" + filepath.ToSlash(path)
	raw, err := ReadNamed(filepath.Join(path, recordedListing), maxPage)
	if err != nil {
		return nil, err
	}
	var assets []github.Asset
	if err := strictjson.UnmarshalOpen(raw, &assets, strictjson.MaxSize(maxPage)); err != nil {
		return nil, usage("opening place %q: %s is not a listing of assets: %w", uri, recordedListing, err)
	}
	listed, err := github.Index(uri, assets)
	if err != nil {
		return nil, err
	}
	return &recordedRelease{uri: uri, listed: listed, files: files}, nil
}

// URI implements [Place].
func (r *recordedRelease) URI() string { return r.uri }

// List implements [Place]. Files that are in the directory and not in its listing
// are objects too: they were not downloaded from the release.
func (r *recordedRelease) List(ctx context.Context) ([]Object, error) {
	objects, err := assetObjects(r.uri, r.listed)
	if err != nil {
		return nil, err
	}
	files, err := r.files.List(ctx)
	if err != nil {
		return nil, err
	}
	listed := map[string]bool{recordedListing: true, recordedBundles: true}
	for _, a := range r.listed {
		listed[a.Name] = true
	}
	for _, o := range files {
		if _, planned := r.listed[o.Name]; planned && !listed[o.Name] {
			return nil, verdict.Refuse(verdict.Path, o.Name, "the directory has this file, and its listing has an asset with this planned name")
		}
		if !listed[o.Name] {
			objects = append(objects, o)
		}
	}
	slices.SortFunc(objects, func(a, b Object) int { return strings.Compare(a.Name, b.Name) })
	return objects, nil
}

// Open implements [Place].
func (r *recordedRelease) Open(ctx context.Context, name string) (io.ReadCloser, int64, error) {
	if err := CheckName(name); err != nil {
		return nil, 0, fmt.Errorf("reading at %q: %w", r.uri, err)
	}
	a, err := findAsset(r.uri, r.listed, name)
	if _, listed := r.listed[name]; listed && err != nil {
		return nil, 0, err
	} else if !listed {
		a.Name = name // a file that was not downloaded from the release
	}
	body, size, err := r.files.Open(ctx, a.Name)
	if errors.Is(err, os.ErrNotExist) {
		err = fmt.Errorf("reading %s at %q: %w", quote(a.Name), r.uri, ErrNotFound)
	}
	return body, size, err
}

// Evidence returns the recorded bundles, if there are any; the tag is not recorded.
func (r *recordedRelease) Evidence(ctx context.Context, _ []string) (commits []string, documents [][]byte, err error) {
	raw, err := Read(ctx, r.files, recordedBundles, maxPage)
	if errors.Is(err, ErrNotFound) {
		return nil, nil, nil
	}
	return nil, [][]byte{raw}, err
}
