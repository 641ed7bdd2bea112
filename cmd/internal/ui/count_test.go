package ui

import (
	"strings"
	"testing"
	"time"

	"github.com/waybill-release/waybill/pkg/tool/estimate"
)

// TestCount: where nobody watches there is a line now and then, with how long
// the rest takes; on a terminal one line is redrawn and gone at the end.
func TestCount(t *testing.T) {
	for _, c := range []struct {
		eyes bool
		want string
	}{
		{false, "30 of 100 images, 1m10s left\n60 of 100 images, 40s left\n90 of 100 images, 10s left\n"},
		{true, "\r\x1b[K"},
	} {
		var out strings.Builder
		now := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
		count := NewCount(&out, "images")
		count.eyes, count.clock, count.last = c.eyes, func() time.Time { return now }, now
		count.pace = estimate.From(now)
		for done := 1; done <= 100; done++ {
			now = now.Add(time.Second)
			count.Update(done, 100)
		}
		got := out.String()
		if c.eyes && (!strings.HasSuffix(got, c.want) || strings.Contains(got, "\n") || !strings.Contains(got, "\r50 of 100 images, 50s left\x1b[K")) || !c.eyes && got != c.want {
			t.Errorf("%q", got)
		}
	}
}
