// Package difference says where two files differ: in which section of a program
// (ELF, Mach-O, PE) or field of its Go build information, in which entry of an
// archive (tar, gzip, zip) or attribute of it, at which path of a JSON document.
// Files inside are compared in the same way. Nothing is normalised: what the
// readers do not explain is named by its offset.
//
//	for _, d := range difference.Of("bin/hello", want, got) {
//		fmt.Println(d.Where, d.Want, d.Got)
//	}
//
// Archives and programs may be hostile: reading stops at limits.
//
// Other projects should not import this package: it changes without notice.
package difference

import (
	"bufio"
	"bytes"
	"cmp"
	"fmt"
	"io"

	"github.com/waybill-release/waybill/pkg/value/digest"
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
	// maxKept is the size up to which a file in an archive is compared by its
	// parts, and not as a whole.
	maxKept = 256 << 20
	// maxRead limits what is decompressed of an archive.
	maxRead = 64 << 30
	// maxDepth limits how deep archives in archives are compared.
	maxDepth = 4
)

// part is a named part of a file. If it is a file itself, content has its bytes,
// if they were asked for.
type part struct {
	where, is string
	file      bool
	content   []byte
}

// none is what an absent part is.
const none = "none"

// Of lists the differences of two files, the first 100 of them; nil if the bytes
// are equal.
func Of(where string, want, got *io.SectionReader) []Difference {
	list := compare(where, want, got, 0)
	return list[:min(len(list), maxDifferences)]
}

// compare compares part by part, and by offset if all parts are equal.
func compare(where string, want, got *io.SectionReader, depth int) (list []Difference) {
	offset := firstDifference(want, got)
	if offset < 0 {
		return nil
	}
	add := func(part, a, b string) {
		if list = append(list, Difference{where + part, a, b}); a == "" || b == "" {
			list[len(list)-1] = Difference{where + part, cmp.Or(a, `""`), cmp.Or(b, `""`)}
		}
	}
	read := partsOf(want, got)
	a, b := read(want, nil), read(got, nil)
	other := byName(b)
	inside := map[string]bool{}
	for _, p := range a {
		q, there := other[p.where]
		switch {
		case !there:
			add(": "+p.where, p.is, none)
		case p.is != q.is && p.file && q.file && depth < maxDepth:
			inside[p.where] = true
		case p.is != q.is:
			add(": "+p.where, p.is, q.is)
		}
	}
	mine := byName(a)
	for _, q := range b {
		if _, there := mine[q.where]; !there {
			add(": "+q.where, none, q.is)
		}
	}
	if len(list) == 0 && len(inside) == 0 {
		if x, y := order(a, b); x != y {
			add(": order of entries", x, y)
		}
	}
	if len(inside) > 0 {
		x, y := byName(read(want, inside)), byName(read(got, inside))
		for _, p := range a {
			if !inside[p.where] {
				continue
			}
			below := compare(where+": "+p.where, section(x[p.where].content), section(y[p.where].content), depth+1)
			if len(below) == 0 { // too large to be kept
				add(": "+p.where, p.is, other[p.where].is)
			}
			list = append(list, below...)
		}
	}
	if len(list) == 0 {
		add(fmt.Sprintf(": from byte %d, outside of all parts that are known", offset), sizeOf(want), sizeOf(got))
	}
	return list
}

func section(raw []byte) *io.SectionReader {
	return io.NewSectionReader(bytes.NewReader(raw), 0, int64(len(raw)))
}

func sizeOf(r *io.SectionReader) string { return fmt.Sprintf("%d bytes in all", r.Size()) }

func byName(list []part) map[string]part {
	all := make(map[string]part, len(list))
	for _, p := range list {
		all[p.where] = p
	}
	return all
}

// order returns the first two names that differ in the order of equal lists.
func order(a, b []part) (x, y string) {
	for i := range min(len(a), len(b)) {
		if a[i].where != b[i].where {
			return a[i].where, b[i].where
		}
	}
	return "", ""
}

// firstDifference is the offset of the first byte that differs, -1 if none does.
func firstDifference(a, b *io.SectionReader) int64 {
	x, y := bufio.NewReaderSize(rewound(a), 1<<16), bufio.NewReaderSize(rewound(b), 1<<16)
	for offset := int64(0); ; {
		p, _ := x.Peek(1 << 15)
		q, _ := y.Peek(1 << 15)
		n := min(len(p), len(q))
		if !bytes.Equal(p[:n], q[:n]) {
			for p[0] == q[0] {
				p, q, offset = p[1:], q[1:], offset+1
			}
			return offset
		}
		if n == 0 {
			if len(p) == len(q) {
				return -1
			}
			return offset
		}
		_, _ = x.Discard(n) // they were peeked
		_, _ = y.Discard(n)
		offset += int64(n)
	}
}

func rewound(r *io.SectionReader) *io.SectionReader { return io.NewSectionReader(r, 0, r.Size()) }

// summary is what a content is, in a difference.
func summary(r io.Reader) string {
	sum, n, err := digest.SumSHA256(r)
	if err != nil {
		return "unreadable: " + err.Error()
	}
	return fmt.Sprintf("%d bytes, sha256:%.16s…", n, sum.Hex())
}
