package pipeline

import (
	"testing"

	"github.com/waybill-release/waybill/pkg/backend/store"
)

// TestOpenPlace: whoever knows how to open a place that demands credentials is
// asked, for each place; a world without one opens what answers everybody.
func TestOpenPlace(t *testing.T) {
	asked := ""
	at, err := store.Open(t.TempDir(), nil)
	if err != nil {
		t.Fatal(err)
	}
	w := World{OpenPlace: func(uri string) (store.Place, error) { asked = uri; return at, nil }}
	if got, err := w.openPlace("gs://staging/v1/"); err != nil || got != at || asked != "gs://staging/v1/" {
		t.Errorf("opened %v, %v; %q was asked for", got, err, asked)
	}
	if got, err := (World{}).openPlace("file:///tmp"); err != nil || got.URI() != "file:///tmp" {
		t.Errorf("opened %v, %v", got, err)
	}
}
