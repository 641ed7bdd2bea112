package gate

import (
	"context"
	"errors"
	"slices"

	"github.com/waybill-release/waybill/pkg/digest"
	"github.com/waybill-release/waybill/pkg/release"
	"github.com/waybill-release/waybill/pkg/store"
)

// page opens the pages of the manifest, beside it.
func (d *decision) page(ctx context.Context) release.Opener {
	return func(name string) ([]byte, error) { return store.Read(ctx, d.Files, name, release.MaxPage) }
}

// withoutPages leaves out the manifest's own pages, which were read and held
// against it, and those of the revisions that it says it superseded, if they
// still are what their names say. Any other file among them is extra.
func (d *decision) withoutPages(ctx context.Context, objects []store.Object) []store.Object {
	own := map[string]bool{}
	for _, p := range d.manifest.Pages {
		own[p.Name] = true
	}
	return slices.DeleteFunc(objects, func(o store.Object) bool {
		return own[o.Name] || slices.Contains(d.manifest.Former, o.Name) && d.isPage(ctx, o.Name)
	})
}

func (d *decision) isPage(ctx context.Context, name string) bool {
	raw, err := d.page(ctx)(name)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		d.fail(name, err)
		return true // nothing is known of it, and that was said
	}
	return err != nil || release.PageName(digest.Of(digest.SHA256, raw)) == name
}
