package unpack

import (
	"archive/zip"
	"io"
	"io/fs"
	"strings"

	"github.com/waybill-release/waybill/pkg/verdict"
)

// maxLink bounds the target of a symbolic link in a zip archive.
const maxLink = 4096

func (w *Walker) zip(r io.ReaderAt, size int64, visit Visit) error {
	z, err := zip.NewReader(r, size)
	if err != nil && z == nil {
		return err
	}
	seen := newNames()
	var packed uint64
	for _, f := range z.File {
		if err := w.entry(); err != nil {
			return err
		}
		// Entries that lie over each other make much out of little.
		if packed += f.CompressedSize64; packed > uint64(size) {
			return verdict.Refuse(verdict.Limit, bounded(f.Name), "the entries are larger than the archive: they lie over each other")
		}
		if err := w.zipEntry(f, seen, visit); err != nil {
			return err
		}
	}
	return nil
}

func (w *Walker) zipEntry(f *zip.File, seen *names, visit Visit) error {
	name, err := CleanName(f.Name)
	if err != nil {
		return err
	}
	e := Entry{Name: name, Kind: File, Size: int64(min(f.UncompressedSize64, 1<<62))}
	switch mode := f.Mode(); {
	case mode.IsDir():
		e.Kind = Directory
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
	out := &measured{r: body, in: &counting{n: int64(min(f.CompressedSize64, 1<<40))}, w: w, ratio: true}
	if e.Kind == File {
		seen.file(name)
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
