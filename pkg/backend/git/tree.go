package git

import (
	"cmp"
	"context"
	"crypto/sha1" //nolint:gosec // the ids of git are what they are
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strconv"
)

// CheckTree refuses a directory that is not exactly the tree of c: every name,
// mode and byte, and the times that [Checkout] sets. It trusts nothing in the
// directory: it hashes files and directories into git ids, follows no links,
// and has the limits of a checkout. Writers must have finished.
//
// Tree and time of c are not checked here: see [Repository.Confirm].
func CheckTree(ctx context.Context, dir string, c Commit) error {
	if !isID(c.Tree) || c.Time.IsZero() {
		return usage("checking a directory: commit %.80q lacks its tree or time", c.Commit)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return diskError(dir, err)
	}
	defer root.Close()
	p := &prover{commit: c, buffer: make([]byte, 256<<10)}
	info, err := root.Lstat(".")
	if err != nil {
		return diskError(dir, err)
	}
	id, err := p.tree(ctx, root, "", 0)
	if err != nil {
		return err
	}
	if got := hex.EncodeToString(id); got != c.Tree {
		return &TamperedError{Repository: c.Repository, ID: c.Tree, Got: "a directory that is the tree " + got}
	}
	return p.checkAttributes(".", info)
}

// prover hashes one directory.
type prover struct {
	commit  Commit
	buffer  []byte
	entries int
	total   int64
}

func (p *prover) refuse(name, code, reason string) error {
	return &EntryError{Commit: p.commit.Commit, Path: name, Reason: reason, code: code}
}

func (p *prover) hash() hash.Hash {
	if len(p.commit.Tree) == 64 {
		return sha256.New()
	}
	return sha1.New() //nolint:gosec // see above
}

// line is one entry of a tree, before it is hashed.
type line struct {
	mode, name string
	id         []byte
}

func (p *prover) tree(ctx context.Context, dir *os.Root, at string, depth int) ([]byte, error) {
	if depth > maxTreeDeep {
		return nil, p.refuse(at, "LIMIT", "the tree is too deep")
	}
	names, err := p.names(dir, at)
	if err != nil {
		return nil, err
	}
	lines, size := make([]line, 0, len(names)), 0
	for _, name := range names {
		if err := context.Cause(ctx); err != nil {
			return nil, err
		}
		l, err := p.entry(ctx, dir, path.Join(at, name), depth)
		if err != nil {
			return nil, err
		}
		size += len(l.mode) + 1 + len(l.name) + 1 + len(l.id)
		lines = append(lines, l)
	}
	slices.SortFunc(lines, func(a, b line) int { return cmp.Compare(order(a.mode, a.name), order(b.mode, b.name)) })
	sum := p.hash()
	sum.Write(header("tree", int64(size)))
	for _, l := range lines {
		sum.Write([]byte(l.mode + " " + l.name + "\x00"))
		sum.Write(l.id)
	}
	return sum.Sum(nil), nil
}

// names lists a directory, up to the limit of entries of a tree.
func (p *prover) names(dir *os.Root, at string) (names []string, err error) {
	f, err := dir.Open(".")
	if err != nil {
		return nil, diskError(at, err)
	}
	defer f.Close()
	for {
		some, err := f.Readdirnames(4096)
		names = append(names, some...)
		if p.entries += len(some); p.entries > maxEntries {
			return nil, p.refuse(at, "LIMIT", "the tree has too many entries")
		}
		if errors.Is(err, io.EOF) {
			return names, nil
		}
		if err != nil {
			return nil, diskError(at, err)
		}
	}
}

// entry hashes one entry of a directory. at is its full path, for errors.
func (p *prover) entry(ctx context.Context, dir *os.Root, at string, depth int) (line, error) {
	l := line{name: path.Base(at)}
	info, err := dir.Lstat(l.name)
	if err != nil {
		return line{}, diskError(at, err)
	}
	switch info.Mode().Type() {
	case fs.ModeDir:
		l.mode = "40000"
		sub, err := dir.OpenRoot(l.name)
		if err != nil {
			return line{}, diskError(at, err)
		}
		defer sub.Close()
		if l.id, err = p.tree(ctx, sub, at, depth+1); err != nil {
			return line{}, err
		}
	case fs.ModeSymlink:
		l.mode = "120000"
		target, err := dir.Readlink(l.name)
		if err != nil {
			return line{}, diskError(at, err)
		}
		sum := p.hash()
		sum.Write(header("blob", int64(len(target))))
		sum.Write([]byte(target))
		l.id = sum.Sum(nil)
		return l, nil // links have no mode and no time that count
	case 0:
		l.mode = "100" + strconv.FormatUint(uint64(info.Mode().Perm()), 8)
		if l.id, err = p.blob(dir, l.name, at, info); err != nil {
			return line{}, err
		}
	default:
		return line{}, p.refuse(at, "FILE_TYPE", fmt.Sprintf("%s: a source holds only files, directories and links", info.Mode().Type()))
	}
	return l, p.checkAttributes(at, info)
}

// checkAttributes refuses modes and times that a checkout never sets.
func (p *prover) checkAttributes(at string, info fs.FileInfo) error {
	mode := info.Mode()
	fits := mode == 0o644 || mode == 0o755
	if info.IsDir() {
		fits = mode&^fs.ModePerm == fs.ModeDir && mode.Perm()&0o022 == 0
	}
	if !fits {
		return p.refuse(at, "FILE_TYPE", "its mode is "+mode.String())
	}
	if !info.ModTime().Equal(p.commit.Time) {
		return p.refuse(at, "TAMPERED", fmt.Sprintf("its time is %s, want that of the commit, %s", info.ModTime().UTC(), p.commit.Time))
	}
	return nil
}

func (p *prover) blob(dir *os.Root, name, at string, info fs.FileInfo) ([]byte, error) {
	if p.total += info.Size(); p.total > maxTotal {
		return nil, p.refuse(at, "LIMIT", fmt.Sprintf("the tree exceeds %d bytes at this file", int64(maxTotal)))
	}
	f, err := dir.Open(name)
	if err != nil {
		return nil, diskError(at, err)
	}
	defer f.Close()
	opened, err := f.Stat()
	if err != nil {
		return nil, diskError(at, err)
	}
	if !os.SameFile(opened, info) {
		return nil, p.refuse(at, "TAMPERED", "the file changed while it was read")
	}
	sum := p.hash()
	sum.Write(header("blob", info.Size()))
	n, err := io.CopyBuffer(sum, struct{ io.Reader }{io.LimitReader(f, info.Size()+1)}, p.buffer)
	if err != nil {
		return nil, diskError(at, err)
	}
	if n != info.Size() {
		return nil, p.refuse(at, "TAMPERED", "the file changed while it was read")
	}
	return sum.Sum(nil), nil
}

// header is hashed before the content of an object.
func header(kind string, size int64) []byte {
	return fmt.Appendf(nil, "%s %d\x00", kind, size)
}
