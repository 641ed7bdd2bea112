// Package unpack reads archives as streams: tar, alone or compressed by gzip,
// zstd or bzip2, and zip. Nothing is written anywhere.
//
//	w := unpack.New()
//	err := w.Archive(file, size, visit)
//
// What is read is what unpacks: an archive is refused (ARCHIVE_AMBIGUOUS,
// ARCHIVE_HIDDEN, ARCHIVE_TWICE, ARCHIVE_PARSE) unless all programs in use give
// the same names, kinds and bytes for it. Of a tar archive that means one
// extended header before an entry at most, with records out of a list, no sparse
// files, and numbers and texts of one reading; of a zip, that local and central
// headers agree, that the entries lie behind each other from the first byte to
// the central directory, in its order, and that the one end record ends the
// file. There are three readings by one reader: [Walker.Place] takes files and
// directories, [Walker.Archive] links and harmless records too, and [Layer] all
// that Go's reader takes, which is what those read with who run images.
//
// Archives are hostile. A walk is bounded in entries (a million), in bytes that
// come out of each byte that goes in, and in bytes altogether, over all archives
// inside of archives. An entry costs some 50 bytes of memory; one of a zip,
// whose directory is read first, some 600. Names that leave the archive or occur
// twice, entries below a symbolic link or a file, anything but files,
// directories and links, and bytes after the end are refusals, each with its
// code.
package unpack

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// The bounds of one walk.
const (
	// MaxEntries bounds entries, directories included.
	MaxEntries = 1_000_000
	// maxLayerEntries bounds those of the layer of an image, of which no
	// document lists every file.
	maxLayerEntries = 2_000_000
	// maxRatio is how many bytes may come out of one compressed byte, on
	// average. Source code gives about ten, the worst of deflate a thousand.
	maxRatio = 250
	// freeExpansion is not counted: small archives may be mostly padding.
	freeExpansion = 64 << 20
	// freeAltogether is what is not counted of an archive with all archives in it.
	freeAltogether = 1 << 30
	// maxExpansion bounds what comes out of everything.
	maxExpansion = 256 << 30
	// MaxDepth is how deep archives are looked for inside of archives.
	MaxDepth = 6
)

// Kind is what an entry is.
type Kind uint8

// The kinds of entries.
const (
	File Kind = iota + 1
	Directory
	HardLink // of an earlier file
	SymLink
)

// Entry is one entry of an archive.
type Entry struct {
	// Name is clean: relative, slashes, no dot segments.
	Name string
	Kind Kind
	// Size is what the archive declares; only the body tells.
	Size int64
	// Target is where a link leads, for hard links the clean name of a file.
	Target string
	// Offset is where the body begins in a tar archive, as it is when it is not
	// compressed.
	Offset int64
	// Leaves says that the entry of a layer was written with a name, or with the
	// target of a hard link, that leads out of the root.
	Leaves bool
}

// Visit is called for each entry in the order of the archive. The body of a
// file need not be read to its end; other kinds have an empty one.
type Visit func(e Entry, body io.Reader) error

// Walker walks one archive and, for whoever visits, the archives in it. It is
// not safe for concurrent use.
type Walker struct {
	entries  int
	limit    int
	expanded int64
	outer    *counting // what went into the outermost archive at hand
	before   int64     // and into those before it
	depth    int
}

// New begins a walk.
func New() *Walker { return &Walker{limit: MaxEntries} }

// Entries counts what was seen so far.
func (w *Walker) Entries() int { return w.entries }

// ErrXZ says that something is compressed in a way that is known by its head
// and read by none of our libraries.
var ErrXZ = errors.New("compressed with xz, which is not read here")

// ErrFormat says that a file is no archive of a known format.
var ErrFormat = errors.New("not an archive of a known format")

// SingleError says that what is compressed is a single file and no archive. It
// is an [ErrFormat].
type SingleError struct {
	Head []byte // the first bytes of that file
}

// Error names no archive.
func (*SingleError) Error() string { return "what is compressed: " + ErrFormat.Error() }

// Is makes it an [ErrFormat].
func (*SingleError) Is(target error) bool { return target == ErrFormat }

// Archive walks the archive that r holds, whatever its format.
func (w *Walker) Archive(r io.ReaderAt, size int64, visit Visit) error {
	head := make([]byte, HeadSize)
	n, err := r.ReadAt(head, 0)
	if err != nil && err != io.EOF {
		return err
	}
	switch format := Sniff(head[:n]); format {
	case None:
		return ErrFormat
	case Zip:
		return w.enter(func() error { return w.zip(r, size, visit) })
	default:
		return w.Stream(io.NewSectionReader(r, 0, size), format, visit)
	}
}

// Stream walks an archive of a format that can be read from front to back, and
// reads it to its end.
func (w *Walker) Stream(r io.Reader, f Format, visit Visit) error {
	return w.enter(func() error {
		packed := &counting{r: r}
		w.outermost(packed)
		plain, err := Expand(packed, f)
		if err != nil {
			return err
		}
		defer plain.Close()
		// Whoever feeds us may do so in small pieces.
		begun := bufio.NewReaderSize(plain, HeadSize)
		head, err := begun.Peek(HeadSize)
		if err != nil && err != io.EOF {
			return err
		}
		if !isTar(head) && strings.Trim(string(head), "\x00") != "" {
			return &SingleError{bytes.Clone(head)}
		}
		out := &measured{r: begun, in: packed, w: w, ratio: f != Tar}
		if err := w.tar(out, ofArchive, visit); err != nil {
			return err
		}
		// tar ends before the stream does. What follows is padding, or a part
		// of the archive that this reader does not see and another one might.
		if err := onlyZeros(out); err != nil {
			return err
		}
		_, err = io.Copy(io.Discard, packed)
		return err
	})
}

