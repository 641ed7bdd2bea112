package checkout

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/waybill-release/waybill/pkg/backend/git"
	"github.com/waybill-release/waybill/pkg/produce/sandbox"
)

// TestMain is the main of a program that uses this package. With LIE the reader
// is one that a hostile repository has taken over.
func TestMain(m *testing.M) {
	if os.Args[0] == readerPath {
		if code, ok := lie(); ok {
			syscall.Exit(code)
		}
	}
	if code, ok := Serve(); ok {
		syscall.Exit(code) // with a race detector os.Exit sleeps a second
	}
	os.Exit(m.Run())
}

// lie does as the file LIE of the objects says. It could not come from an
// environment: the reader has none of ours.
func lie() (code int, ok bool) {
	raw, err := os.ReadFile(filepath.Join(objectsPath, "LIE"))
	if err != nil {
		return 0, false
	}
	out := sandbox.Seen(sandbox.Isolated, "").Out
	switch string(raw) {
	case "wrote it all":
	case "another file":
		if err := serve(context.Background()); err != nil {
			return 1, true
		}
		_ = os.WriteFile(filepath.Join(out, "more"), nil, 0o644)
	case "another time":
		if err := serve(context.Background()); err != nil {
			return 1, true
		}
		_ = os.Chmod(filepath.Join(out, "a"), 0o644)
		now, _ := os.Stat(objectsPath)
		_ = os.Chtimes(filepath.Join(out, "a"), now.ModTime(), now.ModTime())
	case "a pipe to wait at":
		_ = exec.Command("mkfifo", filepath.Join(out, "a")).Run()
	case "a link out":
		_ = os.Symlink("/etc/passwd", filepath.Join(out, "a"))
	case "look around":
		for _, place := range []string{"/build/objects/../config", "/root", "/home", os.Getenv("HOME") + "/../src/x"} {
			if _, err := os.Lstat(place); err == nil {
				fmt.Println("sees", place)
			}
		}
		fmt.Println(strings.Join(os.Environ(), " "))
		return firstCode + 2, true
	case "nothing":
		return 0, true
	case "an odd end":
		return 77, true
	}
	fmt.Println(finished)
	return 0, true
}

func runGit(t testing.TB, dir string, args ...string) {
	t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir = dir
	cmd.Env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "GIT_CONFIG_NOSYSTEM=1", "GIT_AUTHOR_NAME=A", "GIT_AUTHOR_EMAIL=a@example.test",
		"GIT_COMMITTER_NAME=C", "GIT_COMMITTER_EMAIL=c@example.test", "GIT_COMMITTER_DATE=1700000000 +0200",
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("git %v: %v: %s", args, err, out)
	}
}

// repository has a file, a program, a directory and a link.
func repository(t *testing.T, init ...string) (*git.Repository, git.Commit) {
	t.Helper()
	dir := t.TempDir()
	runGit(t, dir, append([]string{"init", "--quiet", "--initial-branch=main"}, init...)...)
	if err := errors.Join(
		os.WriteFile(filepath.Join(dir, "a"), []byte("a\n"), 0o644), os.WriteFile(filepath.Join(dir, "run"), []byte("#!/bin/sh\n"), 0o755),
		os.Mkdir(filepath.Join(dir, "d"), 0o755), os.Symlink("../a", filepath.Join(dir, "d", "link")),
	); err != nil {
		t.Fatal(err)
	}
	runGit(t, dir, "add", ".")
	runGit(t, dir, "commit", "--quiet", "-m", "x")
	return opened(t, dir)
}

func opened(t testing.TB, dir string) (*git.Repository, git.Commit) {
	t.Helper()
	repo, err := git.Open(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = repo.Close() })
	c, err := repo.Resolve(t.Context(), "main")
	if err != nil {
		t.Fatal(err)
	}
	return repo, c
}

func code(err error) string {
	var coded interface{ Code() string }
	if errors.As(err, &coded) {
		return coded.Code()
	}
	return ""
}

// modes runs a test in every mode that this machine has, and in all that this
// account can have where that is demanded.
func modes(t *testing.T, list []sandbox.Mode, test func(*testing.T, sandbox.Mode)) {
	t.Helper()
	r := sandbox.Examine(t.Context())
	best, why := r.Mode, r.Reason()
	for _, mode := range list {
		t.Run(string(mode), func(t *testing.T) {
			if mode == sandbox.Isolated && best != mode || mode == sandbox.Contained && best == sandbox.Unisolated {
				demanded := os.Getenv("CI") != "" || os.Getenv("WAYBILL_REQUIRE_ISOLATION") != ""
				if demanded && (mode != sandbox.Isolated || os.Geteuid() == 0) {
					t.Fatal(why)
				}
				t.Skip(why)
			}
			test(t, mode)
		})
	}
}

var (
	walled = []sandbox.Mode{sandbox.Isolated, sandbox.Contained}
	every  = append(walled[:2:2], sandbox.Unisolated)
)

func TestCheckout(t *testing.T) {
	modes(t, every, func(t *testing.T, mode sandbox.Mode) {
		for _, format := range []string{"sha1", "sha256"} {
			repo, c := repository(t, "--object-format="+format)
			parent := t.TempDir()
			for _, name := range []string{"absent", "empty"} {
				dir := filepath.Join(parent, name)
				if name == "empty" {
					if err := os.Mkdir(dir, 0o755); err != nil {
						t.Fatal(err)
					}
				}
				if err := Checkout(t.Context(), mode, repo, c, dir); err != nil {
					t.Fatal(err)
				}
				if err := git.CheckTree(t.Context(), dir, c); err != nil {
					t.Error(err)
				}
				// It is ours: the next line would fail for what another account owns.
				if err := os.Chmod(filepath.Join(dir, "a"), 0o600); err != nil {
					t.Error(err)
				}
				if err := Checkout(t.Context(), mode, repo, c, dir); code(err) != "USAGE" {
					t.Errorf("over what is there: %v", err)
				}
			}
			if left, err := os.ReadDir(parent); err != nil || len(left) != 2 {
				t.Errorf("left behind: %v, %v", left, err)
			}
		}
	})
}

