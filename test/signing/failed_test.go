package signing

import (
	"errors"
	"net/http"
	"sync"
	"testing"

	"github.com/waybill-release/waybill/pkg/produce/sign"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// TestSomeFail: an order that is refused keeps no other from being signed, and
// every one that failed is named; what no order could get ends all at once.
func TestSomeFail(t *testing.T) {
	w := newWorld(t)
	list := orders(t, 40)
	var mu sync.Mutex
	asked := 0
	refusing := func(service string, which func(int) bool) *meddler {
		asked = 0
		return w.meddler(func(c call) (*http.Response, error) {
			if c.service != service {
				return c.pass()
			}
			mu.Lock()
			defer mu.Unlock()
			if asked++; which(asked) {
				return says(http.StatusBadRequest, "not this one")
			}
			return c.pass()
		})
	}
	always := func(int) bool { return true }
	few := func(c *sign.Config) { c.Work.Workers = 4 }
	path := journalIn(t)
	for name, row := range map[string]struct {
		through     *meddler
		least, most int // failures
		code        verdict.Code
	}{
		"three entries are refused":     {refusing("rekor", func(n int) bool { return n == 3 || n == 7 || n == 12 }), 3, 3, verdict.ServiceRefused},
		"every entry is refused":        {refusing("rekor", always), 10, 10, verdict.ServiceRefused},
		"nobody is certified":           {refusing("fulcio", always), 1, 1, verdict.TokenRefused},
		"the log is away, and no time ": {w.meddler(awayFor("rekor")), 1, 1, verdict.PlaceDown},
	} {
		t.Run(name, func(t *testing.T) {
			asked = 0
			all, keep := gather(t)
			seen := [][2]int{}
			err := w.signer(t, row.through, few, func(c *sign.Config) {
				c.Work.Watch = func(done, all int) { seen = append(seen, [2]int{done, all}) }
			}).Each(t.Context(), list, keep)
			var failed *sign.FailedError
			if !errors.As(err, &failed) || len(failed.Failures) < row.least || len(failed.Failures) > row.most {
				t.Fatalf("%v", err)
			}
			if failed.Done != len(all) || failed.All != 40 || row.least == 3 && failed.Done != 37 {
				t.Errorf("%d of %d done, %d kept", failed.Done, failed.All, len(all))
			}
			for _, f := range failed.Failures {
				if _, kept := all[f.Order]; kept {
					t.Errorf("order %d is kept, and failed", f.Order)
				}
				refused(t, f.Err, row.code)
			}
			if seen[0] != [2]int{0, 40} || len(seen) != 1+len(all) {
				t.Errorf("watched: %v", seen)
			}
		})
	}
	all, keep := gather(t)
	if err := w.signer(t, w.honest(), few, keeping(t, path)).Each(t.Context(), list, keep); err != nil || len(all) != 40 {
		t.Errorf("the twin: %d signed, %v", len(all), err)
	}
}

// awayFor has one service answer nobody.
func awayFor(service string) func(call) (*http.Response, error) {
	return func(c call) (*http.Response, error) {
		if c.service == service {
			return says(http.StatusServiceUnavailable, "")
		}
		return c.pass()
	}
}
