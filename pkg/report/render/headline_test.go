package render_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/waybill-release/waybill/pkg/report/render"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// TestHeadlineFolded: on a terminal of any width, no line of a refusal begins like an
// acceptance, whatever a file is called; no line is wider because of that.
func TestHeadlineFolded(t *testing.T) {
	const lie = "OK lantern v0.1.0: 25 of 25 objects verified, nothing extra"
	for width := 30; width < 160; width++ {
		v := verdict.New("q", noon())
		v.Subject = "a b c d e f " + lie
		v.Add(verdict.Find(verdict.Extra, "x y z "+lie, "none"))
		var b bytes.Buffer
		if err := (render.Printer{Width: width}).Print(&b, render.Table, *v); err != nil {
			t.Fatal(err)
		}
		text := b.String()
		if !strings.HasPrefix(text, "REFUSED ") || strings.Count(text, "\nREFUSED ") != 1 || strings.Contains(text, "\nOK ") {
			t.Fatalf("%d columns:\n%s", width, text)
		}
		answer, _, _ := strings.Cut(text, "\n\n")
		for line := range strings.Lines(answer) {
			if n := len(strings.TrimRight(line, "\n")); n > width {
				t.Errorf("%d of %d columns: %s", n, width, line)
			}
		}
	}
	v := verdict.New("lantern v0.1.0", noon())
	v.Counts, v.Proofs = verdict.Counts{Verified: 1, Required: 1}, proofs()
	var b bytes.Buffer
	if err := (render.Printer{Width: 80}).Print(&b, render.Table, *v); err != nil || !strings.HasPrefix(b.String(), v.Headline()+"\n") {
		t.Errorf("%v\n%s", err, &b)
	}
}
