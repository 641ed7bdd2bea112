package unpack

import (
	"archive/zip"
	"bytes"
	"io"
	"io/fs"
	"math"
	"strings"

	"github.com/waybill-release/waybill/pkg/verdict"
)

// maxLink bounds the target of a symbolic link in a zip archive.
const maxLink = 4096

func (w *Walker) zip(r io.ReaderAt, size int64, visit Visit) error {
	directory := &directoryReader{r: r, most: w.limit - w.entries}
	z, err := zip.NewReader(directory, size)
	if err != nil && z == nil {
		return err
	}
	directory.most = math.MaxInt // what follows are the files
	seen := newNames()
	whole := &measured{in: &counting{}, w: w, ratio: true}
	w.outermost(whole.in)
	var packed uint64
	for _, f := range z.File {
		if err := w.entry(); err != nil {
			return err
		}
		// Entries that lie over each other make much out of little.
		if packed += f.CompressedSize64; packed > uint64(size) {
			return verdict.Refuse(verdict.Limit, bounded(f.Name), "the entries are larger than the archive: they lie over each other")
		}
		whole.in.n = int64(packed)
		if err := w.zipEntry(f, seen, whole, visit); err != nil {
			return err
		}
	}
	return nil
}

// directoryReader counts the entries of a zip while its directory is read: the
// library keeps all of them, whatever their number, before anybody can look.
type directoryReader struct {
	r    io.ReaderAt
	most int
	n    int
	tail []byte // the last bytes that were read
	at   int64  // where they end
}

// ReadAt implements [io.ReaderAt].
func (d *directoryReader) ReadAt(p []byte, off int64) (int, error) {
	n, err := d.r.ReadAt(p, off)
	if d.most == math.MaxInt {
		return n, err
	}
	head := []byte("PK\x01\x02")
	d.n += bytes.Count(p[:n], head)
	if off == d.at { // one may lie across
		d.n += bytes.Count(append(d.tail, p[:min(n, len(head)-1)]...), head)
	}
	d.tail, d.at = append([]byte(nil), p[max(0, n-len(head)+1):n]...), off+int64(n)
	if d.n > d.most+maxTwice {
		return 0, verdict.Refuse(verdict.Limit, "", "more than %d entries", d.most)
	}
	return n, err
}

// maxTwice is how many entries may be counted twice: the library reads the last
// 65 kB to find where the directory begins.
const maxTwice = 2 * (66 << 10) / 46

// zipEntry takes one entry. What comes out of it is counted against what it is
// compressed to, and with all before it against what those are: many small
// entries may be a bomb together.
func (w *Walker) zipEntry(f *zip.File, seen *names, whole *measured, visit Visit) error {
	name, err := CleanName(f.Name)
	if err != nil {
		return err
	}
	e := Entry{Name: name, Kind: File, Size: int64(min(f.UncompressedSize64, 1<<62))}
	switch mode := f.Mode(); {
	case mode.IsDir():
		e.Kind = Directory
		if err := seen.directory(name); err != nil {
			return err
		}
		return visit(e, strings.NewReader(""))
	case mode&fs.ModeSymlink != 0:
		e.Kind = SymLink
	case !mode.IsRegular():
		return verdict.Refuse(verdict.FileType, name, "an entry is neither file, directory nor link")
	}
	if err := seen.once(name); err != nil {
		return err
	}
	body, err := f.Open()
	if err != nil {
		return err
	}
	defer body.Close()
	out := &measured{r: body, in: &counting{n: int64(min(f.CompressedSize64, 1<<40))}, w: w, ratio: true, whole: whole}
	if e.Kind == File {
		if err := seen.file(name); err != nil {
			return err
		}
		if err := visit(e, out); err != nil {
			return err
		}
		// The checksum is compared at the end: what was passed over is read.
		_, err = io.Copy(io.Discard, out)
		return err
	}
	target, err := io.ReadAll(io.LimitReader(out, maxLink+1))
	if err != nil {
		return err
	}
	e.Target = string(target)
	if len(target) > maxLink {
		return verdict.Refuse(verdict.Path, name, "a symbolic link to a name that is too long")
	}
	if err := seen.symbolicLink(name, e.Target); err != nil {
		return err
	}
	return visit(e, strings.NewReader(""))
}
