package lease_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/waybill-release/waybill/pkg/backend/lease"
	"github.com/waybill-release/waybill/pkg/backend/store"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

const object = "promotion.lease.json"

// hands is a clock that goes on only when it is told to.
type hands struct {
	mu  sync.Mutex // owns now
	now time.Time
}

func (h *hands) read() time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.now
}

func (h *hands) pass(d time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.now = h.now.Add(d)
}

func newHands() *hands { return &hands{now: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)} }

// failing is a writer that can be told to fail, or to say so of what was done.
type failing struct {
	store.Writer
	fails func(done func() error) error
}

func (f *failing) Replace(ctx context.Context, name string, r store.Replacement) error {
	done := func() error { return f.Writer.(store.Replacer).Replace(ctx, name, r) }
	if f.fails != nil {
		return f.fails(done)
	}
	return done()
}

func open(t *testing.T, dir string) (lease.Place, *failing) {
	t.Helper()
	at, err := store.Open(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	w, err := store.OpenWriter(dir)
	if err != nil {
		t.Fatal(err)
	}
	f := &failing{Writer: w}
	return lease.Place{Place: at, Writer: f}, f
}

func claim(t *testing.T, at lease.Place, who string, clock *hands) *lease.Lease {
	t.Helper()
	l, err := lease.Claim(t.Context(), at, object, lease.Config{Holder: who, Clock: clock.read})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Release(context.Background()) })
	return l
}

func code(err error) verdict.Code {
	if err == nil {
		return ""
	}
	return verdict.FindingOf("", err).Code
}

func TestOneAtATime(t *testing.T) {
	at, _ := open(t, t.TempDir())
	clock := newHands()
	first := claim(t, at, "first", clock)
	if err := first.Held(t.Context()); err != nil || first.Number() != 1 {
		t.Fatal(err, first.Number())
	}
	_, err := lease.Claim(t.Context(), at, object, lease.Config{Holder: "second", Clock: clock.read})
	if code(err) != verdict.Busy || verdict.OutcomeOf(err) != verdict.Unavailable {
		t.Errorf("a second claim: %v", err)
	}
	for _, part := range []string{`"first"`, "number 1", "2026-01-02T03:06:05Z", object} {
		if !strings.Contains(fmt.Sprint(err), part) {
			t.Errorf("%v: does not say %s", err, part)
		}
	}
	if _, err := lease.Claim(t.Context(), at, "another.lease.json", lease.Config{Holder: "second", Clock: clock.read}); err != nil {
		t.Errorf("another lease: %v", err)
	}
	if err := first.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := first.Held(t.Context()); code(err) != verdict.Busy {
		t.Errorf("held after it was given back: %v", err)
	}
	if second := claim(t, at, "second", clock); second.Number() != 2 {
		t.Errorf("the second is number %d", second.Number())
	}
}

// TestTheOneThatSlept is the holder that is stopped and wakes: it must not go
// on if another has claimed the lease, however often it asks.
func TestTheOneThatSlept(t *testing.T) {
	for _, c := range []struct {
		name  string
		sleep time.Duration
		taken bool
		want  verdict.Code
	}{
		{"a moment", 10 * time.Second, false, ""},
		{"longer than the renewals are apart", lease.Term / 2, false, ""},
		{"ten minutes, and nobody came", 10 * time.Minute, false, ""},
		{"ten minutes, and another came", 10 * time.Minute, true, verdict.Busy},
	} {
		t.Run(c.name, func(t *testing.T) {
			at, _ := open(t, t.TempDir())
			clock := newHands()
			sleeper := claim(t, at, "sleeper", clock)
			clock.pass(c.sleep)
			if c.taken {
				if other := claim(t, at, "other", clock); other.Number() != 2 {
					t.Errorf("number %d", other.Number())
				}
			}
			for range 2 {
				if err := sleeper.Held(t.Context()); code(err) != c.want {
					t.Errorf("held: %v, want %q", err, c.want)
				}
			}
			if err := sleeper.Release(t.Context()); err != nil {
				t.Error(err)
			}
			_, err := lease.Claim(t.Context(), at, object, lease.Config{Holder: "third", Clock: clock.read})
			if code(err) != c.want {
				t.Errorf("whoever lost the lease gave it back: %v", err)
			}
		})
	}
}

// TestReleaseEndsTheRenewals: a lease is renewed while it is held, and after its
// release nothing is written, and nothing runs on.
func TestReleaseEndsTheRenewals(t *testing.T) {
	at, w := open(t, t.TempDir())
	synctest.Test(t, func(t *testing.T) {
		var writes atomic.Int64
		w.fails = func(done func() error) error {
			writes.Add(1)
			return done()
		}
		l, err := lease.Claim(context.Background(), at, object, lease.Config{Holder: "one"})
		if err != nil {
			t.Fatal(err)
		}
		claimed := writes.Load()
		time.Sleep(lease.Term)
		synctest.Wait()
		if writes.Load() == claimed {
			t.Error("the lease was not renewed")
		}
		if err := l.Release(context.Background()); err != nil {
			t.Fatal(err)
		}
		released := writes.Load()
		time.Sleep(2 * lease.Term)
		synctest.Wait()
		if n := writes.Load() - released; n != 0 {
			t.Errorf("%d writes after the release", n)
		}
	}) // fails if a goroutine is left
}

