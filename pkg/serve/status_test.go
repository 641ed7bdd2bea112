package serve

import (
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// TestDecisionPage: all findings of a decision are on its page, and nothing in them
// becomes markup or turns the direction of the text.
func TestDecisionPage(t *testing.T) {
	const hostile = "</code><script>alert(1)</script>\u202e\"'&"
	v := verdict.New("image "+hostile, time.Unix(1000, 0))
	v.Tell("an INSECURE LAB")
	for range 30 {
		v.Add(verdict.Find(verdict.Unsigned, hostile, "%s", hostile).Differ(hostile, hostile))
	}
	flags, err := newFlags(nil)
	if err != nil {
		t.Fatal(err)
	}
	out := httptest.NewRecorder()
	(&Server{flags: flags}).show(out, "decision", line{ID: "x-1", Image: hostile, To: hostile, Principal: hostile, Outcome: v.Outcome().String(), Verdict: v})
	page := out.Body.String()
	if out.Code != 200 || strings.Count(page, `<code class="bad">UNSIGNED</code>`) != 30 || !strings.Contains(page, "an INSECURE LAB") || strings.Contains(page, "<script") || strings.Contains(page, "\u202e") {
		t.Errorf("%d\n%s", out.Code, page)
	}
}
