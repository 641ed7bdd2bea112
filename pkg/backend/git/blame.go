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

// Blamed is the commit that wrote a line, and who that commit says wrote it.
// Nobody proves it: whoever makes a commit writes any name into it.
type Blamed struct{ Commit, Author string }

// maxBlamed bounds how many lines are asked about at once.
const maxBlamed = 1000

// Blame says which commits wrote lines of a file of a work tree, by number. The
// file must be as it was committed, or nothing is known of its lines; neither
// is it where no repository holds the file. Both are no errors.
func Blame(ctx context.Context, file string, content []byte, lines []int) (map[int]Blamed, error) {
	if len(lines) == 0 {
		return nil, nil
	}
	if len(lines) > maxBlamed {
		return nil, usage("blaming %q: more than %d lines", file, maxBlamed)
	}
	top, name, found := holding(file)
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
	// Of the objects alone: neither a program that the repository names for its
	// texts, nor its list of commits that are not to be blamed, has a say.
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

// holding finds the work tree that a file lies in, and its name there.
func holding(file string) (top, name string, found bool) {
	abs, err := filepath.Abs(file)
	if err == nil {
		abs, err = filepath.EvalSymlinks(abs)
	}
	if err != nil {
		return "", "", false
	}
	for dir := filepath.Dir(abs); ; dir = filepath.Dir(dir) {
		if _, err := os.Lstat(filepath.Join(dir, ".git")); err == nil {
			rel, err := filepath.Rel(dir, abs)
			return dir, filepath.ToSlash(rel), err == nil
		}
		if dir == filepath.Dir(dir) {
			return "", "", false
		}
	}
}

// parseBlame reads what git says of lines: of each its commit, and of each
// commit, once, who wrote it.
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
