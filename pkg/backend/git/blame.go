package git

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Blamed is the commit that wrote a line, and the author that the commit names.
// The name proves nothing: anyone can write any author into a commit.
type Blamed struct{ Commit, Author string }

// maxBlamed bounds how many lines one call may name.
const maxBlamed = 1000

// Blame returns the commit that wrote each of the given lines (by number) of a
// file in a work tree. It returns nothing, and no error, if the file differs
// from what is committed or is in no repository.
func Blame(ctx context.Context, file string, content []byte, lines []int) (map[int]Blamed, error) {
	if len(lines) == 0 {
		return nil, nil
	}
	if len(lines) > maxBlamed {
		return nil, usage("blaming %q: more than %d lines", file, maxBlamed)
	}
	top, name, found := findWorkTree(file)
	if !found {
		return nil, nil
	}
	r, err := Open(ctx, top)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	head, err := r.Resolve(ctx, "HEAD")
	if errors.Is(err, ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	committed, err := r.ReadFile(ctx, head, name)
	if errors.Is(err, ErrNotFound) || err == nil && !bytes.Equal(committed, content) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	// Only the repository's objects count: its configured text conversion
	// programs and its list of commits to ignore are switched off.
	objects, err := r.Objects()
	if err != nil {
		return nil, err
	}
	temp, err := os.MkdirTemp("", "waybill-git-")
	if err != nil {
		return nil, r.unavailable("reading history", err)
	}
	defer func() { _ = os.RemoveAll(temp) }()
	bare, err := OpenObjects(objects, temp, head)
	if err != nil {
		return nil, err
	}
	args := []string{"blame", "--porcelain", "--no-textconv"}
	for _, n := range lines {
		args = append(args, "-L", fmt.Sprintf("%d,%d", n, n))
	}
	out, err := bare.git.run(ctx, append(args, head.Commit, "--", name)...)
	if err != nil {
		return nil, r.unavailable("blaming "+name, err)
	}
	return parseBlame(out), nil
}

// findWorkTree returns the work tree that contains a file, and the file's name
// in it.
func findWorkTree(file string) (top, name string, found bool) {
	abs, err := filepath.Abs(file)
	if err == nil {
		abs, err = filepath.EvalSymlinks(abs)
	}
	if err != nil {
		return "", "", false
	}
	if top = Above(filepath.Dir(abs)); top == "" {
		return "", "", false
	}
	rel, err := filepath.Rel(top, abs)
	return top, filepath.ToSlash(rel), err == nil
}

// Above returns the work tree that a directory is in; "" if it is in none.
func Above(dir string) string {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return ""
	}
	for {
		if _, err := os.Lstat(filepath.Join(dir, ".git")); err == nil {
			return dir
		}
		if dir == filepath.Dir(dir) {
			return ""
		}
		dir = filepath.Dir(dir)
	}
}

// parseBlame reads git's porcelain output: each line with its commit, and the
// author once for each commit.
func parseBlame(out string) map[int]Blamed {
	authors, commits := map[string]string{}, map[int]string{}
	commit, author := "", ""
	for line := range strings.Lines(out) {
		line = strings.TrimSuffix(line, "\n")
		word, rest, _ := strings.Cut(line, " ")
		switch {
		case strings.HasPrefix(line, "\t"):
			commit = ""
		case commit == "" && isID(word):
			commit = word
			if fields := strings.Fields(rest); len(fields) >= 2 {
				if n, err := strconv.Atoi(fields[1]); err == nil {
					commits[n] = commit
				}
			}
		case word == "author":
			author = rest
		case word == "author-mail":
			authors[commit] = author + " " + rest
		}
	}
	blamed := make(map[int]Blamed, len(commits))
	for n, id := range commits {
		blamed[n] = Blamed{id, authors[id]}
	}
	return blamed
}
