package signoff

import (
	"errors"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/waybill-release/waybill/pkg/tool/pattern"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// Set is the content of a directory of enhancements, not yet checked.
type Set struct {
	Enhancements []Enhancement
	// Reviewers may approve production readiness; nil if there is no list.
	Reviewers []string
	reviews   map[string][]reviewFile // by number
	faults    []verdict.Finding       // possible enhancements that were not read
}

// Enhancement is one directory with its files.
type Enhancement struct {
	Dir    string // path in the directory that was read
	File   string // its document, in that directory
	Readme []byte // nil if missing
	KEP    []byte // nil if missing
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
	numbered = pattern.Lazy(`^\d+-`)
	template = pattern.Lazy(`^NNNN-`)
)

// Read reads all enhancements below a directory; name is its name in messages. An
// enhancement is a directory with a kep.yaml, or one whose name begins with a number and
// that has a README.md. Reviews are read from prod-readiness, reviewers from
// OWNERS_ALIASES at the top. An unreadable file is an error. Findings are: too large
// files, links to directories or out of the tree, and files whose name almost matches.
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
		case at != "." && strings.HasPrefix(path.Base(at), "."), e.IsDir() && template().MatchString(path.Base(at)):
			if e.IsDir() {
				return fs.SkipDir
			}
			return nil
		case e.IsDir():
			return s.enhancement(fsys, at, name)
		case e.Type()&fs.ModeSymlink != 0 && !isAsked(at):
			s.follow(fsys, at)
		case misnamed(at) != "":
			s.faults = append(s.faults, verdict.Find(verdict.SignoffDocument, at, "not read, because of its name; rename it to %s if it is meant to be that", misnamed(at)))
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

// enhancement adds one directory, if it is an enhancement.
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
	if e.KEP != nil || e.Readme != nil && numbered().MatchString(path.Base(e.Dir)) {
		s.Enhancements = append(s.Enhancements, e)
	}
	return nil
}

// ReadReviews adds the reviews of a larger tree, of which only a part was read; top is its
// path in messages. It reports whether the tree has a directory of reviews.
func (s *Set) ReadReviews(fsys fs.FS, top string) (bool, error) {
	if info, err := fs.Stat(fsys, reviewsDir); errors.Is(err, fs.ErrNotExist) || err == nil && !info.IsDir() {
		return false, nil
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
		raw, err = []byte("too large"), nil // not a mapping, so parsing it fails if it is needed
	}
	if err == nil {
		number := strings.TrimSuffix(path.Base(at), ".yaml")
		s.reviews[number] = append(s.reviews[number], reviewFile{name, raw})
	}
	return err
}

// reviewOf is the review of a document: that of its SIG, if several have its number.
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

// follow checks the target of a link. Directories are not read through links, so that each
// document is checked once; a link to a directory is a finding, because it could hide one.
func (s *Set) follow(fsys fs.FS, at string) {
	switch info, err := fs.Stat(fsys, at); {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		s.faults = append(s.faults, verdict.Find(verdict.SignoffDocument, at, "a link out of the directory, which is not followed"))
	case info.IsDir():
		s.faults = append(s.faults, verdict.Find(verdict.SignoffDocument, at, "a link to a directory, which is not followed"))
	}
}

// isAsked reports whether a file of this name is read, link or not.
func isAsked(at string) bool {
	name := path.Base(at)
	return name == readmeName || name == kepName || at == aliasesName || isReview(at)
}

// misnamed is the correct name of a misnamed file of an enhancement, "" otherwise.
func misnamed(at string) string {
	dir, name := path.Split(at)
	for _, want := range []string{readmeName, kepName} {
		word := strings.ToLower(name)
		if word == "kep.yml" {
			word = kepName
		}
		if name != want && word == strings.ToLower(want) && numbered().MatchString(path.Base(dir)) {
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

// readFile reads a file up to a limit; nil if there is none.
func readFile(fsys fs.FS, name string, limit int64) ([]byte, error) {
	switch info, err := fs.Stat(fsys, name); {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil && isLink(fsys, name):
		return nil, verdict.Refuse(verdict.FileType, name, "a link out of the directory, or a circular one")
	case err != nil:
		return nil, verdict.Wrap(verdict.PlaceDown, name, err)
	case !info.Mode().IsRegular():
		return nil, verdict.Refuse(verdict.FileType, name, "not a regular file") // opening a pipe may block
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
