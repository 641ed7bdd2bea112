package git

import (
	"errors"
	"strings"
	"testing"
)

// TestEmptyChild: the documented case of Kubernetes, "an empty release commit
// whose parent is the build commit". Each row has one fact that differs.
func TestEmptyChild(t *testing.T) {
	r := newRepository(t)
	r.write("release.yaml", "kind: Release\n", 0o644)
	first := r.commit()
	r.write("main.go", "package main\n", 0o644)
	built := r.commit()
	tree := r.git("rev-parse", built+"^{tree}")
	make := func(tree string, parents ...string) string {
		args := []string{"commit-tree", "-m", "Release commit for v1.0.0"}
		for _, p := range parents {
			args = append(args, "-p", p)
		}
		return r.git(append(args, tree)...)
	}
	empty := make(tree, built)
	for _, c := range []struct {
		name, tagged, built string
		rule                Rule
	}{
		{"an empty child", empty, built, EmptyChild},
		{"its twin by the other rule", empty, empty, Tagged},
		{"a child that changes a file", make(r.git("rev-parse", first+"^{tree}"), built), "", EmptyChild},
		{"two parents of one tree", make(tree, built, empty), "", EmptyChild},
		{"no parent", make(tree), "", EmptyChild},
		{"an ordinary commit", built, built, EmptyChild},
		{"an empty child of an empty child", make(tree, empty), empty, EmptyChild},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.built == "" {
				c.built = c.tagged
			}
			r.git("tag", "--force", "--annotate", "--message=v1", "v1.0.0", c.tagged)
			named, err := Resolve(t.Context(), r.dir, "v1.0.0")
			if err != nil {
				t.Fatal(err)
			}
			got, err := Built(t.Context(), named, c.rule)
			if err != nil || got.Commit != c.built {
				t.Fatalf("%+v, %v, want commit %s", got, err, c.built)
			}
			release := ""
			if c.built != c.tagged {
				release = c.tagged
			}
			if got.Release != release || got.Ref != "refs/tags/v1.0.0" || got.Tag != named.Tag || got.Tag == "" || got.Tree != r.git("rev-parse", c.built+"^{tree}") {
				t.Errorf("%+v does not name the release commit %q beside the commit", got, release)
			}
			if err := CheckUnmoved(t.Context(), got); err != nil {
				t.Errorf("the tag stands where it stood: %v", err)
			}
		})
	}
}

// TestEmptyChildFromFar: a repository that is fetched without history still
// gives the parent, be it one that hands out commits by id or not.
func TestEmptyChildFromFar(t *testing.T) {
	r, built := released(t)
	release := r.git("commit-tree", "-m", "release", "-p", built, built+"^{tree}")
	r.git("tag", "v1.0.1", release)
	for _, version := range []string{"2", "0"} { // of the protocol; the old one refuses ids
		far := r.remote()
		far.git.replaced = [][2]string{{"protocol.version", version}}
		named, err := far.Resolve(t.Context(), "v1.0.1")
		if err != nil {
			t.Fatal(err)
		}
		got, err := far.Built(t.Context(), named, EmptyChild)
		if err != nil || got.Commit != built || got.Release != release {
			t.Errorf("protocol %s: %+v, %v", version, got, err)
		}
	}
}

// TestFetchedOnce: what was fetched is read by many steps at once, and the
// repository is not asked for it again.
func TestFetchedOnce(t *testing.T) {
	r, id := released(t)
	far := r.remote()
	c, err := far.Resolve(t.Context(), "v1.0.0")
	if err != nil || c.Commit != id {
		t.Fatalf("%+v, %v", c, err)
	}
	far.remote = "file:///not/there"
	failed := make(chan error, 8)
	for range cap(failed) {
		dir := t.TempDir()
		go func() {
			_, err := far.ReadFile(t.Context(), c, "release.yaml")
			failed <- errors.Join(err, far.Checkout(t.Context(), c, dir))
		}()
	}
	for range cap(failed) {
		if err := <-failed; err != nil {
			t.Error(err)
		}
	}
	if err := far.CheckUnmoved(t.Context(), c); code(err) != "UNAVAILABLE" {
		t.Errorf("whether a tag moved is asked where it is: %v, want UNAVAILABLE", err)
	}
}

func TestBuiltRefuses(t *testing.T) {
	r, id := released(t)
	c, err := Resolve(t.Context(), r.dir, "v1.0.0")
	if err != nil {
		t.Fatal(err)
	}
	twice := c
	twice.Release = id
	for _, row := range []struct {
		c    Commit
		rule Rule
		want string
	}{
		{c, EmptyChild, ""},
		{c, "any", "USAGE"},
		{c, "", "USAGE"},
		{twice, EmptyChild, "USAGE"},
		{Commit{Repository: r.dir, Commit: strings.Repeat("0", 40)}, EmptyChild, "MISSING"},
	} {
		if got, err := Built(t.Context(), row.c, row.rule); code(err) != row.want || (err == nil) != (row.want == "") {
			t.Errorf("%+v by %q: %+v, %v, want %q", row.c, row.rule, got, err, row.want)
		}
	}
	// A commit that names its tree or its parents where git does not look.
	tree := r.git("rev-parse", id+"^{tree}")
	who := "author A <a@b> 1 +0000\ncommitter C <c@d> 1700000000 +0000\n"
	for body, want := range map[string]string{
		"tree " + tree + "\nparent " + id + "\n" + who + "\nx\n":                   "",
		"tree " + tree + "\n" + who + "parent " + id + "\n\nx\n":                   "TAMPERED",
		"parent " + id + "\ntree " + tree + "\n" + who + "\nx\n":                   "TAMPERED",
		"tree " + tree + "\ntree " + tree + "\n" + who + "\nx\n":                   "TAMPERED",
		"tree " + tree + "\nparent main\n" + who + "\nx\n":                         "TAMPERED",
		"tree " + tree + "\n" + who + "committer D <d@e> 1 +0000\n\nx\n":           "TAMPERED",
		"tree " + tree + "\n" + who + "encoding UTF-8\n\nparent " + id + "\n\nx\n": "",
	} {
		c := Commit{Repository: r.dir, Commit: r.object("commit", body)}
		if got, err := Built(t.Context(), c, EmptyChild); code(err) != want || (err == nil) != (want == "") {
			t.Errorf("%q: %+v, %v, want %q", body, got, err, want)
		}
	}
}
