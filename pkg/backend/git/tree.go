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

	"github.com/waybill-release/waybill/pkg/value/verdict"
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
		return tampered(c.Repository, c.Tree, "a directory that is the tree "+got)
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

// hashOf is a new hash of the kind of an id, which has begun an object.
func hashOf(id, kind string, size int64) hash.Hash {
	sum := sha1.New() //nolint:gosec // see above
	if len(id) == 64 {
		sum = sha256.New()
	}
	fmt.Fprintf(sum, "%s %d\x00", kind, size)
	return sum
}

func (p *prover) tree(ctx context.Context, dir *os.Root, at string, depth int) ([]byte, error) {
	if depth > maxTreeDeep {
		return nil, p.commit.refuse(at, verdict.Limit, "the tree is too deep")
	}
	names, err := p.names(dir, at)
	if err != nil {
		return nil, err
	}
	lines, size := make([]entry, 0, len(names)), 0
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
	slices.SortFunc(lines, func(a, b entry) int { return cmp.Compare(a.order(), b.order()) })
	sum := hashOf(p.commit.Tree, "tree", int64(size))
	for _, l := range lines {
		sum.Write([]byte(l.mode + " " + l.name + "\x00"))
		sum.Write([]byte(l.id))
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
			return nil, p.commit.refuse(at, verdict.Limit, "the tree has too many entries")
		}
		if errors.Is(err, io.EOF) {
			return names, nil
		}
		if err != nil {
			return nil, diskError(at, err)
		}
	}
}

// entry hashes one entry of a directory into one with the bytes of its id. at is
// its full path, for errors.
func (p *prover) entry(ctx context.Context, dir *os.Root, at string, depth int) (entry, error) {
	l := entry{name: path.Base(at)}
	info, err := dir.Lstat(l.name)
	if err != nil {
		return entry{}, diskError(at, err)
	}
	switch info.Mode().Type() {
	case fs.ModeDir:
		l.mode = "40000"
		sub, err := dir.OpenRoot(l.name)
		if err != nil {
			return entry{}, diskError(at, err)
		}
		defer sub.Close()
		id, err := p.tree(ctx, sub, at, depth+1)
		if err != nil {
			return entry{}, err
		}
		l.id = string(id)
	case fs.ModeSymlink:
		l.mode = "120000"
		target, err := dir.Readlink(l.name)
		if err != nil {
			return entry{}, diskError(at, err)
		}
		sum := hashOf(p.commit.Tree, "blob", int64(len(target)))
		sum.Write([]byte(target))
		l.id = string(sum.Sum(nil))
		return l, nil // links have no mode and no time that count
	case 0:
		l.mode = "100" + strconv.FormatUint(uint64(info.Mode().Perm()), 8)
		if l.id, err = p.blob(dir, l.name, at, info); err != nil {
			return entry{}, err
		}
	default:
		return entry{}, p.commit.refuse(at, verdict.FileType, fmt.Sprintf("%s: a source holds only files, directories and links", info.Mode().Type()))
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
		return p.commit.refuse(at, verdict.FileType, "its mode is "+mode.String())
	}
	if !info.ModTime().Equal(p.commit.Time) {
		return p.commit.refuse(at, verdict.Tampered, fmt.Sprintf("its time is %s, want that of the commit, %s", info.ModTime().UTC(), p.commit.Time))
	}
	return nil
}

func (p *prover) blob(dir *os.Root, name, at string, info fs.FileInfo) (string, error) {
	if p.total += info.Size(); p.total > maxTotal {
		return "", p.commit.refuse(at, verdict.Limit, fmt.Sprintf("the tree exceeds %d bytes at this file", int64(maxTotal)))
	}
	f, err := dir.Open(name)
	if err != nil {
		return "", diskError(at, err)
	}
	defer f.Close()
	opened, err := f.Stat()
	if err != nil {
		return "", diskError(at, err)
	}
	if !os.SameFile(opened, info) {
		return "", p.commit.refuse(at, verdict.Tampered, "the file changed while it was read")
	}
	sum := hashOf(p.commit.Tree, "blob", info.Size())
	n, err := io.CopyBuffer(sum, struct{ io.Reader }{io.LimitReader(f, info.Size()+1)}, p.buffer)
	if err != nil {
		return "", diskError(at, err)
	}
	if n != info.Size() {
		return "", p.commit.refuse(at, verdict.Tampered, "the file changed while it was read")
	}
	return string(sum.Sum(nil)), nil
}
