package sbom_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/waybill-release/waybill/pkg/document/spdx"
	"github.com/waybill-release/waybill/pkg/sbom"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

func file(name, content string) tar.Header {
	return tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: 0o644, Size: int64(len(content)), Uname: content}
}

// pack writes entries; the user name of a regular file is its content.
func pack(t *testing.T, entries ...tar.Header) []byte {
	t.Helper()
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	for _, h := range entries {
		content := h.Uname
		h.Uname = ""
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, content); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return zip(t, buf.Bytes())
}

func zip(t *testing.T, plain []byte) []byte {
	t.Helper()
	var buf bytes.Buffer
	w := gzip.NewWriter(&buf)
	if _, err := w.Write(plain); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

func describe(raw []byte, members func(digest.Digest) (sbom.Entry, bool)) ([]byte, error) {
	return encoded(sbom.Archive(input(), "lantern.tar.gz", content(raw), members))
}

func TestArchive(t *testing.T) {
	bin := sbom.Entry{Artifact: "bin/lantern", Digests: digest.SetOf([]byte("program")), SBOM: "bin/lantern.spdx.json", SBOMDigest: digest.SetOf([]byte("s"))}
	raw := pack(t,
		tar.Header{Typeflag: tar.TypeXGlobalHeader, PAXRecords: map[string]string{"comment": "a commit"}},
		tar.Header{Name: "./", Typeflag: tar.TypeDir},
		tar.Header{Name: "./lantern/", Typeflag: tar.TypeDir},
		file("lantern/README", "read me"),
		file("./lantern/lantern", "program"),
		tar.Header{Name: "lantern/again", Typeflag: tar.TypeLink, Linkname: "./lantern/lantern"},
		tar.Header{Name: "lantern/current", Typeflag: tar.TypeSymlink, Linkname: "../lantern/lantern"},
	)
	doc := made(t, "lantern.tar.gz", digest.Of(digest.SHA256, raw), func() ([]byte, error) {
		return describe(raw, func(d digest.Digest) (sbom.Entry, bool) { return bin, d.Equal(bin.Digests.SHA256) })
	})
	files := doc.Files()
	if len(files) != 3 || files[0].Name != "./lantern/README" || files[1].Name != "./lantern/again" || files[2].Name != "./lantern/lantern" {
		t.Fatalf("files: %+v", files)
	}
	if files[0].Comment != "" || !files[0].Digests.SHA256.Equal(digest.Of(digest.SHA256, []byte("read me"))) {
		t.Errorf("README: %+v", files[0])
	}
	for _, f := range files[1:] {
		if !strings.Contains(f.Comment, `"bin/lantern"`) || !related(doc, f.ID, spdx.CopyOf, doc.ExternalRefs()[0].ID+":SPDXRef-Artifact") {
			t.Errorf("nothing says that this is bin/lantern: %+v", f)
		}
	}
	p := find(t, doc, "lantern.tar.gz")
	if !strings.Contains(p.Comment, "lantern/current -> ../lantern/lantern") || p.Verification != spdx.VerificationCode(files) {
		t.Errorf("the archive: %+v", p)
	}
	for _, f := range files {
		if !related(doc, p.ID, spdx.Contains, f.ID) {
			t.Errorf("%s is in no relationship", f.Name)
		}
	}
}

// TestArchiveWithoutDocument: a known artifact that has no document is named
// all the same.
func TestArchiveWithoutDocument(t *testing.T) {
	raw := pack(t, file("a", "program"))
	doc := made(t, "lantern.tar.gz", digest.Of(digest.SHA256, raw), func() ([]byte, error) {
		return describe(raw, func(digest.Digest) (sbom.Entry, bool) { return sbom.Entry{Artifact: "bin/a"}, true })
	})
	if len(doc.ExternalRefs()) != 0 || !strings.Contains(doc.Files()[0].Comment, `"bin/a"`) {
		t.Errorf("%s", doc.Raw())
	}
}

func TestArchiveRefusesEntries(t *testing.T) {
	ok := file("a/b", "x")
	for reason, row := range map[string]struct {
		code    verdict.Code
		entries []tar.Header
	}{
		"empty or dot segments":          {verdict.Path, []tar.Header{file("../evil", "x")}},
		"dot segments":                   {verdict.Path, []tar.Header{file("a/../b", "x")}},
		"empty or dot":                   {verdict.Path, []tar.Header{file("a//b", "x")}},
		"or dot segments":                {verdict.Path, []tar.Header{file(`a\..\..\evil`, "x")}},
		"absolute name":                  {verdict.Path, []tar.Header{file("/etc/passwd", "x")}},
		"an absolute":                    {verdict.Path, []tar.Header{file(`C:\evil`, "x")}},
		"absolute":                       {verdict.Path, []tar.Header{{Name: "/etc/", Typeflag: tar.TypeDir}}},
		"hidden or control characters":   {verdict.Path, []tar.Header{file("a\x1b[2J", "x")}},
		"a name with hidden":             {verdict.Path, []tar.Header{file("a\u202egpj", "x")}},
		"two entries":                    {verdict.ArchiveTwice, []tar.Header{ok, ok}},
		"entries with this name":         {verdict.ArchiveTwice, []tar.Header{ok, file("./a/b", "y")}},
		"leaves the archive":             {verdict.Path, []tar.Header{{Name: "l", Typeflag: tar.TypeSymlink, Linkname: "../x"}}},
		"symbolic link to":               {verdict.Path, []tar.Header{{Name: "l", Typeflag: tar.TypeSymlink, Linkname: `/..\etc`}}},
		`"l" is a symbolic`:              {verdict.Path, []tar.Header{{Name: "l", Typeflag: tar.TypeSymlink, Linkname: "/etc"}, file("l/passwd", "x")}},
		"has entries below it":           {verdict.ArchiveTwice, []tar.Header{ok, {Name: "a", Typeflag: tar.TypeSymlink, Linkname: "/etc"}}},
		"earlier file":                   {verdict.FileType, []tar.Header{{Name: "l", Typeflag: tar.TypeSymlink, Linkname: "/etc/passwd"}, {Name: "h", Typeflag: tar.TypeLink, Linkname: "l"}}},
		`"a" is a symbolic`:              {verdict.ArchiveTwice, []tar.Header{ok, {Name: "a", Typeflag: tar.TypeSymlink, Linkname: "c"}}},
		"not an earlier file":            {verdict.FileType, []tar.Header{{Name: "l", Typeflag: tar.TypeLink, Linkname: "a"}}},
		"are not supported":              {verdict.FileType, []tar.Header{{Name: "l", Typeflag: tar.TypeFifo}}},
		"want a file, directory or link": {verdict.FileType, []tar.Header{{Name: "l", Typeflag: tar.TypeChar}}},
	} {
		_, err := describe(pack(t, row.entries...), nil)
		refused(t, err, row.code, reason)
	}
	if _, err := describe(pack(t, ok), nil); err != nil {
		t.Errorf("the twin: %v", err)
	}
}

// TestRootFileSystem: a link to an absolute name is listed with where it leads,
// and never followed.
func TestRootFileSystem(t *testing.T) {
	made, err := sbom.Archive(input(), "root.tar.gz", content(pack(t,
		file("bin/busybox", "x"), tar.Header{Name: "bin/sh", Typeflag: tar.TypeSymlink, Linkname: "/bin/busybox"},
		tar.Header{Name: "passwd", Typeflag: tar.TypeSymlink, Linkname: "/etc/passwd"},
	)), nil)
	doc := parsed(t, made, err)
	comment := find(t, doc, "root.tar.gz").Comment
	if !strings.Contains(comment, "bin/sh -> /bin/busybox") || !strings.Contains(comment, "passwd -> /etc/passwd") || len(doc.Files()) != 1 {
		t.Errorf("%d files; %s", len(doc.Files()), comment)
	}
}

func TestArchiveRefusesStreams(t *testing.T) {
	raw := pack(t, file("a", "x"))
	var plain bytes.Buffer
	r, err := gzip.NewReader(bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(&plain, r); err != nil {
		t.Fatal(err)
	}
	for reason, row := range map[string]struct {
		code verdict.Code
		raw  []byte
	}{
		"bytes after the end":  {verdict.ArchiveHidden, zip(t, append(plain.Bytes(), raw...))},
		"end of the archive":   {verdict.ArchiveHidden, append(bytes.Clone(raw), zip(t, []byte("hidden"))...)},
		"gzip":                 {verdict.NoSBOM, append(bytes.Clone(raw), "garbage after it"...)},
		"EOF":                  {verdict.NoSBOM, raw[:len(raw)-9]},
		"not an archive":       {verdict.NoSBOM, []byte("no archive at all")},
		"the archive is empty": {verdict.NoSBOM, zip(t, nil)},
		"compressed ones":      {verdict.Limit, pack(t, file("zeros", strings.Repeat("\x00", 96<<20)))},
	} {
		_, err := describe(row.raw, nil)
		refused(t, err, row.code, reason)
	}
}

func TestArchiveRefusesOtherBytes(t *testing.T) {
	raw := pack(t, file("a", "x"))
	other := content(raw)
	other.Digests = digest.SetOf([]byte("others"))
	_, err := sbom.Archive(input(), "a.tar.gz", other, nil)
	refused(t, err, verdict.SBOMSubject, "digest is")
	_, err = sbom.Archive(input(), "a.tar.gz", sbom.Content{ReaderAt: &broken{Reader: bytes.NewReader(raw)}, Size: int64(len(raw))}, nil)
	refused(t, err, verdict.NoSBOM, "the disk broke")
}

// broken answers once.
type broken struct {
	*bytes.Reader
	asked int
}

func (b *broken) ReadAt(p []byte, at int64) (int, error) {
	if b.asked++; b.asked > 1 {
		return 0, errors.New("the disk broke")
	}
	return b.Reader.ReadAt(p, at)
}

// TestCompressedFile: what is compressed and no archive is identified, and said
// to be unknown.
func TestCompressedFile(t *testing.T) {
	page := zip(t, []byte("a page"))
	program, err := os.ReadFile(os.Args[0])
	if err != nil {
		t.Fatal(err)
	}
	made, err := sbom.Describe(t.Context(), input(), "lantern.1.gz", content(page), nil)
	if err != nil || len(made.Incomplete) != 1 || !strings.Contains(made.Incomplete[0], "compressed") || !made.Digests.SHA256.Equal(digest.SetOf(page).SHA256) {
		t.Errorf("%+v %v", made.Incomplete, err)
	}
	made, err = sbom.Describe(t.Context(), input(), "a.tar.gz", content(pack(t, file("lantern.1.gz", string(page)), file("lantern.gz", string(zip(t, program))))), nil)
	if err != nil || len(made.Incomplete) != 1 || !strings.HasPrefix(made.Incomplete[0], "lantern.gz: a compressed program") {
		t.Errorf("%+v %v", made.Incomplete, err)
	}
}
