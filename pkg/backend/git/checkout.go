package git

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/waybill-release/waybill/pkg/tool/slice"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// Limits of one tree.
const (
	maxEntries  = 2_000_000
	maxTreeDeep = 128
	maxLink     = 4096
	maxReadFile = 64 << 20
	maxTotal    = 64 << 30
)

// entry is one line of a tree object.
type entry struct {
	mode string
	name string
	id   string
}

// order is how git sorts the entries of a tree: a directory as if its name had
// a slash at the end.
func (e entry) order() string {
	if e.mode == "40000" {
		return e.name + "/"
	}
	return e.name
}

// tree reads a tree object: mode, space, name, NUL and id for each entry.
func (o *objects) tree(id string) (entries []entry, err error) {
	raw, err := o.meta(id, "tree", maxMeta)
	if err != nil {
		return nil, err
	}
	broken := tampered(o.repo, id, "a truncated tree")
	seen := map[string]bool{}
	for len(raw) > 0 {
		head, rest, found := bytes.Cut(raw, []byte{0})
		mode, name, spaced := strings.Cut(string(head), " ")
		if !found || !spaced || len(rest) < len(id)/2 {
			return nil, broken
		}
		e := entry{mode: mode, name: name, id: hex.EncodeToString(rest[:len(id)/2])}
		// Of two entries with one name, one reader takes the first and another
		// the second: a file here, a link there.
		if seen[name] || len(entries) > 0 && e.order() <= entries[len(entries)-1].order() {
			return nil, tampered(o.repo, id, fmt.Sprintf("a tree with duplicate or misordered entry %.80q", name))
		}
		seen[name], entries = true, append(entries, e)
		raw = rest[len(id)/2:]
	}
	return entries, nil
}

// checkEntry refuses names that are not a single plain path element, and names
// that git would take for its own directory on some file system.
func checkEntry(name string) string {
	switch {
	case name == "" || name == "." || name == "..":
		return "the name means another directory"
	case !utf8.ValidString(name):
		return "the name is not UTF-8"
	case strings.ContainsFunc(name, func(r rune) bool { return r < ' ' || r == 0x7f || r == '/' || r == '\\' }):
		return "the name has a separator or a control character"
	case len(name) > 255:
		return "the name is longer than 255 bytes"
	}
	// Some file systems ignore case, trailing dots and spaces, streams (":"),
	// and zero-width characters.
	plain := strings.Map(func(r rune) rune {
		if r > 0x7e {
			return -1
		}
		return r
	}, strings.ToLower(name))
	plain, _, _ = strings.Cut(plain, ":")
	plain = strings.TrimRight(plain, ". ")
	if plain == ".git" || plain == "git~1" {
		return "the name is that of git's own directory"
	}
	return ""
}

// checkLink refuses a target outside the tree. ".." is allowed only at the
// start: after a name, ".." is resolved relative to where that name leads, and
// that may be another link.
func checkLink(at, target string) string {
	if target == "" || !utf8.ValidString(target) || strings.ContainsAny(target, "\x00\\") {
		return "the link target is empty, not UTF-8, or has a NUL or a backslash"
	}
	if path.IsAbs(target) {
		return "the link leaves the tree"
	}
	depth, down := strings.Count(at, "/"), false
	for part := range strings.SplitSeq(target, "/") {
		switch part {
		case "", ".":
		case "..":
			if depth--; depth < 0 || down {
				return "the link leaves the tree"
			}
		default:
			down = true
		}
	}
	return ""
}

// checkout writes one tree to disk.
type checkout struct {
	objects *objects
	root    *os.Root
	here    *os.Root // the directory being written, kept open: no path is resolved twice
	commit  Commit
	entries int
	total   int64
	links   []link   // links, made last: nothing is ever written through one
	dirs    []string // directories, in the order they were made
}

type link struct{ name, target string }

// Checkout writes the files of c into dir, which must be empty or absent. Files
// have mode 0644 or 0755; files and directories have the commit's time. After
// an error dir is incomplete.
func (r *Repository) Checkout(ctx context.Context, c Commit, dir string) error {
	o, c, err := r.openCommit(ctx, c)
	if err != nil {
		return err
	}
	defer func() { _ = o.Close() }()
	root, err := emptyDir(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	w := &checkout{objects: o, root: root, here: root, commit: c}
	// Count the entries before anything is written.
	if _, err := w.entriesBelow(c.Tree, "", 0, map[string]measured{}); err != nil {
		return err
	}
	if err := w.tree(c.Tree, "", 0); err != nil {
		return err
	}
	return w.finish()
}

// openCommit opens the objects of r and reads c again, so that everything
// written is proven by the commit id alone.
func (r *Repository) openCommit(ctx context.Context, c Commit) (*objects, Commit, error) {
	if err := r.ensureCommit(ctx, c.Commit); err != nil {
		return nil, Commit{}, err
	}
	o, err := r.objects(ctx)
	if err != nil {
		return nil, Commit{}, err
	}
	read, err := o.commit(c.Commit, c.Ref)
	if err == nil && c.Tree != "" && c.Tree != read.Tree {
		err = tampered(r.uri, c.Tree, "the tree "+read.Tree)
	}
	if err != nil {
		_ = o.Close()
		return nil, Commit{}, err
	}
	return o, read, nil
}

func emptyDir(dir string) (*os.Root, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		err = os.MkdirAll(dir, 0o755)
	}
	if err != nil {
		return nil, diskError(dir, err)
	}
	if len(entries) > 0 {
		return nil, usage("checking out: directory %q is not empty", dir)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, diskError(dir, err)
	}
	return root, nil
}

