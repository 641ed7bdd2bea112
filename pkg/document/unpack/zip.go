package unpack

import (
	"bufio"
	"compress/flate"
	"hash/crc32"
	"io"
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
