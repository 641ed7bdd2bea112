package unpack

import (
	"hash/maphash"
	"path"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// The longest name of an entry, and the longest path element.
const (
	maxName = 4096
	maxPart = 255
)

// names records the entries of one archive, to detect names that occur twice,
// are two things, or are below a symbolic link or a file. It stores hashes with
// a random key, because an archive may have a million entries.
type names struct {
	keys  [2]maphash.Seed
	files map[hashed]struct{}
	links map[hashed]struct{}
	dirs  map[hashed]struct{} // entries, and directories that contain entries
}

// hashed is the hash of a name. Collisions are practically impossible.
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

// twofold refuses an entry that cannot be unpacked as listed.
func twofold(name, format string, args ...any) error {
	return verdict.Refuse(verdict.ArchiveTwice, name, format, args...)
}

func (s *names) file(name string) error {
	h := s.hash(name)
	if _, there := s.dirs[h]; there {
		return twofold(name, "%q is a file, but occurred before as a directory or has entries below it", name)
	}
	s.files[h] = struct{}{}
	return nil
}

// directory records a directory, which may occur more than once.
func (s *names) directory(name string) error {
	h := s.hash(name)
	if _, file := s.files[h]; file {
		return twofold(name, "%q is both a file and a directory", name)
	}
	if _, link := s.links[h]; link {
		return twofold(name, "%q is both a symbolic link and a directory", name)
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

// once refuses a name that occurred before, or that is below a symbolic link,
// where it is unpacked to another place than listed, or below a file, where it
// cannot be unpacked.
func (s *names) once(name string) error {
	if name == "." {
		return verdict.Refuse(verdict.Path, name, "the root of the archive is not a directory")
	}
	h := s.hash(name)
	_, file := s.files[h]
	if _, link := s.links[h]; file || link {
		return twofold(name, "the archive contains two entries with this name")
	}
	return s.below(name)
}

// below records the directories of an entry.
func (s *names) below(name string) error {
	for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
		h := s.hash(dir)
		if _, known := s.dirs[h]; known {
			return nil // all directories above it are recorded, too
		}
		if _, link := s.links[h]; link {
			return verdict.Refuse(verdict.Path, name, "%q is a symbolic link", dir)
		}
		if _, file := s.files[h]; file {
			return twofold(name, "the entry is below %q, which is a file", dir)
		}
		s.dirs[h] = struct{}{}
	}
	return nil
}

// hardLink records another name for an earlier file.
func (s *names) hardLink(name, target string) (string, error) {
	target, err := CleanName(target)
	if err != nil {
		return "", err
	}
	if _, there := s.files[s.hash(target)]; !there {
		return "", verdict.Refuse(verdict.FileType, name, "the entry is a hard link to %q, which is not an earlier file", target)
	}
	return target, s.file(name)
}

// symbolicLink records a link, which is never followed. One with an absolute
// target belongs to a root file system, and is relative to the root of the
// archive; nothing may be below it, as below any other.
func (s *names) symbolicLink(name, target string) error {
	to := path.Join(path.Dir(name), target)
	if path.IsAbs(target) {
		to = strings.TrimPrefix(path.Clean(target), "/")
	}
	if target == "" || strings.Contains(target, `\`) || to == ".." || strings.HasPrefix(to, "../") {
		return verdict.Refuse(verdict.Path, name, "the symbolic link to %s leaves the archive", bounded(target))
	}
	h := s.hash(name)
	if _, there := s.dirs[h]; there {
		return twofold(name, "%q is a symbolic link, but occurred before as a directory or has entries below it", name)
	}
	s.links[h] = struct{}{}
	return nil
}

// CleanName returns the only accepted spelling of the name of an entry:
// relative, without dot segments. Other spellings of the same path are refused,
// because two of them could be two entries here and one file on disk.
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

// called returns the name of an entry for a message: quoted if it contains
// anything unusual.
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
		return "has a name with hidden or control characters"
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

// hasDots looks for ".." with either separator: a single path element here may
// be two where the archive is unpacked.
func hasDots(name string) bool {
	return slices.Contains(strings.FieldsFunc(name, func(r rune) bool { return r == '/' || r == '\\' }), "..")
}
