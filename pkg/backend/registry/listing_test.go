package registry

import (
	"fmt"
	"strings"
	"testing"

	"github.com/waybill-release/waybill/pkg/value/digest"
)

// TestListingReads: a list that says two things of one tag, or is of another
// form, is none; the twins say the same once.
func TestListingReads(t *testing.T) {
	one, two := strings.Repeat("1", 64), strings.Repeat("2", 64)
	for name, row := range map[string]struct {
		text string
		good bool
	}{
		"one tag":                      {fmt.Sprintf(`{"tags":["v1"],"manifest":{"sha256:%s":{"tag":["v1"]},"sha256:%s":{"tag":["v2"]}}}`, one, two), true},
		"one tag, of two":              {fmt.Sprintf(`{"tags":["v1"],"manifest":{"sha256:%s":{"tag":["v1"]},"sha256:%s":{"tag":["v1"]}}}`, one, two), false},
		"one tag, said twice":          {fmt.Sprintf(`{"tags":["v1"],"manifest":{"sha256:%s":{"tag":["v1","v1"]}}}`, one), true},
		"no manifests":                 {`{"tags":["v1"],"manifest":null}`, true},
		"manifests that are a list":    {`{"tags":["v1"],"manifest":["sha256"]}`, false},
		"manifests that are a number":  {`{"tags":["v1"],"manifest":5}`, false},
		"a list where a list page is":  {`["v1"]`, false},
		"a manifest that is no digest": {`{"manifest":{"v1":{"tag":["v1"]}}}`, false},
		"something after its end":      {`{"tags":["v1"]}{"tags":["v2"]}`, false},
	} {
		l := Listing{Tags: map[string]digest.Digest{}}
		if err := l.read(strings.NewReader(row.text)); (err == nil) != row.good {
			t.Errorf("%s: %v", name, err)
		}
	}
}
