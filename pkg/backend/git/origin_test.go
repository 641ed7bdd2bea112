package git

import (
	"path/filepath"
	"strings"
	"testing"
)

func TestOriginIsAnAddress(t *testing.T) {
	for remote, want := range map[string]string{
		"https://github.com/example/hello":           "git+https://github.com/example/hello",
		"https://github.com/example/hello.git":       "git+https://github.com/example/hello",
		"https://me:secret@github.com/example/hello": "git+https://github.com/example/hello",
		"git@github.com:example/hello.git":           "git+https://github.com/example/hello",
		"ssh://git@git.example.test:2222/a/b/c.git":  "git+https://git.example.test/a/b/c",
		"https://git.example.test:8443/hello/":       "git+https://git.example.test:8443/hello",
		"/srv/git/hello.git":                         "",
		"../hello":                                   "",
		"file:///srv/git/hello":                      "",
		"http://github.com/example/hello":            "",
		"git://github.com/example/hello":             "",
		"ext::sh -c evil":                            "",
		"https://github.com/":                        "",
		"https://github.com/a?b=c":                   "",
		"-oProxyCommand=evil@host:x":                 "git+https://host/x",
		"git@-oProxyCommand=evil:x":                  "",
	} {
		if got := addressOf(remote); got != want {
			t.Errorf("%s is %q, want %q", remote, got, want)
		}
	}
	r := newRepository(t)
	if got, err := Origin(t.Context(), r.dir); got != "" || err != nil {
		t.Errorf("a clone without a remote is of %q, %v", got, err)
	}
	r.git("remote", "add", "origin", "git@github.com:example/hello.git")
	if got, err := Origin(t.Context(), r.dir); got != "git+https://github.com/example/hello" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	if _, err := Origin(t.Context(), t.TempDir()); err == nil {
		t.Error("a directory without a repository has an origin")
	}
}

// TestPublishedIsTheSameTag: a commit is that of another repository only if the
// tag there is the same object.
func TestPublishedIsTheSameTag(t *testing.T) {
	r := newRepository(t)
	r.write("a", "a", 0o644)
	r.git("add", "a")
	r.git("commit", "--quiet", "-m", "a")
	r.git("tag", "v1.0.0")
	there := filepath.Join(t.TempDir(), "there")
	r.git("clone", "--quiet", "--bare", r.dir, there)
	repo, err := Open(t.Context(), r.dir)
	if err != nil {
		t.Fatal(err)
	}
	c, err := repo.Resolve(t.Context(), "v1.0.0")
	if err != nil {
		t.Fatal(err)
	}
	ask := func(ref string) bool {
		t.Helper()
		c := c
		c.Ref = ref
		same, err := c.Published(t.Context(), "git+file://"+there)
		if err != nil {
			t.Fatal(err)
		}
		return same
	}
	if !ask("refs/tags/v1.0.0") || ask("refs/tags/v2.0.0") || ask("") {
		t.Error("a tag that is there is missing, or one that is not is found")
	}
	r.git("commit", "--quiet", "--allow-empty", "-m", "b")
	r.git("--git-dir="+there, "fetch", "--quiet", r.dir, "+HEAD:refs/tags/v1.0.0")
	if ask("refs/tags/v1.0.0") {
		t.Error("a tag of another commit is the same")
	}
	if _, err := c.Published(t.Context(), "git+file:///nowhere"); err == nil {
		t.Error("a repository that is not there answered")
	}
}

// TestCommitIsReadFromItsClone: the address is recorded, the clone is read.
func TestCommitIsReadFromItsClone(t *testing.T) {
	r := newRepository(t)
	r.write("a", "text", 0o644)
	r.git("add", "a")
	r.git("commit", "--quiet", "-m", "a")
	repo, err := Open(t.Context(), r.dir)
	if err != nil {
		t.Fatal(err)
	}
	c, err := repo.Resolve(t.Context(), "HEAD")
	if err != nil {
		t.Fatal(err)
	}
	c = c.At("git+https://127.0.0.1:1/hello")
	if raw, err := ReadFile(t.Context(), c, "a"); err != nil || string(raw) != "text" {
		t.Errorf("%q, %v", raw, err)
	}
	c.Clone = "git+file://" + filepath.Join(t.TempDir(), "gone")
	if _, err := ReadFile(t.Context(), c, "a"); err == nil || !strings.Contains(err.Error(), "127.0.0.1:1") {
		t.Errorf("without the clone it was not read from its address: %v", err)
	}
}
