package unpack

import (
	"archive/tar"
	"io"
	"path"
	"strings"

	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// rules say how strictly a tar archive is read.
type rules uint8

const (
	// ofLayer: everything that Go's reader accepts, which container runtimes
	// also use.
	ofLayer rules = iota
	// ofArchive: only what all unpacking programs read alike; files,
	// directories and links.
	ofArchive
	// ofPlace: the same, but only files and directories.
	ofPlace
)

const (
	tarBlock = 512
	// maxHeaders limits all headers of one entry: one header of a megabyte, the
	// limit of Go's reader, beside small ones.
	maxHeaders = 2<<20 + 16*tarBlock
)

// headers passes a tar archive to Go's reader, and keeps the blocks that the
// reader turns into one header: the reader merges several silently, and other
// readers merge them in other ways.
type headers struct {
	r      io.Reader
	at     int64 // bytes of the archive read so far
	from   int64 // where the headers of the current entry begin
	kept   []byte
	keeps  bool
	failed error // of the archive's own reader
}

// Read implements [io.Reader].
func (h *headers) Read(p []byte) (int, error) {
	n, err := h.r.Read(p)
	if skip := max(0, h.from-h.at); h.keeps && int64(n) > skip {
		if h.kept = append(h.kept, p[skip:n]...); len(h.kept) > maxHeaders {
			h.failed = verdict.Refuse(verdict.Limit, "", "more than %d bytes of headers before one entry", maxHeaders)
			return 0, h.failed
		}
	}
	h.at += int64(n)
	if err != nil && err != io.EOF {
		h.failed = err
	}
	return n, err
}

// seekable is an archive in which bodies can be skipped.
type seekable struct {
	*headers
	s io.Seeker
}

// Seek implements [io.Seeker].
func (s seekable) Seek(offset int64, whence int) (int64, error) {
	to, err := s.s.Seek(offset, whence)
	if err == nil {
		s.at = to
	}
	return to, err
}

// tar reads a tar archive, up to its end marker.
func (w *Walker) tar(r io.Reader, by rules, visit Visit) error {
	raw := &headers{r: r, keeps: by != ofLayer}
	t, seen, last := tar.NewReader(raw), newNames(), ""
	if s, ok := r.(io.Seeker); ok {
		t = tar.NewReader(seekable{raw, s})
	}
	for {
		raw.kept = raw.kept[:0]
		raw.keeps = by != ofLayer
		h, err := t.Next()
		switch {
		case raw.failed != nil:
			return raw.failed
		case err == io.EOF && raw.at < raw.from:
			return unreadable(last, "the archive was cut off")
		case err == io.EOF:
			return ended(raw.kept, last, by)
		case err != nil:
			// The block itself may show more clearly what is wrong.
			if why := agree(raw.kept, nil, nextTo(last), by); by != ofLayer && why != nil {
				return why
			}
			return unreadable(last, "%v", err)
		}
		if err := w.entry(); err != nil {
			return err
		}
		if by != ofLayer {
			if err := agree(raw.kept, h, called(h.Name), by); err != nil {
				return err
			}
		}
		raw.keeps, raw.from, last = false, (raw.at+h.Size+tarBlock-1)/tarBlock*tarBlock, h.Name
		if h.Typeflag == tar.TypeXGlobalHeader {
			continue // a comment on the archive, as git writes it
		}
		e, err := seen.take(h, by)
		if err != nil {
			return err
		}
		if e.Name == "" {
			continue // the root of a layer
		}
		e.Offset = raw.at
		body := io.Reader(strings.NewReader(""))
		switch {
		case e.Kind == File && by == ofLayer:
			// Sparse entries can declare any size at no cost: the bytes that
			// come out are counted.
			body = &measured{r: t, in: &counting{n: maxExpansion / maxRatio}, w: w, ratio: true}
		case e.Kind == File:
			body = t
		}
		if err := visit(e, body); err != nil {
			return err
		}
	}
}

// nextTo describes an entry whose own name cannot be read.
func nextTo(last string) string {
	if last == "" {
		return "the first entry"
	}
	return "the entry after " + called(last)
}

// ended checks the end of an archive: blocks of zeros, which an archive of a
// place must have.
func ended(kept []byte, last string, by rules) error {
	switch {
	case strings.Trim(string(kept), "\x00") != "":
		return verdict.Refuse(verdict.ArchiveHidden, "", "the archive ends with an extended header that belongs to no entry")
	case by == ofPlace && len(kept) < 2*tarBlock:
		return unreadable(last, "the archive has no end marker: it was cut off")
	}
	return nil
}

// unreadable refuses an archive that cannot be read any further.
func unreadable(last, format string, args ...any) error {
	e := verdict.Refuse(verdict.ArchiveParse, "", format, args...)
	if last != "" {
		e.Finding.Message += ", after " + bounded(last)
	}
	return e
}

// take checks one entry.
func (s *names) take(h *tar.Header, by rules) (Entry, error) {
	if by == ofLayer {
		return layerEntry(h), nil
	}
	name, err := CleanName(h.Name)
	if err != nil {
		return Entry{}, err
	}
	e := Entry{Name: name, Size: h.Size}
	if h.Typeflag == tar.TypeDir {
		e.Kind = Directory
		return e, s.directory(name)
	}
	if err := s.once(name); err != nil {
		return Entry{}, err
	}
	switch {
	case h.Typeflag == tar.TypeReg:
		e.Kind = File
		err = s.file(name)
	case by == ofPlace:
		err = verdict.Refuse(verdict.FileType, name, "the entry is a link, want a file or a directory")
	case h.Typeflag == tar.TypeLink:
		e.Kind = HardLink
		e.Target, err = s.hardLink(name, h.Linkname)
	default:
		e.Kind, e.Target = SymLink, h.Linkname
		err = s.symbolicLink(name, h.Linkname)
	}
	return e, err
}

// layerEntry checks an entry of a layer, whose name is relative to the root, in
// any spelling. The root itself has no name.
func layerEntry(h *tar.Header) Entry {
	e := Entry{Name: strings.TrimPrefix(path.Clean("/"+h.Name), "/"), Size: h.Size, Leaves: leaves(h.Name)}
	switch h.Typeflag {
	case tar.TypeReg, tar.TypeGNUSparse:
		e.Kind = File
	case tar.TypeDir:
		e.Kind = Directory
	case tar.TypeLink:
		e.Kind, e.Target = HardLink, strings.TrimPrefix(path.Clean("/"+h.Linkname), "/")
		e.Leaves = e.Leaves || leaves(h.Linkname)
	case tar.TypeSymlink:
		e.Kind, e.Target = SymLink, h.Linkname
	}
	if len(e.Name) > maxName {
		return Entry{}
	}
	return e
}

// leaves reports whether a name leads out of the root; it is relative to the
// root, not to the directory of the entry.
func leaves(name string) bool {
	clean := path.Clean(strings.TrimLeft(name, "/"))
	return clean == ".." || strings.HasPrefix(clean, "../")
}
