package sbom_test

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/waybill-release/waybill/pkg/document/spdx"
	"github.com/waybill-release/waybill/pkg/judge/sbomcheck"
	"github.com/waybill-release/waybill/pkg/sbom"
)

// says reports whether a document says that something was not examined.
func says(doc spdx.Document, what string) bool {
	return slices.ContainsFunc(sbomcheck.Omitted(doc), func(note string) bool { return strings.Contains(note, what) })
}

// parsed is a document as it is read again.
func parsed(t *testing.T, m sbom.Made, err error) spdx.Document {
	t.Helper()
	raw, err := encoded(m, err)
	if err != nil {
		t.Fatal(err)
	}
	doc, err := spdx.Parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	return doc
}

// TestProgramsThatCanNotBeRead: a Go program is never taken for a file of no
// interest because its build information was damaged, wherever it lies.
func TestProgramsThatCanNotBeRead(t *testing.T) {
	whole := program(t)
	mark := bytes.Index(whole, []byte("\xff Go buildinf:"))
	modules := bytes.Index(whole, []byte("mod\texample.org/lantern"))
	if mark < 0 || modules < 0 {
		t.Fatal("the program has no build information")
	}
	damaged := func(at int, with string) []byte {
		out := bytes.Clone(whole)
		copy(out[at:], with)
		return out
	}
	const reason = "a Go program whose build information cannot be read"
	for name, row := range map[string]struct {
		raw   []byte
		noted bool
	}{
		"whole":                   {whole, false},
		"no Go program":           {[]byte("\x7fELF\x02\x01\x01 something else"), false},
		"cut before the mark":     {whole[:mark], true},
		"another mark":            {damaged(mark, "\xff Go nothing"), true},
		"lengths beyond the file": {damaged(mark+32, strings.Repeat("\xff", 32)), true},
	} {
		dir, err := sbom.Directory(input(), "d", fstest.MapFS{"bin/lantern": {Data: row.raw}}, nil)
		quick, err2 := sbom.Packages(input(), "d", fstest.MapFS{"bin/lantern": {Data: row.raw}})
		archive, err3 := sbom.Archive(input(), "a.tar", contentOf(pack(t, file("bin/lantern", string(row.raw)))), nil)
		_, img := inLayout(t, imageOf(t, layerOf(t, "bin/lantern", string(row.raw))))
		image, err4 := sbom.Image(t.Context(), input(), "oci/lantern", img)
		for what, doc := range map[string]spdx.Document{
			"directory": parsed(t, dir, err), "packages": parsed(t, quick, err2), "archive": parsed(t, archive, err3), "image": parsed(t, image, err4),
		} {
			if got := says(doc, "bin/lantern: "+reason); got != row.noted {
				t.Errorf("%s in %s: noted %v, want %v: %q", name, what, got, row.noted, sbomcheck.Omitted(doc))
			}
			a := sbomcheck.Artifact{Name: "x", Document: doc}
			if row.noted && len(sbomcheck.Complete(a)) == 0 {
				t.Errorf("%s in %s is complete", name, what)
			}
		}
	}
}

// TestLayersThatReadTwoWays: what one reader unpacks and another does not is
// said to be so.
func TestLayersThatReadTwoWays(t *testing.T) {
	for name, row := range map[string]struct {
		files []string
		says  string
	}{
		"the twin":         {[]string{"etc/evil", "one", "etc/good", "two"}, ""},
		"out of the root":  {[]string{"../../etc/evil", "one"}, "leaves the root"},
		"two of one name":  {[]string{"etc/evil", "one", "etc/evil", "two"}, "two entries of this name"},
		"two, otherwise":   {[]string{"etc/evil", "one", "./etc/evil", "two"}, "two entries of this name"},
		"up, and not out":  {[]string{"etc/../evil", "one"}, ""},
		"from the root on": {[]string{"/etc/evil", "one"}, ""},
	} {
		_, img := inLayout(t, imageOf(t, layerOf(t, row.files...)))
		made, err := sbom.Image(t.Context(), input(), "oci/lantern", img)
		if doc := parsed(t, made, err); row.says == "" && len(sbomcheck.Omitted(doc)) > 0 || row.says != "" && !says(doc, row.says) {
			t.Errorf("%s: %q", name, sbomcheck.Omitted(doc))
		}
	}
}
