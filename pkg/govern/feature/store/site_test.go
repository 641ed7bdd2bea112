package featurestore

import (
	"errors"
	"strings"
	"testing"

	"github.com/waybill-release/waybill/pkg/backend/store"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// TestSite: a site is made in a directory that is there, and opened where it was
// made; nobody takes a directory that is not there for one in which everything
// is off.
func TestSite(t *testing.T) {
	open := func(uri string) (Place, error) {
		at, err := store.Open(uri, nil)
		if err != nil {
			return Place{}, err
		}
		w, err := store.OpenWriter(uri)
		return Place{at, w}, err
	}
	dir := t.TempDir()
	var down *verdict.UnavailableError
	if _, err := OpenSite(dir+"/absent", open); !errors.As(err, &down) || strings.Contains(err.Error(), "reconcile") {
		t.Errorf("a directory that is not there: %v", err)
	}
	if _, err := OpenSite(dir, open); !errors.As(err, &down) || !strings.Contains(err.Error(), "waybill feature reconcile") {
		t.Errorf("a site that nobody made: %v", err)
	}
	if err := MakeSite(dir + "/absent"); !errors.As(err, &down) {
		t.Errorf("a directory that is not there: %v", err)
	}
	for range 2 { // it is made once
		if err := MakeSite(dir); err != nil {
			t.Fatal(err)
		}
	}
	for _, uri := range []string{dir, "file://" + dir} {
		site, err := OpenSite(uri, open)
		if err != nil {
			t.Fatal(err)
		}
		if there, err := site.Features.List(t.Context()); err != nil || len(there) != 0 {
			t.Errorf("%s has %v, %v", uri, there, err)
		}
	}
}
