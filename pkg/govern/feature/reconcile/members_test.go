package reconcile_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/waybill-release/waybill/pkg/backend/store"
	"github.com/waybill-release/waybill/pkg/govern/feature/reconcile"
	featurestore "github.com/waybill-release/waybill/pkg/govern/feature/store"
)

// TestMembers: who made a pass within the term is counted; who is gone is not,
// and who finds something else there knows nobody, and acts.
func TestMembers(t *testing.T) {
	dir := t.TempDir()
	at, err := store.Open(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	w, err := store.OpenWriter(dir)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	join := func(who string) *reconcile.Members {
		m, err := reconcile.NewMembers(featurestore.Place{Place: at, Writer: w}, who, time.Hour, func() time.Time { return now })
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	see := func(m *reconcile.Members, want ...string) {
		t.Helper()
		got, err := m.Identities(t.Context())
		slices.Sort(got)
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("it sees %q, %v; want %q", got, err, want)
		}
	}
	one, two := join("gate-1"), join("gate-2")
	see(one, "gate-1")
	see(two, "gate-1", "gate-2")
	now = now.Add(74 * time.Minute)
	see(one, "gate-1", "gate-2") // a clock may differ by a quarter
	now = now.Add(2 * time.Minute)
	see(one, "gate-1")
	for name, text := range map[string]string{"README": "hello", "gate-3.json": `{"schema":"waybill/member/v1","identity":"gate-4","expires":"2026-03-01T12:00:00Z"}`, "gate-5.json": "{"} {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if got, err := one.Identities(t.Context()); err == nil {
			t.Errorf("with %s there it sees %q", name, got)
		}
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
	}
	for _, bad := range []string{"", "a/b", "Gate", "../x"} {
		if _, err := reconcile.NewMembers(featurestore.Place{Place: at, Writer: w}, bad, time.Hour, time.Now); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
	b := newBench(t)
	b.config.Self = reconcile.Self{Identity: "gate-1", Version: v(t, "v0.2.0"), Live: one}
	b.once()
}
