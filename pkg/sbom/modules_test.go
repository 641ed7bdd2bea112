package sbom_test

import (
	archivezip "archive/zip"
	"os"
	"path/filepath"
	"testing"
	"testing/fstest"

	"github.com/waybill-release/waybill/pkg/document/spdx"
	"github.com/waybill-release/waybill/pkg/sbom"
)

// TestLicences: a licence is declared where a file of the module is its text,
// and nowhere else.
func TestLicences(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "LICENSE"))
	if err != nil {
		t.Fatal(err)
	}
	const mit = "MIT License\n\nCopyright (c) 2024 Somebody\n\nPermission is hereby granted, free of charge, to whom it may concern"
	cache := fstest.MapFS{
		"example.test/!oil@v1.0.0/LICENSE":  {Data: text},
		"example.test/wick@v1.0.0/LICENSE":  {Data: []byte(mit)},
		"example.test/wick@v1.0.0/main.go":  {Data: text},
		"example.test/glass@v1.0.0/LICENSE": {Data: text, Mode: os.ModeSymlink},
	}
	cache["example.test/!flame/@v/v1.0.0.zip"] = &fstest.MapFile{Data: []byte(zipped(t, archivezip.Deflate, "example.test/Flame@v1.0.0/LICENSE", string(text)))}
	cache["example.test/soot/@v/v1.0.0.zip"] = &fstest.MapFile{Data: []byte(zipped(t, archivezip.Deflate, "example.test/soot@v2.0.0/LICENSE", string(text)))}
	cache["example.test/ash/@v/v1.0.0.zip"] = &fstest.MapFile{Data: []byte("not an archive")}
	d := spdx.Draft{}
	for _, name := range []string{"example.test/Oil", "example.test/Flame", "example.test/soot", "example.test/ash", "example.test/wick", "example.test/glass", "example.test/gone", "../etc"} {
		d.Packages = append(d.Packages, spdx.Package{Name: name, Version: "v1.0.0", Sum: "h1:x=", PURL: "pkg:golang/" + name + "@v1.0.0"})
	}
	d.Packages = append(d.Packages, spdx.Package{Name: "example.test/Oil", Version: "v1.0.0", PURL: "pkg:golang/example.test/Oil@v1.0.0"})
	modules := sbom.Licences{Modules: cache}
	if n := modules.Declare(&d); n != 2 || d.Packages[0].Licence != "Apache-2.0" || d.Packages[1].Licence != "Apache-2.0" {
		t.Errorf("%d declared, the first %q and %q", n, d.Packages[0].Licence, d.Packages[1].Licence)
	}
	for _, p := range d.Packages[2:] {
		if p.Licence != "" {
			t.Errorf("%s: %s", p.Name, p.Licence)
		}
	}
	if n := new(sbom.Licences).Declare(&spdx.Draft{Packages: []spdx.Package{{Name: "example.test/Oil", Version: "v1.0.0", Sum: "h1:x=", PURL: "pkg:golang/example.test/Oil@v1.0.0"}}}); n != 0 {
		t.Errorf("%d declared without modules", n)
	}
}
