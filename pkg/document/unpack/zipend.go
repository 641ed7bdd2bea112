package unpack

import (
	"bytes"
	"encoding/binary"
	"io"
	"math"
	"strings"

	"github.com/waybill-release/waybill/pkg/value/verdict"
)

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
