package attacks

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/waybill-release/waybill/pkg/backend/store"
	"github.com/waybill-release/waybill/pkg/gate"
	"github.com/waybill-release/waybill/pkg/sbom"
	"github.com/waybill-release/waybill/pkg/testing/rawarchive"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// taped is the release as a tar archive, in which something else stands for the
// entry of otherBinary.
func (r *attacked) taped(t *testing.T, instead func(content string) []byte, end ...byte) store.Place {
	t.Helper()
	var entries [][]byte
	files := os.DirFS(filepath.Join(r.dir, "files"))
	accepted(t, fs.WalkDir(files, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || name == otherBinary {
			return err
		}
		body, err := fs.ReadFile(files, name)
		entries = append(entries, rawarchive.File(name, string(body)))
		return err
	}))
	entries = append(entries, instead(string(r.read(t, otherBinary))))
	path := filepath.Join(t.TempDir(), "release.tar")
	accepted(t, os.WriteFile(path, append(rawarchive.Tar(entries...), end...), 0o644))
	return must[store.Place](t)(store.Open(path, nil))
}

// TestArchivePlaces: a tar archive is a place only if every program unpacks it
// to the release that is judged. In each row the archive holds that very
// release, as Go's reader has it.
func TestArchivePlaces(t *testing.T) {
	r := theWorld(t).attacked(t)
	gnu := func(content string) []byte {
		h := rawarchive.Header{Name: "name", Kind: '0', Size: int64(len(content)), Format: rawarchive.GNU}
		return append(h.Bytes(), rawarchive.Body(content)...)
	}
	long := rawarchive.Extended('L', otherBinary+"\x00")
	records := func(pairs ...string) []byte { return rawarchive.Extended('x', rawarchive.Records(pairs...)) }
	plain := func(content string) []byte { return rawarchive.File(otherBinary, content) }
	with := func(before ...[]byte) func(string) []byte {
		return func(content string) []byte { return append(slices.Concat(before...), plain(content)...) }
	}
	rows := []struct {
		name    string
		instead func(string) []byte
		end     string
		codes   []verdict.Code
	}{
		{"as it is (twin)", plain, "", nil},
		{"a long name (twin)", func(c string) []byte { return append(slices.Clone(long), gnu(c)...) }, "", nil},
		{"a record of its name (twin)", with(records("path", otherBinary)), "", nil},
		{"a name of POSIX, then one of GNU", func(c string) []byte { return slices.Concat(records("path", binary), long, gnu(c)) }, "", codes(verdict.ArchiveAmbiguous)},
		{"a name of GNU, then one of POSIX", func(c string) []byte { return slices.Concat(long, records("path", binary), plain(c)) }, "", codes(verdict.ArchiveAmbiguous)},
		{"a name of a sparse file", with(records("GNU.sparse.name", binary)), "", codes(verdict.ArchiveAmbiguous)},
		{"a map of holes", func(c string) []byte {
			n := strconv.Itoa(len(c))
			return append(records("GNU.sparse.size", n, "GNU.sparse.numblocks", "1", "GNU.sparse.map", "0,"+n), plain(c)...)
		}, "", codes(verdict.ArchiveAmbiguous)},
		{"a record for all entries", with(rawarchive.Extended('g', rawarchive.Records("path", binary))), "", codes(verdict.ArchiveAmbiguous)},
		{"two records of its name", with(records("path", binary, "path", otherBinary)), "", codes(verdict.ArchiveAmbiguous)},
		{"an entry twice", func(c string) []byte { return append(plain(c), rawarchive.File(binary, string(r.read(t, binary)))...) }, "", codes(verdict.ArchiveTwice)},
		{"a second archive behind it", plain, string(rawarchive.Tar(rawarchive.File(binary, "x"))), codes(verdict.ArchiveHidden)},
		{"a header of another checksum", func(c string) []byte {
			h := rawarchive.Header{Name: otherBinary, Kind: '0', Size: int64(len(c)), Sum: func(n int) int { return n + 1 }}
			return append(h.Bytes(), rawarchive.Body(c)...)
		}, "", codes(verdict.ArchiveParse)},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			place := r.taped(t, row.instead, []byte(row.end)...)
			v := r.gate(t, func(q *gate.Request) { q.Files = place })
			refused(t, v.Err(), row.codes...)
			if row.codes == nil && !v.Complete() {
				t.Errorf("not complete: %s", v.Headline())
			}
		})
	}
}

