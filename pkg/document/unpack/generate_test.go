package unpack_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/waybill-release/waybill/pkg/testing/rawarchive"
)

// generator makes archives out of few names, so that they meet, and does to
// each none, one or some of the things that make unpackers disagree.
type generator struct{ *rand.Rand }

func pick[T any](g generator, of ...T) T { return of[g.IntN(len(of))] }

func (g generator) name() string {
	if g.IntN(5) > 0 {
		return pick(g, "a", "b", "c", "d", "e", "f", "dir/a", "dir/b", "dir/c", "dir/sub/c", "dir/sub/d", "other/d")
	}
	return pick(g, "A", "./a", "./dir/b", "dir", "dir//a", "dir/./a", "dir/../a", "a/", "../a", "/a", "a b", `a\b`, "é", "e\u0301",
		strings.Repeat("n", 100), strings.Repeat("n", 101), strings.Repeat("dir/", 30)+"a", strings.Repeat("n", 256), "a.", "-a", "a\nb", "", ".", "..", "*")
}

func (g generator) content() string {
	switch g.IntN(6) {
	case 0:
		return ""
	case 1:
		return string(rawarchive.Tar(rawarchive.File("a", "inner")))
	case 2: // what a sparse file might be made of
		return "1\n0\n5\n" + strings.Repeat("\x00", 506) + "hello"
	case 3:
		return strings.Repeat("PK\x07\x08 content ", 1+g.IntN(9))
	}
	return fmt.Sprintf("content %d %s", g.IntN(1000), strings.Repeat("x", g.IntN(700)))
}

// edits of a header, before its checksum is made.
func (g generator) edit() func([]byte) {
	field := pick(g, [2]int{100, 8}, [2]int{108, 8}, [2]int{116, 8}, [2]int{124, 12}, [2]int{124, 12}, [2]int{136, 12}, [2]int{329, 8}, [2]int{345, 12})
	at, n := field[0], field[1]
	switch g.IntN(9) {
	case 0: // any byte
		at, b := g.IntN(512), byte(g.IntN(256))
		return func(h []byte) { h[at] = b }
	case 1: // a number in another form
		form := pick(g, "\x80"+strings.Repeat("\x00", n-2)+"\x05", strings.Repeat("\xff", n), strings.Repeat(" ", n-2)+"5\x00", strings.Repeat("0", n-1)+"5",
			strings.Repeat("\x00", n), "5\x00"+strings.Repeat("7", n-2), "-5\x00", "+5\x00", "0x5\x00", "9\x00", " \x00", "0000005 ")
		return func(h []byte) { copy(h[at:at+n], make([]byte, n)); copy(h[at:at+n], form) }
	case 2:
		format := pick(g, "ustar  \x00", "ustar\x0000", "\x00\x00\x00\x00\x00\x00\x00\x00", "ustar\x00\x00\x00", "ustar\x00  ", "ustar 00")
		return func(h []byte) { copy(h[257:], format) }
	case 3:
		prefix := pick(g, "dir", "dir/", "/", "..", "p\x00q", strings.Repeat("p", 155), strings.Repeat("p/", 70))
		return func(h []byte) { copy(h[345:500], prefix) }
	case 4:
		name := pick(g, "a\x00b", "c\x00\x00\x00d", "dir/", "b")
		return func(h []byte) { copy(h, name) }
	case 5:
		return func(h []byte) { copy(h[508:], "tar\x00") }
	case 6:
		kind := pick(g, '0', '\x00', '1', '2', '3', '5', '5', '6', '7', 'A', 'D', 'K', 'L', 'M', 'N', 'S', 'V', 'X', 'Z', 'g', 'x')
		return func(h []byte) { h[156] = byte(kind) }
	case 7:
		size := g.IntN(3000)
		return func(h []byte) { copy(h[124:], fmt.Sprintf("%011o\x00", size)) }
	}
	link := pick(g, "a", "dir", "../a", "/a")
	return func(h []byte) { copy(h[157:], link) }
}

