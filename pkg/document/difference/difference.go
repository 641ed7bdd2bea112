// Package difference says where two files differ: in which section of a program
// (ELF, Mach-O, PE) or field of its Go build information, in which entry of an
// archive (tar, gzip, zip) or attribute of it. Files inside are compared in the
// same way. Nothing is normalised: what the readers do not explain is named by its
// offset.
//
//	list, err := difference.Of("bin/hello", want, got)
//	for _, d := range list {
//		fmt.Println(d.Where, d.Want, d.Got)
//	}
//
// Programs and archives are read in place, piece by piece; only what is compressed
// and differs is held in memory, up to a limit. All of them may be hostile.
//
// Other projects should not import this package: it changes without notice.
package difference

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"sort"

	"github.com/waybill-release/waybill/pkg/tool/slice"
)

// Difference is one place where two files differ. An absent place is "none".
type Difference struct {
	Where string `json:"where"`
	Want  string `json:"want"`
	Got   string `json:"got"`
}

const (
	// maxDifferences is how many are listed of two files.
	maxDifferences = 100
	// maxRead is how much is unpacked of one archive. A larger zip has no parts.
	maxRead = 512 << 20
	// maxParts is how many parts of one tar are compared.
	maxParts = 1 << 20
	// maxDepth limits how deep archives in archives are compared.
	maxDepth = 4
)

// part is a named part of a file: either a value, as text, or content that has
// parts itself. Content that is compressed is unpacked if it differs.
type part struct {
	where   string
	text    string
	content *io.SectionReader
	unpack  func() (*io.SectionReader, error)
}

// Of lists the differences of two files, the first 100 of them; none if the bytes
// are equal.
func Of(where string, want, got *io.SectionReader) ([]Difference, error) {
	list, err := compareContent(where, want, got, 0)
	return list[:min(len(list), maxDifferences)], err
}

// read unpacks as long as left allows.
func read(r io.Reader, left *int64) (*io.SectionReader, error) {
	raw, err := io.ReadAll(io.LimitReader(r, *left+1))
	if *left -= int64(len(raw)); err == nil && *left < 0 {
		err = errFormat
	}
	return held(raw), err
}

func held(raw []byte) *io.SectionReader {
	return io.NewSectionReader(bytes.NewReader(raw), 0, int64(len(raw)))
}

// compare compares two parts. The zero part is absent.
func compare(where string, want, got part, depth int) ([]Difference, error) {
	switch {
	case want.text != got.text || (want.where == "") != (got.where == ""):
		return []Difference{{where, want.String(), got.String()}}, nil
	case want.content == nil || got.content == nil:
		return nil, nil
	}
	if at, err := firstDifference(want.content, got.content); err != nil || at < 0 {
		return nil, err
	}
	if want.unpack != nil && got.unpack != nil {
		x, err := want.unpack()
		y, other := got.unpack()
		if err == nil && other == nil {
			return compareContent(where, x, y, depth)
		}
		where += ", compressed"
	}
	return compareContent(where, want.content, got.content, depth)
}

// compareContent compares part by part, and by offset if all parts are equal.
func compareContent(where string, want, got *io.SectionReader, depth int) (list []Difference, _ error) {
	var a, b []part
	if depth < maxDepth {
		a, b = partsOf(want, got)
	}
	mine, other := byName(a), byName(b)
	for _, p := range slices.Concat(a, b) {
		more, err := compare(where+": "+p.where, mine[p.where], other[p.where], depth+1)
		if list = append(list, more...); err != nil {
			return nil, err
		}
		delete(mine, p.where)
		delete(other, p.where)
	}
	if len(list) > 0 {
		return list, nil
	}
	at, err := firstDifference(want, got)
	if err != nil || at < 0 {
		return nil, err
	}
	for i := range min(len(a), len(b)) {
		if x, y := a[i].where, b[i].where; x != y {
			return []Difference{{where + ": order of entries", x, y}}, nil
		}
	}
	return []Difference{{fmt.Sprintf("%s: from byte %d", where, at), from(at, want), from(at, got)}}, nil
}

// firstDifference is the offset of the first byte that differs, negative if there
// is none.
func firstDifference(want, got *io.SectionReader) (int64, error) {
	const piece = 1 << 17
	all := max(want.Size(), got.Size())
	x, y := make([]byte, min(all, piece)), make([]byte, min(all, piece))
	for at := int64(0); at < all; at += piece {
		n, err := want.ReadAt(x, at)
		m, other := got.ReadAt(y, at)
		if err != nil && err != io.EOF || other != nil && other != io.EOF {
			return 0, errors.Join(err, other)
		}
		if !bytes.Equal(x[:n], y[:m]) {
			return at + int64(sort.Search(min(n, m), func(i int) bool { return !bytes.Equal(x[:i+1], y[:i+1]) })), nil
		}
	}
	return -1, nil
}

// from shows the first bytes from an offset.
func from(at int64, content *io.SectionReader) string {
	raw, _ := io.ReadAll(io.NewSectionReader(content, at, 16)) // it was read before
	return fmt.Sprintf("%q, %s", raw, part{content: content})
}

func (p part) String() string {
	switch {
	case p.content != nil:
		return fmt.Sprintf("%d bytes in all", p.content.Size())
	case p.where == "":
		return "none"
	}
	return cmp.Or(p.text, `""`)
}

func byName(list []part) map[string]part {
	return slice.By(list, func(p part) string { return p.where })
}

// partsOf reads both files with the first reader that understands them; files
// that none does have no parts.
func partsOf(want, got *io.SectionReader) (a, b []part) {
	for _, read := range []func(*io.SectionReader) ([]part, error){elfParts, machoParts, peParts, gzipParts, zipParts, tarParts} {
		a, err := read(want)
		b, other := read(got)
		if err == nil && other == nil {
			return slices.Concat(buildInfo(want), a), slices.Concat(buildInfo(got), b)
		}
	}
	return nil, nil
}
