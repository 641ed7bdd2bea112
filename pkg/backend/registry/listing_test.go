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

// TestTagsBehindFullPage: a registry that ends a full page and does not say that
// more tags follow (crane registry serve) hides none.
func TestTagsBehindFullPage(t *testing.T) {
	for _, extra := range []int{-1, 0, 1, 2} {
		r := serve(t, nil)
		d := image(t, r, "amd64")
		raw, err := Read(t.Context(), r, "demo", d, MaxManifest)
		if err != nil {
			t.Fatal(err)
		}
		for n := range tagsOfPage + extra {
			if err := r.TagManifest(t.Context(), "demo", fmt.Sprintf("v%04d", n), d, raw); err != nil {
				t.Fatal(err)
			}
		}
		if tags, err := r.Tags(t.Context(), "demo"); err != nil || len(tags) != tagsOfPage+extra {
			t.Errorf("%d tags of %d (%v)", len(tags), tagsOfPage+extra, err)
		}
	}
}
