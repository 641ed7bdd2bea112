package unpack_test

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/waybill-release/waybill/pkg/document/unpack"
	"github.com/waybill-release/waybill/pkg/testing/rawarchive"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// place lists what an archive holds as a place.
func place(raw []byte) (map[string]string, error) {
	found := map[string]string{}
	err := unpack.New().Place(bytes.NewReader(raw), int64(len(raw)), func(e unpack.Entry, body io.Reader) error {
		text, err := io.ReadAll(body)
		if found[e.Name] = string(text); e.Kind == unpack.File && string(raw[e.Offset:e.Offset+e.Size]) != string(text) {
			return errors.New("the body is not where it is said to be")
		}
		return err
	})
	return found, err
}

// TestTarHeaders: each header that programs read in several ways is refused,
// with the name of its entry; beside each that all read alike.
func TestTarHeaders(t *testing.T) {
	type header = rawarchive.Header
	edit := func(at int, with string) []byte {
		h := header{Name: "a", Kind: '0', Size: 1, Edit: func(b []byte) { copy(b[at:], with) }}
		return append(h.Bytes(), rawarchive.Body("A")...)
	}
	of := func(h header) []byte { return append(h.Bytes(), rawarchive.Body("A")[:(h.Size+511)/512*512]...) }
	after := func(kind byte, text string) []byte {
		return append(rawarchive.Extended(kind, text), rawarchive.File("a", "A")...)
	}
	gnu := of(header{Name: "a", Kind: '0', Size: 1, Format: rawarchive.GNU})
	afterGNU := func(kind byte, text string) []byte { return append(rawarchive.Extended(kind, text), gnu...) }
	record := func(pairs ...string) []byte { return after('x', rawarchive.Records(pairs...)) }
	const ambiguous, both = verdict.ArchiveAmbiguous, 0
	const placeAlone = 1 // what only a place refuses
	rows := []struct {
		name  string
		entry []byte
		code  verdict.Code
		by    int
	}{
		{"plain (twin)", rawarchive.File("a", "A"), "", both},
		{"of GNU (twin)", gnu, "", both},
		{"a prefix (twin)", of(header{Name: "a", Prefix: "dir", Kind: '0', Size: 1}), "", both},
		{"an owner in base 256 (twin)", edit(108, "\x80\x00\x00\x00\x70\x00\x00\x00"), "", both},
		{"no owner (twin)", edit(108, strings.Repeat("\x00", 16)), "", both},
		{"a number that ends with a space (twin)", edit(124, "00000000001 "), "", both},
		{"harmless records (twin)", record("mtime", "1.5", "atime", "-1", "ctime", "2", "uid", "3", "gid", "4", "uname", "u", "gname", "g"), "", both},
		{"a record of the same size (twin)", record("size", "1"), "", both},
		{"a directory (twin)", of(header{Name: "d/", Kind: '5'}), "", both},
		{"a long name (twin)", afterGNU('L', "a/b\x00"), "", both},
		{"no format", edit(257, strings.Repeat("\x00", 8)), ambiguous, both},
		{"half a format", edit(257, "ustar\x00\x00\x00"), ambiguous, both},
		{"a prefix of GNU", of(header{Name: "a", Prefix: "dir", Kind: '0', Size: 1, Format: rawarchive.GNU}), ambiguous, both},
		{"times of GNU", of(header{Name: "a", Kind: '0', Size: 1, Format: rawarchive.GNU, Edit: func(b []byte) { copy(b[345:], "00000000001\x00") }}), ambiguous, both},
		{"something behind the end of a name", edit(50, "b"), ambiguous, both},
		{"something behind the end of a prefix", edit(400, "b"), ambiguous, both},
		{"something behind the header", edit(505, "b"), ambiguous, both},
		{"a target of a file", edit(157, "b"), ambiguous, both},
		{"a size in base 256 that octal can say", edit(124, "\x80\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x01"), ambiguous, both},
		{"a size below zero", edit(124, "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"), ambiguous, both},
		{"a size that begins with spaces", edit(124, "          1\x00"), ambiguous, both},
		{"a size without an end", edit(124, "000000000001"), ambiguous, both},
		{"a size with something behind it", edit(124, "001\x0000000000"), ambiguous, both},
		{"no size", edit(124, strings.Repeat("\x00", 12)), ambiguous, both},
		{"a mode of no digits", edit(100, "rw-r--r-"), ambiguous, both},
		{"a time of no digits", edit(136, "yesterday\x00\x00\x00"), ambiguous, both},
		{"a checksum with signs", of(header{Name: "a", Kind: '0', Size: 1, Edit: func(b []byte) { b[265] = 0xff }, Sum: func(n int) int { return n - 256 }}), verdict.ArchiveParse, both},
		{"a directory with a size", of(header{Name: "d/", Kind: '5', Size: 1}), ambiguous, both},
		{"a file whose name ends with a slash", of(header{Name: "a/", Kind: '0', Size: 1}), ambiguous, both},
		{"a file of no kind", of(header{Name: "a", Size: 1}), verdict.FileType, both},
		{"a sparse file of GNU", of(header{Name: "a", Kind: 'S', Size: 1, Format: rawarchive.GNU}), verdict.FileType, both},
		{"a file of one piece", of(header{Name: "a", Kind: '7', Size: 1}), verdict.FileType, both},
		{"a kind of nobody", of(header{Name: "a", Kind: 'Z', Size: 1}), verdict.FileType, both},
		{"a name of POSIX, then one of GNU", slices.Concat(rawarchive.Extended('x', rawarchive.Records("path", "b")), afterGNU('L', "a\x00")), ambiguous, both},
		{"a name of GNU, then one of POSIX", slices.Concat(rawarchive.Extended('L', "a\x00"), record("path", "b")), ambiguous, both},
		{"two names of GNU", slices.Concat(rawarchive.Extended('L', "b\x00"), afterGNU('L', "a\x00")), ambiguous, both},
		{"two headers of POSIX", slices.Concat(rawarchive.Extended('x', rawarchive.Records("path", "b")), record("mtime", "1")), ambiguous, both},
		{"a target before a file", afterGNU('K', "b\x00"), ambiguous, both},
		{"a name of GNU before a header of POSIX", after('L', "a\x00"), ambiguous, both},
		{"a header of POSIX before one of GNU", afterGNU('x', rawarchive.Records("path", "a")), ambiguous, both},
		{"a long name without an end", afterGNU('L', "a/b"), ambiguous, both},
		{"a long name of two", afterGNU('L', "a\x00b\x00"), ambiguous, both},
		{"something behind a long name", slices.Concat(rawarchive.Extended('L', "a\x00")[:1000], []byte("hidden text\x00"), gnu), ambiguous, both},
		{"a sparse name", record("GNU.sparse.name", "b"), ambiguous, both},
		{"a sparse map", record("GNU.sparse.map", "0,1", "GNU.sparse.size", "1"), ambiguous, both},
		{"a sparse file of 1.0", record("GNU.sparse.major", "1", "GNU.sparse.minor", "0", "GNU.sparse.realsize", "1"), ambiguous, both},
		{"a real size of star", record("SCHILY.realsize", "1"), ambiguous, both},
		{"another encoding", record("hdrcharset", "BINARY"), ambiguous, both},
		{"a target in records", record("linkpath", "b"), ambiguous, both},
		{"an empty name in records", record("path", ""), ambiguous, both},
		{"a record twice", record("path", "b", "path", "a"), ambiguous, both},
		{"a name with a zero in it", record("path", "a\x00b"), ambiguous, both},
		{"another size in records", record("size", "0"), ambiguous, both},
		{"a size of no digits in records", record("size", "+1"), ambiguous, both},
		{"a record whose length is wrong", after('x', "8 path=a\n"), ambiguous, both},
		{"a record whose length begins with zero", after('x', "010 path=a\n"), ambiguous, both},
		{"a record without an end", after('x', "9 path=a "), ambiguous, both},
		{"records for all entries", after('g', rawarchive.Records("path", "b")), ambiguous, both},
		{"a comment for all entries", after('g', rawarchive.Records("comment", "b")), ambiguous, placeAlone},
		{"an attribute", record("SCHILY.xattr.user.a", "b"), ambiguous, placeAlone},
		{"a letter with its accent in records (twin)", record("path", "é"), "", both},
		{"a letter and its accent in records", record("path", "e\u0301"), ambiguous, both},
		{"a letter and its accent (twin)", rawarchive.File("e\u0301", "A"), "", both},
		{"a file that is the root", rawarchive.File("./", "A"), ambiguous, both},
		{"a file that is the root without a slash", rawarchive.File(".", "A"), verdict.Path, both},
		{"a name with a backslash", rawarchive.File(`a\b`, "A"), "", both},
		{"attributes of macOS", rawarchive.File("dir/._a", "A"), ambiguous, placeAlone},
		{"a symbolic link", of(header{Name: "a", Link: "b", Kind: '2'}), verdict.FileType, placeAlone},
		{"a symbolic link with a size", of(header{Name: "a", Link: "b", Kind: '2', Size: 1}), ambiguous, both},
	}
	for _, row := range rows {
		raw := rawarchive.Tar(rawarchive.File("first", "1"), row.entry, rawarchive.File("last", "2"))
		_, asPlace := place(raw)
		_, asArchive := walk(raw)
		checkCode(t, row.name+", as place", asPlace, row.code)
		if row.by == placeAlone {
			row.code = ""
		}
		checkCode(t, row.name+", as archive", asArchive, row.code)
	}
}