func (w *checkout) tree(id, at string, depth int) error {
	if depth > maxTreeDeep {
		return w.commit.refuse(at, verdict.Limit, "the tree is too deep")
	}
	entries, err := w.objects.tree(id)
	if err != nil {
		return err
	}
	var blobs, rest []entry
	for _, e := range entries {
		if w.entries++; w.entries > maxEntries {
			return w.commit.refuse(at, verdict.Limit, "the tree has too many entries")
		}
		if reason := checkEntry(e.name); reason != "" {
			return w.commit.refuse(at+"/"+e.name, verdict.Path, reason)
		}
		if e.mode == "100644" || e.mode == "100755" || e.mode == "120000" {
			blobs = append(blobs, e)
		} else {
			rest = append(rest, e)
		}
	}
	for some := range slices.Chunk(blobs, maxAsked) {
		if err := w.objects.ask(some); err != nil {
			return err
		}
		for _, e := range some {
			if err := w.entry(e, path.Join(at, e.name), depth); err != nil {
				return err
			}
		}
	}
	return slice.Check(rest, func(e entry) error { return w.entry(e, path.Join(at, e.name), depth) })
}

func (w *checkout) entry(e entry, name string, depth int) error {
	switch e.mode {
	case "40000":
		w.dirs = append(w.dirs, name)
		return w.directory(e, name, depth)
	case "100644":
		return w.file(e.id, name, 0o644)
	case "100755":
		return w.file(e.id, name, 0o755)
	case "120000":
		target, err := w.objects.meta(e.id, "blob", maxLink)
		if err != nil {
			return err
		}
		if reason := checkLink(name, string(target)); reason != "" {
			return w.commit.refuse(name, verdict.FileType, reason)
		}
		w.links = append(w.links, link{name: name, target: string(target)})
		return nil
	case "160000":
		return w.commit.refuse(name, verdict.FileType, "submodules are not followed")
	}
	// Mode 100664, from git's first weeks, counts as unknown too: on disk it
	// looks like 100644, and a checkout must prove its tree.
	return w.commit.refuse(name, verdict.FileType, fmt.Sprintf("unknown mode %.20q", e.mode))
}

// directory writes one directory and all below it.
func (w *checkout) directory(e entry, name string, depth int) error {
	if err := w.here.Mkdir(e.name, 0o755); err != nil {
		return diskError(name, err)
	}
	sub, err := w.here.OpenRoot(e.name)
	if err != nil {
		return diskError(name, err)
	}
	defer sub.Close()
	above := w.here
	w.here = sub
	err = w.tree(e.id, name, depth+1)
	w.here = above
	return err
}

// diskError is for a failed write to the disk. An error of the object being
// read keeps its own kind.
func diskError(name string, err error) error {
	var coded interface{ Code() string }
	if errors.As(err, &coded) {
		return fmt.Errorf("checking out %q: %w", name, err)
	}
	return &verdict.UnavailableError{Place: name, Op: "checking out", Err: err}
}

// file writes one file. It fails if the name exists, for instance in other case
// on a file system that ignores case.
func (w *checkout) file(id, name string, mode os.FileMode) error {
	content, err := w.objects.open(id, "blob")
	if err != nil {
		return err
	}
	if w.total += content.size; w.total > maxTotal {
		return w.commit.refuse(name, verdict.Limit, fmt.Sprintf("the tree exceeds %d bytes at this file", int64(maxTotal)))
	}
	f, err := w.here.OpenFile(path.Base(name), os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return diskError(name, err)
	}
	_, err = io.Copy(f, content)
	if err == nil {
		err = f.Chmod(mode) // set again: the umask must not matter
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return diskError(name, err)
	}
	return w.stamp(w.here, path.Base(name))
}

func (w *checkout) stamp(dir *os.Root, name string) error {
	if err := dir.Chtimes(name, w.commit.Time, w.commit.Time); err != nil {
		return diskError(name, err)
	}
	return nil
}

// finish makes the links, then sets the times of the directories, which no
// longer change.
func (w *checkout) finish() error {
	for _, l := range w.links {
		if err := w.root.Symlink(l.target, l.name); err != nil {
			return diskError(l.name, err)
		}
	}
	for _, name := range slices.Backward(w.dirs) {
		if err := w.stamp(w.root, name); err != nil {
			return err
		}
	}
	return w.stamp(w.root, ".")
}

// ReadFile is described at the function [ReadFile].
func (r *Repository) ReadFile(ctx context.Context, c Commit, name string) ([]byte, error) {
	o, c, err := r.openCommit(ctx, c)
	if err != nil {
		return nil, err
	}
	defer func() { _ = o.Close() }()
	at, parts := c.Tree, strings.Split(name, "/")
	for i, part := range parts {
		found, err := o.find(at, part)
		if err != nil {
			return nil, fmt.Errorf("reading %q of commit %s: %w", name, c.Commit, err)
		}
		last := i == len(parts)-1
		switch {
		case !last && found.mode == "40000":
			at = found.id
		case last && strings.HasPrefix(found.mode, "100"):
			return o.meta(found.id, "blob", maxReadFile)
		default:
			return nil, c.refuse(name, verdict.FileType, "not a regular file")
		}
	}
	return nil, fmt.Errorf("reading commit %s: no file name", c.Commit)
}

func (o *objects) find(tree, name string) (entry, error) {
	entries, err := o.tree(tree)
	if err != nil {
		return entry{}, err
	}
	for _, e := range entries {
		if e.name == name {
			return e, nil
		}
	}
	return entry{}, ErrNotFound
}

// Epoch is the commit's time in the form of SOURCE_DATE_EPOCH.
func (c Commit) Epoch() int64 { return c.Time.Truncate(time.Second).Unix() }
