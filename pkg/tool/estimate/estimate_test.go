package estimate_test

import (
	"testing"
	"time"

	"github.com/waybill-release/waybill/pkg/tool/estimate"
)

// TestLeft: the rest takes as long as the parts before it took; a wait is not
// of that, and slow parts are no wait.
func TestLeft(t *testing.T) {
	const s = time.Second
	type step struct {
		after time.Duration
		done  int // 0: nothing is done then
	}
	for name, c := range map[string]struct {
		steps []step
		want  time.Duration // of 10 parts altogether
	}{
		"nothing yet":                 {[]step{{5 * s, 0}}, 0},
		"even":                        {[]step{{2 * s, 1}, {2 * s, 2}}, 16 * s},
		"a part under way":            {[]step{{2 * s, 1}, {2 * s, 0}}, 36 * s},
		"an hour's wait":              {[]step{{2 * s, 1}, {2 * s, 2}, {3600 * s, 3}, {2 * s, 4}}, 24 * s},
		"an hour's wait that goes on": {[]step{{2 * s, 1}, {2 * s, 2}, {3600 * s, 0}}, 56 * s},
		"slow parts":                  {[]step{{60 * s, 1}, {60 * s, 2}, {60 * s, 3}, {60 * s, 4}, {60 * s, 5}}, 300 * s},
		"told twice":                  {[]step{{2 * s, 2}, {0, 2}, {0, 1}}, 8 * s},
	} {
		t.Run(name, func(t *testing.T) {
			now := time.Unix(1000, 0)
			p, done := estimate.From(now), 0
			for _, at := range c.steps {
				now = now.Add(at.after)
				p.Did(now, at.done)
				done = max(done, at.done)
			}
			if got := p.Left(now, 10-done); got != c.want {
				t.Errorf("%s left, want %s", got, c.want)
			}
		})
	}
}
