package git

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// ownObjects returns the object directory of a local repository. A repository
// that borrows objects from elsewhere is refused: they may belong to somebody
// else, and anyone who knows an id could have it written into a source.
func ownObjects(uri, dir string) (string, error) {
	if raw, err := os.ReadFile(filepath.Join(dir, "commondir")); err == nil { // of a linked work tree
		common := strings.TrimSpace(string(raw))
		if !filepath.IsAbs(common) {
			common = filepath.Join(dir, common)
		}
		dir = common
	}
	objects := filepath.Join(dir, "objects")
	info, err := os.Lstat(objects)
	if err != nil {
		return "", &verdict.UnavailableError{Place: uri, Op: "opening repository", Err: err}
	}
	if !info.IsDir() {
		return "", borrowed(uri, "objects is not a directory")
	}
	for _, name := range []string{"alternates", "http-alternates"} {
		raw, err := os.ReadFile(filepath.Join(objects, "info", name))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return "", &verdict.UnavailableError{Place: uri, Op: "opening repository", Err: err}
		}
		if len(bytes.TrimSpace(raw)) > 0 {
			return "", borrowed(uri, fmt.Sprintf("objects/info/%s names %.80q", name, bytes.TrimSpace(raw)))
		}
	}
	return objects, nil
}

func borrowed(uri, why string) error {
	return verdict.Refuse("SOURCE_SHARED", uri, "the repository takes objects from elsewhere: %s", why)
}

// Objects is the directory of the objects of r: for a remote repository, those
// fetched so far.
func (r *Repository) Objects() (string, error) { return ownObjects(r.uri, r.git.dir) }

// Name is the repository as a "git+scheme:" URI.
func (r *Repository) Name() string { return r.uri }

// Confirm reads c again by its id, which proves tree and time. From a remote
// repository it fetches what a checkout of c needs.
func (r *Repository) Confirm(ctx context.Context, c Commit) (Commit, error) {
	o, read, err := r.openCommit(ctx, c)
	if err != nil {
		return Commit{}, err
	}
	if err := o.Close(); err != nil {
		return Commit{}, r.unavailable("reading objects", err)
	}
	return read, nil
}

// OpenObjects opens only the objects of a repository, which c names, without
// its configuration, references or hooks. Everything else that git needs is put
// into the empty directory git.
func OpenObjects(objects, dir string, c Commit) (*Repository, error) {
	config := "[core]\n\trepositoryformatversion = 0\n\tbare = true\n"
	if len(c.Commit) == 64 {
		config = "[core]\n\trepositoryformatversion = 1\n\tbare = true\n[extensions]\n\tobjectformat = sha256\n"
	}
	for name, body := range map[string]string{"HEAD": "ref: refs/heads/none\n", "config": config} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(body), 0o644); err != nil {
			return nil, diskError(name, err)
		}
	}
	if err := os.Mkdir(filepath.Join(dir, "refs"), 0o755); err != nil {
		return nil, diskError("refs", err)
	}
	return &Repository{uri: c.Repository, git: git{dir: dir, objects: objects}}, nil
}

// measured is how many entries a tree has, including all below it, and how deep
// it is.
type measured struct{ entries, deep int }

// entriesBelow counts the entries that a tree would have on disk. A few trees that
// name each other repeatedly are small to store and endless to write: each is
// read here once.
func (w *checkout) entriesBelow(id, at string, depth int, known map[string]measured) (measured, error) {
	if m, ok := known[id]; ok {
		return m, nil
	}
	if depth > maxTreeDeep {
		return measured{}, w.commit.refuse(at, verdict.Limit, "the tree is too deep")
	}
	entries, err := w.objects.tree(id)
	if err != nil {
		return measured{}, err
	}
	m := measured{entries: len(entries), deep: 1}
	for _, e := range entries {
		if e.mode != "40000" {
			continue
		}
		below, err := w.entriesBelow(e.id, at+"/"+e.name, depth+1, known)
		if err != nil {
			return measured{}, err
		}
		m.entries, m.deep = m.entries+below.entries, max(m.deep, 1+below.deep)
		if m.entries > maxEntries {
			return measured{}, w.commit.refuse(at+"/"+e.name, verdict.Limit, "the tree has too many entries")
		}
		if depth+m.deep > maxTreeDeep+1 {
			return measured{}, w.commit.refuse(at+"/"+e.name, verdict.Limit, "the tree is too deep")
		}
	}
	known[id] = m
	return m, nil
}
