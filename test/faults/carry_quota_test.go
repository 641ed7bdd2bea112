package faults_test

import (
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/waybill-release/waybill/test/faults"
)

// quota takes so many requests in each span of time and refuses the rest, as
// registries do. It counts them.
type quota struct {
	rate   int
	span   time.Duration
	refuse faults.Act

	mu                     sync.Mutex // owns the rest
	begun                  time.Time
	inSpan                 int
	taken, writes, refused int
}

func (q *quota) act(w http.ResponseWriter, r *http.Request, next http.Handler) {
	if q.takes(r.Method) {
		next.ServeHTTP(w, r)
		return
	}
	q.refuse(w, r, next)
}

func (q *quota) takes(method string) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if now := time.Now(); now.Sub(q.begun) >= q.span {
		q.begun, q.inSpan = now, 0
	}
	if q.inSpan == q.rate {
		q.refused++
		return false
	}
	q.inSpan++
	q.taken++
	if method != "GET" && method != "HEAD" {
		q.writes++
	}
	return true
}

// Rows 1 and 2: five regions are one host, which takes so many requests in a
// second and no more; the sixth is as ever. The promotion takes longer, and ends
// as it does anywhere: everything is there once, nothing was written twice, and
// few requests were refused.
func TestCarryQuota(t *testing.T) {
	before, made := entries(t), 0
	var mu sync.Mutex // owns made
	t.Run("rows", func(t *testing.T) {
		for name, refuse := range map[string]faults.Act{
			"told how long": faults.Status(429, "Retry-After", "1"),
			"not told":      faults.Status(429),
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				c, q := newCarry(t), &quota{rate: 120, span: time.Second, refuse: refuse}
				c.addRegions(4)
				c.registry.Spoil(all("", "", q.act)...)
				c.patient = true
				want(t, c.apply(), 0, "OK ", "verified=6 required=6")
				c.settled()
				if each := c.writes(c.us); q.writes != 5*each {
					t.Errorf("%d writes for five regions, where one takes %d", q.writes, each)
				}
				if q.refused > q.taken/5 { // without a pace of its own for the host it was a third
					t.Errorf("%d requests were refused, and %d taken", q.refused, q.taken)
				}
				mu.Lock()
				made += c.made()
				mu.Unlock()
				t.Logf("%d requests taken, %d refused", q.taken, q.refused)
				if q.refused == 0 {
					t.Skip("this machine is too slow to ask for more than the quota")
				}
			})
		}
	})
	if !t.Failed() {
		once(t, before, made)
	}
}

// Row 2: the host gives out no more manifests, and takes none, from the middle
// on and for ever, as those do that count manifests by the day. The other region gets
// the image, the run says what to do next, and it does not insist.
func TestCarryQuotaIsSpent(t *testing.T) {
	t.Parallel()
	c, q := newCarry(t), &quota{rate: 7, span: time.Hour, refuse: faults.Status(429)}
	c.registry.Spoil(all("", "/manifests/", q.act)...)
	want(t, c.hurried(), 3, "429", "try again when the place answers", "1 of 2 copies are done", "run the same command again for the others", "verified=1 required=2")
	if n := c.sound(); n != 1 {
		t.Errorf("the image is in %d regions", n)
	}
	if q.taken != q.rate || q.refused == 0 || q.refused > 30 {
		t.Errorf("%d requests were refused, and %d taken", q.refused, q.taken)
	}
	t.Logf("%d requests taken, %d refused", q.taken, q.refused)
	c.mended()
}

// addRegions plans for so many more regions, all behind the door of eu.
func (c *carry) addRegions(n int) {
	c.t.Helper()
	for i := range n {
		c.more = append(c.more, fmt.Sprintf("more%d", i))
	}
	c.planFor(c.plan, c.image.Descriptor.Digest)
}