// TestReaderIsNotBelieved: whatever the process that reads hostile objects
// says and leaves, the directory comes to be only if it is the tree.
func TestReaderIsNotBelieved(t *testing.T) {
	modes(t, walled, func(t *testing.T, mode sandbox.Mode) {
		for lie, want := range map[string]string{
			"": "", "wrote it all": "TAMPERED", "another file": "TAMPERED", "another time": "TAMPERED", "a pipe to wait at": "FILE_TYPE",
			"a link out": "TAMPERED", "nothing": "NOT_ISOLATED", "an odd end": "UNAVAILABLE",
		} {
			repo, c := repository(t)
			dir := filepath.Join(t.TempDir(), "out")
			tell(t, repo, lie)
			err := Checkout(t.Context(), mode, repo, c, dir)
			if code(err) != want || (err == nil) != (want == "") {
				t.Errorf("%q: %v, want %q", lie, err, want)
			}
			if _, err := os.Lstat(dir); (err == nil) != (want == "") {
				t.Errorf("%q: the directory: %v", lie, err)
			}
		}
	})
}

func tell(t *testing.T, repo *git.Repository, lie string) {
	t.Helper()
	objects, err := repo.Objects()
	if err == nil && lie != "" {
		err = os.WriteFile(filepath.Join(objects, "LIE"), []byte(lie), 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestReaderSeesObjectsOnly: neither the configuration of the repository, nor
// our environment, nor a home is there.
func TestReaderSeesObjectsOnly(t *testing.T) {
	t.Setenv("WAYBILL_SECRET", "secret")
	modes(t, walled, func(t *testing.T, mode sandbox.Mode) {
		repo, c := repository(t)
		tell(t, repo, "look around")
		err := Checkout(t.Context(), mode, repo, c, filepath.Join(t.TempDir(), "out"))
		if code(err) != "LIMIT" {
			t.Fatalf("%v", err)
		}
		for _, no := range []string{"sees", "SECRET", os.Getenv("HOME") + " "} {
			if strings.Contains(err.Error(), no) {
				t.Errorf("%q in %v", no, err)
			}
		}
	})
}

// TestRefusals: what the reader refuses has its own code in every mode.
func TestRefusals(t *testing.T) {
	modes(t, every, func(t *testing.T, mode sandbox.Mode) {
		for name, row := range map[string]struct {
			spoil func(t *testing.T, dir string)
			want  string
		}{
			"nothing":     {func(*testing.T, string) {}, ""},
			"a link out":  {func(t *testing.T, dir string) { symlink(t, dir, "../../outside") }, "FILE_TYPE"},
			"a submodule": {submodule, "FILE_TYPE"},
			"an absent object": {func(t *testing.T, dir string) {
				out, err := exec.Command("git", "-C", dir, "rev-parse", "main:a").Output()
				if err != nil {
					t.Fatal(err)
				}
				if err := os.Remove(filepath.Join(dir, ".git", "objects", string(out[:2]), strings.TrimSpace(string(out[2:])))); err != nil {
					t.Fatal(err)
				}
			}, "MISSING"},
		} {
			repo, _ := repository(t)
			dir := strings.TrimPrefix(repo.Name(), "git+file://")
			row.spoil(t, dir)
			repo, c := opened(t, dir)
			to := filepath.Join(t.TempDir(), "out")
			err := Checkout(t.Context(), mode, repo, c, to)
			if code(err) != row.want || (err == nil) != (row.want == "") {
				t.Errorf("%s: %v, want %q", name, err, row.want)
			}
			if err != nil && !strings.Contains(err.Error(), "commit "+c.Commit) && !strings.Contains(err.Error(), repo.Name()) {
				t.Errorf("%s names neither: %v", name, err)
			}
		}
	})
}

func symlink(t *testing.T, dir, target string) {
	t.Helper()
	if err := os.Symlink(target, filepath.Join(dir, "out")); err != nil {
		t.Fatal(err)
	}
	runGit(t, dir, "add", ".")
	runGit(t, dir, "commit", "--quiet", "-m", "link")
}

func submodule(t *testing.T, dir string) {
	t.Helper()
	runGit(t, dir, "update-index", "--add", "--cacheinfo", "160000,"+strings.Repeat("1", 40)+",module")
	runGit(t, dir, "commit", "--quiet", "-m", "module")
}

// TestClosedObjects: objects that another account cannot read are not taken for
// missing.
func TestClosedObjects(t *testing.T) {
	modes(t, walled[:1], func(t *testing.T, mode sandbox.Mode) {
		repo, c := repository(t)
		objects, err := repo.Objects()
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(objects, 0o700); err != nil {
			t.Fatal(err)
		}
		dir := filepath.Join(t.TempDir(), "out")
		if err := Checkout(t.Context(), mode, repo, c, dir); code(err) != "USAGE" || !strings.Contains(err.Error(), "chmod") {
			t.Errorf("closed: %v", err)
		}
		if err := os.Chmod(objects, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := Checkout(t.Context(), mode, repo, c, dir); err != nil {
			t.Errorf("the twin: %v", err)
		}
	})
}
