package git

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestCheckUnmoved: each row does one thing to the repository between the two
// looks.
func TestCheckUnmoved(t *testing.T) {
	for _, c := range []struct {
		name, ref, want string
		do              [][]string
	}{
		{"nothing happens", "v1.0.0", "", nil},
		{"the tag names the next commit", "v1.0.0", "SOURCE_MOVED", [][]string{{"tag", "--force", "v1.0.0", "main"}}},
		{"the tag is gone", "v1.0.0", "SOURCE_MOVED", [][]string{{"tag", "--delete", "v1.0.0"}}},
		{"another tag moves", "v1.0.0", "", [][]string{{"tag", "--force", "v1.0.0-annotated", "main"}}},
		{"a tag of the same name in a tag's directory", "v1.0.0", "", [][]string{{"update-ref", "refs/x/refs/tags/v1.0.0", "main"}}},
		{"a branch of the name", "v1.0.0", "", [][]string{{"branch", "v1.0.0", "main"}}},
		{"an annotation is added", "v1.0.0", "SOURCE_MOVED", [][]string{{"tag", "--force", "--annotate", "--message=x", "v1.0.0", "v1.0.0"}}},
		{"an annotation is another, of the same commit", "v1.0.0-annotated", "SOURCE_MOVED", [][]string{{"tag", "--force", "--annotate", "--message=x", "v1.0.0-annotated", "v1.0.0"}}},
		{"an annotated tag stays", "v1.0.0-annotated", "", nil},
		{"a branch goes on", "main", "", [][]string{{"commit", "--allow-empty", "--message=more"}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, _ := released(t)
			far := r.remote()
			commit, err := Resolve(t.Context(), r.dir, c.ref)
			if err != nil {
				t.Fatal(err)
			}
			for _, args := range c.do {
				r.git(args...)
			}
			if err := CheckUnmoved(t.Context(), commit); code(err) != c.want || (err == nil) != (c.want == "") {
				t.Errorf("%v, want %q", err, c.want)
			}
			if err := far.CheckUnmoved(t.Context(), commit); code(err) != c.want || (err == nil) != (c.want == "") {
				t.Errorf("from far: %v, want %q", err, c.want)
			}
		})
	}
	sameTag(t)
	r, id := released(t)
	c, err := Resolve(t.Context(), r.dir, id)
	if err != nil {
		t.Fatal(err)
	}
	r.git("tag", "--delete", "v1.0.0")
	if err := CheckUnmoved(t.Context(), c); err != nil {
		t.Errorf("an id cannot move: %v", err)
	}
	gone := Commit{Repository: filepath.Join(t.TempDir(), "gone"), Ref: "refs/tags/v1.0.0", Commit: id}
	if err := CheckUnmoved(t.Context(), gone); code(err) != "UNAVAILABLE" {
		t.Errorf("no repository: %v, want UNAVAILABLE", err)
	}
}

// sameTag compares what two runs resolved.
func sameTag(t *testing.T) {
	t.Helper()
	was := Commit{Ref: "refs/tags/v1", Tag: "a", Commit: "c"}
	for now, want := range map[Commit]string{
		was: "", {Ref: "refs/tags/v1", Tag: "b", Commit: "c"}: "SOURCE_MOVED", {Ref: "refs/tags/v1", Commit: "c"}: "SOURCE_MOVED",
		{Ref: "refs/tags/v2", Tag: "b", Commit: "c"}: "", {Ref: "refs/heads/v1", Commit: "d"}: "",
	} {
		if err := was.CheckSame(now); code(err) != want {
			t.Errorf("%+v: %v, want %q", now, err, want)
		}
	}
}

