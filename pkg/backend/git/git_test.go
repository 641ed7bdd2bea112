package git

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// repository is a work tree made with plain git, as users have them.
type repository struct {
	t   *testing.T
	dir string
}

func newRepository(t *testing.T) repository {
	t.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal(err)
		}
		t.Skip("git is not installed")
	}
	r := repository{t: t, dir: t.TempDir()}
	r.git("init", "--quiet", "--initial-branch=main")
	return r
}

func (r repository) git(args ...string) string {
	r.t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir = r.dir
	cmd.Env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + r.dir, "GIT_CONFIG_NOSYSTEM=1",
		"GIT_AUTHOR_NAME=A", "GIT_AUTHOR_EMAIL=a@example.org", "GIT_AUTHOR_DATE=1600000000 +0000",
		"GIT_COMMITTER_NAME=C", "GIT_COMMITTER_EMAIL=c@example.org", "GIT_COMMITTER_DATE=1700000000 +0200",
	}
	out, err := cmd.CombinedOutput()
	if err != nil {
		r.t.Fatalf("git %v: %v: %s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

func (r repository) write(name, content string, mode os.FileMode) {
	r.t.Helper()
	file := filepath.Join(r.dir, name)
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		r.t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(content), mode); err != nil {
		r.t.Fatal(err)
	}
}

func (r repository) commit() string {
	r.t.Helper()
	r.git("add", "--all")
	r.git("commit", "--quiet", "--allow-empty", "--message=change")
	return r.git("rev-parse", "HEAD")
}

// released has a commit with two tags, and one more on main.
func released(t *testing.T) (repository, string) {
	r := newRepository(t)
	r.write("release.yaml", "kind: Release\n", 0o644)
	r.write("cmd/tool/main.go", "package main\n", 0o644)
	r.write("build.sh", "#!/bin/sh\n", 0o755)
	if err := os.Symlink("cmd/tool", filepath.Join(r.dir, "link")); err != nil {
		t.Fatal(err)
	}
	id := r.commit()
	r.git("tag", "v1.0.0")
	r.git("tag", "--annotate", "--message=note", "v1.0.0-annotated")
	r.write("later", "x", 0o644)
	r.commit()
	return r, id
}

// code returns the reason code of err, "" if it has none.
func code(err error) string {
	var refusal *verdict.Error
	if errors.As(err, &refusal) {
		return string(refusal.Finding.Code)
	}
	var coded interface{ Code() string }
	if errors.As(err, &coded) {
		return coded.Code()
	}
	return ""
}

func TestResolve(t *testing.T) {
	r, id := released(t)
	head := r.git("rev-parse", "main")
	for _, c := range []struct{ ref, full, commit string }{
		{"v1.0.0", "refs/tags/v1.0.0", id},
		{"v1.0.0-annotated", "refs/tags/v1.0.0-annotated", id},
		{"refs/tags/v1.0.0", "refs/tags/v1.0.0", id},
		{"main", "refs/heads/main", head},
		{"HEAD", "refs/heads/main", head},
		{id, "", id},
	} {
		got, err := Resolve(t.Context(), r.dir, c.ref)
		if err != nil {
			t.Errorf("%s: %v", c.ref, err)
			continue
		}
		want := Commit{
			Repository: "git+file://" + r.dir, Ref: c.full, Commit: c.commit,
			Tree: r.git("rev-parse", c.commit+"^{tree}"), Time: time.Unix(1700000000, 0).UTC(),
		}
		if c.ref == "v1.0.0-annotated" {
			want.Tag = r.git("rev-parse", c.ref)
		}
		if got != want {
			t.Errorf("%s: %+v, want %+v", c.ref, got, want)
		}
	}
	r.git("checkout", "--quiet", "--detach")
	if got, err := Resolve(t.Context(), r.dir, "HEAD"); err != nil || got.Commit != head || got.Ref != "" {
		t.Errorf("a detached HEAD: %+v, %v", got, err)
	}
}

func TestResolveRefuses(t *testing.T) {
	r, id := released(t)
	r.git("tag", "twice")
	r.git("branch", "twice")
	for ref, want := range map[string]string{
		"v9": "MISSING", "refs/heads/v1.0.0": "MISSING", strings.Repeat("0", 40): "MISSING",
		"twice": "USAGE", id[:12]: "MISSING", "main~1": "MISSING", "main^": "USAGE", "main@{0}": "USAGE", "--help": "USAGE",
		"": "USAGE", "../x": "USAGE", "a..b": "USAGE", ":/change": "USAGE", r.git("rev-parse", "v1.0.0-annotated"): "TAMPERED",
	} {
		got, err := Resolve(t.Context(), r.dir, ref)
		if err == nil || code(err) != want {
			t.Errorf("%q: %+v, %v, want %q", ref, got, err, want)
		}
	}
	if _, err := Resolve(t.Context(), r.dir, "refs/tags/twice"); err != nil {
		t.Errorf("in full: %v", err)
	}
}

func TestOpenRefuses(t *testing.T) {
	for repo, want := range map[string]string{
		t.TempDir(): "UNAVAILABLE", "/not/there": "UNAVAILABLE", "git+file:///not/there": "UNAVAILABLE",
		"": "USAGE", "https://example.org/x": "USAGE", "git+http://example.org/x": "USAGE", "ext::sh -c id": "UNAVAILABLE",
		"git+ext://sh": "USAGE", "git+file://host/x": "USAGE", "git+https://user:secret@example.org/x": "USAGE", "git+ssh://-oProxyCommand=id/x": "USAGE",
	} {
		_, err := Open(t.Context(), repo)
		if err == nil || code(err) != want {
			t.Errorf("%q: %v, want %q", repo, err, want)
		}
		if err != nil && strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: the error repeats the password", repo)
		}
	}
}