func (g generator) records() string {
	pairs := []string{}
	for range 1 + g.IntN(3) {
		switch g.IntN(5) {
		case 4:
			pairs = append(pairs, pick(g, "size", "SCHILY.realsize", "GNU.sparse.size", "GNU.sparse.realsize"), fmt.Sprint(g.IntN(20)))
		case 0:
			pairs = append(pairs, "path", g.name())
		case 1:
			pairs = append(pairs, pick(g, "mtime", "atime", "ctime"), pick(g, "1", "1714557600.5", "-1", "x", "1e3"))
		case 2:
			pairs = append(pairs, pick(g, "uid", "gid", "uname", "gname", "comment"), pick(g, "0", "1", "root"))
		default:
			pair := pick(g, [2]string{"size", "5"}, [2]string{"size", "0"}, [2]string{"linkpath", "b"}, [2]string{"GNU.sparse.name", "b"},
				[2]string{"GNU.sparse.map", "0,5"}, [2]string{"GNU.sparse.major", "1"}, [2]string{"GNU.sparse.minor", "0"}, [2]string{"GNU.sparse.realsize", "9"},
				[2]string{"GNU.sparse.size", "9"}, [2]string{"SCHILY.realsize", "9"}, [2]string{"SCHILY.filetype", "sparse"}, [2]string{"SCHILY.xattr.user.a", "b"},
				[2]string{"hdrcharset", "BINARY"}, [2]string{"charset", "BINARY"}, [2]string{"RHT.security.selinux", "b"}, [2]string{"path", ""}, [2]string{"path", "b\x00c"})
			pairs = append(pairs, pair[:]...)
		}
	}
	text := rawarchive.Records(pairs...)
	if g.IntN(12) == 0 {
		text = pick(g, text+"\n", text+"\x00", "0"+text, text[:len(text)-1], "5 a=b\n", "+"+text, "99 path=b\n")
	}
	return text
}

// entry is one entry of a tar archive, honest or not.
func (g generator) entry(hostile bool) []byte {
	name, content, kind := g.name(), g.content(), byte('0')
	if g.IntN(6) == 0 {
		name, content, kind = pick(g, "dir/", "dir", "other/", "./", "new/"), "", '5'
	}
	h := rawarchive.Header{Name: name, Kind: kind, Size: int64(len(content)), Format: pick(g, rawarchive.POSIX, rawarchive.GNU)}
	if g.IntN(12) == 0 {
		h.Kind, h.Link, h.Size, content = pick(g, byte('1'), byte('2')), pick(g, "a", "b", "dir/a", "/etc", "../x"), 0, ""
	}
	var before []byte
	extend := func() {
		switch kind := pick(g, byte('x'), byte('x'), byte('L'), byte('L'), byte('K'), byte('g')); kind {
		case 'x', 'g':
			before = append(before, rawarchive.Extended(kind, g.records())...)
		default:
			before = append(before, rawarchive.Extended(kind, g.name()+pick(g, "\x00", "\x00", "\x00", "", "\x00z\x00"))...)
		}
	}
	switch long := len(name) > 100; {
	case h.Format == rawarchive.GNU && (long || g.IntN(5) == 0):
		before = rawarchive.Extended('L', name+"\x00")
	case h.Format == rawarchive.POSIX && (long || g.IntN(5) == 0):
		before = rawarchive.Extended('x', rawarchive.Records("path", name, "mtime", "1714557600.25"))
	}
	if hostile {
		switch g.IntN(5) {
		case 0, 1:
			for range 1 + g.IntN(2) {
				extend()
			}
		case 2:
			h.Sum = pick(g, func(n int) int { return n + 1 }, func(n int) int { return n - 256 }, func(int) int { return 0 })
			if g.IntN(2) == 0 {
				h.Edit, h.Sum = func(b []byte) { b[265] = 0xe9 }, func(n int) int { return n - 256 }
			}
		default:
			h.Edit = g.edit()
		}
	}
	return slices.Concat(before, h.Bytes(), []byte(content), make([]byte, (512-len(content)%512)%512))
}

// tar is an archive of some entries, and whether something was done to it.
func (g generator) tar() ([]byte, bool) {
	hostile := g.IntN(5) > 0
	return g.tarOf(hostile), hostile
}

func (g generator) tarOf(hostile bool) []byte {
	var entries [][]byte
	whole := g.IntN(4) > 0
	n := 1 + g.IntN(4)
	victim := g.IntN(n)
	for i := range n {
		entries = append(entries, g.entry(hostile && whole && i == victim))
	}
	if !hostile || whole {
		return rawarchive.Tar(entries...)
	}
	raw := rawarchive.Tar(entries...)
	switch g.IntN(8) {
	case 0:
		return raw[:g.IntN(len(raw))]
	case 1:
		return append(raw, pick(g, "x", strings.Repeat("\x00", 512), strings.Repeat("\x00", 300), string(rawarchive.Tar(rawarchive.File("a", "z"))))...)
	case 2: // without an end, or with half of one
		return raw[:len(raw)-pick(g, 1024, 512)]
	case 3:
		return rawarchive.Tar(slices.Insert(entries, g.IntN(n), make([]byte, pick(g, 512, 1024)))...)
	case 4:
		return rawarchive.Tar(append(entries, rawarchive.Extended('x', rawarchive.Records("path", "b")))...)
	case 5:
		return rawarchive.Tar(append(entries, entries[g.IntN(n)])...)
	case 6:
		return rawarchive.Tar(append(entries, rawarchive.Extended('L', "b\x00"), g.entry(true))...)
	}
	raw[g.IntN(len(raw))] ^= byte(1 << g.IntN(8))
	return raw
}