func checkCode(t *testing.T, what string, err error, code verdict.Code) {
	t.Helper()
	if code != "" {
		refused(t, what, err, code)
	} else if err != nil {
		t.Errorf("%s: %v", what, err)
	}
	var e *verdict.Error
	if errors.As(err, &e) && e.Finding.Subject == "" && !strings.Contains(e.Finding.Message, "after") {
		t.Errorf("%s: no entry is named: %v", what, err)
	}
}

// TestTarEnds: a place has an end, and nothing behind it.
func TestTarEnds(t *testing.T) {
	one := rawarchive.File("a", "A")
	for name, row := range map[string]struct {
		raw  []byte
		code verdict.Code
	}{
		"an end (twin)":           {rawarchive.Tar(one), ""},
		"a longer end (twin)":     {append(rawarchive.Tar(one), make([]byte, 8192)...), ""},
		"nothing in it (twin)":    {rawarchive.Tar(), ""},
		"no end":                  {one, verdict.ArchiveParse},
		"half an end":             {rawarchive.Tar(one)[:1536], verdict.ArchiveParse},
		"an end in the middle":    {append(rawarchive.Tar(one), rawarchive.Tar(one)...), verdict.ArchiveHidden},
		"half an end in it":       {slices.Concat(one, make([]byte, 512), rawarchive.Tar(one)), verdict.ArchiveAmbiguous},
		"no whole block":          {append(rawarchive.Tar(one), 0), verdict.ArchiveHidden},
		"a header of no entry":    {rawarchive.Tar(one, rawarchive.Extended('x', rawarchive.Records("path", "b"))), verdict.ArchiveHidden},
		"cut in an entry":         {one[:600], verdict.ArchiveParse},
		"nothing":                 {nil, verdict.ArchiveParse},
		"headers without measure": {rawarchive.Tar(bytes.Repeat(rawarchive.Extended('x', strings.Repeat(rawarchive.Records("comment", "b"), 40_000)), 5), one), verdict.Limit},
	} {
		_, err := place(row.raw)
		if row.code == "" && err != nil {
			t.Errorf("%s: %v", name, err)
		} else if row.code != "" {
			refused(t, name, err, row.code)
		}
	}
}

// TestTarLargeFile: a file of more than 8 GiB, whose size octal digits cannot
// say, is read as GNU tar writes it.
func TestTarLargeFile(t *testing.T) {
	const size = 1<<33 + 5
	h := rawarchive.Header{Name: "a", Kind: '0', Format: rawarchive.GNU, Edit: func(b []byte) { copy(b[124:], "\x80\x00\x00\x00\x00\x00\x00\x02\x00\x00\x00\x05") }}
	f, err := os.Create(filepath.Join(t.TempDir(), "large.tar"))
	must(t, err)
	defer f.Close()
	_, err = f.Write(h.Bytes())
	must(t, err)
	must(t, f.Truncate(512+size+507+1024))
	must(t, unpack.New().Place(f, 512+size+507+1024, func(e unpack.Entry, _ io.Reader) error {
		if e.Size != size || e.Offset != 512 {
			t.Errorf("%+v", e)
		}
		return nil
	}))
}
