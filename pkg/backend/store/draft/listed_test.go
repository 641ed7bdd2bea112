package draft_test

import (
	"context"
	"strings"
	"testing"

	"github.com/waybill-release/waybill/pkg/backend/store"
	"github.com/waybill-release/waybill/pkg/backend/transport"
	"github.com/waybill-release/waybill/pkg/testing/releases"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// TestTagOfAListedPlace: the tag is compared where the files are read, and where they
// are listed.
func TestTagOfAListedPlace(t *testing.T) {
	s, uri := serve(t)
	files, err := store.Open(uri, transport.New(transport.Config{}))
	if err != nil {
		t.Fatal(err)
	}
	dir, err := store.Open(t.TempDir(), nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, place := range map[string]store.Place{"read": store.Listed(files, dir), "listed": store.Listed(dir, files), "neither": store.Listed(dir, dir)} {
		check := place.(interface {
			CheckTag(ctx context.Context, commit string) error
		}).CheckTag
		if err := check(t.Context(), commit); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		want := map[bool]verdict.Code{true: verdict.SourceMoved}[name != "neither"]
		if got := code(check(t.Context(), strings.Repeat("2", 40))); got != want {
			t.Errorf("%s, another commit: %s, want %q", name, got, want)
		}
	}
	tag(s, releases.Tag{Commit: strings.Repeat("2", 40)})
	if got := code(store.Listed(files, dir).(interface {
		CheckTag(ctx context.Context, commit string) error
	}).CheckTag(t.Context(), commit)); got != verdict.SourceMoved {
		t.Errorf("the tag moved: %q", got)
	}
}