// member is one entry of a zip archive, honest or not.
func (g generator) member(hostile bool) rawarchive.Member {
	m := rawarchive.Packed(g.name(), g.content(), g.IntN(3) > 0)
	if g.IntN(6) == 0 {
		m = rawarchive.Packed(pick(g, "dir/", "other/", "new/"), "", false)
	}
	if m.Local.Name == "é" {
		m.Local.Flags, m.Central.Flags = 0x800, 0x800
	}
	if g.IntN(3) == 0 {
		m = m.Streamed()
	}
	if g.IntN(3) == 0 {
		m.Central.Attributes = pick[uint32](g, 0x81a40000, 0x81ed0000, 0x20)
		m.Central.System = pick[byte](g, 255, 3, 10, 11, 19, byte(g.IntN(30)))
	}
	if !hostile {
		return m
	}
	one, both := pick(g, &m.Local, &m.Central), func(edit func(*rawarchive.Fields)) { edit(&m.Local); edit(&m.Central) }
	number := pick[uint32](g, 0, 1, 5, 100, 0xffff, 0x7fffffff, 0xffffffff)
	switch g.IntN(14) {
	case 0:
		one.Name = g.name()
	case 1:
		one.Size = number
	case 2:
		one.Packed = number
	case 3:
		one.Sum = number
	case 4:
		one.Method = pick[uint16](g, 0, 8, 9, 12, 14, 99)
	case 5:
		both(func(f *rawarchive.Fields) { f.Flags ^= 1 << g.IntN(16) })
	case 6:
		one.Flags ^= 1 << g.IntN(16)
	case 7:
		extra := pick(g, "UT\x05\x00\x03\x00\x00\x00\x00", "up\x06\x00\x01\x00\x00\x00\x00b", "\x01\x00\x08\x00\x05\x00\x00\x00\x00\x00\x00\x00", "\x01\x00\x00\x00",
			"xx\x00\x00", "UT\x09\x00\x03", "abc", "\x0d\x00\x0c\x00aaaabbbbccccd", "\x99\x01\x07\x00\x02\x00AE\x03\x08\x00")
		both(func(f *rawarchive.Fields) { f.Extra = extra })
	case 8:
		m.Central.Attributes = g.Uint32()
	case 9:
		m.Before = pick(g, []byte("x"), []byte("PK\x03\x04"), rawarchive.Zip(nil, rawarchive.Packed("b", "z", true)))
	case 10:
		m.Behind = append(m.Behind, pick(g, "x", "PK\x07\x08", "PK\x01\x02")...)
	case 11:
		m.Unlisted = true
	case 12:
		m.Central.Offset += pick[uint32](g, 1, 0xffffffff, 4)
	default:
		both(func(f *rawarchive.Fields) { f.Sum = number })
	}
	return m
}

// zip is an archive of some entries, and whether something was done to it.
func (g generator) zip() ([]byte, bool) {
	hostile := g.IntN(5) > 0
	return g.zipOf(hostile), hostile
}

func (g generator) zipOf(hostile bool) []byte {
	var members []rawarchive.Member
	whole := g.IntN(4) > 0
	n := 1 + g.IntN(4)
	victim := g.IntN(n)
	for i := range n {
		members = append(members, g.member(hostile && whole && i == victim))
	}
	raw := rawarchive.Zip(nil, members...)
	if !hostile || whole {
		return raw
	}
	switch g.IntN(7) {
	case 0:
		return append(raw, pick(g, "x", "PK\x05\x06", string(rawarchive.Zip(nil)), string(raw))...)
	case 1:
		return append(rawarchive.Zip(nil, rawarchive.Packed("b", "z", true)), raw...)
	case 2:
		return rawarchive.Zip(func(e *rawarchive.End) {
			e.Comment = pick(g, "a comment", "PK\x05\x06", string(rawarchive.Zip(nil)), string(rawarchive.End{}.Bytes()), "PK\x01\x02")
		}, members...)
	case 3:
		return rawarchive.Zip(func(e *rawarchive.End) {
			*pick(g, &e.Entries, &e.EntriesHere) += pick[uint16](g, 1, 0xffff)
		}, members...)
	case 4:
		return rawarchive.Zip(func(e *rawarchive.End) { *pick(g, &e.Size, &e.At) += pick[uint32](g, 1, 0xffffffff, 46) }, members...)
	case 5:
		return raw[:g.IntN(len(raw))]
	}
	raw[g.IntN(len(raw))] ^= byte(1 << g.IntN(8))
	return raw
}