// Place walks an archive whose files are those of a release: a tar archive of
// files and directories, that is not compressed. Bodies that visit does not read
// are passed over.
func (w *Walker) Place(r io.ReaderAt, size int64, visit Visit) error {
	return w.plain(r, size, ofPlace, visit)
}

// Index walks a tar archive that is not compressed, as [Walker.Archive] does.
// Bodies that visit does not read are passed over.
func (w *Walker) Index(r io.ReaderAt, size int64, visit Visit) error {
	return w.plain(r, size, ofArchive, visit)
}

func (w *Walker) plain(r io.ReaderAt, size int64, by rules, visit Visit) error {
	section := io.NewSectionReader(r, 0, size)
	head := make([]byte, min(HeadSize, size))
	if _, err := r.ReadAt(head, 0); err != nil && err != io.EOF {
		return err
	}
	if !isTar(head) && (size == 0 || strings.Trim(string(head), "\x00") != "") {
		return verdict.Refuse(verdict.ArchiveParse, "", "it is no tar archive, or a compressed one")
	}
	if err := w.tar(section, by, visit); err != nil {
		return err
	}
	if by == ofPlace && size%tarBlock != 0 {
		return verdict.Refuse(verdict.ArchiveHidden, "", "bytes after the end of the archive")
	}
	return onlyZeros(section)
}

// Layer walks one layer of an image. Layers are unpacked into a root of their
// own, by whoever runs the image: links may lead anywhere, devices may be
// there, and of two entries of one name the last one counts. Names are those
// below the root, whatever their spelling.
//
// also sees the layer as it is uncompressed.
func Layer(r io.Reader, also io.Writer, visit Visit) error {
	w := &Walker{limit: maxLayerEntries}
	packed := &counting{r: r}
	w.outermost(packed)
	begun := bufio.NewReaderSize(packed, 64<<10)
	head, err := begun.Peek(HeadSize)
	if err != nil && err != io.EOF {
		return err
	}
	format := Sniff(head)
	if format == None || format == Zip {
		format = Tar // an empty one has no magic
	}
	plain, err := Expand(begun, format)
	if err != nil {
		return err
	}
	defer plain.Close()
	out := io.TeeReader(&measured{r: plain, in: packed, w: w, ratio: format != Tar}, also)
	if err := w.tar(out, ofLayer, visit); err != nil {
		return err
	}
	if _, err := io.Copy(io.Discard, out); err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, begun)
	return err
}

// enter counts the depth of archives in archives.
func (w *Walker) enter(walk func() error) error {
	if w.depth++; w.depth > MaxDepth {
		w.depth--
		return verdict.Refuse(verdict.Limit, "", "archives more than %d deep in each other", MaxDepth)
	}
	defer func() { w.depth-- }()
	return walk()
}

// entry counts one entry.
func (w *Walker) entry() error {
	if w.entries++; w.entries > w.limit {
		return verdict.Refuse(verdict.Limit, "", "more than %d entries", w.limit)
	}
	return nil
}

// outermost remembers what goes into the outermost archive.
func (w *Walker) outermost(packed *counting) {
	if w.outer != nil && w.depth > 1 {
		return
	}
	if w.outer != nil {
		w.before += w.outer.n
	}
	w.outer = packed
}

// expand counts what comes out, of archives inside of archives too: many that
// are each within bounds may not be so together.
func (w *Walker) expand(n int64) error {
	w.expanded += n
	switch {
	case w.expanded > maxExpansion:
		return verdict.Refuse(verdict.Limit, "", "more than %d bytes come out of it", int64(maxExpansion))
	case w.outer != nil && w.expanded > freeAltogether+maxRatio*(w.before+w.outer.n):
		return verdict.Refuse(verdict.Limit, "", "more than %d bytes out of %d, with the archives in it", w.expanded, w.before+w.outer.n)
	}
	return nil
}

// counting counts what goes in.
type counting struct {
	r io.Reader
	n int64
}

// Read implements [io.Reader].
func (c *counting) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n += int64(n)
	return n, err
}

// measured refuses to expand beyond measure: it counts what comes out against
// what went in so far.
type measured struct {
	r     io.Reader
	in    *counting
	w     *Walker
	out   int64
	ratio bool
	whole *measured // the archive that this is an entry of, or nil
}

// Read implements [io.Reader].
func (m *measured) Read(p []byte) (int, error) {
	n, err := m.r.Read(p)
	over := m.take(int64(n))
	if over == nil && m.whole != nil {
		over = m.whole.take(int64(n))
	}
	if over == nil {
		over = m.w.expand(int64(n))
	}
	if over != nil {
		return 0, over
	}
	return n, err
}

// take counts what came out.
func (m *measured) take(n int64) error {
	m.out += n
	if m.ratio && m.out > freeExpansion+maxRatio*m.in.n {
		return verdict.Refuse(verdict.Limit, "", "more than %d bytes out of %d compressed ones", m.out, m.in.n)
	}
	return nil
}

// onlyZeros reads r to its end.
func onlyZeros(r io.Reader) error {
	buf := make([]byte, 32<<10)
	for {
		n, err := r.Read(buf)
		if strings.Trim(string(buf[:n]), "\x00") != "" {
			return verdict.Refuse(verdict.ArchiveHidden, "", "bytes after the end of the archive")
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// bounded keeps foreign text short and quotes it.
func bounded(s string) string {
	if len(s) > 200 {
		s = s[:200]
	}
	return fmt.Sprintf("%q", s)
}