// TestNobodyComesTooEarly: clocks differ, so the end is late for the others and
// early for the holder.
func TestNobodyComesTooEarly(t *testing.T) {
	at, w := open(t, t.TempDir())
	clock := newHands()
	holder := claim(t, at, "holder", clock)
	w.fails = func(func() error) error {
		return &verdict.UnavailableError{Place: "here", Op: "writing", Err: errors.New("down")}
	}
	for _, c := range []struct {
		at    time.Duration // of the term, in quarters
		holds bool
		free  bool
	}{{2, true, false}, {3, false, false}, {4, false, false}, {5, false, false}} {
		clock.mu.Lock()
		clock.now = newHands().now.Add(c.at * lease.Term / 4)
		clock.mu.Unlock()
		if err := holder.Held(t.Context()); (err == nil) != c.holds || err != nil && verdict.OutcomeOf(err) != verdict.Unavailable {
			t.Errorf("after %d quarters: %v", c.at, err)
		}
		if _, err := lease.Claim(t.Context(), at, object, lease.Config{Holder: "other", Clock: clock.read}); code(err) != verdict.Busy {
			t.Errorf("after %d quarters another gets it: %v", c.at, err)
		}
	}
	w.fails = nil
	clock.pass(time.Nanosecond)
	if l := claim(t, at, "other", clock); l.Number() != 2 {
		t.Errorf("number %d", l.Number())
	}
}

// TestWhatWasSaidToFail: a renewal that was done, and said not to be, is known
// again as our own.
func TestWhatWasSaidToFail(t *testing.T) {
	at, w := open(t, t.TempDir())
	clock := newHands()
	l := claim(t, at, "one", clock)
	w.fails = func(done func() error) error {
		if err := done(); err != nil {
			return err
		}
		return &verdict.UnavailableError{Place: "here", Op: "writing", Err: errors.New("the answer was lost")}
	}
	clock.pass(lease.Term / 2)
	if err := l.Held(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.fails = nil
	clock.pass(lease.Term / 2)
	if err := l.Held(t.Context()); err != nil {
		t.Errorf("its own renewal is taken for another's: %v", err)
	}
}

func TestManyReachForIt(t *testing.T) {
	dir := t.TempDir()
	clock := newHands()
	for round := range 10 {
		var mu sync.Mutex // owns won
		var won []*lease.Lease
		var group sync.WaitGroup
		for i := range 16 {
			group.Go(func() {
				at, _ := open(t, dir)
				l, err := lease.Claim(t.Context(), at, object, lease.Config{Holder: fmt.Sprint(round, i), Clock: clock.read})
				switch {
				case err == nil:
					mu.Lock()
					won = append(won, l)
					mu.Unlock()
				case code(err) != verdict.Busy:
					t.Error(err)
				}
			})
		}
		group.Wait()
		if len(won) != 1 || won[0].Number() != round+1 {
			t.Fatalf("round %d: %d of them have it", round, len(won))
		}
		if round%2 == 0 {
			if err := won[0].Release(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		clock.pass(2 * lease.Term)
	}
}

func TestWhatIsNoLease(t *testing.T) {
	good := `{"schema":"waybill/lease/v1","number":7,"expires":"2026-01-02T03:04:05Z"}`
	for text, want := range map[string]verdict.Code{
		good:                                     "",
		"":                                       verdict.ConfigParse,
		good[:20]:                                verdict.ConfigParse,
		strings.Replace(good, "v1", "v2", 1):     verdict.ConfigParse,
		strings.Replace(good, "7", "0", 1):       verdict.ConfigParse,
		strings.Replace(good, "7", `7,"a":1`, 1): verdict.ConfigParse,
		strings.Replace(good, "2026-01", "x", 1): verdict.ConfigParse,
		good + strings.Repeat(" ", 5000):         verdict.Limit,
		strings.Replace(good, `"number":7,`, "", 1): verdict.ConfigParse,
	} {
		at, w := open(t, t.TempDir())
		if err := w.Put(t.Context(), object, int64(len(text)), bytes.NewReader([]byte(text)), store.PutOptions{}); err != nil {
			t.Fatal(err)
		}
		l, err := lease.Claim(t.Context(), at, object, lease.Config{Holder: "me"})
		if code(err) != want {
			t.Errorf("%.40q: %v, want %q", text, err, want)
		}
		if err == nil && l.Number() != 8 {
			t.Errorf("number %d", l.Number())
		}
	}
	gone, _ := open(t, t.TempDir()+"/not/mounted")
	if _, err := lease.Claim(t.Context(), gone, object, lease.Config{Holder: "me"}); verdict.OutcomeOf(err) != verdict.Unavailable {
		t.Errorf("a directory that is not there: %v", err)
	}
	at, _ := open(t, t.TempDir())
	if _, err := lease.Claim(t.Context(), at, object, lease.Config{}); code(err) != verdict.Usage {
		t.Errorf("nobody claims it: %v", err)
	}
	at.Writer = struct{ store.Writer }{at.Writer}
	if _, err := lease.Claim(t.Context(), at, object, lease.Config{Holder: "me"}); code(err) != verdict.Usage {
		t.Errorf("a place that ties nothing: %v", err)
	}
}