// TestCheckClean: what git follows and nobody committed refuses; what git does
// not follow does not.
func TestCheckClean(t *testing.T) {
	for _, c := range []struct {
		name, want string
		do         func(r repository)
	}{
		{"as committed", "", func(repository) {}},
		{"a changed file", "SOURCE_DIRTY", func(r repository) { r.write("release.yaml", "kind: Other\n", 0o644) }},
		{"a changed file, put back", "", func(r repository) {
			r.write("release.yaml", "kind: Other\n", 0o644)
			r.write("release.yaml", "kind: Release\n", 0o644)
		}},
		{"a changed file, committed", "", func(r repository) {
			r.write("release.yaml", "kind: Other\n", 0o644)
			r.commit()
		}},
		{"a staged file", "SOURCE_DIRTY", func(r repository) {
			r.write("new", "x", 0o644)
			r.git("add", "new")
		}},
		{"a file that git does not follow", "", func(r repository) { r.write("new", "x", 0o644) }},
		{"a lost file", "SOURCE_DIRTY", func(r repository) { _ = os.Remove(filepath.Join(r.dir, "build.sh")) }},
		{"another mode", "SOURCE_DIRTY", func(r repository) { _ = os.Chmod(filepath.Join(r.dir, "build.sh"), 0o644) }},
		{"a link for a file", "SOURCE_DIRTY", func(r repository) {
			_ = os.Remove(filepath.Join(r.dir, "later"))
			_ = os.Symlink("build.sh", filepath.Join(r.dir, "later"))
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, _ := released(t)
			c.do(r)
			for _, repo := range []string{r.dir, "git+file://" + r.dir} {
				err := CheckClean(t.Context(), repo)
				if code(err) != c.want || (err == nil) != (c.want == "") {
					t.Errorf("%v, want %q", err, c.want)
				}
			}
			// The repository itself holds only what was committed.
			if err := CheckClean(t.Context(), filepath.Join(r.dir, ".git")); err != nil {
				t.Errorf("without the work tree: %v", err)
			}
			linked := filepath.Join(t.TempDir(), "linked")
			r.git("worktree", "add", "--quiet", "--detach", linked, "main")
			if err := CheckClean(t.Context(), linked); err != nil {
				t.Errorf("another work tree of it: %v", err)
			}
			r.dir = linked
			r.write("release.yaml", "kind: Third\n", 0o644)
			if err := CheckClean(t.Context(), linked); code(err) != "SOURCE_DIRTY" || !strings.Contains(err.Error(), "release.yaml") {
				t.Errorf("another work tree with a change: %v", err)
			}
		})
	}
}

// TestLookingRunsNothing: to see whether files changed, git would clean them
// with a program that the repository names, and ask another what changed.
func TestLookingRunsNothing(t *testing.T) {
	r := newRepository(t)
	marker := filepath.Join(t.TempDir(), "ran")
	r.write(".gitattributes", "*.txt filter=evil diff=evil\n*.md filter=two.words\n", 0o644)
	r.write("file.txt", "x\n", 0o644)
	r.write("file.md", "x\n", 0o644)
	r.commit()
	script := "sh -c 'touch " + marker + "; cat'"
	for _, key := range []string{
		"filter.evil.clean", "filter.evil.process", "filter.two.words.clean", "filter.two.words.process", "core.fsmonitor", "diff.evil.textconv", "diff.evil.command",
		"core.sshCommand", "core.pager", "core.alternateRefsCommand", "gpg.program",
	} {
		r.git("config", key, script)
	}
	r.git("config", "filter.evil.required", "true")
	r.write(".git/hooks/post-index-change", "#!/bin/sh\ntouch "+marker+"\n", 0o755)
	// The same bytes with another time: git has to look inside.
	for _, name := range []string{"file.txt", "file.md"} {
		if err := os.Remove(filepath.Join(r.dir, name)); err != nil {
			t.Fatal(err)
		}
		r.write(name, "x\n", 0o644)
	}
	index, err := os.ReadFile(filepath.Join(r.dir, ".git", "index"))
	if err != nil {
		t.Fatal(err)
	}
	if err := CheckClean(t.Context(), r.dir); err != nil {
		t.Errorf("nothing changed: %v", err)
	}
	r.write("file.txt", "y\n", 0o644)
	if err := CheckClean(t.Context(), r.dir); code(err) != "SOURCE_DIRTY" {
		t.Errorf("a filtered file changed: %v", err)
	}
	if _, err := os.Stat(marker); err == nil {
		t.Error("a program of the repository ran")
	}
	if after, err := os.ReadFile(filepath.Join(r.dir, ".git", "index")); err != nil || string(after) != string(index) {
		t.Errorf("the repository was written to: %v", err)
	}
}
