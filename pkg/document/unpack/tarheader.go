package unpack

import (
	"archive/tar"
	"bytes"
	"cmp"
	"encoding/binary"
	"path"
	"strconv"
	"strings"

	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// The magic of a header, with its version.
const (
	posixMagic = "ustar\x0000"
	gnuMagic   = "ustar  \x00"
)

// merged is the combined content of the headers of one entry: an optional
// extended header, and the header itself.
type merged struct {
	name, link string
	size       int64
	kind       byte
	pax        records
	longName   string
	longLink   string
}

// agree refuses headers of an entry that unpacking programs read in different
// ways: POSIX defines one kind of extended header and GNU another, but neither
// defines both together; some programs read a field beyond its end; and some
// accept invalid numbers. If h is set, Go's reading must be the same as ours.
func agree(raw []byte, h *tar.Header, name string, by rules) error {
	var m merged
	for {
		block, rest, whole := cut(raw, tarBlock)
		if !whole && h == nil {
			return nil
		} else if !whole {
			return ambiguous(name, "the headers of the entry are incomplete")
		}
		f, err := readField(block, name)
		if err != nil {
			return err
		}
		if strings.IndexByte("xgLK", f.kind) < 0 {
			if len(rest) > 0 {
				return ambiguous(name, "the contents begin with a sparse map")
			}
			return m.entry(f, h, name, by)
		}
		if f.kind == 'g' || h == nil { // Go's reader has not skipped its padding yet
			rest = append(rest, make([]byte, (tarBlock-len(rest)%tarBlock)%tarBlock)...)
		}
		text, rest, whole := cut(rest, f.size)
		padding, rest, padded := cut(rest, (tarBlock-f.size%tarBlock)%tarBlock)
		if h == nil && !whole {
			return nil
		}
		if !whole || !padded || len(bytes.Trim(padding, "\x00")) > 0 {
			return ambiguous(name, "an extended header is not padded with zeros")
		}
		if err := m.extend(f.kind, text, name, by); err != nil {
			return err
		}
		if raw = rest; f.kind == 'g' {
			if len(raw) > 0 || by == ofPlace {
				return ambiguous(name, "the archive has a global header (type \"g\"), which changes all entries after it")
			}
			return nil
		}
	}
}

// cut splits off the first n bytes.
func cut(b []byte, n int64) (head, tail []byte, whole bool) {
	if int64(len(b)) < n {
		return nil, nil, false
	}
	return b[:n], b[n:], true
}

// extend reads an extended header. An entry may have one of POSIX, or one for
// its name and one for its target.
func (m *merged) extend(kind byte, text []byte, name string, by rules) error {
	others := m.pax != nil || m.longName != "" || m.longLink != ""
	switch kind {
	case 'x', 'g':
		if others {
			return ambiguous(name, "the entry has more than one extended header: type %q after another", kind)
		}
		var err error
		m.pax, err = readRecords(text, name)
		if err == nil {
			err = m.pax.check(name, kind, by)
		}
		return err
	case 'K':
		if by == ofPlace {
			return ambiguous(name, "the entry has an extended header of type \"K\", which only links have")
		}
	}
	of := &m.longName
	if kind == 'K' {
		of = &m.longLink
	}
	if m.pax != nil || *of != "" {
		return ambiguous(name, "the entry has more than one extended header: type %q after another", kind)
	}
	value, end := bytes.CutSuffix(text, []byte{0})
	if !end || len(value) == 0 || bytes.IndexByte(value, 0) >= 0 {
		return ambiguous(name, "the extended header of type %q is not one name followed by a zero byte", kind)
	}
	*of = string(value)
	return nil
}

// entry compares the last header of an entry, together with those before it,
// with the result of Go's reader.
func (m *merged) entry(f field, h *tar.Header, name string, by rules) error {
	m.name, m.link, m.size, m.kind = f.name, f.link, f.size, f.kind
	switch {
	case m.pax != nil && f.gnu, (m.longName != "" || m.longLink != "") && !f.gnu:
		return ambiguous(name, "the extended header and the header are of different formats")
	case m.longName != "":
		m.name = m.longName
	}
	m.link = cmp.Or(m.longLink, m.link)
	if err := m.pax.apply(m, name); err != nil {
		return err
	}
	isLink := m.kind == tar.TypeLink || m.kind == tar.TypeSymlink
	switch {
	case m.kind != tar.TypeReg && m.kind != tar.TypeDir && !isLink:
		return verdict.Refuse(verdict.FileType, name, "entries of type %q are not supported, want a file, directory or link", m.kind)
	case m.kind != tar.TypeReg && m.size != 0:
		return ambiguous(name, "the entry is not a file, but has a size of %d bytes", m.size)
	case !isLink && m.link != "":
		return ambiguous(name, "the entry is not a link, but has a target")
	case m.kind != tar.TypeDir && strings.HasSuffix(m.name, "/"):
		return ambiguous(name, "the entry is not a directory, but its name ends with a slash")
	case by == ofPlace && strings.HasPrefix(path.Base(m.name), "._"):
		return ambiguous(name, "the name begins with \"._\", which tar on macOS unpacks as attributes of another file")
	case h != nil && (m.name != h.Name || m.link != h.Linkname || m.size != h.Size || m.kind != h.Typeflag):
		return ambiguous(name, "the headers of the entry are ambiguous")
	}
	return nil
}

// ambiguous refuses what two programs would read differently.
func ambiguous(name, format string, args ...any) error {
	return verdict.Refuse(verdict.ArchiveAmbiguous, name, format, args...)
}

// field is the content of one header of 512 bytes.
type field struct {
	name, link string
	size       int64
	kind       byte
	gnu        bool
}

// readField parses one header: octal numbers, as all current programs write
// them, texts that end at the first zero byte, and the checksum of POSIX.
func readField(b []byte, entry string) (field, error) {
	f := field{kind: b[156]}
	switch string(b[257:265]) {
	case posixMagic:
	case gnuMagic:
		f.gnu = true
	default:
		return f, ambiguous(entry, "the header is neither of POSIX nor of GNU tar")
	}
	bad := func(what string) (field, error) {
		return f, ambiguous(entry, "the %s in the header is ambiguous", what)
	}
	name, ok1 := text(b[0:100])
	prefix, ok2 := text(b[345:500])
	link, ok3 := text(b[157:257])
	switch {
	case !ok1:
		return bad("name")
	case !ok2 || f.gnu && prefix != "" || len(bytes.Trim(b[500:], "\x00")) > 0:
		return bad("prefix of the name")
	case !ok3:
		return bad("target")
	}
	if f.name, f.link = name, link; prefix != "" {
		f.name = prefix + "/" + name
	}
	for _, n := range []struct {
		what     string
		from, to int
		may      bool // may be empty or in base 256, because it does not affect unpacking
	}{{"mode", 100, 108, false}, {"owner", 108, 116, true}, {"group", 116, 124, true}, {"time", 136, 148, true}, {"device", 329, 337, true}, {"device", 337, 345, true}} {
		_, is := octal(b[n.from:n.to])
		other := n.may && (len(bytes.Trim(b[n.from:n.to], "\x00")) == 0 || b[n.from] == 0x80)
		if !is && !other {
			return bad(n.what)
		}
	}
	var ok bool
	if f.size, ok = octal(b[124:136]); !ok {
		if f.size, ok = base256(b[124:136]); !ok {
			return bad("size")
		}
	}
	want, sum := int64(8*' '), int64(0)
	for i, c := range b {
		if i < 148 || i >= 156 {
			want += int64(c)
		}
	}
	if sum, ok = octal(b[148:156]); !ok || sum != want {
		return f, verdict.Refuse(verdict.ArchiveParse, entry, "the checksum in the header is wrong")
	}
	return f, nil
}

// text parses a text that ends with the field or with zeros.
func text(b []byte) (string, bool) {
	end := bytes.IndexByte(b, 0)
	if end < 0 {
		return string(b), true
	}
	return string(b[:end]), len(bytes.Trim(b[end:], "\x00")) == 0
}

// octal parses a number that consists of digits, followed by a zero or a space.
func octal(b []byte) (int64, bool) {
	digits := bytes.TrimRight(b, "\x00 ")
	if len(digits) == len(b) || len(digits) == 0 {
		return 0, false
	}
	n, err := strconv.ParseUint(string(digits), 8, 62)
	return int64(n), err == nil && digits[0] != '+'
}

// base256 parses a size that is too large for octal digits, as GNU tar writes
// it.
func base256(b []byte) (int64, bool) {
	n := binary.BigEndian.Uint64(b[4:])
	return int64(n), b[0] == 0x80 && b[1] == 0 && b[2] == 0 && b[3] == 0 && n >= 1<<33 && n < 1<<62
}
