package unpack

import (
	"bufio"
	"bytes"
	"compress/flate"
	"encoding/binary"
	"hash/crc32"
	"io"
	"math"
	"strings"

	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// zip reads a zip archive. The central directory and the entries are read in
// parallel, from front to back, and must agree.
func (w *Walker) zip(r io.ReaderAt, size int64, visit Visit) error {
	end, err := findEnd(r, size)
	if err != nil {
		return err
	}
	if end.entries > int64(w.limit-w.entries) {
		return verdict.Refuse(verdict.Limit, "", "more than %d entries", w.limit-w.entries)
	}
	z := zipReader{r: r, end: end, central: bufio.NewReaderSize(io.NewSectionReader(r, end.at, end.size), 64<<10)}
	seen, whole := newNames(), &measured{in: &counting{}, w: w, ratio: true}
	w.outermost(whole.in)
	for range end.entries {
		if err := w.entry(); err != nil {
			return err
		}
		f, err := z.entry()
		if err != nil {
			return err
		}
		whole.in.n += f.packed
		if err := z.visit(f, seen, whole, visit); err != nil {
			return err
		}
	}
	return z.closed()
}

// zipReader reads the entries of a zip archive in their order.
type zipReader struct {
	r       io.ReaderAt
	end     zipEnd
	central io.Reader // the rest of the central directory
	listed  int64     // how much of it was read
	next    int64     // where the next entry begins
	inflate io.ReadCloser
}

// closed requires that entries and directory end together.
func (z *zipReader) closed() error {
	if z.listed != z.end.size || z.next != z.end.at {
		return hidden("", "the archive has unknown bytes between its last entry and its directory")
	}
	return nil
}

// visit checks one entry. Its output is compared with its compressed size, and
// the total output with the total input: many small entries may be a bomb
// together.
func (z *zipReader) visit(f zipFile, seen *names, whole *measured, visit Visit) error {
	name, err := CleanName(f.name)
	if err != nil {
		return err
	}
	e := Entry{Name: name, Kind: File, Size: f.size}
	if f.directory {
		e.Kind = Directory
		if err := seen.directory(name); err != nil {
			return err
		}
		if err := visit(e, strings.NewReader("")); err != nil {
			return err
		}
		_, err := io.Copy(io.Discard, z.body(f))
		return err
	}
	if err := seen.once(name); err != nil {
		return err
	}
	if err := seen.file(name); err != nil {
		return err
	}
	out := &measured{r: z.body(f), in: &counting{n: f.packed}, w: whole.w, ratio: true, whole: whole}
	if err := visit(e, out); err != nil {
		return err
	}
	// Errors show only at the end, so a skipped body is read, too.
	_, err = io.Copy(io.Discard, out)
	return err
}

// body returns the uncompressed contents of an entry.
func (z *zipReader) body(f zipFile) io.Reader {
	packed := bufio.NewReaderSize(io.NewSectionReader(z.r, f.data, f.packed), 32<<10)
	b := &zipBody{f: f, packed: packed, plain: packed}
	if f.method == deflated {
		if z.inflate == nil {
			z.inflate = flate.NewReader(packed)
		} else {
			_ = z.inflate.(flate.Resetter).Reset(packed, nil)
		}
		b.plain = z.inflate
	}
	return b
}

// zipBody checks at its end that the body has the size and checksum in the
// headers, and that no compressed bytes remain.
type zipBody struct {
	f      zipFile
	packed *bufio.Reader
	plain  io.Reader
	n      int64
	sum    uint32
	tail   []byte // the last bytes of an uncompressed body
	ended  error
}

// Read implements [io.Reader].
func (b *zipBody) Read(p []byte) (int, error) {
	if b.ended != nil {
		return 0, b.ended
	}
	n, err := b.plain.Read(p)
	b.n += int64(n)
	b.sum = crc32.Update(b.sum, crc32.IEEETable, p[:n])
	switch {
	case b.n > b.f.size:
		err = b.broken("the entry is larger than its headers say")
	case b.f.method == stored && b.f.follows && b.sawDescriptor(p[:n]):
		err = ambiguous(called(b.f.name), "the size of the entry follows its body, which contains bytes that look like its end")
	case err == io.EOF && (b.n != b.f.size || b.sum != b.f.sum):
		err = b.broken("the size or checksum of the entry differs from its headers")
	case err == io.EOF:
		if _, left := b.packed.ReadByte(); left != io.EOF {
			err = hidden(called(b.f.name), "the entry has bytes after the end of its compressed data")
		}
	}
	if _, corrupt := err.(flate.CorruptInputError); corrupt || err == io.ErrUnexpectedEOF { //nolint:errorlint // flate does not wrap it
		err = b.broken("the entry cannot be decompressed to its end")
	}
	b.ended = err
	if err != nil && err != io.EOF {
		n = 0
	}
	return n, err
}

// sawDescriptor looks for bytes that a sequential reader takes for the end of
// the body.
func (b *zipBody) sawDescriptor(p []byte) bool {
	all := string(b.tail) + string(p)
	b.tail = []byte(all[max(0, len(all)-3):])
	return strings.Contains(all, descriptorHead)
}

func (b *zipBody) broken(why string) error {
	return verdict.Refuse(verdict.ArchiveParse, called(b.f.name), "%s", why)
}

// hidden refuses bytes that some programs read and others do not.
func hidden(name, format string, args ...any) error {
	return verdict.Refuse(verdict.ArchiveHidden, name, format, args...)
}

// Signatures and sizes of the records of a zip archive.
const (
	localHead      = "PK\x03\x04"
	centralHead    = "PK\x01\x02"
	descriptorHead = "PK\x07\x08"
	endHead        = "PK\x05\x06"
	end64Head      = "PK\x06\x06"
	locatorHead    = "PK\x06\x07"

	localSize   = 30
	centralSize = 46
	endSize     = 22
	end64Size   = 56
	locatorSize = 20
)

// zipEnd is the location of the central directory.
type zipEnd struct{ at, size, entries int64 }

// findEnd reads the end record of a zip archive, with or without a comment, up
// to the last byte; and the zip64 record before it, if a number requires that.
func findEnd(r io.ReaderAt, size int64) (zipEnd, error) {
	tail := make([]byte, min(size, endSize+math.MaxUint16))
	if _, err := r.ReadAt(tail, size-int64(len(tail))); err != nil && err != io.EOF {
		return zipEnd{}, err
	}
	begin := bytes.LastIndex(tail, []byte(endHead))
	if begin < 0 || len(tail)-begin < endSize {
		return zipEnd{}, verdict.Refuse(verdict.ArchiveParse, "", "the zip archive has no end record: it was cut off, or other bytes follow")
	}
	end := tail[begin:]
	comment := end[endSize:]
	if int(binary.LittleEndian.Uint16(end[20:])) != len(comment) || strings.Contains(string(comment), "PK") {
		return zipEnd{}, hidden("", "bytes after the end of the archive")
	}
	at := size - int64(len(end))
	short := func(i int) int64 { return int64(binary.LittleEndian.Uint16(end[i:])) }
	e := zipEnd{at: int64(binary.LittleEndian.Uint32(end[16:])), size: int64(binary.LittleEndian.Uint32(end[12:])), entries: short(10)}
	if short(4) != 0 || short(6) != 0 || short(8) != short(10) {
		return zipEnd{}, ambiguous("", "the archive has several parts, or two different numbers of entries")
	}
	large, err := findLargeEnd(r, at)
	if err != nil {
		return zipEnd{}, err
	}
	if large != nil {
		if !agrees(e.entries, large.entries, math.MaxUint16) || !agrees(e.size, large.size, math.MaxUint32) || !agrees(e.at, large.at, math.MaxUint32) {
			return zipEnd{}, ambiguous("", "the archive has two different locations of its directory")
		}
		e, at = *large, at-locatorSize-end64Size
	}
	if e.at < 0 || e.size < 0 || e.size > at || e.at != at-e.size {
		return zipEnd{}, hidden("", "the directory of the archive does not end where the end record begins")
	}
	if e.entries < 0 || e.entries > e.size/centralSize {
		return zipEnd{}, ambiguous("", "the number of entries is too large for the directory of the archive")
	}
	return e, nil
}

// agrees reports whether a small number equals the large one, or is the marker
// that refers to it.
func agrees(small, large, means int64) bool { return small == large || small == means }

// findLargeEnd reads the zip64 end record, nil if there is none.
func findLargeEnd(r io.ReaderAt, end int64) (*zipEnd, error) {
	if end < locatorSize+end64Size {
		return nil, nil //nolint:nilnil // there is none
	}
	raw := make([]byte, end64Size+locatorSize)
	if _, err := r.ReadAt(raw, end-int64(len(raw))); err != nil {
		return nil, err
	}
	locator := raw[end64Size:]
	if string(locator[:4]) != locatorHead {
		return nil, nil //nolint:nilnil // there is none
	}
	long := func(i int) int64 { return int64(binary.LittleEndian.Uint64(raw[i:])) }
	le := binary.LittleEndian
	where := int64(le.Uint64(locator[8:]))
	if string(raw[:4]) != end64Head || long(4) != end64Size-12 || where != end-int64(len(raw)) ||
		le.Uint32(locator[4:]) != 0 || le.Uint32(locator[16:]) != 1 || le.Uint64(raw[16:]) != 0 || long(24) != long(32) {
		return nil, ambiguous("", "the zip64 end record is ambiguous")
	}
	return &zipEnd{at: long(48), size: long(40), entries: long(32)}, nil
}
