package attacks

import (
	"path/filepath"
	"testing"

	releasemanifest "github.com/waybill-release/waybill/attestations/release-manifest/v1"
	"github.com/waybill-release/waybill/pkg/backend/store"
	"github.com/waybill-release/waybill/pkg/document/intoto"
	"github.com/waybill-release/waybill/pkg/pipeline/promote"
	"github.com/waybill-release/waybill/pkg/release/manifest"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
	"github.com/waybill-release/waybill/test/lab"
)

// repage has the release role seal the release on pages, and returns their
// names. It is too short to need any, which changes nothing for who reads them.
func (r *attacked) repage(t testing.TB, edit func(*manifest.Manifest)) (names []string) {
	t.Helper()
	m := r.manifest(t)
	edit(&m)
	const entries = 5
	st := must[intoto.Statement](t)(m.SealPages(entries, func(p manifest.Page, raw []byte) error {
		names = append(names, p.Name)
		r.write(t, p.Name, raw)
		return nil
	}))
	r.write(t, releasemanifest.Name, r.sign(t, lab.RoleRelease, st.Raw()))
	if len(names) < 3 {
		t.Fatalf("%d pages are too few to attack", len(names))
	}
	return names
}

// onPages is an attack on a release that is sealed on pages.
func onPages(do func(t *testing.T, r *attacked, pages []string)) func(t *testing.T, r *attacked) {
	return func(t *testing.T, r *attacked) { do(t, r, r.repage(t, func(*manifest.Manifest) {})) }
}

// listed is an attack by the release role itself, on the list of pages.
func listed(edit func(pages []any)) func(t *testing.T, r *attacked) {
	return onPages(func(t *testing.T, r *attacked, _ []string) {
		r.resealJSON(t, func(p map[string]any) { edit(p["pages"].([]any)) })
	})
}

func bound(page any) map[string]any { return page.(map[string]any) }

// TestGatePages attacks the pages of a manifest: they are the manifest's own,
// and nothing else is.
func TestGatePages(t *testing.T) {
	former := []byte("a page of the revision before")
	left := manifest.PageName(digest.Of(digest.SHA256, former))
	superseding := func(body []byte) func(t *testing.T, r *attacked) {
		return func(t *testing.T, r *attacked) {
			r.repage(t, func(m *manifest.Manifest) { m.Former = []string{left} })
			r.write(t, left, body)
		}
	}
	decide(t, []attack{
		{"nothing is done", onPages(func(*testing.T, *attacked, []string) {}), nil},
		{"a page is gone", onPages(func(t *testing.T, r *attacked, pages []string) { r.remove(t, pages[1]) }), codes("PAGE_MISSING")},
		{"a page is changed", onPages(func(t *testing.T, r *attacked, pages []string) { r.flip(t, pages[1]) }), codes("PAGE_TAMPERED")},
		{"two pages changed places", onPages(func(t *testing.T, r *attacked, pages []string) { r.swap(t, pages[0], pages[1]) }), codes("PAGE_TAMPERED")},
		{"pages out of order", listed(func(pages []any) { pages[0], pages[1] = pages[1], pages[0] }), codes("PAGE_ORDER")},
		{"a page twice, another not at all", listed(func(pages []any) { pages[1] = pages[0] }), codes("PAGE_TWICE")},
		{"pages that overlap", listed(func(pages []any) { bound(pages[1])["first"] = bound(pages[0])["last"] }), codes("PAGE_OVERLAP")},
		{"a page that lists what is not its own", listed(func(pages []any) { bound(pages[1])["last"] = bound(pages[1])["last"].(string) + "x" }), codes("PAGE_RANGE")},
		{"F01 a listed file is gone", onPages(func(t *testing.T, r *attacked, _ []string) { r.remove(t, binary) }), codes(verdict.Missing)},
		{"F02 a file too many", onPages(func(t *testing.T, r *attacked, _ []string) { r.write(t, "extra", []byte("x")) }), codes(verdict.Extra)},
		{"F02 a file too many among the pages", onPages(func(t *testing.T, r *attacked, _ []string) { r.write(t, releasemanifest.PageDir+"x.json", []byte("x")) }), codes(verdict.Extra)},
		{"a page of another list", onPages(func(t *testing.T, r *attacked, _ []string) { r.write(t, left, former) }), codes(verdict.Extra)},
		{"a page of a superseded revision", superseding(former), nil},
		{"something else under the name of one", superseding([]byte("x")), codes(verdict.Extra)},
		{"a file that is listed under the name of a page", func(t *testing.T, r *attacked) {
			r.repage(t, func(m *manifest.Manifest) { entry(t, m, "lantern.spdx.json").Name = left })
		}, codes(verdict.Path)},
	})
}

// TestPromotedPages: a release takes its pages with it, and none that lies
// beside them.
func TestPromotedPages(t *testing.T) {
	w := theWorld(t)
	r := w.attacked(t)
	pages := r.repage(t, func(*manifest.Manifest) {})
	const stray = releasemanifest.PageDir + "stray.json"
	r.write(t, stray, []byte("x"))
	to := newDestination(t, -1)
	accepted(t, r.promote(t, to))
	accepted(t, to.gate(t, r).Err())
	if to.has(stray) {
		t.Error("what is no page was taken along")
	}

	from := promote.From{Files: must[store.Place](t)(store.Open(filepath.Join(r.dir, "files"), nil)), Images: r.images}
	plan := promote.Make(r.manifest(t), r.read(t, releasemanifest.Name))
	r.remove(t, pages[1])
	to = newDestination(t, -1)
	refused(t, promote.Apply(t.Context(), plan, from, promote.To{Files: to.place, Writer: to, Images: to}), verdict.Missing)
	if to.has(releasemanifest.Name) {
		t.Error("a manifest was written without its pages")
	}
}
