// Package servers holds Waybill against servers that people run: registries,
// buckets, web servers, issuers and collectors that others wrote, started as
// processes on loopback. A release is staged, published and verified with each,
// and what lies there is attacked.
//
// The release is built and sealed once. Each test gets a copy of it:
//
//	s := open(t, func(s *scene.Scene) { s.Places.Images = address })
//	publish(t, s)
//	attack(t, s)
//	saw(t, row{Kind: "Registries", Server: "distribution", Version: "3.1.2"})
//
// Run it with make servers. WAYBILL_SERVERS=DIR keeps the sealed release in a
// directory and uses it again, while you write a test.
package servers

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/waybill-release/waybill/test/lab"
	"github.com/waybill-release/waybill/test/scene"
)

// suite is what all tests share. TestMain makes it.
var suite *shared

// shared is what all tests of a run share.
type shared struct {
	dir  string // removed at the end
	page page

	// built has the commands built from the root module, once.
	built func() (string, error)
	// sealed has a release built, described, signed and sealed, once. Nothing
	// was staged. It is not to be changed: tests take copies.
	sealed func() (*scene.Scene, error)
	opened *scene.Scene // what sealed returned
}

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	dir, err := os.Getenv("WAYBILL_SERVERS"), error(nil)
	if dir == "" {
		dir, err = os.MkdirTemp("", "waybill-servers-")
		defer os.RemoveAll(dir)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	suite = &shared{dir: dir}
	suite.built = sync.OnceValues(suite.build)
	suite.sealed = sync.OnceValues(suite.seal)
	code := m.Run()
	if suite.opened != nil {
		err = suite.opened.Close()
	}
	if code == 0 {
		err = errors.Join(err, suite.page.compare(whole()))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

// whole reports whether every test ran: none was left out by a flag, or skipped
// because a server is not there.
func whole() bool {
	return flag.Lookup("test.run").Value.String() == "" && flag.Lookup("test.skip").Value.String() == "" &&
		(os.Getenv("CI") != "" || os.Getenv("WAYBILL_REQUIRE_PEERS") == "1")
}

func (s *shared) build() (string, error) {
	at := filepath.Join(s.dir, "bin")
	build := exec.Command("go", "build", "-trimpath", "-ldflags=-s -w", "-o", at+"/", "./cmd/...")
	build.Dir = filepath.Join("..", "..")
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off")
	if out, err := build.CombinedOutput(); err != nil {
		return at, fmt.Errorf("building the commands: %w\n%s", err, out)
	}
	return at, nil
}

// seal builds and seals the release of the example.
func (s *shared) seal() (*scene.Scene, error) {
	bin, err := s.built()
	if err != nil {
		return nil, err
	}
	ctx := context.Background()
	o := scene.Options{Verbose: true, Bin: bin, Dir: filepath.Join(s.dir, "sealed"), Example: filepath.Join("..", "example")}
	if _, err := os.Stat(filepath.Join(o.Dir, "kept")); err == nil {
		l, err := lab.Start(ctx, lab.Options{Dir: filepath.Join(o.Dir, "lab")})
		if err == nil {
			s.opened = &scene.Scene{Options: o, Lab: l}
			return s.opened, nil
		}
		if err := os.RemoveAll(o.Dir); err != nil { // another program has one of its ports
			return nil, err
		}
	}
	opened, err := scene.Open(ctx, o)
	if err != nil {
		return nil, err
	}
	s.opened = opened
	if r := opened.BuildAndSeal(ctx); r.Code != 0 {
		return nil, fmt.Errorf("%s\nended with status %d\n%s%s", r, r.Code, r.Stdout, r.Stderr)
	}
	return opened, os.WriteFile(filepath.Join(o.Dir, "kept"), nil, 0o600)
}

// open is a scene in which the release was sealed, and nothing staged yet. What
// change leaves unset is the laboratory's, so change both places that a test
// writes to: other tests use the laboratory's.
func open(t *testing.T, change func(*scene.Scene)) *scene.Scene {
	t.Helper()
	sealed, err := suite.sealed()
	if err != nil {
		t.Fatal(err)
	}
	s, err := sealed.Copy(t.TempDir(), func(s *scene.Scene) {
		files(t, s)
		if change != nil {
			change(s)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// files gives a scene a bucket of its own in the laboratory.
func files(t *testing.T, s *scene.Scene) {
	t.Helper()
	name := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return '-'
	}, strings.ToLower(t.Name()))
	name = fmt.Sprintf("%.40s-%d", name, time.Now().UnixNano()) // the laboratory may be that of an earlier run
	if err := s.Lab.MakeBucket(name); err != nil {
		t.Fatal(err)
	}
	s.Places.Files += "/" + name
	s.Places.Objects = scene.Web{URL: s.Lab.Bucket + "/" + name + "/"}
}

// ok runs a command that must succeed.
func ok(t *testing.T, r scene.Result) scene.Result {
	t.Helper()
	return want(t, r, 0)
}

// want checks how a command ended, and what it printed.
func want(t *testing.T, r scene.Result, code int, printed ...string) scene.Result {
	t.Helper()
	all := r.Stdout + r.Stderr
	if r.Code != code || slices.ContainsFunc(printed, func(p string) bool { return !strings.Contains(all, p) }) {
		t.Fatalf("%s\nended with status %d, want %d and %q\n%s", r, r.Code, code, printed, all)
	}
	return r
}

// publish takes the release of the scene the whole way.
func publish(t *testing.T, s *scene.Scene) {
	t.Helper()
	ok(t, s.Stage(t.Context()))
	ok(t, s.Release(t.Context()))
	ok(t, s.Verify(t.Context()))
}

// attack makes every attack of the demo on what was published. Each must be
// refused with its codes, and accepted again when it is taken back.
func attack(t *testing.T, s *scene.Scene) {
	t.Helper()
	for _, a := range scene.Attacks() {
		undo, err := a.Do(t.Context(), s)
		if err != nil {
			t.Fatalf("%s: %v", a.Name, err)
		}
		want(t, a.Check(t.Context(), s), 1, a.Codes...)
		if err := undo(); err != nil {
			t.Fatalf("taking back %s: %v", a.Name, err)
		}
		if a.Codes[0] != "SEAL_EXTRA" { // sealing again is the same for every server
			ok(t, a.Check(t.Context(), s))
		}
	}
}
