package gate

import (
	"io"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// TestRationed: several files share what may be read of them together, and the
// one that passes it is refused for that.
func TestRationed(t *testing.T) {
	var left atomic.Int64
	left.Store(10)
	for _, row := range []struct {
		bytes int
		code  verdict.Code
	}{{6, ""}, {4, ""}, {1, verdict.Limit}} {
		_, err := io.ReadAll(rationed{strings.NewReader(strings.Repeat("x", row.bytes)), &left})
		if got := verdict.FindingOf("files", err).Code; err == nil && row.code != "" || err != nil && got != row.code {
			t.Errorf("%d more bytes: %v, want %s", row.bytes, err, row.code)
		}
	}
}
