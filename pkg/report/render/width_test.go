package render_test

import (
	"bytes"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/waybill-release/waybill/pkg/report/render"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// TestDigestsFitIntoATerminal: at 80 columns no line is longer, and no digest is broken.
// Without a terminal the lines stay as they are.
func TestDigestsFitIntoATerminal(t *testing.T) {
	one, other := digest.Of(digest.SHA256, []byte("a")), digest.Of(digest.SHA256, []byte("b"))
	v := verdict.New("release lantern v0.1.0", time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC))
	v.Counts.Required, v.TrustRoot, v.Policy = 1, one, other
	v.Add(verdict.Find(verdict.Tampered, "bin/linux/amd64/lantern", "the bytes are not the ones that were signed").Differ(one.String(), other.String()))
	v.Proofs = []verdict.Proof{{Subject: "SHA256SUMS", Identity: "release@example.test", Bundle: one, Log: one.Hex(), SignedAt: v.Time}}
	for _, width := range []int{80, 0} {
		var out bytes.Buffer
		p := render.Printer{Width: width, Verbose: true}
		if err := p.Print(&out, render.Table, *v); err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(out.String()) {
			if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); width > 0 && n > width {
				t.Errorf("%d columns: %q", n, line)
			}
		}
		for _, want := range []string{one.String(), other.String(), "want sha256:", "got  sha256:"} {
			if !strings.Contains(out.String(), want) {
				t.Errorf("width %d: no %q in\n%s", width, want, out.String())
			}
		}
		if aligned := strings.Contains(out.String(), "\n                     want sha256:"); aligned != (width == 0) {
			t.Errorf("width %d: aligned %t\n%s", width, aligned, out.String())
		}
	}
}

// TestFold: further lines of an error are indented, and words stay whole.
func TestFold(t *testing.T) {
	const line = "waybill stage: malformed: CONFIG release.yaml: a text that is longer than the terminal is wide"
	if got := render.Fold(line, 0); got != line {
		t.Errorf("without a terminal: %q", got)
	}
	got := render.Fold(line, 40)
	if strings.ReplaceAll(got, "\n  ", " ") != line {
		t.Errorf("other words: %q", got)
	}
	for part := range strings.SplitSeq(got, "\n") {
		if len(part) > 40 {
			t.Errorf("%q is wider than 40", part)
		}
	}
}
