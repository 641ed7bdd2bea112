// Package difference says where two files differ: in which section of a program
// (ELF, Mach-O, PE) or field of its Go build information, in which entry of an
// archive (tar, gzip, zip) or attribute of it. Files inside are compared in the
// same way. Nothing is normalised: what the readers do not explain is named by its
// offset.
//
//	list, err := difference.Of("bin/hello", want, got, size)
//	for _, d := range list {
//		fmt.Println(d.Where, d.Want, d.Got)
//	}
//
// Archives and programs may be hostile: reading stops at limits.
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
	// maxRead is how much is read of a file, and unpacked of one archive.
	maxRead = 512 << 20
	// maxDepth limits how deep archives in archives are compared.
	maxDepth = 4
)

// part is a named part of a file: either a value, as text, or content that has
// parts itself.
type part struct {
	where   string
	text    string
	content []byte
}

// Of lists the differences of two files, the first 100 of them; none if the bytes
// are equal. A file of more than 512 MiB differs as a whole from every other. size
// is about that of both, if it is known.
func Of(where string, want, got io.Reader, size int64) ([]Difference, error) {
	a, err := new(budget).read(want, size)
	b, other := new(budget).read(got, size)
	if errors.Is(err, errLimit) || errors.Is(other, errLimit) {
		return []Difference{{where + ": too large to compare by its parts", sizeOf(a), sizeOf(b)}}, nil
	}
	list := compare(where, a, b, 0)
	return list[:min(len(list), maxDifferences)], errors.Join(err, other)
}

// budget counts what was read.
type budget struct{ spent int64 }

var errLimit = errors.New("too large")

func (b *budget) read(r io.Reader, size int64) ([]byte, error) {
	raw := bytes.NewBuffer(make([]byte, 0, min(max(size, 0), maxRead)+bytes.MinRead))
	n, err := raw.ReadFrom(io.LimitReader(r, maxRead-b.spent+1))
	if b.spent += n; err == nil && b.spent > maxRead {
		err = errLimit
	}
	return raw.Bytes(), err
}

// compare compares part by part, and by offset if all parts are equal.
func compare(where string, want, got []byte, depth int) (list []Difference) {
	if bytes.Equal(want, got) {
		return nil
	}
	var a, b []part
	if depth < maxDepth {
		a, b = partsOf(want, got)
	}
	mine, other := byName(a), byName(b)
	for _, p := range a {
		switch q, there := other[p.where]; {
		case !there:
			list = append(list, Difference{where + ": " + p.where, p.String(), "none"})
		case p.text != q.text:
			list = append(list, Difference{where + ": " + p.where, p.String(), q.String()})
		default:
			list = append(list, compare(where+": "+p.where, p.content, q.content, depth+1)...)
		}
	}
	for _, q := range b {
		if _, there := mine[q.where]; !there {
			list = append(list, Difference{where + ": " + q.where, "none", q.String()})
		}
	}
	if len(list) > 0 {
		return list
	}
	for i := range min(len(a), len(b)) {
		if x, y := a[i].where, b[i].where; x != y {
			return []Difference{{where + ": order of entries", x, y}}
		}
	}
	const step = 1 << 16
	at := 0
	for at+step <= min(len(want), len(got)) && bytes.Equal(want[at:at+step], got[at:at+step]) {
		at += step
	}
	for at < min(len(want), len(got)) && want[at] == got[at] {
		at++
	}
	return []Difference{{fmt.Sprintf("%s: from byte %d", where, at), from(at, want), from(at, got)}}
}

// from shows the first bytes from an offset.
func from(at int, raw []byte) string {
	return fmt.Sprintf("%q, %s", raw[at:min(at+16, len(raw))], sizeOf(raw))
}

func (p part) String() string {
	if p.content != nil {
		return sizeOf(p.content)
	}
	return cmp.Or(p.text, `""`)
}

func sizeOf(raw []byte) string { return fmt.Sprintf("%d bytes in all", len(raw)) }

func byName(list []part) map[string]part {
	all := make(map[string]part, len(list))
	for _, p := range list {
		all[p.where] = p
	}
	return all
}

// partsOf reads both files with the first reader that understands them; files
// that none does have no parts.
func partsOf(want, got []byte) (a, b []part) {
	for _, read := range []func([]byte) ([]part, error){elfParts, machoParts, peParts, gzipParts, zipParts, tarParts} {
		a, err := read(want)
		b, other := read(got)
		if err == nil && other == nil {
			return slices.Concat(buildInfo(want), a), slices.Concat(buildInfo(got), b)
		}
	}
	return nil, nil
}
