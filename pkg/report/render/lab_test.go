package render_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/waybill-release/waybill/pkg/report/render"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// TestLabIsNamed: every form of a verdict by a lab's keys says so, even a single
// line, and none by other keys does.
func TestLabIsNamed(t *testing.T) {
	for _, lab := range []bool{true, false} {
		v := verdict.New("release lantern v0.1.0", noon())
		v.Counts, v.Proofs = verdict.Counts{Verified: 1, Required: 1}, proofs()
		if lab {
			v.Tell("The trust root is an INSECURE LAB: anybody can have its keys.")
		}
		for _, f := range render.Formats() {
			for _, p := range []render.Printer{{}, {Verbose: true}, {Quiet: true}, {Saved: true}, {View: render.KEP3027}} {
				var b bytes.Buffer
				if err := p.Print(&b, render.Format(f), *v); err != nil {
					t.Fatal(err)
				}
				if strings.Contains(b.String(), "INSECURE LAB") != lab {
					t.Errorf("%s, %+v, of a lab: %t\n%s", f, p, lab, &b)
				}
			}
		}
	}
}
