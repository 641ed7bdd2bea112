package unpack

import (
	"archive/tar"
	"io"
	"path"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/waybill-release/waybill/pkg/verdict"
)

// maxName is the longest name of an entry.
const maxName = 4096

func (w *Walker) tar(r io.Reader, visit Visit) error {
	seen := newNames()
	t := tar.NewReader(r)
	for {
		h, err := t.Next()
		switch {
		case err == io.EOF:
			return nil
		case err != nil:
			return err
		case h.Typeflag == tar.TypeXGlobalHeader:
			continue // a comment on the archive, as git writes it
		}
		if err := w.entry(); err != nil {
			return err
		}
		e, err := seen.take(h)
		if err != nil {
			return err
		}
		body := io.Reader(strings.NewReader(""))
		if e.Kind == File {
			body = t
			if h.Typeflag == tar.TypeGNUSparse {
				// What is sparse costs nothing to declare: it is counted by
				// what comes out of it.
				body = &measured{r: t, in: &counting{}, w: w, ratio: true}
			}
		}
		if err := visit(e, body); err != nil {
			return err
		}
	}
}

// take judges one entry.
func (s *names) take(h *tar.Header) (Entry, error) {
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
	switch h.Typeflag {
	case tar.TypeReg, tar.TypeGNUSparse:
		e.Kind = File
		err = s.file(name)
	case tar.TypeLink:
		e.Kind = HardLink
		e.Target, err = s.hardLink(name, h.Linkname)
	case tar.TypeSymlink:
		e.Kind, e.Target = SymLink, h.Linkname
		err = s.symbolicLink(name, h.Linkname)
	default:
		err = verdict.Refuse(verdict.FileType, name, "an entry of type %q is neither file, directory nor link", h.Typeflag)
	}
	return e, err
}

// CleanName returns the one spelling of the name of an entry: relative,
// without dot segments. Other spellings of a name inside the archive are
// refused, for two of them could be two entries here and one file on disk.
func CleanName(name string) (string, error) {
	trimmed := strings.TrimSuffix(strings.TrimPrefix(name, "./"), "/")
	if trimmed == "" && name != "" && name != "/" {
		return ".", nil // the archive's own root
	}
	if reason := nameFault(trimmed); reason != "" {
		return "", verdict.Refuse(verdict.Path, bounded(name), "an entry of the archive %s", reason)
	}
	return trimmed, nil
}

func nameFault(name string) string {
	switch {
	case name == "" || len(name) > maxName:
		return "has no name, or one that is too long"
	case !utf8.ValidString(name) || strings.IndexFunc(name, hidden) >= 0:
		return "has a name that does not show as itself"
	case path.IsAbs(name) || strings.HasPrefix(name, `\`) || (len(name) > 1 && name[1] == ':'):
		return "has an absolute name"
	case path.Clean(name) != name || hasDots(name):
		return "has a name with empty or dot segments"
	}
	return ""
}

func hidden(r rune) bool { return !unicode.IsPrint(r) || r == utf8.RuneError }

// hasDots looks for ".." with either separator: what is one segment here may
// be two where the archive is unpacked.
func hasDots(name string) bool {
	for _, segment := range strings.FieldsFunc(name, func(r rune) bool { return r == '/' || r == '\\' }) {
		if segment == ".." {
			return true
		}
	}
	return false
}
