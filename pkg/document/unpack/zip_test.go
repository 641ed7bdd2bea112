package unpack_test

import (
	"archive/zip"
	"bytes"
	"io"
	"slices"
	"strconv"
	"testing"

	"github.com/waybill-release/waybill/pkg/document/unpack"
	"github.com/waybill-release/waybill/pkg/testing/rawarchive"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// TestZipHeaders: a zip is refused for everything in its headers that programs
// read in several ways, with the name of the entry.
func TestZipHeaders(t *testing.T) {
	type member = rawarchive.Member
	pack := func(m member, edit func(*member)) []byte {
		if edit != nil {
			edit(&m)
		}
		return rawarchive.Zip(nil, rawarchive.Packed("first", "1", false), m, rawarchive.Packed("last", "2", true))
	}
	good, plain := rawarchive.Packed("a", "hello hello hello", true), rawarchive.Packed("a", "hello", false)
	dir, streamed := rawarchive.Packed("d/", "", false), good.Streamed()
	both := func(edit func(*rawarchive.Fields)) func(*member) {
		return func(m *member) { edit(&m.Local); edit(&m.Central) }
	}
	extra := func(text string) func(*member) {
		return both(func(f *rawarchive.Fields) { f.Extra = text })
	}
	flags := func(n uint16) func(*member) {
		return both(func(f *rawarchive.Fields) { f.Flags |= n })
	}
	named := func(name string) func(*member) {
		return both(func(f *rawarchive.Fields) { f.Name = name })
	}
	attributes := func(n uint32) func(*member) { return func(m *member) { m.Central.Attributes = n } }
	const ambiguous = verdict.ArchiveAmbiguous
	large := "\x01\x00\x10\x00\x11\x00\x00\x00\x00\x00\x00\x00\x06\x00\x00\x00\x00\x00\x00\x00"
	rows := []struct {
		name string
		raw  []byte
		code verdict.Code
	}{
		{"compressed (twin)", pack(good, nil), ""},
		{"stored (twin)", pack(plain, nil), ""},
		{"sizes behind it (twin)", pack(streamed, nil), ""},
		{"stored, sizes behind it (twin)", pack(plain.Streamed(), nil), ""},
		{"a directory (twin)", pack(dir, attributes(0x41ed0010)), ""},
		{"a mode of a file (twin)", pack(good, attributes(0x81a40000)), ""},
		{"a time and an owner (twin)", pack(good, extra("UT\x05\x00\x03\x00\x00\x00\x00ux\x0b\x00\x01\x04\x00\x00\x00\x00\x04\x00\x00\x00\x00")), ""},
		{"letters in UTF-8 (twin)", pack(good, func(m *member) { named("é")(m); flags(0x800)(m) }), ""},
		{"sizes in an extra field at the entry (twin)", pack(good, func(m *member) {
			large := []byte(large)
			large[12] = byte(m.Local.Packed)
			m.Local.Extra, m.Local.Size, m.Local.Packed = string(large), 0xffffffff, 0xffffffff
		}), ""},
		{"another name", pack(good, func(m *member) { m.Local.Name = "b" }), ambiguous},
		{"another method", pack(plain, func(m *member) { m.Local.Method = 8 }), ambiguous},
		{"other flags", pack(good, func(m *member) { m.Local.Flags = 0x800 }), ambiguous},
		{"another size", pack(good, func(m *member) { m.Local.Size-- }), ambiguous},
		{"another packed size", pack(good, func(m *member) { m.Local.Packed-- }), ambiguous},
		{"another checksum", pack(good, func(m *member) { m.Local.Sum++ }), ambiguous},
		{"another checksum behind it", pack(streamed, func(m *member) { m.Behind = slices.Clone(m.Behind); m.Behind[4]++ }), ambiguous},
		{"another size behind it", pack(streamed, func(m *member) { m.Behind = slices.Clone(m.Behind); m.Behind[12]++ }), ambiguous},
		{"nothing behind it", pack(streamed, func(m *member) { m.Behind = nil }), ambiguous},
		{"no head of what is behind it", pack(streamed, func(m *member) { m.Behind = m.Behind[4:] }), ambiguous},
		{"sizes behind it that are twice in it", pack(rawarchive.Packed("a", "PK\x07\x08", false).Streamed(), nil), ambiguous},
		{"encrypted", pack(good, flags(1)), ambiguous},
		{"encrypted strongly", pack(good, flags(0x40)), ambiguous},
		{"headers that are masked", pack(good, flags(0x2000)), ambiguous},
		{"another kind of compression", pack(good, both(func(f *rawarchive.Fields) { f.Method = 12 })), ambiguous},
		{"a version with its system (twin)", pack(good, both(func(f *rawarchive.Fields) { f.Version = 0x0314 })), ""},
		{"a version with another system", pack(good, both(func(f *rawarchive.Fields) { f.Version = 0x0214 })), ambiguous},
		{"packed on FAT (twin)", pack(good, func(m *member) { m.Central.System = 255 }), ""},
		{"packed on Windows (twin)", pack(good, func(m *member) { m.Central.System = 10 }), ""},
		{"packed on VMS", pack(good, func(m *member) { m.Central.System = 2 }), ambiguous},
		{"a version of tomorrow", pack(good, both(func(f *rawarchive.Fields) { f.Version = 63 })), ambiguous},
		{"a name in Unicode beside it", pack(good, extra("up\x06\x00\x01\x00\x00\x00\x00b")), ambiguous},
		{"a link in an extra field", pack(good, extra("nu\x04\x00abcd")), ambiguous},
		{"an extra field that is cut off", pack(good, extra("UT\x09\x00\x03")), ambiguous},
		{"an extra field twice", pack(good, extra("UT\x01\x00\x00UT\x01\x00\x00")), ambiguous},
		{"sizes of no need", pack(good, extra(large)), ambiguous},
		{"letters in no encoding", pack(good, named("\x82")), ambiguous},
		{"a backslash", pack(good, named(`a\b`)), ambiguous},
		{"a directory that is a file", pack(dir, attributes(0x81a40000)), ambiguous},
		{"a file that is a directory", pack(good, attributes(0x10)), ambiguous},
		{"a file with the mode of a directory", pack(good, attributes(0x41ed0000)), ambiguous},
		{"a label of a disk", pack(good, attributes(8)), ambiguous},
		{"a directory that holds something", pack(rawarchive.Packed("d/", "x", false), nil), ambiguous},
		{"a symbolic link", pack(plain, attributes(0xa1ff0000)), verdict.FileType},
		{"a device", pack(plain, attributes(0x21ff0000)), verdict.FileType},
		{"bytes before it", pack(good, func(m *member) { m.Before = []byte("x") }), verdict.ArchiveHidden},
		{"bytes behind it", pack(good, func(m *member) { m.Behind = []byte("x") }), verdict.ArchiveHidden},
		{"bytes in it that are of no use", pack(good, func(m *member) {
			m.Body = append(slices.Clone(m.Body), "left"...)
			both(func(f *rawarchive.Fields) { f.Packed += 4 })(m)
		}), verdict.ArchiveHidden},
		{"over another one", pack(plain, func(m *member) { m.Central.Offset-- }), verdict.ArchiveHidden},
		{"not listed", pack(good, func(m *member) { m.Unlisted = true }), verdict.ArchiveHidden},
		{"a wrong checksum", pack(good, both(func(f *rawarchive.Fields) { f.Sum++ })), verdict.ArchiveParse},
		{"broken", pack(good, func(m *member) { m.Body = slices.Clone(m.Body); m.Body[0] = 0xff }), verdict.ArchiveParse},
		{"twice", pack(rawarchive.Packed("last", "1", false), nil), verdict.ArchiveTwice},
		{"the root", pack(good, named(".")), verdict.Path},
		{"out of the archive", pack(good, named("../a")), verdict.Path},
	}
	for _, row := range rows {
		_, err := walk(row.raw)
		checkCode(t, row.name, err, row.code)
	}
}

// TestZipEnds: a zip has one end, which says where its directory is and ends the
// file.
func TestZipEnds(t *testing.T) {
	one := rawarchive.Packed("a", "A", true)
	ended := func(edit func(*rawarchive.End)) []byte { return rawarchive.Zip(edit, one, one.Streamed()) }
	other := rawarchive.Packed("b", "B", true)
	good := rawarchive.Zip(nil, one, other)
	for name, row := range map[string]struct {
		raw  []byte
		code verdict.Code
	}{
		"one end (twin)":         {good, ""},
		"a comment (twin)":       {rawarchive.Zip(func(e *rawarchive.End) { e.Comment = "hello" }, one), ""},
		"nothing in it (twin)":   {rawarchive.Zip(nil), ""},
		"one entry less":         {ended(func(e *rawarchive.End) { e.Entries-- }), verdict.ArchiveAmbiguous},
		"one entry less, twice":  {rawarchive.Zip(func(e *rawarchive.End) { e.Entries--; e.EntriesHere-- }, one, other), verdict.ArchiveHidden},
		"one entry more, twice":  {rawarchive.Zip(func(e *rawarchive.End) { e.Entries++; e.EntriesHere++ }, one, other), verdict.ArchiveAmbiguous},
		"entries without number": {rawarchive.Zip(func(e *rawarchive.End) { e.Entries = 0xffff; e.EntriesHere = 0xffff }, one), verdict.ArchiveAmbiguous},
		"another place":          {rawarchive.Zip(func(e *rawarchive.End) { e.At-- }, one), verdict.ArchiveHidden},
		"another size":           {rawarchive.Zip(func(e *rawarchive.End) { e.Size-- }, one), verdict.ArchiveHidden},
		"bytes behind it":        {append(slices.Clone(good), 'x'), verdict.ArchiveHidden},
		"an end in the comment":  {rawarchive.Zip(func(e *rawarchive.End) { e.Comment = string(rawarchive.Zip(nil)) }, one), verdict.ArchiveHidden},
		"a head in the comment":  {rawarchive.Zip(func(e *rawarchive.End) { e.Comment = "PK\x01\x02" }, one), verdict.ArchiveHidden},
		"an archive before it":   {append(rawarchive.Zip(nil, other), rawarchive.Zip(nil, one)...), verdict.ArchiveHidden},
		"no end":                 {good[:len(good)-22], verdict.ArchiveParse},
		"half an end":            {good[:len(good)-1], verdict.ArchiveParse},
	} {
		_, err := walk(row.raw)
		if row.code == "" && err != nil {
			t.Errorf("%s: %v", name, err)
		} else if row.code != "" {
			refused(t, name, err, row.code)
		}
	}
}

// TestZipLargeEnd: an archive of more entries than two bytes can count has a
// large end beside the small one. No byte of either can be another one, but for
// the version that wrote it and the one that reads it.
func TestZipLargeEnd(t *testing.T) {
	var buf bytes.Buffer
	w := zip.NewWriter(&buf)
	const entries = 1<<16 + 5
	for i := range entries {
		_, err := w.CreateHeader(&zip.FileHeader{Name: strconv.Itoa(i) + "/"})
		must(t, err)
	}
	must(t, w.Close())
	read := func(raw []byte) (n int, err error) {
		err = unpack.New().Archive(bytes.NewReader(raw), int64(len(raw)), func(unpack.Entry, io.Reader) error { n++; return nil })
		return n, err
	}
	raw := buf.Bytes()
	if n, err := read(raw); err != nil || n != entries {
		t.Fatalf("%d entries, %v", n, err)
	}
	const large, locator, small = 56, 20, 22
	end := len(raw) - large - locator - small
	for i := end; i < len(raw); i++ {
		if at := i - end; at >= 12 && at < 16 { // the versions
			continue
		}
		raw[i]++
		if _, err := read(raw); err == nil {
			t.Errorf("byte %d of the end can be another one", i-end)
		}
		raw[i]--
	}
}
