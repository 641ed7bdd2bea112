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
				p.Did(now, at.done, 0)
				done = max(done, at.done)
			}
			if got := p.Left(now, 10-done, 0); got != c.want {
				t.Errorf("%s left, want %s", got, c.want)
			}
		})
	}
}

// TestLeftByPartsAndBytes: where each part costs time and each byte too, neither
// alone tells the rest, and their fit does.
func TestLeftByPartsAndBytes(t *testing.T) {
	const perPart, perMiB = 200 * time.Millisecond, 10 * time.Millisecond
	sizes := []int64{900, 500, 300, 100, 50, 20, 20} // MiB, biggest first as the gate reads
	for range 393 {
		sizes = append(sizes, 0)
	}
	for name, first := range map[string]int{"big files done": 5, "small ones begun": 20, "half": 200, "almost all": 399} {
		t.Run(name, func(t *testing.T) {
			now := time.Unix(1000, 0)
			p := estimate.From(now)
			var bytes, all int64
			var rest time.Duration
			for i, size := range sizes {
				if all += size << 20; i >= first {
					rest += perPart + time.Duration(size)*perMiB
					continue
				}
				for range size / 10 { // read in pieces
					now = now.Add(10 * perMiB)
					bytes += 10 << 20
					p.Did(now, i, bytes)
				}
				now = now.Add(perPart)
				p.Did(now, i+1, bytes)
			}
			got := p.Left(now, len(sizes)-first, all-bytes)
			if got < rest*2/3 || got > rest*3/2 {
				t.Errorf("%s left, and it takes %s", got, rest)
			}
		})
	}
}
