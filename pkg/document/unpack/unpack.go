// Package unpack reads archives as streams: tar, plain or compressed with gzip,
// zstd or bzip2, and zip. It writes nothing.
//
//	w := unpack.New()
//	err := w.Archive(file, size, visit)
//
// The result is what every program would unpack: an archive is refused
// (ARCHIVE_AMBIGUOUS, ARCHIVE_HIDDEN, ARCHIVE_TWICE, ARCHIVE_PARSE) unless all
// common programs read the same names, kinds and bytes. For tar this means at
// most one extended header before an entry, with known records, no sparse
// files, and unambiguous numbers and texts. For zip it means that local and
// central headers agree, that the entries are contiguous from the first byte to
// the central directory and in its order, and that the only end record ends the
// file. One reader has three levels of strictness: [Walker.Place] accepts files
// and directories, [Walker.Archive] also links and harmless records, and
// [Layer] everything that Go's reader accepts, as container runtimes do.
//
// Archives are hostile input. A walk limits the number of entries (a million),
// the bytes decompressed from each byte of input, and the total over all nested
// archives. An entry takes some 50 bytes of memory; one of a zip archive, whose
// directory is read first, some 600. It refuses, each with a code: names that
// leave the archive or occur twice, entries below a symbolic link or a file,
// anything other than files, directories and links, and bytes after the end.
//
// Other projects should not import this package: it changes without notice.
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

// The limits of one walk.
const (
	// MaxEntries limits the number of entries, directories included.
	MaxEntries = 1_000_000
	// maxLayerEntries limits those of an image layer, whose files no document
	// lists.
	maxLayerEntries = 2_000_000
	// maxRatio is how many bytes may come out of one compressed byte, on
	// average. Source code gives about ten, the worst case of deflate a
	// thousand.
	maxRatio = 250
	// freeExpansion is not counted, because small archives may be mostly
	// padding.
	freeExpansion = 64 << 20
	// freeAltogether is not counted of an archive with all nested archives.
	freeAltogether = 1 << 30
	// maxExpansion limits the total output.
	maxExpansion = 256 << 30
	// MaxDepth is the deepest nesting of archives that is read.
	MaxDepth = 6
)

// Kind is the kind of an entry.
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
	// Size is the declared size; only reading the body shows the real one.
	Size int64
	// Target is the target of a link; for hard links, the clean name of a file.
	Target string
	// Offset is where the body begins in an uncompressed tar archive.
	Offset int64
	// Leaves says that an entry of a layer has a name, or a hard link a target,
	// that leads out of the root.
	Leaves bool
}

// Visit is called for each entry in the order of the archive. It need not read
// the body of a file to its end; other kinds have an empty body.
type Visit func(e Entry, body io.Reader) error

// Walker reads one archive and, if the visitor asks, the archives in it. It is
// not safe for concurrent use.
type Walker struct {
	entries  int
	limit    int
	expanded int64
	outer    *counting // input of the current outermost archive
	before   int64     // and of those before it
	depth    int
}

// New begins a walk.
func New() *Walker { return &Walker{limit: MaxEntries} }

// Entries counts the entries so far.
func (w *Walker) Entries() int { return w.entries }

// ErrXZ is the error for xz, which is detected but not supported.
var ErrXZ = errors.New("compressed with xz, which is not supported")

// ErrFormat is the error for a file that is not an archive of a known format.
var ErrFormat = errors.New("not an archive of a known format")

// SingleError says that compressed data is a single file and not an archive. It
// is an [ErrFormat].
type SingleError struct {
	Head []byte // the first bytes of that file
}

// Error names no archive.
func (*SingleError) Error() string { return "what is compressed: " + ErrFormat.Error() }

// Is makes it an [ErrFormat].
func (*SingleError) Is(target error) bool { return target == ErrFormat }

// Archive reads the archive in r, in any format.
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

// Stream reads an archive in a format that can be read sequentially, to its
// end.
func (w *Walker) Stream(r io.Reader, f Format, visit Visit) error {
	return w.enter(func() error {
		packed := &counting{r: r}
		w.outermost(packed)
		plain, err := expand(packed, f)
		if err != nil {
			return err
		}
		defer plain.Close()
		// The source may deliver small pieces.
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
		// tar ends before the stream does. The rest is padding, or a part of
		// the archive that this reader does not see and another one might.
		if err := onlyZeros(out); err != nil {
			return err
		}
		_, err = io.Copy(io.Discard, packed)
		return err
	})
}

// Place reads an archive whose files are those of a release: an uncompressed
// tar archive of files and directories. Bodies that visit does not read are
// skipped.
func (w *Walker) Place(r io.ReaderAt, size int64, visit Visit) error {
	return w.plain(r, size, ofPlace, visit)
}

// Index reads an uncompressed tar archive like [Walker.Archive]. Bodies that
// visit does not read are skipped.
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
		return verdict.Refuse(verdict.ArchiveParse, "", "not an uncompressed tar archive")
	}
	if err := w.tar(section, by, visit); err != nil {
		return err
	}
	if by == ofPlace && size%tarBlock != 0 {
		return verdict.Refuse(verdict.ArchiveHidden, "", "bytes after the end of the archive")
	}
	return onlyZeros(section)
}

// Layer reads one layer of an image. Container runtimes unpack layers into a
// separate root: links may lead anywhere, devices are allowed, and of two
// entries with one name the last one counts. Names are relative to the root, in
// any spelling.
//
// The writer also receives the uncompressed layer.
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
	plain, err := expand(begun, format)
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

// enter counts the nesting depth of archives.
func (w *Walker) enter(walk func() error) error {
	if w.depth++; w.depth > MaxDepth {
		w.depth--
		return verdict.Refuse(verdict.Limit, "", "archives are nested more than %d deep", MaxDepth)
	}
	defer func() { w.depth-- }()
	return walk()
}

func (w *Walker) entry() error {
	if w.entries++; w.entries > w.limit {
		return verdict.Refuse(verdict.Limit, "", "more than %d entries", w.limit)
	}
	return nil
}

// outermost records the size of the outermost archive.
func (w *Walker) outermost(packed *counting) {
	if w.outer != nil && w.depth > 1 {
		return
	}
	if w.outer != nil {
		w.before += w.outer.n
	}
	w.outer = packed
}

// expand counts the output, including that of nested archives: many archives
// within their limits may exceed the limit together.
func (w *Walker) expand(n int64) error {
	w.expanded += n
	switch {
	case w.expanded > maxExpansion:
		return verdict.Refuse(verdict.Limit, "", "the archive expands to more than %d bytes", int64(maxExpansion))
	case w.outer != nil && w.expanded > freeAltogether+maxRatio*(w.before+w.outer.n):
		return verdict.Refuse(verdict.Limit, "", "the archive and those in it expand to more than %d bytes from %d", w.expanded, w.before+w.outer.n)
	}
	return nil
}

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

// measured limits the output relative to the input so far.
type measured struct {
	r     io.Reader
	in    *counting
	w     *Walker
	out   int64
	ratio bool
	whole *measured // the archive that contains this one, or nil
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

// take counts output bytes.
func (m *measured) take(n int64) error {
	m.out += n
	if m.ratio && m.out > freeExpansion+maxRatio*m.in.n {
		return verdict.Refuse(verdict.Limit, "", "the archive expands to more than %d bytes from %d compressed ones", m.out, m.in.n)
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

// bounded shortens untrusted text and quotes it.
func bounded(s string) string {
	if len(s) > 200 {
		s = s[:200]
	}
	return fmt.Sprintf("%q", s)
}
