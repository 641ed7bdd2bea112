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

// names are the entries of one archive, to find those that are there twice.
type names struct {
	files map[string]bool
	links map[string]string
}

func (w *Walker) tar(r io.Reader, visit Visit) error {
	seen := names{files: map[string]bool{}, links: map[string]string{}}
	t := tar.NewReader(r)
	for {
		h, err := t.Next()
		switch {
		case err == io.EOF:
			return seen.noneThroughLinks()
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
		return e, nil
	}
	if err := s.once(name); err != nil {
		return Entry{}, err
	}
	switch h.Typeflag {
	case tar.TypeReg, tar.TypeGNUSparse:
		e.Kind = File
		s.files[name] = true
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

func (s *names) once(name string) error {
	if s.files[name] || s.links[name] != "" {
		return verdict.Refuse(verdict.Path, name, "the archive holds two entries of this name")
	}
	return nil
}

// hardLink is one more name for a file that came before.
func (s *names) hardLink(name, target string) (string, error) {
	target, err := CleanName(target)
	if err != nil {
		return "", err
	}
	if !s.files[target] {
		return "", verdict.Refuse(verdict.FileType, name, "a hard link to %q, which is no earlier file", target)
	}
	s.files[name] = true
	return target, nil
}

func (s *names) symbolicLink(name, target string) error {
	to := path.Join(path.Dir(name), target)
	if target == "" || path.IsAbs(target) || strings.Contains(target, `\`) || to == ".." || strings.HasPrefix(to, "../") {
		return verdict.Refuse(verdict.Path, name, "a symbolic link to %s leaves the archive", bounded(target))
	}
	s.links[name] = target
	return nil
}

// noneThroughLinks refuses entries below a symbolic link: they land elsewhere
// than they are listed.
func (s *names) noneThroughLinks() error {
	if len(s.links) == 0 {
		return nil
	}
	below := func(name string) error {
		for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
			if _, link := s.links[dir]; link {
				return verdict.Refuse(verdict.Path, name, "%q is a symbolic link", dir)
			}
		}
		return nil
	}
	for name := range s.files {
		if err := below(name); err != nil {
			return err
		}
	}
	for name := range s.links {
		if err := below(name); err != nil {
			return err
		}
	}
	return nil
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
