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

// recordedListing is the file in which a downloaded release has the listing of
// its assets, as GitHub's API answers it.
const recordedListing = "assets.json"

// releasePlace reads a published release on GitHub. It never reads a draft,
// which users do not see. The listing is read once for all objects, since each
// request counts against GitHub's rate limit; [releasePlace.List] renews it.
type releasePlace struct {
	api *github.Client

	mu     sync.Mutex // guards listed
	listed map[string]github.Asset
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
func (p *releasePlace) renew(ctx context.Context) error {
	p.listed = nil
	release, err := p.api.Published(ctx)
	var assets []github.Asset
	switch {
	case errors.Is(err, github.ErrNotFound):
	case err == nil:
		assets, err = p.api.Assets(ctx, release.ID)
	}
	if err != nil && !errors.Is(err, github.ErrNotFound) {
		return err
	}
	p.listed, err = byPlannedName(p.URI(), assets)
	return err
}

// byPlannedName indexes assets by their planned names.
func byPlannedName(uri string, assets []github.Asset) (map[string]github.Asset, error) {
	all := make(map[string]github.Asset, len(assets))
	for _, a := range assets {
		name := a.Planned()
		if _, twice := all[name]; twice || a.Size < 0 {
			return nil, &verdict.UnavailableError{Place: uri, Op: "listing", Err: fmt.Errorf("asset %s is listed twice, or with the size %d", quote(name), a.Size)}
		}
		all[name] = a
	}
	return all, nil
}

// assetObjects are the objects of a listing, sorted.
func assetObjects(uri string, assets map[string]github.Asset) ([]Object, error) {
	objects := make([]Object, 0, len(assets))
	for name, a := range assets {
		if err := CheckName(name); err != nil {
			return nil, fmt.Errorf("listing %q: %w", uri, err)
		}
		objects = append(objects, Object{Name: name, Size: a.Size, Generation: fmt.Sprint(a.ID)})
	}
	slices.SortFunc(objects, func(a, b Object) int { return strings.Compare(a.Name, b.Name) })
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

// find is the asset of an object.
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
func findAsset(uri string, assets map[string]github.Asset, name string) (github.Asset, error) {
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
	listed map[string]github.Asset
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
	listed, err := byPlannedName(uri, assets)
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
	listed := map[string]bool{recordedListing: true}
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
	if err != nil {
		return nil, 0, err
	}
	body, size, err := r.files.Open(ctx, a.Name)
	if errors.Is(err, os.ErrNotExist) {
		err = fmt.Errorf("reading %s at %q: %w", quote(a.Name), r.uri, ErrNotFound)
	}
	return body, size, err
}
