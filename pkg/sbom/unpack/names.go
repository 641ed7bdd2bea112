package unpack

import (
	"hash/maphash"
	"path"
	"strings"

	"github.com/waybill-release/waybill/pkg/verdict"
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
	f := verdict.Find(verdict.Path, name, format, args...)
	f.Fix = "pack the archive anew, with one entry of each name; tar --append and zip of two directories make several"
	return &verdict.Error{Finding: f}
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
