package sbom_test

import (
	"bytes"
	"io/fs"
	"os"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"github.com/waybill-release/waybill/pkg/document/spdx"
	"github.com/waybill-release/waybill/pkg/sbom"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// elsewhere is a document as another tool writes it: packages by their package
// URLs, files only where it pleases, and how they hang together in its own way.
func elsewhere(t *testing.T, m sbom.Made, err error, change func(*spdx.Draft)) spdx.Document {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	d := m.Draft
	d.Tool = "other-1.0"
	d.Relationships = d.Relationships[:1:1]
	d.Packages, d.Files = append([]spdx.Package(nil), d.Packages...), append([]spdx.File(nil), d.Files...)
	d.Packages[0].Verification, d.Packages[0].Comment = "", ""
	kept := d.Packages[:1]
	for _, p := range d.Packages[1:] {
		if strings.HasPrefix(p.PURL, "pkg:golang/") || strings.HasPrefix(p.PURL, "pkg:deb/") {
			p.Purpose, p.Comment = "", ""
			kept = append(kept, p)
		}
	}
	d.Packages = kept
	for _, p := range d.Packages[1:] {
		d.Relationships = append(d.Relationships, spdx.Relationship{From: d.Packages[0].ID, Type: spdx.Contains, To: p.ID})
	}
	change(&d)
	return parsed(t, sbom.Made{Draft: d}, nil)
}

// more is a package that some tool found.
func more(name, version, purl string) func(*spdx.Draft) {
	return func(d *spdx.Draft) {
		d.Packages = append(d.Packages, spdx.Package{ID: "SPDXRef-More", Name: name, Version: version, PURL: purl})
	}
}

// saying is one change of a document, with the code it is refused with, or "".
type saying struct {
	name   string
	change func(*spdx.Draft)
	code   verdict.Code
}

func (s saying) held(t *testing.T, q sbom.Question) sbom.Held {
	t.Helper()
	held, err := sbom.Check(t.Context(), q)
	if err != nil {
		t.Fatalf("%s: %v", s.name, err)
	}
	if (s.code == "") != (len(held.Findings) == 0) || len(held.Findings) > 0 && held.Findings[0].Code != s.code {
		t.Errorf("%s: want %q, got %+v", s.name, s.code, held.Findings)
	}
	return held
}

// TestProgramSBOMsOfOthers: another tool's document of a program is held to its
// packages, its files and every checksum that it gives.
func TestProgramSBOMsOfOthers(t *testing.T) {
	raw := compile(t, ".", "./testdata/reader")
	c := sbom.Content{ReaderAt: bytes.NewReader(raw), Size: int64(len(raw))}
	m, err := sbom.Binary(input(), "reader", c)
	file := func(change func(*spdx.File)) func(*spdx.Draft) {
		return func(d *spdx.Draft) {
			f := spdx.File{ID: "SPDXRef-F", Name: "reader", SHA1: strings.Repeat("0", 40), Digests: m.Digests}
			change(&f)
			d.Files = append(d.Files, f)
		}
	}
	for _, s := range []saying{
		{"the twin", func(*spdx.Draft) {}, ""},
		{"of other bytes", func(d *spdx.Draft) { d.Packages[0].Digests = digest.SetOf(nil) }, verdict.SBOMSubject},
		{"of no bytes", func(d *spdx.Draft) { d.Packages[0].Digests = digest.Set{} }, verdict.SBOMSubject},
		{"its digest as a version", func(d *spdx.Draft) {
			d.Packages[0].Version, d.Packages[0].Digests = m.Digests.SHA256.String(), digest.Set{}
		}, ""},
		{"a module left out", func(d *spdx.Draft) { without(d, packageOf(d, "github.com/spdx/tools-golang").ID) }, verdict.SBOMIncomplete},
		{"a module that is not in it", more("example.org/more", "v1.0.0", "pkg:golang/example.org/more@v1.0.0"), verdict.Conflict},
		{"a package that nothing shows", more("openssl", "3.0.0", "pkg:generic/openssl@3.0.0"), verdict.Conflict},
		{"another checksum of a module", func(d *spdx.Draft) { packageOf(d, "github.com/spdx/tools-golang").Sum = "h1:other=" }, verdict.Conflict},
		{"the program as a file", file(func(*spdx.File) {}), ""},
		{"the file with another SHA-256", file(func(f *spdx.File) { f.Digests = digest.SetOf(nil) }), verdict.Conflict},
		{"the file with another SHA-512", file(func(f *spdx.File) { f.Digests.SHA512 = digest.SetOf(nil).SHA512 }), verdict.Conflict},
		{"another file", file(func(f *spdx.File) { f.Name = "writer" }), verdict.Conflict},
	} {
		s.held(t, sbom.Question{Document: elsewhere(t, m, err, s.change), Content: &c, Complete: true})
	}
	for _, s := range []saying{{"go.sum", nil, ""}, {"another go.sum", nil, verdict.Conflict}} {
		sums, err := os.ReadFile("../../go.sum")
		if err != nil {
			t.Fatal(err)
		}
		if s.code != "" {
			sums = nil
		}
		s.held(t, sbom.Question{Document: elsewhere(t, m, nil, func(*spdx.Draft) {}), Content: &c, GoSum: append([]byte{}, sums...)})
	}
}

// TestDirectorySBOMs: documents of a directory, ours and another tool's, are
// held against it; one of a file is about no directory.
func TestDirectorySBOMs(t *testing.T) {
	tree := sourceTree(t)
	m, err := sbom.Directory(input(), "source", tree, nil)
	if err != nil {
		t.Fatal(err)
	}
	changed := fstest.MapFS{}
	for name, f := range tree {
		changed[name] = f
	}
	changed["main.go"] = &fstest.MapFile{Data: []byte("package other\n")}
	own := func(change func(*spdx.Draft)) spdx.Document {
		d := m
		d.Draft.Packages = append([]spdx.Package(nil), m.Draft.Packages...)
		d.Draft.Files = append([]spdx.File(nil), m.Draft.Files...)
		d.Draft.Relationships = append([]spdx.Relationship(nil), m.Draft.Relationships...)
		change(&d.Draft)
		return parsed(t, d, nil)
	}
	whole := func(*spdx.Draft) {}
	quick, err := sbom.Packages(input(), "source", tree)
	for _, row := range []struct {
		saying
		document spdx.Document
		dir      fs.FS
		complete bool
	}{
		{saying{"ours", nil, ""}, own(whole), tree, false},
		{saying{"ours of another tree", nil, verdict.Conflict}, own(whole), changed, false},
		{saying{"ours, where all is asked for", nil, verdict.SBOMIncomplete}, own(whole), tree, true},
		{saying{"ours that does not say what it leaves out", nil, verdict.SBOMIncomplete}, own(func(d *spdx.Draft) {
			for i, r := range d.Relationships {
				if strings.HasSuffix(r.Comment, "yarn.lock") {
					d.Relationships = append(d.Relationships[:i:i], d.Relationships[i+1:]...)
					return
				}
			}
		}), tree, false},
		{saying{"packages alone", nil, ""}, parsed(t, quick, err), tree, false},
		{saying{"packages alone, where all is asked for", nil, verdict.SBOMIncomplete}, parsed(t, quick, err), tree, true},
		{saying{"of a file", nil, verdict.SBOMSubject}, own(func(d *spdx.Draft) { d.Packages[0].Digests = digest.SetOf(nil) }), tree, false},
		{saying{"a SHA-512 of a file", nil, ""}, own(func(d *spdx.Draft) {
			i := indexOf(d, "./main.go")
			d.Files[i].Digests = digest.SetOf(tree["main.go"].Data)
		}), tree, false},
		{saying{"another SHA-512 of a file", nil, verdict.Conflict}, own(func(d *spdx.Draft) {
			d.Files[indexOf(d, "./main.go")].Digests.SHA512 = digest.SetOf(nil).SHA512
		}), tree, false},
		{saying{"another SHA-1 of a file", nil, verdict.Conflict}, own(func(d *spdx.Draft) {
			d.Files[indexOf(d, "./main.go")].SHA1 = strings.Repeat("0", 40)
			d.Packages[0].Verification = ""
		}), tree, false},
		{saying{"another tool's", nil, ""}, elsewhere(t, m, nil, whole), tree, false},
		{saying{"another tool's with a file of other bytes", nil, verdict.Conflict}, elsewhere(t, m, nil, whole), changed, false},
		{saying{"another tool's that says it knows all files", nil, verdict.SBOMIncomplete}, elsewhere(t, m, nil, func(d *spdx.Draft) {
			d.Files = d.Files[:1]
			d.Packages[0].Verification = spdx.VerificationCode(d.Files)
			d.Relationships = append(d.Relationships, spdx.Relationship{From: d.Packages[0].ID, Type: spdx.Contains, To: d.Files[0].ID})
		}), tree, false},
	} {
		row.held(t, sbom.Question{Document: row.document, Directory: row.dir, Complete: row.complete})
	}
}

func indexOf(d *spdx.Draft, name string) int {
	for i, f := range d.Files {
		if f.Name == name {
			return i
		}
	}
	return -1
}

// TestImageSBOMs: one document is held against the image as a layout holds it,
// as it was saved, by platform, and whoever wrote it.
func TestImageSBOMs(t *testing.T) {
	img := imageOf(t, layerOf(t, "etc/os-release", release, "var/lib/dpkg/status", dpkgOne), layerOf(t, "usr/bin/lantern", string(program(t)), "etc/motd", "hello"))
	_, served := inLayout(t, img)
	ref, err := name.NewTag("registry.example.org/lantern:v0.1.0")
	path := t.TempDir() + "/image.tar"
	if err == nil {
		err = tarball.WriteToFile(path, ref, img)
	}
	if err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	file := sbom.Content{ReaderAt: bytes.NewReader(raw), Size: int64(len(raw))}
	saved, held, err := sbom.FileImage(t.Context(), file, "")
	if err != nil || !held {
		t.Fatalf("%v %v", held, err)
	}
	m, err := sbom.Image(t.Context(), input(), "lantern", served)
	ours := parsed(t, m, err)
	lying := m
	lying.Draft.Packages = append([]spdx.Package(nil), m.Draft.Packages...)
	lying.Draft.Packages[0].Digests = digest.SetOf(nil)
	motd := func(content string) func(*spdx.Draft) {
		return func(d *spdx.Draft) {
			d.Files = append(d.Files, spdx.File{ID: "SPDXRef-F", Name: "./etc/motd", SHA1: strings.Repeat("0", 40), Digests: digest.SetOf([]byte(content))})
			d.Files[len(d.Files)-1].SHA1 = "aaf4c61ddcc5e8a2dabede0f3b482cd9aea9434d" // of "hello"
		}
	}
	theirs := func(change func(*spdx.Draft)) spdx.Document { return elsewhere(t, m, err, change) }
	for _, row := range []struct {
		saying
		q sbom.Question
	}{
		{saying{"ours", nil, ""}, sbom.Question{Document: ours, Image: &served}},
		{saying{"ours of the platform", nil, ""}, sbom.Question{Document: ours, Image: &served, Platform: "linux/amd64"}},
		{saying{"ours of the platform, where all is asked for", nil, ""}, sbom.Question{Document: ours, Image: &served, Platform: "linux/amd64", Complete: true}},
		{saying{"ours against the saved image", nil, ""}, sbom.Question{Document: ours, Image: &saved, Content: &file}},
		{saying{"ours of other bytes", nil, verdict.SBOMSubject}, sbom.Question{Document: parsed(t, lying, nil), Image: &served}},
		{saying{"ours of other bytes against the saved image", nil, verdict.SBOMSubject}, sbom.Question{Document: parsed(t, lying, nil), Image: &saved, Content: &file}},
		{saying{"another tool's", nil, ""}, sbom.Question{Document: theirs(motd("hello")), Image: &served, Complete: true}},
		{saying{"another tool's with other bytes of a file", nil, verdict.Conflict}, sbom.Question{Document: theirs(motd("other")), Image: &served}},
		{saying{"another tool's with one package less", nil, verdict.SBOMIncomplete}, sbom.Question{Document: theirs(func(d *spdx.Draft) {
			without(d, packageOf(d, "wick").ID)
		}), Image: &served}},
		{saying{"another tool's against the saved image", nil, verdict.SBOMSubject}, sbom.Question{Document: theirs(motd("hello")), Image: &saved, Content: &file}},
		{saying{"a package that is not catalogued", nil, ""}, sbom.Question{Document: theirs(more("left-pad", "1.0.0", "pkg:npm/left-pad@1.0.0")), Image: &served}},
		{saying{"a package that is not catalogued, where all is asked for", nil, verdict.SBOMIncomplete}, sbom.Question{
			Document: theirs(more("left-pad", "1.0.0", "pkg:npm/left-pad@1.0.0")), Image: &served, Complete: true,
		}},
	} {
		got := row.held(t, row.q)
		if row.name == "a package that is not catalogued" && !strings.Contains(strings.Join(got.Left, "\n"), "left-pad") {
			t.Errorf("it is not named: %q", got.Left)
		}
	}
	if _, err := sbom.Check(t.Context(), sbom.Question{Document: ours, Image: &served, Platform: "linux/arm64"}); err == nil || !strings.Contains(err.Error(), "linux/amd64") {
		t.Errorf("another platform: %v", err)
	}
	if _, err := sbom.Check(t.Context(), sbom.Question{Document: ours}); err == nil {
		t.Error("nothing is agreed with")
	}
}

// TestInventedPackages: our own document may list nothing that the bytes do not
// show, whatever it calls it.
func TestInventedPackages(t *testing.T) {
	raw := program(t)
	for _, l := range []lie{
		{"the twin", func(*spdx.Draft) {}, false},
		{"of no ecosystem", more("openssl", "3.0.0", "pkg:generic/openssl@3.0.0"), true},
		{"without a package URL", more("openssl", "3.0.0", ""), true},
		{"as a file of its own", func(d *spdx.Draft) {
			more("openssl", "3.0.0", "pkg:generic/openssl@3.0.0")(d)
			d.Packages[len(d.Packages)-1].FileName = "openssl.so"
		}, true},
		{"a module that nothing needs", more("example.org/more", "v1.0.0", "pkg:golang/example.org/more@v1.0.0"), true},
	} {
		l.hold(t, told(t, raw, "bin/linux/amd64/lantern", l.change))
	}
}
