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

// withoutPages takes the manifest's own verified pages out of the listing, and
// those of the revisions that it supersedes, if their bytes match their names.
// Any other file among them is extra.
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
		return true // unreadable, and already reported
	}
	return err != nil || manifest.PageName(digest.Of(digest.SHA256, raw)) == name
}
