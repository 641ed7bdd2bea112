package unpack

import (
	"hash/maphash"
	"path"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// The longest name of an entry, and the longest part of one.
const (
	maxName = 4096
	maxPart = 255
)

// names are the entries of one archive, to find those that are there twice, are
// two things, or lie below a symbolic link or a file. They are kept as hashes under keys that nobody can
// know, for an archive may have a million.
type names struct {
	keys  [2]maphash.Seed
	files map[hashed]struct{}
	links map[hashed]struct{}
	dirs  map[hashed]struct{} // that are entries, or that something lies in
}

// hashed is a name. Two names of one hash are not to be met with.
type hashed [2]uint64

func newNames() *names {
	return &names{
		keys:  [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()},
		files: map[hashed]struct{}{}, links: map[hashed]struct{}{}, dirs: map[hashed]struct{}{},
	}
}

func (s *names) hash(name string) hashed {
	return hashed{maphash.String(s.keys[0], name), maphash.String(s.keys[1], name)}
}

// twofold refuses what can not be unpacked as it is listed.
func twofold(name, format string, args ...any) error {
	return verdict.Refuse(verdict.ArchiveTwice, name, format, args...)
}

// file notes a file.
func (s *names) file(name string) error {
	h := s.hash(name)
	if _, there := s.dirs[h]; there {
		return twofold(name, "%q is a file and a directory at once: it was one before, or other entries lie below it", name)
	}
	s.files[h] = struct{}{}
	return nil
}

// directory notes a directory, which may be there more than once.
func (s *names) directory(name string) error {
	h := s.hash(name)
	if _, file := s.files[h]; file {
		return twofold(name, "%q is a file and a directory at once", name)
	}
	if _, link := s.links[h]; link {
		return twofold(name, "%q is a symbolic link and a directory at once", name)
	}
	if name == "." {
		return nil
	}
	if err := s.below(name); err != nil {
		return err
	}
	s.dirs[h] = struct{}{}
	return nil
}

// once refuses a name that was there before, or that is below a symbolic link:
// such an entry lands elsewhere than it is listed; or below a file, where it
// lands nowhere.
func (s *names) once(name string) error {
	if name == "." {
		return verdict.Refuse(verdict.Path, name, "the root of the archive is no directory")
	}
	h := s.hash(name)
	_, file := s.files[h]
	if _, link := s.links[h]; file || link {
		return twofold(name, "the archive holds two entries of this name")
	}
	return s.below(name)
}

// below notes the directories that an entry lies in.
func (s *names) below(name string) error {
	for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
		h := s.hash(dir)
		if _, known := s.dirs[h]; known {
			return nil // and so are all above it
		}
		if _, link := s.links[h]; link {
			return verdict.Refuse(verdict.Path, name, "%q is a symbolic link", dir)
		}
		if _, file := s.files[h]; file {
			return twofold(name, "%q is a file, and this entry lies below it", dir)
		}
		s.dirs[h] = struct{}{}
	}
	return nil
}

// hardLink is one more name for a file that came before.
func (s *names) hardLink(name, target string) (string, error) {
	target, err := CleanName(target)
	if err != nil {
		return "", err
	}
	if _, there := s.files[s.hash(target)]; !there {
		return "", verdict.Refuse(verdict.FileType, name, "a hard link to %q, which is no earlier file", target)
	}
	return target, s.file(name)
}

// symbolicLink notes a link, which nobody follows. One with an absolute target
// is of a root file system, and leads from the root of the archive; nothing may
// lie below it, as below any other.
func (s *names) symbolicLink(name, target string) error {
	to := path.Join(path.Dir(name), target)
	if path.IsAbs(target) {
		to = strings.TrimPrefix(path.Clean(target), "/")
	}
	if target == "" || strings.Contains(target, `\`) || to == ".." || strings.HasPrefix(to, "../") {
		return verdict.Refuse(verdict.Path, name, "a symbolic link to %s leaves the archive", bounded(target))
	}
	h := s.hash(name)
	if _, there := s.dirs[h]; there {
		return twofold(name, "%q is a symbolic link and a directory at once: it was one before, or other entries lie below it", name)
	}
	s.links[h] = struct{}{}
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

// called is the name of an entry as a refusal says it: quoted if it has anything
// odd in it.
func called(name string) string {
	if clean, err := CleanName(name); err == nil {
		return clean
	}
	return bounded(name)
}

func nameFault(name string) string {
	switch {
	case name == "" || len(name) > maxName:
		return "has no name, or one that is too long"
	case !utf8.ValidString(name) || strings.IndexFunc(name, unprintable) >= 0:
		return "has a name that does not show as itself"
	case path.IsAbs(name) || strings.HasPrefix(name, `\`) || (len(name) > 1 && name[1] == ':'):
		return "has an absolute name"
	case path.Clean(name) != name || hasDots(name):
		return "has a name with empty or dot segments"
	}
	for part := range strings.SplitSeq(name, "/") {
		if len(part) > maxPart {
			return "has a name with a part of more than 255 bytes"
		}
	}
	return ""
}

func unprintable(r rune) bool { return !unicode.IsPrint(r) || r == utf8.RuneError }

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
