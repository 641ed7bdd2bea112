package sbom_test

import (
	archivezip "archive/zip"
	"bytes"
	"hash/crc32"
	"io"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/waybill-release/waybill/pkg/document/spdx"
	"github.com/waybill-release/waybill/pkg/sbom"
)

// zipped is a zip of one file.
func zipped(t *testing.T, method uint16, name, content string) string {
	t.Helper()
	var buf bytes.Buffer
	z := archivezip.NewWriter(&buf)
	h := &archivezip.FileHeader{Name: name, Method: method}
	var w io.Writer
	var err error
	if method == archivezip.Store { // with its size before it: behind it, it would have no single end
		h.CRC32, h.CompressedSize64, h.UncompressedSize64 = crc32.ChecksumIEEE([]byte(content)), uint64(len(content)), uint64(len(content))
		w, err = z.CreateRaw(h)
	} else {
		w, err = z.CreateHeader(h)
	}
	if err == nil {
		_, err = io.WriteString(w, content)
	}
	if err == nil {
		err = z.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	return buf.String()
}

// TestNestedZip: a zip in something is opened as a tar is, or said not to be.
func TestNestedZip(t *testing.T) {
	bin := string(program(t))
	inner := zipped(t, archivezip.Deflate, "g", bin)
	stored := zipped(t, archivezip.Store, "g", bin)
	bomb := zipped(t, archivezip.Deflate, "zeros", strings.Repeat("\x00", 96<<20))
	directory := func(name, content string) (sbom.Made, error) {
		return sbom.Directory(input(), "d", fstest.MapFS{name: {Data: []byte(content)}, "README": {Data: []byte("x")}}, nil)
	}
	inTar := func(name, text string) (sbom.Made, error) {
		return sbom.Archive(input(), "a.tar.gz", content(pack(t, file(name, text), file("README", "x"))), nil)
	}
	inZip := func(method uint16) func(name, content string) (sbom.Made, error) {
		return func(name, text string) (sbom.Made, error) {
			return sbom.Archive(input(), "a.zip", content([]byte(zipped(t, method, name, text))), nil)
		}
	}
	rows := map[string]struct {
		name, content string
		found         string // the name of the program, or ""
		left          string // what is said not to be examined
		seen          string
	}{
		"deflated":            {"in.zip", inner, "./in.zip/g", "", ""},
		"stored":              {"in.zip", stored, "./in.zip/g", "", ""},
		"of no telling name":  {"data", inner, "./data/g", "", ""},
		"in a zip":            {"out.zip", zipped(t, archivezip.Deflate, "in.zip", inner), "./out.zip/in.zip/g", "", ""},
		"in a tar in a zip":   {"out.zip", zipped(t, archivezip.Store, "in.tgz", string(pack(t, file("g", bin)))), "./out.zip/in.tgz/g", "", ""},
		"in a zip in a tar":   {"out.tgz", string(pack(t, file("in.zip", inner))), "./out.tgz/in.zip/g", "", ""},
		"a package of others": {"lib.jar", inner, "./lib.jar/g", "", "Maven: lib.jar"},
		"a wheel":             {"lib.whl", stored, "./lib.whl/g", "", "PyPI: lib.whl"},
		"cut off":             {"in.zip", inner[:len(inner)-30], "", "in.zip: ", ""},
		"cut off, and a jar":  {"lib.jar", inner[:len(inner)-30], "", "lib.jar: ", "Maven: lib.jar"},
		"damaged":             {"in.zip", strings.Replace(stored, "example.org/lantern", "example.org/lanterm", 1), "", "in.zip: ", ""},
		"a bomb":              {"in.zip", bomb, "", "in.zip: the archive expands to more than", ""},
		"a bomb in a zip":     {"out.zip", zipped(t, archivezip.Store, "in.zip", bomb), "", "out.zip/in.zip: the archive expands to more than", ""},
	}
	for where, describe := range map[string]func(name, content string) (sbom.Made, error){
		"a directory": directory, "a tar.gz": inTar, "a zip": inZip(archivezip.Deflate),
		"a zip that stores": inZip(archivezip.Store),
	} {
		for what, row := range rows {
			made, err := describe(row.name, row.content)
			doc := parsed(t, made, err)
			ids := map[string]string{}
			for _, f := range doc.Files() {
				ids[f.Name] = f.ID
			}
			if row.found != "" && !related(doc, ids[row.found], spdx.DependsOn, find(t, doc, "./wick").ID) {
				t.Errorf("%s in %s: the program is not looked into: %v", what, where, ids)
			}
			if left := strings.Join(made.Incomplete, "\n"); (left == "") != (row.left == "") || !strings.HasPrefix(left, row.left) {
				t.Errorf("%s in %s: not examined: %q", what, where, left)
			}
			if row.seen != "" && !says(doc, row.seen) {
				t.Errorf("%s in %s: nobody says that it is a package", what, where)
			}
		}
	}
}