// TestZipArchives: a zip is described only if every program unpacks it to what
// its directory lists.
func TestZipArchives(t *testing.T) {
	good := rawarchive.Packed("good.txt", "hello", true)
	edited := func(m rawarchive.Member, edit func(*rawarchive.Member)) []rawarchive.Member {
		edit(&m)
		return []rawarchive.Member{m}
	}
	unlisted := rawarchive.Packed("evil.sh", "evil", true)
	unlisted.Unlisted = true
	one := rawarchive.Zip(nil, good)
	rows := map[string]struct {
		raw   []byte
		codes []verdict.Code
	}{
		"as it is (twin)":               {one, nil},
		"sizes behind the entry (twin)": {rawarchive.Zip(nil, good.Streamed()), nil},
		"a comment (twin)":              {rawarchive.Zip(func(e *rawarchive.End) { e.Comment = "of nothing" }, good), nil},
		"another name at the entry":     {rawarchive.Zip(nil, edited(good, func(m *rawarchive.Member) { m.Local.Name = "evil.sh" })...), codes(verdict.ArchiveAmbiguous)},
		"another size at the entry":     {rawarchive.Zip(nil, edited(good, func(m *rawarchive.Member) { m.Local.Size++ })...), codes(verdict.ArchiveAmbiguous)},
		"another name in an extra field": {rawarchive.Zip(nil, edited(good, func(m *rawarchive.Member) { m.Central.Extra = "\x75\x70\x0c\x00\x01\x00\x00\x00\x00evil.sh" })...),
			codes(verdict.ArchiveAmbiguous)},
		"an entry that is not listed": {rawarchive.Zip(nil, good, unlisted), codes(verdict.ArchiveHidden)},
		"two archives":                {append(rawarchive.Zip(nil, rawarchive.Packed("evil.sh", "evil", true)), one...), codes(verdict.ArchiveHidden)},
		"one before it that is not":   {rawarchive.Zip(nil, unlisted, good), codes(verdict.ArchiveHidden)},
		"something before an entry": {rawarchive.Zip(nil, append([]rawarchive.Member{rawarchive.Packed("a", "a", false)},
			edited(good, func(m *rawarchive.Member) { m.Before = []byte("junk") })...)...), codes(verdict.ArchiveHidden)},
		"something behind it":       {append(slices.Clone(one), "junk"...), codes(verdict.ArchiveHidden)},
		"a second end in a comment": {rawarchive.Zip(func(e *rawarchive.End) { e.Comment = string(rawarchive.End{}.Bytes()) }, good), codes(verdict.ArchiveHidden)},
		"an entry twice":            {rawarchive.Zip(nil, good, good), codes(verdict.ArchiveTwice)},
		"a wrong checksum": {rawarchive.Zip(nil, edited(good, func(m *rawarchive.Member) { m.Local.Sum, m.Central.Sum = 1, 1 })...),
			codes(verdict.ArchiveParse)},
	}
	for name, row := range rows {
		t.Run(name, func(t *testing.T) {
			in := sbom.Input{Name: "thing", Version: "v1", Created: time.Unix(1714557600, 0), Namespace: "https://example.test/"}
			made, err := sbom.Archive(in, "thing.zip", sbom.Content{ReaderAt: bytes.NewReader(row.raw), Size: int64(len(row.raw)), Digests: digest.SetOf(row.raw)}, nil)
			refused(t, err, row.codes...)
			if row.codes == nil && (len(made.Draft.Files) != 1 || made.Draft.Files[0].Name != "./good.txt") {
				t.Errorf("described as %+v", made.Draft.Files)
			}
			if err != nil && !strings.Contains(err.Error(), "thing.zip") {
				t.Errorf("the archive is not named: %v", err)
			}
		})
	}
}
