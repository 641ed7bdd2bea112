package tuf_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/waybill-release/waybill/pkg/backend/tuf"
	"github.com/waybill-release/waybill/pkg/testing/faketuf"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// trusted is a repository at version 2 with a trusted root, and a config whose
// cache knows it.
func trusted(t *testing.T) (*faketuf.Repository, tuf.Config) {
	t.Helper()
	r := faketuf.New(t, now)
	r.Publish(map[string][]byte{tuf.TrustedRootFile: []byte("a root"), tuf.SigningConfigFile: []byte("a config")})
	c := config(t, r)
	refresh(t, c)
	return r, c
}

func read(t *testing.T, c tuf.Config, name string) []byte {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(c.Cache, name))
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func write(t *testing.T, c tuf.Config, name string, raw []byte) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(c.Cache, name), raw, 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestCacheAnswersWithoutTheRepository(t *testing.T) {
	r, c := trusted(t)
	r.Rotate("root")
	r.Publish(nil)
	online := refresh(t, c)
	r.Asked()
	got, err := tuf.Load(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	if string(got.TrustedRoot()) != "a root" || string(got.File(tuf.SigningConfigFile)) != "a config" {
		t.Errorf("files %q, %q", got.TrustedRoot(), got.File(tuf.SigningConfigFile))
	}
	if got.Versions() != online.Versions() || got.Versions() != (tuf.Versions{Root: 2, Timestamp: 3, Snapshot: 3, Targets: 3}) {
		t.Errorf("versions %+v, online %+v", got.Versions(), online.Versions())
	}
	if !got.Refreshed().Equal(now) || !got.Expires().Equal(now.AddDate(0, 0, 30)) {
		t.Errorf("refreshed %s, expires %s", got.Refreshed(), got.Expires())
	}
	if asked := r.Asked(); len(asked) > 0 {
		t.Errorf("the repository was asked for %q", asked)
	}
}

func TestRefreshAsksForWhatIsNew(t *testing.T) {
	r, c := trusted(t)
	r.Asked()
	refresh(t, c)
	if asked := strings.Join(r.Asked(), " "); asked != "2.root.json timestamp.json" {
		t.Errorf("with nothing new it asked for %q", asked)
	}
}

// What the cache cannot prove is unavailable, never accepted, and never a
// verdict about anything else.
func TestLoadProvesOrDoesNotAnswer(t *testing.T) {
	for _, row := range []struct {
		name string
		act  func(*testing.T, *tuf.Config)
		code verdict.Code
	}{
		{"no cache", func(t *testing.T, c *tuf.Config) { c.Cache = t.TempDir() }, verdict.TrustDown},
		{"no directory", func(_ *testing.T, c *tuf.Config) { c.Cache += "/none" }, verdict.TrustDown},
		{"no cache wanted", func(_ *testing.T, c *tuf.Config) { c.Cache = "" }, verdict.TrustDown},
		{"expired since", func(_ *testing.T, c *tuf.Config) { c.Now = now.AddDate(0, 1, 1) }, verdict.TrustDown},
		{"damaged", func(t *testing.T, c *tuf.Config) { write(t, *c, "state.json", []byte(`{"roots":{`)) }, verdict.TrustDown},
		{"cut short", func(t *testing.T, c *tuf.Config) { write(t, *c, "state.json", nil) }, verdict.TrustDown},
		{"of another shape", func(t *testing.T, c *tuf.Config) { write(t, *c, "state.json", []byte(`{"roots":[]}`)) }, verdict.TrustDown},
		{"another initial root", func(t *testing.T, c *tuf.Config) { c.Root = faketuf.New(t, now).File("1.root.json") }, verdict.TrustDown},
		{"another file wanted", func(_ *testing.T, c *tuf.Config) { c.Files = []string{"other.json"} }, "TUF_TARGET"},
		{"an earlier time", func(_ *testing.T, c *tuf.Config) { c.Now = now.Add(-time.Hour) }, verdict.Clock},
	} {
		t.Run(row.name, func(t *testing.T) {
			_, c := trusted(t)
			if _, err := tuf.Load(t.Context(), c); err != nil {
				t.Fatalf("the twin is refused: %v", err)
			}
			row.act(t, &c)
			got, err := tuf.Load(t.Context(), c)
			refused(t, got, err, row.code)
		})
	}
}

// Every byte of the cache is changed in turn: what comes out is what went in,
// or nothing.
func TestMangledStateIsNeverBelieved(t *testing.T) {
	_, c := trusted(t)
	raw := read(t, c, "state.json")
	for i := 0; i < len(raw); i += 13 {
		mangled := append([]byte(nil), raw...)
		mangled[i] ^= 1
		write(t, c, "state.json", mangled)
		got, err := tuf.Load(t.Context(), c)
		if err == nil && string(got.TrustedRoot()) != "a root" {
			t.Fatalf("byte %d: believed %q", i, got.TrustedRoot())
		}
	}
}

func TestDamagedCacheIsRebuilt(t *testing.T) {
	for _, file := range []string{"state.json", "floor.json"} {
		t.Run(file, func(t *testing.T) {
			_, c := trusted(t)
			write(t, c, file, read(t, c, file)[:20])
			got := refresh(t, c)
			if string(got.TrustedRoot()) != "a root" || len(got.Notes()) != 1 || !strings.Contains(got.Notes()[0], file) {
				t.Errorf("root %q, notes %q", got.TrustedRoot(), got.Notes())
			}
			if again := refresh(t, c); len(again.Notes()) != 0 {
				t.Errorf("after it was rebuilt: %q", again.Notes())
			}
		})
	}
}

// A rollback is noticed as long as one of the two files remembers.
func TestLocalRollback(t *testing.T) {
	for _, row := range []struct {
		name string
		act  func(*testing.T, tuf.Config, []byte)
	}{
		{"the state is lost", func(t *testing.T, c tuf.Config, _ []byte) {
			if err := os.Remove(filepath.Join(c.Cache, "state.json")); err != nil {
				t.Fatal(err)
			}
		}},
		{"the state is damaged", func(t *testing.T, c tuf.Config, _ []byte) { write(t, c, "state.json", []byte("{")) }},
		{"an older state is put back", func(t *testing.T, c tuf.Config, before []byte) { write(t, c, "state.json", before) }},
		{"the floor is lost", func(t *testing.T, c tuf.Config, _ []byte) {
			if err := os.Remove(filepath.Join(c.Cache, "floor.json")); err != nil {
				t.Fatal(err)
			}
		}},
	} {
		t.Run(row.name, func(t *testing.T) {
			r, c := trusted(t)
			old, before := r.Files(), read(t, c, "state.json")
			r.Publish(nil)
			refresh(t, c)
			newest := r.Files()
			row.act(t, c, before)
			r.Serve(old)
			got, err := tuf.Refresh(t.Context(), c)
			refused(t, got, err, verdict.TUFRollback)
			r.Serve(newest)
			if got := refresh(t, c); got.Versions().Timestamp != 3 {
				t.Errorf("the twin has versions %+v", got.Versions())
			}
		})
	}
	t.Run("offline", func(t *testing.T) {
		r, c := trusted(t)
		before := read(t, c, "state.json")
		r.Publish(nil)
		refresh(t, c)
		write(t, c, "state.json", before)
		got, err := tuf.Load(t.Context(), c)
		refused(t, got, err, verdict.TUFRollback)
	})
}

// An older root is noticed too, whatever else it would promise.
func TestRootFloor(t *testing.T) {
	r, c := trusted(t)
	old := r.Files()
	r.Rotate("timestamp")
	r.Publish(nil)
	refresh(t, c)
	write(t, c, "state.json", []byte("{"))
	r.Serve(old)
	got, err := tuf.Refresh(t.Context(), c)
	refused(t, got, err, verdict.TUFRollback)
}

// What a failed refresh proved counts: the timestamp that it saw cannot be
// replaced by an older one.
func TestFailedRefreshIsRemembered(t *testing.T) {
	r, c := trusted(t)
	old := r.Files()
	r.Publish(nil)
	newest := r.Files()
	delete(newest, "3.snapshot.json")
	r.Serve(newest)
	got, err := tuf.Refresh(t.Context(), c)
	refused(t, got, err, verdict.TrustDown)
	r.Serve(old)
	got, err = tuf.Refresh(t.Context(), c)
	refused(t, got, err, verdict.TUFRollback)
}

func TestRootsRotateWhileAClientSleeps(t *testing.T) {
	r, c := trusted(t)
	for _, role := range []string{"root", "timestamp", "root", "snapshot", "targets", "root"} {
		r.Rotate(role)
	}
	r.Publish(nil)
	if got := refresh(t, c); got.Versions().Root != 7 {
		t.Errorf("versions %+v", got.Versions())
	}
	if got, err := tuf.Load(t.Context(), c); err != nil || got.Versions().Root != 7 {
		t.Errorf("from the cache: %+v, %v", got.Versions(), err)
	}
}

// Only what signed metadata proves to have been is held against a clock: not
// the time of judgement of an earlier run, which may have been a supposition.
func TestClock(t *testing.T) {
	r, c := trusted(t)
	at := func(name string, now time.Time, ok bool) {
		t.Helper()
		c.Now = now
		for how, ask := range map[string]func(context.Context, tuf.Config) (tuf.Targets, error){"refresh": tuf.Refresh, "current": tuf.Current} {
			got, err := ask(t.Context(), c)
			if ok && err != nil {
				t.Errorf("%s: %s: %v", how, name, err)
			}
			if !ok {
				refused(t, got, err, verdict.Clock)
			}
		}
	}
	at("a day before the timestamp was signed", now.AddDate(0, 0, -1), false)
	at("a little before", now.Add(-time.Minute), true)
	at("four weeks later", now.AddDate(0, 0, 28), true)
	at("the present, after that was supposed", now, true)
	next := now.AddDate(0, 0, 2)
	r.Timestamp.Signed.Expires = next.AddDate(0, 0, 30)
	r.Publish(nil)
	at("when a newer one was signed", next, true)
	at("a day before that", next.AddDate(0, 0, -1), false)
	at("then again", next, true)
}

// A supposed future is not fresh: the present asks again.
func TestTheFutureIsNotFresh(t *testing.T) {
	r, c := trusted(t)
	c.Now = now.AddDate(0, 0, 20)
	refresh(t, c)
	for _, row := range []struct {
		name string
		at   time.Time
		asks bool
	}{{"the future itself", c.Now, false}, {"the present", now, true}, {"the present again", now, false}} {
		r.Asked()
		c.Now = row.at
		if _, err := tuf.Current(t.Context(), c); err != nil {
			t.Fatalf("%s: %v", row.name, err)
		}
		if asked := len(r.Asked()) > 0; asked != row.asks {
			t.Errorf("%s: asked %v, want %v", row.name, asked, row.asks)
		}
	}
}

// A repository that does not say how long its timestamps are valid proves no
// time by them.
func TestAnUndatedTimestampProvesNoTime(t *testing.T) {
	r := faketuf.New(t, now)
	r.Root.Signed.Roles["timestamp"].UnrecognizedFields = nil
	r.PublishRoot()
	r.Publish(map[string][]byte{tuf.TrustedRootFile: []byte("a root")})
	c := config(t, r)
	refresh(t, c)
	c.Now = now.AddDate(0, 0, -1)
	refresh(t, c)
}

func TestManyAtOnce(t *testing.T) {
	r, c := trusted(t)
	r.Publish(nil)
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			if got, err := tuf.Refresh(t.Context(), c); err != nil || got.Versions().Timestamp != 3 {
				t.Errorf("%+v, %v", got.Versions(), err)
			}
			if _, err := tuf.Load(t.Context(), c); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	left, err := os.ReadDir(c.Cache)
	if err != nil || len(left) != 3 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// A slower process does not undo what a faster one learned meanwhile.
func TestWhoSawMoreWins(t *testing.T) {
	r, c := trusted(t)
	other := c
	other.Cache = t.TempDir()
	refresh(t, other)
	floor, state := read(t, other, "floor.json"), read(t, other, "state.json")
	r.Publish(nil)
	refresh(t, c)
	newest := read(t, c, "floor.json")
	// The slow process read the older files before, and answers from an older
	// repository: as if it began before the other ended.
	write(t, c, "floor.json", floor)
	write(t, c, "state.json", state)
	slow := tuf.Hold(t.Context(), c)
	write(t, c, "floor.json", newest)
	if err := slow(); err != nil {
		t.Fatal(err)
	}
	if got := read(t, c, "floor.json"); string(got) != string(newest) {
		t.Errorf("the floor fell to %s", got)
	}
}

func TestUnwritableCacheIsUnavailable(t *testing.T) {
	r := faketuf.New(t, now)
	r.Publish(map[string][]byte{tuf.TrustedRootFile: []byte("a root")})
	for _, row := range []struct {
		name string
		make func(dir string) error
	}{
		{"a file stands in its place", func(dir string) error { return os.WriteFile(dir, nil, 0o600) }},
		{"a directory stands where the state belongs", func(dir string) error { return os.MkdirAll(filepath.Join(dir, "state.json"), 0o700) }},
		{"a directory stands where the lock belongs", func(dir string) error { return os.MkdirAll(filepath.Join(dir, "lock"), 0o700) }},
	} {
		c := config(t, r)
		c.Cache = filepath.Join(c.Cache, "cache")
		if err := row.make(c.Cache); err != nil {
			t.Fatal(err)
		}
		got, err := tuf.Refresh(t.Context(), c)
		refused(t, got, err, verdict.TrustDown)
		if !strings.Contains(err.Error(), "cache") {
			t.Errorf("%s: %v does not name the cache", row.name, err)
		}
	}
}
