package signoff

import (
	"errors"
	"io"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// Set is what a directory of enhancements holds, read and not yet judged.
type Set struct {
	Enhancements []Enhancement
	// Reviewers may approve production readiness; nil where nobody says who.
	Reviewers []string
	reviews   map[string][]reviewFile // by number
	faults    []verdict.Finding       // what may be an enhancement, and was not read
}

// Enhancement is one directory with its files.
type Enhancement struct {
	Dir    string // as the directory that was read calls it
	File   string // its document, in that directory
	Readme []byte // nil where there is none
	KEP    []byte // nil where there is none
	faults []verdict.Finding
}

type reviewFile struct {
	path string
	raw  []byte
}

// The names of the files.
const (
	readmeName  = "README.md"
	kepName     = "kep.yaml"
	aliasesName = "OWNERS_ALIASES"
	reviewsDir  = "prod-readiness"
)

const maxEntries = 200_000

var (
	numbered = regexp.MustCompile(`^\d+-`)
	template = regexp.MustCompile(`^NNNN-`)
)

// Read reads all enhancements below a directory, which has a name of its own:
// every directory with a kep.yaml, and every one whose name begins with a
// number and that has a README.md. Reviews are those below prod-readiness,
// reviewers those of a file OWNERS_ALIASES at the top. What cannot be read
// fails; what is too large is a finding, and so is what nobody would read: a
// link to a directory, or to somewhere outside, and a file that is nearly
// called as one that is asked for.
func Read(fsys fs.FS, name string) (*Set, error) {
	s := &Set{reviews: map[string][]reviewFile{}}
	entries := 0
	err := fs.WalkDir(fsys, ".", func(at string, e fs.DirEntry, err error) error {
		if entries++; entries > maxEntries {
			return verdict.Refuse(verdict.Limit, name, "more than %d entries", maxEntries)
		}
		switch {
		case err != nil:
			return verdict.Wrap(verdict.PlaceDown, path.Join(name, at), err)
		case at != "." && strings.HasPrefix(path.Base(at), "."), e.IsDir() && template.MatchString(path.Base(at)):
			if e.IsDir() {
				return fs.SkipDir
			}
			return nil
		case e.IsDir():
			return s.enhancement(fsys, at, name)
		case e.Type()&fs.ModeSymlink != 0 && !isAsked(at):
			s.follow(fsys, at)
		case misnamed(at) != "":
			s.faults = append(s.faults, verdict.Find(verdict.SignoffDocument, at, "it is not read; is it meant to be called %s?", misnamed(at)))
		case isReview(at):
			return s.review(fsys, at, at)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(s.Enhancements, func(a, b Enhancement) int { return strings.Compare(a.Dir, b.Dir) })
	raw, err := readFile(fsys, aliasesName, maxFile)
	if raw == nil || err != nil {
		return s, err
	}
	s.Reviewers, err = ParseAliases(raw)
	return s, err
}

func isReview(at string) bool {
	return path.Ext(at) == ".yaml" && slices.Contains(strings.Split(path.Dir(at), "/"), reviewsDir)
}

// enhancement takes in one directory, if it is of an enhancement.
func (s *Set) enhancement(fsys fs.FS, at, name string) error {
	e := Enhancement{Dir: at, File: path.Join(at, readmeName)}
	if at == "." {
		e.Dir = name
	}
	for _, f := range []struct {
		name  string
		limit int64
		to    *[]byte
	}{{readmeName, MaxDocument, &e.Readme}, {kepName, maxFile, &e.KEP}} {
		raw, err := readFile(fsys, path.Join(at, f.name), f.limit)
		if errors.Is(err, errTooLarge) {
			e.faults = append(e.faults, verdict.Find(verdict.Limit, path.Join(e.Dir, f.name), "more than %d bytes", f.limit))
			raw, err = []byte{}, nil
		}
		if err != nil {
			return err
		}
		*f.to = raw
	}
	if e.KEP != nil || e.Readme != nil && numbered.MatchString(path.Base(e.Dir)) {
		s.Enhancements = append(s.Enhancements, e)
	}
	return nil
}

// ReadReviews adds the reviews of a tree of which only a part was read, which
// calls its top so. It reports whether that has any place for them.
func (s *Set) ReadReviews(fsys fs.FS, top string) (bool, error) {
	switch info, err := fs.Stat(fsys, reviewsDir); {
	case errors.Is(err, fs.ErrNotExist), err == nil && !info.IsDir():
		return false, nil
	case err != nil:
		return false, verdict.Wrap(verdict.PlaceDown, path.Join(top, reviewsDir), err)
	}
	entries := 0
	return true, fs.WalkDir(fsys, reviewsDir, func(at string, e fs.DirEntry, err error) error {
		switch entries++; {
		case entries > maxEntries:
			return verdict.Refuse(verdict.Limit, path.Join(top, reviewsDir), "more than %d entries", maxEntries)
		case err != nil:
			return verdict.Wrap(verdict.PlaceDown, path.Join(top, at), err)
		case !e.IsDir() && isReview(at):
			return s.review(fsys, at, path.Join(top, at))
		}
		return nil
	})
}

// LacksReviews reports whether a document needs a review that was not read.
func (s *Set) LacksReviews() bool {
	return slices.ContainsFunc(s.Enhancements, func(e Enhancement) bool {
		number, _, _ := strings.Cut(path.Base(e.Dir), "-")
		k, err := ParseKEP(e.KEP)
		return err == nil && k.needsReview() && len(s.reviews[number]) == 0
	})
}

func (s *Set) review(fsys fs.FS, at, name string) error {
	raw, err := readFile(fsys, at, maxFile)
	if errors.Is(err, errTooLarge) {
		raw, err = []byte("too large"), nil // which is no mapping, and found out when it is needed
	}
	if err == nil {
		number := strings.TrimSuffix(path.Base(at), ".yaml")
		s.reviews[number] = append(s.reviews[number], reviewFile{name, raw})
	}
	return err
}

// reviewOf is the review of a document: that of its own SIG, where several
// have its number.
func (s *Set) reviewOf(number, sig string) (reviewFile, bool) {
	list := s.reviews[number]
	if i := slices.IndexFunc(list, func(r reviewFile) bool { return path.Base(path.Dir(r.path)) == sig }); i >= 0 {
		return list[i], true
	}
	if len(list) == 0 {
		return reviewFile{}, false
	}
	return list[0], true
}

// follow looks where a link leads. Directories are not read through links, so
// that each document is judged once, where it lies; nobody may hide one so.
func (s *Set) follow(fsys fs.FS, at string) {
	switch info, err := fs.Stat(fsys, at); {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		s.faults = append(s.faults, verdict.Find(verdict.SignoffDocument, at, "it is a link that leads out of the directory, and what stands there is not read"))
	case info.IsDir():
		s.faults = append(s.faults, verdict.Find(verdict.SignoffDocument, at, "it is a link to a directory, and what stands there is not read"))
	}
}

// isAsked reports whether a file is read by its name, link or not.
func isAsked(at string) bool {
	name := path.Base(at)
	return name == readmeName || name == kepName || at == aliasesName || isReview(at)
}

// misnamed is what a file of an enhancement should be called, "" where it is
// called so, or is another file.
func misnamed(at string) string {
	dir, name := path.Split(at)
	for _, want := range []string{readmeName, kepName} {
		word := strings.ToLower(name)
		if word == "kep.yml" {
			word = kepName
		}
		if name != want && word == strings.ToLower(want) && numbered.MatchString(path.Base(dir)) {
			return want
		}
	}
	return ""
}

var errTooLarge = errors.New("too large")

func isLink(fsys fs.FS, name string) bool {
	info, err := fs.Lstat(fsys, name)
	return err == nil && info.Mode()&fs.ModeSymlink != 0
}

// readFile reads a file up to a limit; nil where there is none.
func readFile(fsys fs.FS, name string, limit int64) ([]byte, error) {
	switch info, err := fs.Stat(fsys, name); {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil && isLink(fsys, name):
		return nil, verdict.Refuse(verdict.FileType, name, "it is a link that leads out of the directory, or round in a circle")
	case err != nil:
		return nil, verdict.Wrap(verdict.PlaceDown, name, err)
	case !info.Mode().IsRegular():
		return nil, verdict.Refuse(verdict.FileType, name, "it is no file") // opening a pipe may wait for ever
	}
	f, err := fsys.Open(name)
	if err != nil {
		return nil, verdict.Wrap(verdict.PlaceDown, name, err)
	}
	defer func() { _ = f.Close() }() // it was read only
	raw, err := io.ReadAll(io.LimitReader(f, limit+1))
	switch {
	case err != nil:
		return nil, verdict.Wrap(verdict.PlaceDown, name, err)
	case int64(len(raw)) > limit:
		return nil, errTooLarge
	case raw == nil:
		raw = []byte{}
	}
	return raw, nil
}
