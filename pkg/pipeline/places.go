package pipeline

import (
	"context"
	"path/filepath"
	"strings"

	"github.com/waybill-release/waybill/pkg/profile"
	"github.com/waybill-release/waybill/pkg/promote"
	"github.com/waybill-release/waybill/pkg/registry"
	"github.com/waybill-release/waybill/pkg/release"
	"github.com/waybill-release/waybill/pkg/store"
)

// place is one end of a promotion.
type place struct {
	files  store.Place
	writer store.Writer
	images promote.Registry
}

// filesAt opens the place of the files of a stage, for reading.
func (j *job) filesAt(s profile.Stage) (store.Place, error) {
	uri, err := j.Profile.Files(s, j.Version)
	if err != nil {
		return nil, err
	}
	return j.openPlace(uri)
}

// place opens the places of a stage, for reading and writing.
func (j *job) place(s profile.Stage) (out place, err error) {
	if out.files, err = j.filesAt(s); err != nil {
		return place{}, err
	}
	uri, err := j.Profile.Files(s, j.Version)
	if err != nil {
		return place{}, err
	}
	if out.writer, err = j.OpenWriter(uri); err != nil {
		return place{}, err
	}
	prefix, err := j.Profile.Images(s, j.Version)
	if err != nil || prefix == "" {
		return out, err
	}
	out.images, err = registry.OpenRemote(prefix, j.Transport)
	return out, err
}

// openPlace opens a place that may demand credentials.
func (w World) openPlace(uri string) (store.Place, error) {
	if w.OpenPlace != nil {
		return w.OpenPlace(uri)
	}
	return store.Open(uri, w.Transport)
}

// before is what comes before a promotion from a place.
func before(from store.Place, state string) string {
	if w, err := filepath.Abs(state); err == nil && strings.Contains(from.URI(), w) {
		return "sign and seal first: waybill status VERSION says what is missing"
	}
	return "nothing is staged there: waybill stage VERSION --confirm does it all, waybill promote VERSION --to staging --confirm only that"
}

// pagesAt opens the pages of a manifest that lies at a place.
func pagesAt(ctx context.Context, from store.Place) release.Opener {
	return func(name string) ([]byte, error) { return store.Read(ctx, from, name, release.MaxPage) }
}
