// Package rawarchive writes tar and zip archives as no honest program does: each
// header and each record as it is asked, whether or not they agree. Tests
// attack with them what reads archives.
//
// Other projects should not import this package: it changes without notice.
package rawarchive

import (
	"fmt"
	"strconv"
	"strings"
)

// The formats of a header, by its magic and version.
const (
	POSIX = "ustar\x0000"
	GNU   = "ustar  \x00"
)

// Header is one header of a tar archive. Kind '0' is a file and '5' a directory.
type Header struct {
	Name, Link, Prefix string
	Kind               byte
	Size               int64
	Format             string        // POSIX if empty
	Edit               func([]byte)  // of the block, before the checksum
	Sum                func(int) int // another checksum than the right one
}

// Bytes is the header as it is written.
func (h Header) Bytes() []byte {
	b := make([]byte, 512)
	if h.Format == "" {
		h.Format = POSIX
	}
	copy(b[0:100], h.Name)
	copy(b[100:], "0000644\x000000000\x000000000\x00")
	copy(b[124:], fmt.Sprintf("%011o\x00%011o\x00", h.Size, 1714557600))
	if b[156] = h.Kind; h.Kind == '5' {
		copy(b[100:], "0000755")
	}
	copy(b[157:257], h.Link)
	copy(b[257:], h.Format)
	copy(b[329:], "0000000\x000000000\x00")
	copy(b[345:500], h.Prefix)
	if h.Edit != nil {
		h.Edit(b)
	}
	Checksum(b, h.Sum)
	return b
}

// Checksum writes the checksum of a header, or what becomes of it.
func Checksum(b []byte, other func(int) int) {
	copy(b[148:156], "        ")
	sum := 0
	for _, c := range b {
		sum += int(c)
	}
	if other != nil {
		sum = other(sum)
	}
	copy(b[148:156], fmt.Sprintf("%06o\x00 ", sum))
}

// Body is what an entry holds, with the zeros that fill its last block.
func Body(content string) []byte {
	return append([]byte(content), make([]byte, (512-len(content)%512)%512)...)
}

// File is an entry in the format of POSIX.
func File(name, content string) []byte {
	return append(Header{Name: name, Kind: '0', Size: int64(len(content))}.Bytes(), Body(content)...)
}

// Extended is an extended header: of kind 'x' or 'g' with records, of kind 'L'
// with a name, of kind 'K' with the target of a link.
func Extended(kind byte, content string) []byte {
	h := Header{Name: "././@LongLink", Kind: kind, Size: int64(len(content)), Format: GNU}
	if kind == 'x' || kind == 'g' {
		h.Name, h.Format = "PaxHeaders.0/entry", POSIX
	}
	return append(h.Bytes(), Body(content)...)
}

// Records are those of an extended header: keyword, value, keyword, value…
func Records(pairs ...string) string {
	var all strings.Builder
	for i := 0; i+1 < len(pairs); i += 2 {
		rest := " " + pairs[i] + "=" + pairs[i+1] + "\n"
		n := len(rest)
		for n != len(rest)+len(strconv.Itoa(n)) {
			n = len(rest) + len(strconv.Itoa(n))
		}
		all.WriteString(strconv.Itoa(n) + rest)
	}
	return all.String()
}

// Tar is an archive of entries, with its end.
func Tar(entries ...[]byte) []byte {
	var all []byte
	for _, e := range entries {
		all = append(all, e...)
	}
	return append(all, make([]byte, 1024)...)
}
