package sbom

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/waybill-release/waybill/pkg/document/spdx"
	"github.com/waybill-release/waybill/pkg/judge/sbomcheck"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

func packed(t *testing.T, entries ...tar.Header) []byte {
	t.Helper()
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	for _, h := range entries {
		body := h.PAXRecords["body"]
		h.PAXRecords = nil
		h.Size, h.Mode = int64(len(body)), 0o644
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(body)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

func file(name, body string) tar.Header {
	return tar.Header{Name: name, Typeflag: tar.TypeReg, PAXRecords: map[string]string{"body": body}}
}

// summed lists an archive of which so many files are listed one by one.
func summed(raw []byte, most int, members Members) (spdx.Draft, error) {
	in := Input{Name: "lantern", Version: "v1.0.0", Created: time.Unix(0, 0), Namespace: "https://example.test/"}
	return summedAs(in, raw, most, members)
}

func summedAs(in Input, raw []byte, most int, members Members) (spdx.Draft, error) {
	l := newListing()
	l.x.sum.most, l.x.sum.members, l.x.sum.also = most, members, in.listed
	defer l.x.spool.close()
	sums, err := l.read(Content{ReaderAt: bytes.NewReader(raw), Size: int64(len(raw))})
	if err != nil {
		return spdx.Draft{}, err
	}
	b := in.draft("lantern.tar", sums)
	b.subject().Comment = l.comment("An archive")
	return b.draftOf(l, members)
}

func (b *builder) draftOf(l *listing, members Members) (spdx.Draft, error) {
	err := b.listing(l, members)
	return b.draft, err
}

// TestListedAsOne lists of an archive with too many files those that say more
// than their bytes, wherever in it they are.
func TestListedAsOne(t *testing.T) {
	licence, err := os.ReadFile("../../LICENSE")
	if err != nil {
		t.Fatal(err)
	}
	var entries []tar.Header
	for i := range 6 {
		entries = append(entries, file(fmt.Sprintf("f%d", i), fmt.Sprint("body ", i)))
	}
	inner := packed(t, append([]tar.Header{file("LICENSE", string(licence))}, entries...)...)
	entries = append(entries, file("COPYING", string(licence)), file("ours", "an artifact"), file("in.tar", string(inner)),
		tar.Header{Name: "again", Typeflag: tar.TypeLink, Linkname: "f0"}, tar.Header{Name: "ours2", Typeflag: tar.TypeLink, Linkname: "ours"})
	raw := packed(t, entries...)
	members := func(d digest.Digest) (Entry, bool) {
		return Entry{Artifact: "ours"}, d.Equal(digest.SetOf([]byte("an artifact")).SHA256)
	}
	whole, err := summed(raw, 100, members)
	if err != nil || len(whole.Files) != 18 || whole.Packages[0].Verification == "" || len(notes(whole)) > 0 {
		t.Fatalf("the twin that is small: %d files, %v, %v", len(whole.Files), notes(whole), err)
	}
	d, err := summed(raw, 5, members)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, f := range d.Files {
		names = append(names, f.Name)
	}
	if want := "./COPYING ./in.tar ./in.tar/LICENSE ./ours ./ours2"; strings.Join(names, " ") != want {
		t.Errorf("%q is listed, want %q", names, want)
	}
	said := notes(d)
	if len(said) != 1 || !strings.HasPrefix(said[0], "listed as one: 13 files and links") || !strings.Contains(d.Packages[0].Comment, "13 files and links") {
		t.Errorf("%q", said)
	}
	if d.Packages[0].Verification != "" {
		t.Error("a verification code over a part of the files")
	}
	if _, err := spdx.Encode(d); err != nil {
		t.Error(err)
	}
	// One byte of one file that is not listed shows.
	entries[3] = file("f3", "another")
	if other, err := summed(packed(t, entries...), 5, members); err != nil || notes(other)[0] == said[0] {
		t.Errorf("%q %v", notes(other), err)
	}
	if same, err := summed(raw, 5, members); err != nil || notes(same)[0] != said[0] {
		t.Errorf("made again: %q %v", notes(same), err)
	}
	about := func(d spdx.Draft) sbomcheck.Artifact {
		raw, err := spdx.Encode(d)
		if err != nil {
			t.Fatal(err)
		}
		doc, err := spdx.Parse(raw)
		if err != nil {
			t.Fatal(err)
		}
		return sbomcheck.Artifact{Name: "lantern.tar", Document: doc}
	}
	if lie := compareUnlisted(about(d), Made{Draft: whole}); len(lie) != 1 || lie[0].Code != verdict.Conflict {
		t.Errorf("files that are kept back: %+v", lie)
	}
	// Who reads the archive again does not know the artifacts of the release.
	alone := again(about(d).Document)
	if listed := alone.listed; len(listed) != 3 || again(about(whole).Document).listed != nil {
		t.Errorf("%d are listed", len(listed))
	}
	compared, err := summedAs(alone, raw, 5, nil)
	if err != nil {
		t.Fatal(err)
	}
	if honest := append(compareUnlisted(about(d), Made{Draft: compared}), sbomcheck.Files(about(d), compared.Files)...); len(honest) > 0 {
		t.Errorf("the twin: %+v", honest)
	}
	_, err = summed(raw, 2, members)
	var refused *verdict.Error
	if !errors.As(err, &refused) || refused.Finding.Code != verdict.Limit {
		t.Errorf("too many files that say more: %v", err)
	}
}

func notes(d spdx.Draft) (list []string) {
	for _, r := range d.Relationships {
		if r.To == spdx.NoAssertion {
			list = append(list, r.Comment)
		}
	}
	return list
}

// TestNotesAreBounded counts what is too much to be named.
func TestNotesAreBounded(t *testing.T) {
	x := newExaminer()
	for i := range maxSeen + 7 {
		x.seen.note(fmt.Sprintf("d%d/Cargo.lock", i))
	}
	for i := range maxMissed + 3 {
		x.missed(fmt.Sprint(i), errors.New("damaged"))
	}
	x.seen.note("late/pom.xml")
	if all := x.seen.all(); len(all) != maxSeen+2 || all[maxSeen] != "Maven: late/pom.xml" || all[maxSeen+1] != "Cargo: 7 files more" {
		t.Errorf("%d: %q", len(all), all[len(all)-2:])
	}
	if all := x.unexamined(); len(all) != maxMissed+1 || all[maxMissed] != "3 parts more" {
		t.Errorf("%d: %q", len(all), all[len(all)-1])
	}
}

func TestEcosystem(t *testing.T) {
	for name, want := range map[string]string{
		"pool/lantern_1.0_amd64.deb": "Debian package", "x.tar.gz/lantern.RPM": "RPM", "lib/a.jar": "Maven", "w-1.0-py3-none-any.whl": "PyPI",
		"app.apk": "apk or Android package", "web/package.json": "npm", "Cargo.toml": "Cargo", "x.dist-info/METADATA": "PyPI", "METADATA": "",
		"var/lib/rpm/Packages": "RPM", "Packages": "", "main.go": "", "deb": "", "a.deb/control": "", "jar.txt": "",
	} {
		if got := ecosystem(name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}
