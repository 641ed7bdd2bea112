//go:build unix

package journal

import (
	"os"
	"slices"
	"testing"

	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// TestOneProcessAtATime: elsewhere there are no advisory locks.
func TestOneProcessAtATime(t *testing.T) {
	path, _ := written(t, 1)
	first := open(t, path)
	if _, err := Open(path); verdict.FindingOf("", err).Code != verdict.Busy || !Busy(path) {
		t.Errorf("opened twice at a time: %v", err)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	if Busy(path) {
		t.Error("busy when nobody has it open")
	}
	open(t, path)
	if err := first.Append(t.Context(), entry(1)); err == nil {
		t.Error("appended to a closed journal")
	}
}

// TestReadTouchesNothing: whoever only looks is kept out by nobody, and mends
// and makes nothing.
func TestReadTouchesNothing(t *testing.T) {
	path, whole := written(t, 2)
	open(t, path)
	torn := slices.Concat(whole, []byte(`{"time":`))
	if err := os.WriteFile(path, torn, 0o600); err != nil {
		t.Fatal(err)
	}
	if entries, err := Read(path); err != nil || len(entries) != 2 {
		t.Errorf("%d entries, %v", len(entries), err)
	}
	if now, err := os.ReadFile(path); err != nil || string(now) != string(torn) {
		t.Errorf("the journal was changed: %v", err)
	}
	if entries, err := Read(path + ".none"); err != nil || entries != nil || Busy(path+".none") {
		t.Errorf("a journal that is not there: %v, %v", entries, err)
	}
	if _, err := os.Stat(path + ".none"); err == nil {
		t.Error("reading made a journal")
	}
	if err := os.WriteFile(path, []byte("{}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Read(path); verdict.FindingOf("", err).Code != verdict.ConfigParse {
		t.Errorf("no journal: %v", err)
	}
}
