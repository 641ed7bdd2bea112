package tree

import (
	"fmt"
	"strings"
	"testing"

	"github.com/waybill-release/waybill/pkg/release/plan"
	"github.com/waybill-release/waybill/pkg/value/version"
)

// What the plan lists is what the step writes, name by name, and the sizes add
// up to what was asked for.
func TestShape(t *testing.T) {
	for _, s := range []Shape{{Outputs: 600, Bytes: 1_200_000_000}, {Outputs: 60, Bytes: 64_000_000}, {Outputs: 4, Bytes: 4}} {
		config, err := plan.ParseConfig([]byte(s.releaseYAML("https://example.test/freight", canonical)))
		if err != nil {
			t.Fatal(err)
		}
		v, err := version.Parse(Version)
		if err != nil {
			t.Fatal(err)
		}
		p, err := config.Expand(v)
		if err != nil {
			t.Fatal(err)
		}
		var total, largest int64
		for line := range strings.Lines(s.sizesFile()) {
			var name string
			var size int64
			if _, err := fmt.Sscan(line, &name, &size); err != nil {
				t.Fatal(err)
			}
			if a, planned := p.Find(name); !planned || a.Class != plan.Binary || len(name) > 32 {
				t.Errorf("%s is written, but planned as %q", name, a.Class)
			}
			total, largest = total+size, max(largest, size)
		}
		if n := strings.Count(s.sizesFile(), "\n"); n != s.Outputs || total != s.Bytes {
			t.Errorf("%v: %d outputs, %d bytes", s, n, total)
		}
		if s.Outputs == 600 && (largest < 100e6 || largest > 200e6) {
			t.Errorf("%v: the largest has %d bytes", s, largest)
		}
	}
}

func TestShapeRefuses(t *testing.T) {
	for _, s := range []Shape{{}, {Outputs: 601, Bytes: 1e9}, {Outputs: 8, Bytes: 7}, {Outputs: 1 << 20, Bytes: 1e9}} {
		if s.check() == nil {
			t.Errorf("%+v is accepted", s)
		}
	}
	if err := (Shape{Outputs: 8, Bytes: 8}).check(); err != nil {
		t.Error(err)
	}
}
