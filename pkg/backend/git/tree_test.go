package git

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// grown is a repository with everything that a tree can hold, also names that
// git sorts in its own way.
func grown(t *testing.T, format string) (repository, Commit) {
	t.Helper()
	r := newRepository(t)
	if format == "sha256" {
		r.dir = t.TempDir()
		r.git("init", "--quiet", "--initial-branch=main", "--object-format=sha256")
	}
	for name, body := range map[string]string{
		"a": "file", "b/x": "in a directory", "b-c": "before b/", "b.c": "before b/ too", "b0": "after b/", "c/d/e/f": "deep", "empty": "", "caf\u00e9": "name",
	} {
		r.write(name, body, 0o644)
	}
	for i := range 2*maxAsked + 1 { // more than are asked for at once
		r.write(fmt.Sprintf("many/%03d", i), strings.Repeat(fmt.Sprint(i), i), 0o644)
	}
	r.write("run.sh", "#!/bin/sh\n", 0o755)
	for name, target := range map[string]string{"link": "b/x", "c/up": "../a", "dangling": "nowhere"} {
		if err := os.Symlink(target, filepath.Join(r.dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	r.commit()
	c, err := Resolve(t.Context(), r.dir, "main")
	if err != nil {
		t.Fatal(err)
	}
	return r, c
}

func checkedOut(t *testing.T, c Commit) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "out")
	if err := Checkout(t.Context(), c, dir); err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestCheckTree: a checkout proves its tree, with either hash, and one changed
// fact does not.
func TestCheckTree(t *testing.T) {
	stamp := func(err error, name string, c Commit) error {
		return errors.Join(err, os.Chtimes(name, c.Time, c.Time), os.Chtimes(filepath.Dir(name), c.Time, c.Time))
	}
	for _, format := range []string{"sha1", "sha256"} {
		_, c := grown(t, format)
		for name, row := range map[string]struct {
			change func(string) error
			want   string
		}{
			"nothing": {func(string) error { return nil }, ""},
			"one byte": {func(dir string) error {
				return stamp(os.WriteFile(filepath.Join(dir, "a"), []byte("filf"), 0o644), filepath.Join(dir, "a"), c)
			}, "TAMPERED"},
			"one more file": {func(dir string) error {
				return stamp(os.WriteFile(filepath.Join(dir, "c", "more"), nil, 0o644), filepath.Join(dir, "c", "more"), c)
			}, "TAMPERED"},
			"one more directory": {func(dir string) error {
				return stamp(os.Mkdir(filepath.Join(dir, "more"), 0o755), filepath.Join(dir, "more"), c)
			}, "TAMPERED"},
			"one file less": {func(dir string) error {
				return errors.Join(os.Remove(filepath.Join(dir, "b0")), os.Chtimes(dir, c.Time, c.Time))
			}, "TAMPERED"},
			"two names swapped": {func(dir string) error {
				a, b := filepath.Join(dir, "a"), filepath.Join(dir, "b-c")
				return errors.Join(os.Rename(a, a+"x"), os.Rename(b, a), os.Rename(a+"x", b), os.Chtimes(dir, c.Time, c.Time))
			}, "TAMPERED"},
			"made executable":     {func(dir string) error { return os.Chmod(filepath.Join(dir, "a"), 0o755) }, "TAMPERED"},
			"not executable":      {func(dir string) error { return os.Chmod(filepath.Join(dir, "run.sh"), 0o644) }, "TAMPERED"},
			"writable by others":  {func(dir string) error { return os.Chmod(filepath.Join(dir, "a"), 0o666) }, "FILE_TYPE"},
			"a program of root's": {func(dir string) error { return os.Chmod(filepath.Join(dir, "run.sh"), 0o755|os.ModeSetuid) }, "FILE_TYPE"},
			"an open directory":   {func(dir string) error { return os.Chmod(filepath.Join(dir, "c"), 0o777) }, "FILE_TYPE"},
			"another time": {func(dir string) error {
				return os.Chtimes(filepath.Join(dir, "c", "d", "e", "f"), time.Unix(1, 0), time.Unix(1, 0))
			}, "TAMPERED"},
			"another time on top": {func(dir string) error { return os.Chtimes(dir, time.Unix(1, 0), time.Unix(1, 0)) }, "TAMPERED"},
			"a link to elsewhere": {func(dir string) error {
				link := filepath.Join(dir, "link")
				return errors.Join(os.Remove(link), os.Symlink("b/y", link), os.Chtimes(dir, c.Time, c.Time))
			}, "TAMPERED"},
			"a link for a file": {func(dir string) error {
				file := filepath.Join(dir, "a")
				return errors.Join(os.Rename(file, filepath.Join(t.TempDir(), "a")), os.Symlink("b0", file), os.Chtimes(dir, c.Time, c.Time))
			}, "TAMPERED"},
			"a socket": {func(dir string) error {
				l, err := net.Listen("unix", filepath.Join(dir, "s"))
				if err == nil {
					t.Cleanup(func() { _ = l.Close() })
				}
				return err
			}, "FILE_TYPE"},
			"endless": {func(dir string) error { return os.MkdirAll(dir+strings.Repeat("/d", maxTreeDeep+2), 0o755) }, "LIMIT"},
		} {
			dir := checkedOut(t, c)
			if err := row.change(dir); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if err := CheckTree(t.Context(), dir, c); code(err) != row.want || (err == nil) != (row.want == "") {
				t.Errorf("%s, %s: %v, want %q", format, name, err, row.want)
			}
		}
		other := c
		other.Tree = strings.Repeat("0", len(c.Tree))
		if err := CheckTree(t.Context(), checkedOut(t, c), other); code(err) != "TAMPERED" {
			t.Errorf("another tree: %v", err)
		}
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		if err := CheckTree(ended, checkedOut(t, c), c); !errors.Is(err, context.Canceled) {
			t.Errorf("after the end: %v", err)
		}
	}
	if err := CheckTree(t.Context(), t.TempDir(), Commit{}); code(err) != "USAGE" {
		t.Errorf("the tree of no commit: %v", err)
	}
}

// TestTreesWithoutEnd: a few objects that would be more files than any disk
// has, or deeper than any path, are refused before anything is written.
func TestTreesWithoutEnd(t *testing.T) {
	r := newRepository(t)
	// below is a tree that has the same tree under so many names, so often.
	below := func(names string, levels int) string {
		id := r.tree("100644", "f", r.object("blob", "x"))
		for range levels {
			var raw strings.Builder
			for _, name := range names {
				raw.WriteString("40000 " + string(name) + "\x00" + bytesOf(t, id))
			}
			id = r.object("tree", raw.String())
		}
		return id
	}
	for name, c := range map[string]struct{ tree, want string }{
		"ten billion files":         {below("abcdefghij", 10), "LIMIT"},
		"a thousand files":          {below("abcdefghij", 3), ""},
		"as deep as may be":         {below("a", maxTreeDeep), ""},
		"one deeper":                {below("a", maxTreeDeep+1), "LIMIT"},
		"deep and known from above": {r.object("tree", "40000 a\x00"+bytesOf(t, below("a", 100))+"40000 b\x00"+bytesOf(t, below("a", maxTreeDeep+1))), "LIMIT"},
	} {
		dir := filepath.Join(t.TempDir(), "out")
		commit := r.commitOf(c.tree)
		err := Checkout(t.Context(), commit, dir)
		if code(err) != c.want || (err == nil) != (c.want == "") {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
		if entries, _ := os.ReadDir(dir); c.want != "" && len(entries) > 0 {
			t.Errorf("%s: something was written", name)
		}
	}
}

func bytesOf(t *testing.T, id string) string {
	t.Helper()
	raw := make([]byte, len(id)/2)
	for i := range raw {
		for _, c := range id[2*i : 2*i+2] {
			raw[i] = raw[i]<<4 | byte(strings.IndexRune("0123456789abcdef", c))
		}
	}
	return string(raw)
}

// TestObjectsAlone: the objects of a repository are enough to check out a
// commit of it, with either hash; a repository that borrows objects is refused.
func TestObjectsAlone(t *testing.T) {
	for _, format := range []string{"sha1", "sha256"} {
		r, c := grown(t, format)
		r.git("gc", "--quiet") // packed, as most are
		from, err := Open(t.Context(), r.dir)
		if err != nil {
			t.Fatal(err)
		}
		objects, err := from.Objects()
		if err != nil {
			t.Fatal(err)
		}
		alone, err := OpenObjects(objects, t.TempDir(), c)
		if err != nil {
			t.Fatal(err)
		}
		dir := filepath.Join(t.TempDir(), "out")
		if err := alone.Checkout(t.Context(), c, dir); err != nil {
			t.Fatalf("%s: %v", format, err)
		}
		sure, err := from.Confirm(t.Context(), Commit{Repository: c.Repository, Commit: c.Commit})
		if err != nil || sure.Tree != c.Tree || !sure.Time.Equal(c.Time) {
			t.Errorf("%s: %+v, %v", format, sure, err)
		}
		if err := CheckTree(t.Context(), dir, sure); err != nil {
			t.Error(err)
		}
		wrong := c
		wrong.Tree = strings.Repeat("0", len(c.Tree))
		if _, err := from.Confirm(t.Context(), wrong); code(err) != "TAMPERED" {
			t.Errorf("%s: another tree was confirmed: %v", format, err)
		}
		linked := filepath.Join(t.TempDir(), "linked")
		r.git("worktree", "add", "--quiet", "--detach", linked)
		if w, err := Open(t.Context(), linked); err != nil {
			t.Errorf("a linked work tree: %v", err)
		} else if got, err := w.Objects(); err != nil || !same(t, got, objects) {
			t.Errorf("its objects: %q, %v, want %q", got, err, objects)
		}
	}
	r, _ := grown(t, "sha1")
	shared := repository{t: t, dir: filepath.Join(t.TempDir(), "shared")}
	if out, err := exec.Command("git", "clone", "--quiet", "--shared", r.dir, shared.dir).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if _, err := Open(t.Context(), shared.dir); code(err) != "SOURCE_SHARED" {
		t.Errorf("a clone that shares: %v", err)
	}
	shared.git("repack", "-a", "-d", "--quiet")
	if err := os.Remove(filepath.Join(shared.dir, ".git", "objects", "info", "alternates")); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), shared.dir); err != nil {
		t.Errorf("the twin: %v", err)
	}
	objects := filepath.Join(shared.dir, ".git", "objects")
	if err := errors.Join(os.Rename(objects, objects+"-moved"), os.Symlink(objects+"-moved", objects)); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), shared.dir); code(err) != "SOURCE_SHARED" {
		t.Errorf("objects that are a link: %v", err)
	}
}

