package sbom_test

import (
	"bytes"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/waybill-release/waybill/pkg/document/spdx"
	"github.com/waybill-release/waybill/pkg/document/unpack"
	"github.com/waybill-release/waybill/pkg/sbom"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

func sourceTree(t *testing.T) fstest.MapFS {
	t.Helper()
	licence, err := os.ReadFile("../../LICENSE")
	if err != nil {
		t.Fatal(err)
	}
	fsys := fstest.MapFS{}
	for name, text := range map[string]string{
		"go.mod": "module example.org/lantern\n\ngo 1.24\n\nrequire example.org/wick v1.2.3\n", "go.sum": "example.org/wick v1.2.3 h1:wick=\n",
		"main.go": "package main\n", "LICENSE": string(licence), ".git/config": "[remote]\nurl = https://user:secret@example.org/\n",
		".git/HEAD": "ref: refs/heads/main\n", ".git/refs/heads/main": "", ".git/objects/pack/a.pack": "",
		"vendor/modules.txt": "# example.org/wick v1.2.3\n## explicit\nexample.org/wick\n", "vendor/example.org/wick/LICENSE": string(licence),
		"web/yarn.lock": "",
	} {
		fsys[name] = &fstest.MapFile{Data: []byte(text)}
	}
	return fsys
}

func TestDirectory(t *testing.T) {
	doc := made(t, "source", digest.Digest{}, func() ([]byte, error) {
		return encoded(sbom.Directory(input(), "source", sourceTree(t), nil))
	})
	main, wick := find(t, doc, "example.org/lantern"), find(t, doc, "example.org/wick")
	if main.Licence != "Apache-2.0" || main.Purpose != spdx.Source || main.PURL != "pkg:golang/example.org/lantern@v0.1.0" {
		t.Errorf("%+v", main)
	}
	if wick.Licence != "Apache-2.0" || wick.Sum != "h1:wick=" || !related(doc, main.ID, spdx.DependsOn, wick.ID) {
		t.Errorf("%+v", wick)
	}
	if u := strings.Join(doc.Unknown(), "\n"); !strings.Contains(u, "version control: .git") || !strings.Contains(u, "web/yarn.lock") {
		t.Errorf("unknown: %s", u)
	}
	if len(doc.Files()) != 7 || strings.Contains(string(doc.Raw()), "secret") {
		t.Errorf("%d files", len(doc.Files()))
	}
}

func TestDirectoryRefuses(t *testing.T) {
	_, err := sbom.Directory(input(), "source", fstest.MapFS{}, nil)
	refused(t, err, verdict.NoSBOM, "holds no files")
	dir := t.TempDir()
	if err := os.WriteFile(dir+"/a\x1b[2J", nil, 0o644); err != nil {
		t.Fatal(err)
	}
	_, err = sbom.Directory(input(), "source", os.DirFS(dir), nil)
	refused(t, err, verdict.Path, "hidden or control characters")
}

// TestNestedArchives: files of archives in archives are listed, and one that
// is broken is stated while the rest goes on.
func TestNestedArchives(t *testing.T) {
	inner := pack(t, file("bin/lantern", string(program(t))), file("LICENSE", "none"))
	bomb := pack(t, file("zeros", strings.Repeat("\x00", 96<<20)))
	raw := pack(t, file("inner.tar.gz", string(inner)), file("cut.tar.gz", string(inner[:len(inner)-100])), file("bomb.tar.gz", string(bomb)),
		file("notes.gz", string(zip(t, bytes.Repeat([]byte("text "), 500)))), file("README", "x"))
	m, err := sbom.Archive(input(), "all.tar.gz", content(raw), nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(m.Incomplete) != 2 || !strings.HasPrefix(m.Incomplete[0], "cut.tar.gz: ") && !strings.HasPrefix(m.Incomplete[1], "cut.tar.gz: ") {
		t.Errorf("not examined: %q", m.Incomplete)
	}
	doc := made(t, "all.tar.gz", digest.Of(digest.SHA256, raw), func() ([]byte, error) {
		return encoded(sbom.Archive(input(), "all.tar.gz", content(raw), nil))
	})
	names := map[string]string{}
	for _, f := range doc.Files() {
		names[f.Name] = f.ID
	}
	if len(names) != 7 || !related(doc, names["./inner.tar.gz/bin/lantern"], spdx.ExpandedFromArchive, names["./inner.tar.gz"]) {
		t.Errorf("%v", names)
	}
	wick := find(t, doc, "./wick")
	if !related(doc, names["./inner.tar.gz/bin/lantern"], spdx.DependsOn, wick.ID) {
		t.Error("the program in the archive in the archive is not looked into")
	}
	if _, report := spdx.Validate(string(doc.Raw())); len(report.Faults) != 0 || len(report.Unknown) != 3 {
		t.Errorf("%+v", report)
	}
}

// TestNotARepository: a directory is left out for being a repository, not for
// its name.
func TestNotARepository(t *testing.T) {
	bin := program(t)
	for name, row := range map[string]struct {
		path, content string
		left          bool
	}{
		"a repository":              {".git/config", "[core]", true},
		"with a commit checked out": {".git/HEAD", strings.Repeat("1a", 20) + "\n", true},
		"a HEAD of something else":  {".git/HEAD", "a program", false},
		"no HEAD":                   {".git/HEAD", "", false},
		"a HEAD that is too long":   {".git/HEAD", "ref: refs/heads/" + strings.Repeat("a", 8192), false},
		"no objects":                {".git/objects/a", "", false},
		"no refs":                   {".git/refs/heads/main", "", false},
		"a name that is like it":    {".git2/HEAD", "ref: refs/heads/main", true},
	} {
		tree := sourceTree(t)
		tree[".git/bin/lantern"] = &fstest.MapFile{Data: bin}
		tree[row.path] = &fstest.MapFile{Data: []byte(row.content)}
		if row.content == "" {
			delete(tree, row.path)
		}
		if name == "no objects" {
			delete(tree, ".git/objects/pack/a.pack")
		}
		for what, describe := range map[string]func() (sbom.Made, error){
			"all":      func() (sbom.Made, error) { return sbom.Directory(input(), "d", tree, nil) },
			"packages": func() (sbom.Made, error) { return sbom.Packages(input(), "d", tree) },
		} {
			made, err := describe()
			doc := parsed(t, made, err)
			looked := slices.ContainsFunc(doc.Packages(), func(p spdx.Package) bool { return p.Name == "./wick" })
			said := strings.Contains(strings.Join(doc.Unknown(), "\n"), "version control: .git")
			if looked == row.left || said != row.left {
				t.Errorf("%s, %s: looked into %v, said to be left out %v", name, what, looked, said)
			}
		}
	}
}

// TestCheck: a document is true of its bytes, and each lie has its code.
func TestCheck(t *testing.T) {
	bin := program(t)
	raw := pack(t, file("bin/lantern", string(bin)), file("README", "x"))
	document := func(change func(*spdx.Draft)) spdx.Document {
		m, err := sbom.Archive(input(), "a.tar.gz", content(raw), nil)
		if err != nil {
			t.Fatal(err)
		}
		change(&m.Draft)
		out, err := m.Encode()
		if err != nil {
			t.Fatal(err)
		}
		doc, err := spdx.Parse(out)
		if err != nil {
			t.Fatal(err)
		}
		return doc
	}
	for name, row := range map[string]struct {
		code   verdict.Code
		change func(*spdx.Draft)
	}{
		"nothing":         {"", func(*spdx.Draft) {}},
		"other bytes":     {verdict.SBOMSubject, func(d *spdx.Draft) { d.Packages[0].Digests = digest.SetOf(nil) }},
		"a file's digest": {verdict.Conflict, func(d *spdx.Draft) { d.Files[0].Digests = digest.SetOf(nil) }},
		"a file is left out": {verdict.SBOMIncomplete, func(d *spdx.Draft) {
			gone := d.Files[0].ID
			d.Files = d.Files[1:]
			kept := d.Relationships[:0]
			for _, r := range d.Relationships {
				if r.To != gone && r.From != gone {
					kept = append(kept, r)
				}
			}
			d.Relationships = kept
		}},
	} {
		q := sbom.Question{Document: document(row.change), Content: &sbom.Content{ReaderAt: bytes.NewReader(raw), Size: int64(len(raw))}}
		held, err := sbom.Check(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		if row.code == "" && len(held.Findings) == 0 {
			continue
		}
		if len(held.Findings) != 1 || held.Findings[0].Code != row.code {
			t.Errorf("%s: %+v", name, held.Findings)
		}
	}
}

// TestXZ: what is compressed with xz is named as such, inside of something else
// and by itself; a text of that name is no part that was left out.
func TestXZ(t *testing.T) {
	packed := "\xfd7zXZ\x00 and so on"
	in := sbom.Input{Name: "dir", Version: "v1", Created: time.Unix(1714557600, 0), Namespace: "https://example.test/"}
	left := func(body string) string {
		made, err := sbom.Directory(in, "dir", fstest.MapFS{"a.tar.xz": {Data: []byte(body)}}, nil)
		if err != nil {
			t.Fatal(err)
		}
		return strings.Join(made.Incomplete, "\n")
	}
	if got := left(packed); got != "a.tar.xz: "+unpack.ErrXZ.Error() {
		t.Errorf("it says %q", got)
	}
	if got := left("text"); got != "" {
		t.Errorf("of a text it says %q", got)
	}
	c := sbom.Content{ReaderAt: strings.NewReader(packed), Size: int64(len(packed))}
	made, err := sbom.Describe(t.Context(), in, "a.tar.xz", c, nil)
	if err != nil || len(made.Incomplete) != 1 || !strings.Contains(made.Incomplete[0], "xz") {
		t.Errorf("by itself: %q (%v)", made.Incomplete, err)
	}
}
