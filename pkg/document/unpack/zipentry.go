package unpack

import (
	"bytes"
	"encoding/binary"
	"io"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// The compression methods that all programs support.
const (
	stored   = 0
	deflated = 8
)

// Flags of an entry.
const (
	flagEffort  = 0x0006 // compression level
	flagFollows = 0x0008 // sizes and checksum follow the body
	flagUTF8    = 0x0800
)

// maxVersion is the newest version of the format that all programs support.
const maxVersion = 45

// harmlessExtras are the kinds of extra fields that change neither name, kind
// nor contents: times, owners, and those of jar files and alignment.
var harmlessExtras = []uint16{0x000a, 0x5455, 0x5855, 0x7855, 0x7875, 0xcafe, 0xd935, 0xa220}

const extraLarge = 0x0001

// systems are those whose names are stored unchanged: FAT, Unix, Windows and
// macOS.
var systems = []byte{0, 3, 10, 11, 19}

// zipFile is one entry, whose headers agree.
type zipFile struct {
	name         string
	directory    bool
	method       uint16
	follows      bool // a record after the body contains size and checksum
	packed, size int64
	sum          uint32
	data         int64 // where the body begins
}

// entry reads the next header of the central directory, and the local header of
// the entry.
func (z *zipReader) entry() (zipFile, error) {
	raw, err := z.read(centralSize)
	if err != nil {
		return zipFile{}, err
	}
	le := binary.LittleEndian
	long := func(i int) int64 { return int64(le.Uint32(raw[i:])) }
	texts, err := z.read(int(le.Uint16(raw[28:])) + int(le.Uint16(raw[30:])) + int(le.Uint16(raw[32:])))
	if err != nil {
		return zipFile{}, err
	}
	nameEnd := int(le.Uint16(raw[28:]))
	extra := texts[nameEnd : nameEnd+int(le.Uint16(raw[30:]))]
	f := zipFile{name: string(texts[:nameEnd]), method: le.Uint16(raw[10:]), sum: le.Uint32(raw[16:]), packed: long(20), size: long(24)}
	name, flags, at, disk := called(f.name), le.Uint16(raw[8:]), long(42), int64(le.Uint16(raw[34:]))
	f.follows = flags&flagFollows != 0
	if string(raw[:4]) != centralHead {
		return zipFile{}, ambiguous(name, "the directory of the archive is malformed: a header was expected")
	}
	if !readExtras(extra, wide{&f.size, math.MaxUint32}, wide{&f.packed, math.MaxUint32}, wide{&at, math.MaxUint32}, wide{&disk, math.MaxUint16}) {
		return zipFile{}, ambiguous(name, "the entry has an extra field that not every program supports, or that contradicts its header")
	}
	if at != z.next || disk != 0 {
		return zipFile{}, hidden(name, "the entry begins at byte %d, but the one before it ends at byte %d", at, z.next)
	}
	if bytes.IndexByte(systems, raw[5]) < 0 {
		return zipFile{}, ambiguous(name, "the entry was packed on system %d, whose names are not read alike by all programs", raw[5])
	}
	if err := f.judge(flags, le.Uint16(raw[6:]), le.Uint32(raw[38:])); err != nil {
		return zipFile{}, err
	}
	return f, z.local(&f, raw[8:12], name)
}

// read reads the next bytes of the central directory.
func (z *zipReader) read(n int) ([]byte, error) {
	if z.listed += int64(n); z.listed > z.end.size {
		return nil, ambiguous("", "the directory has fewer entries than the end record says")
	}
	raw := make([]byte, n)
	_, err := io.ReadFull(z.central, raw)
	return raw, err
}

// judge refuses entries that not every program unpacks in the same way.
func (f *zipFile) judge(flags, version uint16, attributes uint32) error {
	name, slash := called(f.name), strings.HasSuffix(f.name, "/")
	ascii := strings.IndexFunc(f.name, func(r rune) bool { return r >= utf8.RuneSelf }) < 0
	f.directory = slash
	var kind uint32
	switch attributes >> 28 { // of the Unix mode
	case 0, 8:
	case 4:
		kind = 0x10
	default:
		return verdict.Refuse(verdict.FileType, name, "the entry is a link or a device, which some programs unpack as a file").
			Advise("pack links with tar; in a zip archive programs unpack them in different ways")
	}
	if kind |= attributes & 0x18; slash && kind&0x08 != 0 || !slash && kind != 0 || slash && attributes>>28 == 8 {
		return ambiguous(name, "name and attributes of the entry disagree about whether it is a directory")
	}
	switch {
	case flags&^(flagEffort|flagFollows|flagUTF8) != 0:
		return ambiguous(name, "the entry is encrypted, or has flags that not every program supports")
	case f.method != stored && f.method != deflated:
		return ambiguous(name, "the entry uses compression method %d, which not every program supports", f.method)
	case tooNew(version):
		return ambiguous(name, "the entry needs version %d.%d of the format, which not every program supports", version&0xff/10, version&0xff%10)
	case strings.Contains(f.name, `\`):
		return ambiguous(name, "the name has a backslash, which some programs read as a slash")
	case !ascii && flags&flagUTF8 == 0:
		return ambiguous(name, "the name has characters beyond ASCII, but its encoding is not declared")
	case f.method == stored && f.packed != f.size, f.directory && f.size != 0:
		return ambiguous(name, "the sizes of the entry contradict its kind or method")
	}
	return nil
}

// tooNew reports a version that not every program supports. The upper byte may
// be the system: Unix changes no names.
func tooNew(version uint16) bool {
	return version&0xff > maxVersion || version>>8 != 0 && version>>8 != 3
}

// local reads the local header, which must agree with the directory, and finds
// the body and the next entry.
func (z *zipReader) local(f *zipFile, same []byte, name string) error {
	raw := make([]byte, localSize)
	if err := z.at(raw, z.next); err != nil {
		return err
	}
	le := binary.LittleEndian
	texts := make([]byte, int(le.Uint16(raw[26:]))+int(le.Uint16(raw[28:])))
	if err := z.at(texts, z.next+localSize); err != nil {
		return err
	}
	nameEnd := le.Uint16(raw[26:])
	sum, packed, size := le.Uint32(raw[14:]), int64(le.Uint32(raw[18:])), int64(le.Uint32(raw[22:]))
	extra := texts[nameEnd:]
	if string(raw[:4]) != localHead || string(texts[:nameEnd]) != f.name || string(raw[6:10]) != string(same) {
		return ambiguous(name, "name, method or flags in the local header differ from the directory")
	}
	if tooNew(le.Uint16(raw[4:])) || !readExtras(extra, wide{&size, math.MaxUint32}, wide{&packed, math.MaxUint32}) {
		return ambiguous(name, "the local header has a version or an extra field that not every program supports, or that contradicts it")
	}
	// The record after the body may replace these.
	told := func(here, there int64) bool { return here == there || f.follows && here == 0 }
	if !told(int64(sum), int64(f.sum)) || !told(packed, f.packed) || !told(size, f.size) {
		return ambiguous(name, "size or checksum in the local header differ from the directory")
	}
	f.data = z.next + localSize + int64(len(texts))
	z.next = f.data + f.packed
	if f.packed > z.end.at || z.next > z.end.at {
		return hidden(name, "the entry overlaps the directory of the archive")
	}
	if !f.follows {
		return nil
	}
	return z.descriptor(f, hasExtra(extra, extraLarge), name)
}

// descriptor reads the record after a body: signature, checksum and both sizes.
func (z *zipReader) descriptor(f *zipFile, large bool, name string) error {
	raw := make([]byte, 16, 24)
	if large || f.packed > math.MaxUint32 || f.size > math.MaxUint32 {
		raw = raw[:24]
	}
	if err := z.at(raw, z.next); err != nil {
		return err
	}
	le := binary.LittleEndian
	packed, size := int64(le.Uint32(raw[8:])), int64(le.Uint32(raw[12:]))
	if len(raw) == 24 {
		packed, size = int64(le.Uint64(raw[8:])), int64(le.Uint64(raw[16:]))
	}
	if string(raw[:4]) != descriptorHead || le.Uint32(raw[4:]) != f.sum || packed != f.packed || size != f.size {
		return ambiguous(name, "size or checksum after the entry differ from the directory")
	}
	z.next += int64(len(raw))
	return nil
}

// at reads bytes before the directory.
func (z *zipReader) at(p []byte, offset int64) error {
	if offset+int64(len(p)) > z.end.at {
		return hidden("", "an entry overlaps the directory of the archive")
	}
	_, err := z.r.ReadAt(p, offset)
	return err
}

// wide is a number that is in an extra field if it does not fit in the header.
type wide struct {
	value *int64
	means int64 // in the header, the marker for the extra field
}

// readExtras reads the numbers that did not fit in the header, in their order,
// and reports whether all extra fields are complete and harmless.
func readExtras(extra []byte, numbers ...wide) bool {
	var seen []uint16
	for len(extra) > 0 {
		if len(extra) < 4 {
			return false
		}
		kind, n := binary.LittleEndian.Uint16(extra), int(binary.LittleEndian.Uint16(extra[2:]))
		if len(extra) < 4+n || slices.Contains(seen, kind) {
			return false
		}
		field := extra[4 : 4+n]
		extra, seen = extra[4+n:], append(seen, kind)
		if kind == extraLarge && !widen(field, numbers) || kind != extraLarge && !slices.Contains(harmlessExtras, kind) {
			return false
		}
	}
	large := slices.Contains(seen, extraLarge)
	return large || !slices.ContainsFunc(numbers, func(n wide) bool { return *n.value == n.means })
}

func widen(field []byte, numbers []wide) bool {
	for _, n := range numbers {
		width := 8
		if n.means == math.MaxUint16 {
			width = 4
		}
		switch {
		case *n.value != n.means:
			continue
		case len(field) < width:
			return false
		case width == 4:
			*n.value = int64(binary.LittleEndian.Uint32(field))
		default:
			if *n.value = int64(binary.LittleEndian.Uint64(field)); *n.value < 0 {
				return false
			}
		}
		field = field[width:]
	}
	return len(field) == 0
}

func hasExtra(extra []byte, kind uint16) bool {
	for len(extra) >= 4 {
		if binary.LittleEndian.Uint16(extra) == kind {
			return true
		}
		extra = extra[min(len(extra), 4+int(binary.LittleEndian.Uint16(extra[2:]))):]
	}
	return false
}
