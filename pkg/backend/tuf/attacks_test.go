package tuf_test

import (
	"testing"
	"time"

	"github.com/waybill-release/waybill/pkg/backend/transport"
	"github.com/waybill-release/waybill/pkg/backend/tuf"
	"github.com/waybill-release/waybill/pkg/testing/faketuf"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// now is the time of judgement of the tests.
var now = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)

// config refreshes from r into a cache of its own.
func config(t *testing.T, r *faketuf.Repository) tuf.Config {
	t.Helper()
	return tuf.Config{
		URL: r.URL, Root: r.File("1.root.json"), Cache: t.TempDir(), Now: now,
		Transport: transport.New(transport.Config{Attempts: 1}),
	}
}

func refresh(t *testing.T, c tuf.Config) tuf.Targets {
	t.Helper()
	got, err := tuf.Refresh(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// refused demands one code, and nothing besides it.
func refused(t *testing.T, got tuf.Targets, err error, want verdict.Code) {
	t.Helper()
	if err == nil {
		t.Fatalf("accepted at %+v", got.Versions())
	}
	if f := verdict.FindingOf("", err); f.Code != want {
		t.Fatalf("refused as %s, want %s: %v", f.Code, want, err)
	}
	if got.TrustedRoot() != nil || got.Versions() != (tuf.Versions{}) {
		t.Errorf("a refused refresh returns %+v", got.Versions())
	}
}

func TestAttacks(t *testing.T) {
	for _, a := range faketuf.Attacks() {
		for _, cached := range []bool{true, false} {
			name := a.Name
			if !cached {
				name += ", in a process of its own memory"
			}
			t.Run(name, func(t *testing.T) {
				if !cached && a.Code == verdict.TUFRollback {
					t.Skip("a client that remembers nothing cannot tell")
				}
				play := func(act func(*faketuf.Repository, map[string][]byte)) (tuf.Targets, error) {
					r := faketuf.New(t, now)
					c := config(t, r)
					if !cached {
						c.Cache = ""
					}
					old := a.Trusted(r, []byte("a root"))
					refresh(t, c)
					act(r, old)
					c.Now = now.Add(a.Later)
					return tuf.Refresh(t.Context(), c)
				}
				got, err := play(a.Attack)
				refused(t, got, err, a.Code)
				if got, err := play(a.Twin); err != nil || len(got.TrustedRoot()) == 0 {
					t.Errorf("the twin is refused: %v", err)
				}
			})
		}
	}
}

// TestKnownSources: the initial roots that the program carries are read, as far
// as a repository that holds nothing lets them be.
func TestKnownSources(t *testing.T) {
	for _, s := range []tuf.Source{tuf.PublicGood(), tuf.Staging()} {
		c := tuf.Config{URL: s.URL, Root: s.Root, Now: time.Now(), Transport: served(nil)}
		got, err := tuf.Refresh(t.Context(), c)
		refused(t, got, err, verdict.TrustDown)
		c.Root = []byte("{}")
		got, err = tuf.Refresh(t.Context(), c)
		refused(t, got, err, verdict.TUFParse)
	}
	if tuf.Staging().URL == tuf.PublicGood().URL {
		t.Error("staging is the public-good instance")
	}
}