func TestCheckout(t *testing.T) {
	r, _ := released(t)
	c, err := Resolve(t.Context(), r.dir, "v1.0.0")
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "src")
	if err := Checkout(t.Context(), c, dir); err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	err = filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(dir, name)
		got[rel] = info.Mode().String()
		if info.Mode()&fs.ModeSymlink == 0 && !info.ModTime().Equal(c.Time) {
			t.Errorf("%s was changed at %v, want %v", rel, info.ModTime(), c.Time)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for name, mode := range map[string]string{
		".": "drwxr-xr-x", "build.sh": "-rwxr-xr-x", "release.yaml": "-rw-r--r--", "cmd": "drwxr-xr-x",
		"cmd/tool": "drwxr-xr-x", "cmd/tool/main.go": "-rw-r--r--", "link": "Lrwxrwxrwx",
	} {
		if got[name] != mode {
			t.Errorf("%s has mode %q, want %q", name, got[name], mode)
		}
		delete(got, name)
	}
	if len(got) > 0 {
		t.Errorf("extra: %v", got)
	}
	if err := Checkout(t.Context(), c, dir); code(err) != "USAGE" {
		t.Errorf("a directory that is not empty: %v, want USAGE", err)
	}
}

func TestReadFile(t *testing.T) {
	r, _ := released(t)
	bare := filepath.Join(t.TempDir(), "bare.git")
	r.git("clone", "--quiet", "--bare", ".", bare)
	for _, repo := range []string{r.dir, "git+file://" + r.dir, bare} {
		c, err := Resolve(t.Context(), repo, "v1.0.0")
		if err != nil {
			t.Fatal(err)
		}
		got, err := ReadFile(t.Context(), c, "cmd/tool/main.go")
		if err != nil || string(got) != "package main\n" {
			t.Errorf("%s: %q, %v", repo, got, err)
		}
		for name, want := range map[string]string{
			"later": "MISSING", "cmd/not": "MISSING", "cmd": "FILE_TYPE", "link": "FILE_TYPE", "link/main.go": "FILE_TYPE",
			"build.sh/x": "FILE_TYPE", "": "MISSING", "../x": "MISSING",
		} {
			if _, err := ReadFile(t.Context(), c, name); code(err) != want {
				t.Errorf("%q: %v, want %s", name, err, want)
			}
		}
	}
}

// remote reaches the repository as if it were another machine's.
func (r repository) remote() *Repository {
	r.t.Helper()
	far := &Repository{uri: "git+https://example.org/x", remote: "file://" + r.dir}
	if err := far.prepare(r.t.Context(), "file"); err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { _ = far.Close() })
	return far
}

// TestRemote runs the way of a remote repository over the one protocol that
// needs no network.
func TestRemote(t *testing.T) {
	origin, id := released(t)
	open := origin.remote
	r := open()
	for _, ref := range []string{"v1.0.0", "v1.0.0-annotated", id} {
		if got, err := r.Resolve(t.Context(), ref); err != nil || got.Commit != id {
			t.Errorf("%s: %+v, %v", ref, got, err)
		}
	}
	if _, err := r.Resolve(t.Context(), "v9"); code(err) != "MISSING" {
		t.Errorf("no such tag: %v", err)
	}
	// Another process knows the commit only.
	other := open()
	if got, err := other.ReadFile(t.Context(), Commit{Commit: id}, "release.yaml"); err != nil || len(got) == 0 {
		t.Errorf("reading by id: %q, %v", got, err)
	}
	temp := other.temp
	if err := other.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(temp); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the temporary directory stayed: %v", err)
	}
	gone := open()
	gone.remote = "file:///not/there"
	if _, err := gone.Resolve(t.Context(), "v1.0.0"); code(err) != "UNAVAILABLE" {
		t.Errorf("no repository: %v", err)
	}
	gone.remote, gone.git.protocol = "file://"+origin.dir, "https"
	if _, err := gone.Resolve(t.Context(), "v1.0.0"); code(err) != "UNAVAILABLE" {
		t.Errorf("a protocol nobody asked for: %v", err)
	}
}

func TestContextEnds(t *testing.T) {
	r, _ := released(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Resolve(ctx, r.dir, "v1.0.0"); code(err) != "UNAVAILABLE" {
		t.Errorf("after the end of the context: %v", err)
	}
}
