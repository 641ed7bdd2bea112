package promote_test

import (
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/waybill-release/waybill/pkg/backend/lease"
	"github.com/waybill-release/waybill/pkg/backend/store"
	"github.com/waybill-release/waybill/pkg/pipeline/promote"
)

// TestTheHolderThatSlept stops a promotion for ten minutes while it copies. If
// another has claimed the lease meanwhile, it writes no tag when it wakes; if
// nobody has, it goes on.
func TestTheHolderThatSlept(t *testing.T) {
	for _, c := range []struct {
		name  string
		sleep time.Duration
		other bool
		want  string
		state promote.State
	}{
		{"it does not sleep", 0, false, "", promote.Done},
		{"nobody came", 10 * time.Minute, false, "", promote.Done},
		{"another came", 10 * time.Minute, true, "BUSY", promote.Failed},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := twoPlatforms(t, 1)
			dir := t.TempDir()
			var mu sync.Mutex // owns now
			now := time.Now()
			clock := func() time.Time {
				mu.Lock()
				defer mu.Unlock()
				return now
			}
			claim := func(who string) *lease.Lease {
				at, err := store.Open(dir, nil)
				if err != nil {
					t.Fatal(err)
				}
				w, err := store.OpenWriter(dir)
				if err != nil {
					t.Fatal(err)
				}
				l, err := lease.Claim(t.Context(), lease.Place{Place: at, Writer: w}, "promotion.lease.json", lease.Config{Holder: who, Clock: clock})
				if err != nil {
					t.Error(err)
				}
				return l
			}
			m.Rights.Exclusive = claim("the first").Held
			var once sync.Once
			m.to[0].says(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
				if r.Method != http.MethodGet && strings.Contains(r.URL.Path, "/blobs/") {
					once.Do(func() {
						mu.Lock()
						now = now.Add(c.sleep)
						mu.Unlock()
						if c.other {
							claim("the other")
						}
					})
				}
				next.ServeHTTP(w, r)
			})
			done := m.apply()
			if got := codesOf(done.Verdict); got != c.want || done.Items[0].State != c.state {
				t.Errorf("%s, %s; want %s, %s", got, done.Items[0].State, c.want, c.state)
			}
			if m.tagged(m.to[0]) != c.state.Good() {
				t.Error("a tag is there that should not be, or is not that should")
			}
		})
	}
}
