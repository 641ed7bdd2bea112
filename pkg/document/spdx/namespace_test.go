package spdx_test

import (
	"strings"
	"testing"

	"github.com/waybill-release/waybill/pkg/document/spdx"
)

// TestDistinct: documents that differ in anything have two namespaces, and one
// that is made again has the same.
func TestDistinct(t *testing.T) {
	distinct := func(d spdx.Draft) string {
		t.Helper()
		d, err := d.Distinct()
		if err != nil {
			t.Fatal(err)
		}
		encode(t, d)
		return d.Namespace
	}
	first := distinct(draft())
	if first != distinct(draft()) || !strings.HasPrefix(first, draft().Namespace+"-") {
		t.Errorf("%s is not reproducible, or of another address", first)
	}
	for name, change := range map[string]func(*spdx.Draft){
		"the version of what is described": func(d *spdx.Draft) { d.Packages[0].Version = "v0.2.0" },
		"a licence":                        func(d *spdx.Draft) { d.Packages[1].Licence = "MIT" },
		"a file":                           func(d *spdx.Draft) { d.Files[0].Name = "./other" },
		"a relationship":                   func(d *spdx.Draft) { d.Relationships = d.Relationships[:3] },
		"the time":                         func(d *spdx.Draft) { d.Created = d.Created.AddDate(0, 0, 1) },
	} {
		d := draft()
		change(&d)
		if distinct(d) == first {
			t.Errorf("%s: another document has the namespace %s", name, first)
		}
	}
	if _, err := (spdx.Draft{}).Distinct(); err == nil {
		t.Error("what is no document has a namespace")
	}
}
