package gate

import (
	"context"
	"errors"
	"slices"

	"github.com/waybill-release/waybill/pkg/backend/store"
	"github.com/waybill-release/waybill/pkg/release/manifest"
	"github.com/waybill-release/waybill/pkg/value/digest"
)

// pagesIn opens the pages of the manifest, beside it.
func pagesIn(ctx context.Context, place store.Place) manifest.Opener {
	return func(name string) ([]byte, error) { return store.Read(ctx, place, name, manifest.MaxPage) }
}

// withoutPages leaves out the manifest's own pages, which were read and held
// against it, and those of the revisions that it says it superseded, if they
// still are what their names say. Any other file among them is extra.
func (s *sealed) withoutPages(ctx context.Context, objects []store.Object, f *facts) []store.Object {
	own := map[string]bool{}
	for _, p := range s.manifest.Pages {
		own[p.Name] = true
	}
	return slices.DeleteFunc(objects, func(o store.Object) bool {
		return own[o.Name] || slices.Contains(s.manifest.Former, o.Name) && s.isPage(ctx, o.Name, f)
	})
}

func (s *sealed) isPage(ctx context.Context, name string, f *facts) bool {
	raw, err := pagesIn(ctx, s.Files)(name)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		f.fail(name, err)
		return true // nothing is known of it, and that was said
	}
	return err != nil || manifest.PageName(digest.Of(digest.SHA256, raw)) == name
}