func same(t *testing.T, a, b string) bool {
	t.Helper()
	one, err := os.Stat(a)
	if err != nil {
		t.Fatal(err)
	}
	two, err := os.Stat(b)
	if err != nil {
		t.Fatal(err)
	}
	return os.SameFile(one, two)
}

// TestNothingIsFetched: a repository that says that what it lacks is to be had
// by a program of its choice does not make that program run.
func TestNothingIsFetched(t *testing.T) {
	r, c := grown(t, "sha1")
	marker := filepath.Join(t.TempDir(), "ran")
	blob := r.git("rev-parse", "main:a")
	if err := os.Remove(filepath.Join(r.dir, ".git", "objects", blob[:2], blob[2:])); err != nil {
		t.Fatal(err)
	}
	for _, setting := range [][2]string{
		{"core.repositoryFormatVersion", "1"}, {"extensions.partialClone", "origin"}, {"remote.origin.promisor", "true"},
		{"remote.origin.url", "ext::sh -c touch% " + marker}, {"protocol.ext.allow", "always"}, {"protocol.allow", "always"},
	} {
		r.git("config", setting[0], setting[1])
	}
	if err := Checkout(t.Context(), c, filepath.Join(t.TempDir(), "out")); err == nil {
		t.Error("a tree without one of its files was checked out")
	}
	if _, err := os.Stat(marker); err == nil {
		t.Error("a program of the repository ran")
	}
	// The twin: plain git does run it.
	cmd := exec.Command("git", "cat-file", "-p", blob)
	cmd.Dir = r.dir
	_ = cmd.Run() // it gets nothing
	if _, err := os.Stat(marker); err != nil {
		t.Logf("this git would not have run it either: %v", err)
	}
}
