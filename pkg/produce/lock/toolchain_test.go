package lock_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/mod/sumdb"
	"golang.org/x/mod/sumdb/dirhash"
	"golang.org/x/mod/sumdb/note"

	"github.com/waybill-release/waybill/pkg/produce/lock"
	"github.com/waybill-release/waybill/pkg/release/plan"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// other is a platform that is not this one.
const other = "plan9/mips"

// shared is a release.yaml whose steps use Go and a shell.
var shared = strings.Replace(strings.Replace(config, "tools: [sh, cross]", "tools: [go, sh]", 1), "base: static", "base: scratch", 1)

// goWorld is a machine with a Go toolchain, and a checksum database that knows
// the module of it.
type goWorld struct {
	*world
	root string // of the toolchain
	db   *httptest.Server
}

func newGoWorld(t *testing.T) *goWorld {
	t.Helper()
	w := &goWorld{world: newWorld(t), root: filepath.Join(t.TempDir(), "go")}
	w.write(t, plan.ConfigName, shared)
	for name, text := range map[string]string{
		"VERSION": "go1.99.1\ntime 2026-01-02T03:04:05Z\n", "bin/go": "#!/bin/sh\n", "pkg/tool/compile": "compiler", "src/go.mod": "module std\n",
		"src/fmt/print.go": "package fmt\n", "go.env": "GOPROXY=https://proxy.example.test,direct\nGOTOOLCHAIN=auto\n", "api/go1.txt": "pkg fmt\n", "test/run.go": "package main\n",
	} {
		w.file(t, name, text)
	}
	t.Setenv("PATH", filepath.Join(w.root, "bin")+string(filepath.ListSeparator)+os.Getenv("PATH"))
	// The module has neither api nor test, and go.mod under another name.
	module := filepath.Join(t.TempDir(), "module")
	for _, name := range []string{"VERSION", "bin/go", "pkg/tool/compile", "src/go.mod", "src/fmt/print.go", "go.env"} {
		raw, err := os.ReadFile(filepath.Join(w.root, name))
		to := filepath.Join(module, strings.Replace(name, "go.mod", "_go.mod", 1))
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			t.Fatal(err)
		}
		if werr := os.WriteFile(to, raw, 0o600); err != nil || werr != nil || len(raw) == 0 {
			t.Fatal(err)
		}
	}
	w.db = database(t, func(path, version string) ([]byte, error) {
		if path != "golang.org/toolchain" || !strings.HasPrefix(version, "v0.0.1-go1.99.1.") || strings.HasSuffix(version, ".beos-m68k") {
			return nil, os.ErrNotExist
		}
		sum, err := dirhash.HashDir(module, path+"@"+version, dirhash.Hash1)
		return fmt.Appendf(nil, "%s %s %s\n%s %s/go.mod h1:bbbb=\n", path, version, sum, path, version), err
	})
	return w
}

// database serves a checksum database, and names it in GOSUMDB.
func database(t *testing.T, sums func(path, version string) ([]byte, error)) *httptest.Server {
	t.Helper()
	signer, key, err := note.GenerateKey(nil, "sum.example.test")
	if err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewServer(sumdb.NewServer(sumdb.NewTestServer(signer, sums)))
	t.Cleanup(srv.Close)
	t.Setenv("GOSUMDB", key+" "+srv.URL)
	return srv
}

func (w *goWorld) file(t *testing.T, name, text string) {
	t.Helper()
	path := filepath.Join(w.root, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
}

// both names this platform and another one.
func both(u *lock.Update) { u.Bases, u.Tools, u.Platforms = nil, nil, []string{lock.Host, other} }

// locked is a world whose lock pins Go for two platforms.
func locked(t *testing.T) *goWorld {
	t.Helper()
	w := newGoWorld(t)
	if err := find(t, w.update(both)).Write(); err != nil {
		t.Fatal(err)
	}
	return w
}

// faults are those of waybill lock --check.
func (w *goWorld) faults(t *testing.T) []error {
	t.Helper()
	faults, err := w.update(again).Check()
	if err != nil {
		t.Fatal(err)
	}
	return faults
}

func TestOneLockForTwoPlatforms(t *testing.T) {
	w := locked(t)
	c := find(t, w.update(again))
	tool, sh := c.Lock.Tools["go"], c.Lock.Tools["sh"]
	if !c.IsEmpty() || tool.Toolchain != "go1.99.1" || len(tool.Platforms) != 2 || !strings.HasPrefix(tool.PinOn(other), "h1:") || tool.PinOn(other) == tool.PinOn(lock.Host) {
		t.Errorf("Go is pinned as %+v, lines %q", tool, c.Lines)
	}
	if len(sh.Platforms) != 1 || !strings.HasPrefix(sh.PinOn(lock.Host), "sha256:") || sh.PinOn(other) != "" {
		t.Errorf("the shell is pinned as %+v", sh)
	}
	if faults := w.faults(t); len(faults) != 0 {
		t.Errorf("the lock that was just written is stale: %v", faults)
	}
	// What the lock has is not looked up again.
	w.db.Close()
	if c := find(t, w.update(again)); !c.IsEmpty() {
		t.Errorf("without the database: %q", c.Lines)
	}
}

// TestProgramOutsideOfBin: the checksum leaves some directories of a toolchain out, so
// a program there is not the one that it pins.
func TestProgramOutsideOfBin(t *testing.T) {
	w := locked(t)
	if runtime.GOOS == "windows" {
		t.Skip("the programs are scripts")
	}
	path := os.Getenv("PATH")
	for name, pinned := range map[string]bool{"bin/go": true, "misc/go": false, "test/go": false} {
		if !pinned {
			w.file(t, name, "#!/bin/sh\nexit 1\n")
		}
		t.Setenv("PATH", filepath.Dir(filepath.Join(w.root, name))+string(filepath.ListSeparator)+path)
		faults := w.faults(t)
		if pinned && len(faults) > 0 || !pinned && (len(faults) != 1 || verdict.FindingOf("", faults[0]).Code != verdict.Usage) {
			t.Errorf("%s: %v", name, faults)
		}
	}
}

// TestLockOfAnotherMachine: the pins of other platforms are kept, and a machine
// of a platform that the lock does not have is refused until it adds its own.
func TestLockOfAnotherMachine(t *testing.T) {
	w := locked(t)
	path := filepath.Join(w.dir, plan.LockName)
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	written := strings.ReplaceAll(string(raw), fmt.Sprintf("%q", lock.Host), `"beos/ppc"`)
	w.write(t, plan.LockName, written)
	faults := w.faults(t)
	if len(faults) != 2 || verdict.FindingOf("", faults[0]).Code != verdict.LockStale || !strings.Contains(faults[0].Error(), "does not pin it for this platform, "+lock.Host) {
		t.Errorf("on a platform that the lock does not have: %v", faults)
	}
	c := find(t, w.update(again))
	if sh := c.Lock.Tools["sh"]; len(sh.Platforms) != 2 || len(c.Lock.Tools["go"].Platforms) != 3 || len(c.Lines) != 2 || !strings.HasPrefix(c.Lines[0], "+ tool go ") || !strings.HasPrefix(c.Lines[1], "+ tool sh ") {
		t.Errorf("%+v, lines %q", sh, c.Lines)
	}
	if now, _ := os.ReadFile(path); string(now) != written {
		t.Error("finding has written")
	}
	// A newer Go is looked up for all platforms, and the old checksums are gone.
	w.file(t, "VERSION", "go1.99.2\n")
	if _, err := w.update(again).Find(t.Context()); err == nil || verdict.FindingOf("", err).Code != verdict.Usage || !strings.Contains(err.Error(), "has no golang.org/toolchain@v0.0.1-go1.99.2") {
		t.Errorf("a Go that was never released: %v", err)
	}
}

func TestToolchainIsThePinnedOne(t *testing.T) {
	for _, row := range []struct {
		name, says string // no text: it passes
		edit       func(t *testing.T, w *goWorld)
	}{
		{"as it was", "", func(*testing.T, *goWorld) {}},
		{"the standard library changed", "are not those of go1.99.1", func(t *testing.T, w *goWorld) { w.file(t, "src/fmt/print.go", "package fmt // changed\n") }},
		{"the compiler changed", "are not those of go1.99.1", func(t *testing.T, w *goWorld) { w.file(t, "pkg/tool/compile", "another") }},
		{"a file more", "are not those of go1.99.1", func(t *testing.T, w *goWorld) { w.file(t, "src/fmt/more.go", "package fmt\n") }},
		{"a file less", "are not those of go1.99.1", func(t *testing.T, w *goWorld) { _ = os.Remove(filepath.Join(w.root, "src", "fmt", "print.go")) }},
		{"another version", "another version than the pinned one", func(t *testing.T, w *goWorld) { w.file(t, "VERSION", "go1.99.2\n") }},
		{"no version", "released Go toolchain", func(t *testing.T, w *goWorld) { w.file(t, "VERSION", "devel\n") }},
		{"a link", "regular files only", func(t *testing.T, w *goWorld) {
			if err := os.Symlink("print.go", filepath.Join(w.root, "src", "fmt", "link.go")); err != nil {
				t.Fatal(err)
			}
		}},
		{"a file that is not part of the module changed", "", func(t *testing.T, w *goWorld) { w.file(t, "api/go1.txt", "another") }},
		{"tests that are not part of the module are gone", "", func(t *testing.T, w *goWorld) { _ = os.RemoveAll(filepath.Join(w.root, "test")) }},
		{"as in a container, where Go may not switch", "", func(t *testing.T, w *goWorld) {
			w.file(t, "go.env", "GOPROXY=https://proxy.example.test,direct\nGOTOOLCHAIN=local\n")
		}},
		{"other flags by default", "are not those of go1.99.1", func(t *testing.T, w *goWorld) {
			w.file(t, "go.env", "GOPROXY=https://proxy.example.test,direct\nGOTOOLCHAIN=local\nGOFLAGS=-toolexec=evil\n")
		}},
		{"as the go command unpacks it", "", func(t *testing.T, w *goWorld) { w.file(t, "src/_go.mod", "module std\n") }},
		{"as the go command unpacks it, with another go.mod", "are not those of go1.99.1", func(t *testing.T, w *goWorld) {
			w.file(t, "src/_go.mod", "module std\n")
			w.file(t, "src/go.mod", "module other\n")
		}},
	} {
		t.Run(row.name, func(t *testing.T) {
			w := locked(t)
			row.edit(t, w)
			faults := w.faults(t)
			switch {
			case row.says == "" && len(faults) != 0:
				t.Errorf("refused: %v", faults)
			case row.says != "" && (len(faults) != 1 || !strings.Contains(faults[0].Error(), row.says)):
				t.Errorf("got %v, want %q", faults, row.says)
			}
		})
	}
}

// TestCheckWritesNothing: what differs is said, all of it, and nothing is
// written or looked up.
func TestCheckWritesNothing(t *testing.T) {
	w := locked(t)
	w.db.Close()
	w.srv.Close()
	path := filepath.Join(w.dir, plan.LockName)
	was, _ := os.ReadFile(path)
	w.write(t, "go.sum", strings.Replace(goSum, "aaaa", "dddd", 1))
	w.write(t, plan.ConfigName, strings.Replace(shared, "tools: [go, sh]", "tools: [go, make]", 1))
	faults := w.faults(t)
	if len(faults) != 2 || !strings.Contains(faults[0].Error(), `does not pin tool "make"`) || !strings.Contains(faults[1].Error(), "go.mod or go.sum changed") {
		t.Errorf("got %v", faults)
	}
	if now, _ := os.ReadFile(path); string(now) != string(was) || len(was) == 0 {
		t.Error("it was written")
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if faults := w.faults(t); len(faults) != 1 || verdict.FindingOf("", faults[0]).Code != verdict.LockStale {
		t.Errorf("without a lock: %v", faults)
	}
	if _, err := os.Stat(path); err == nil {
		t.Error("it was written")
	}
}

func TestChecksumDatabase(t *testing.T) {
	forged := func(old, with string) func(*testing.T, *goWorld) {
		return func(t *testing.T, w *goWorld) {
			honest := w.db.Config.Handler
			w.db.Config.Handler = http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
				rec := httptest.NewRecorder()
				honest.ServeHTTP(rec, r)
				body := rec.Body.String()
				if strings.HasPrefix(r.URL.Path, "/lookup/") {
					body = strings.Replace(body, old, with, 1)
				}
				rw.WriteHeader(rec.Code)
				_, _ = rw.Write([]byte(body))
			})
		}
	}
	for _, row := range []struct {
		name, says string
		code       verdict.Code
		edit       func(*testing.T, *goWorld)
		platforms  []string
	}{
		{"another checksum", "cannot authenticate", verdict.LogProof, forged(" h1:", " h1:AAAA"), nil},
		{"another database", "", verdict.LogProof, func(t *testing.T, w *goWorld) {
			database(t, func(string, string) ([]byte, error) { return nil, os.ErrNotExist }) // for its key
			key, _, _ := strings.Cut(os.Getenv("GOSUMDB"), " ")
			t.Setenv("GOSUMDB", key+" "+w.db.URL)
		}, nil},
		{"no such platform", "has no golang.org/toolchain", verdict.Usage, nil, []string{"beos/m68k"}},
		{"no platform", "want OS/ARCH", verdict.Usage, nil, []string{"linux"}},
		{"a program of another platform", "can only be hashed on this machine", verdict.Usage, nil, []string{other}},
		{"it is away", "fetching", verdict.PlaceDown, func(_ *testing.T, w *goWorld) { w.db.Close() }, nil},
		{"it fails", "500", verdict.PlaceDown, func(_ *testing.T, w *goWorld) {
			w.db.Config.Handler = http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) { rw.WriteHeader(http.StatusInternalServerError) })
		}, nil},
		{"switched off", "needs a checksum database", verdict.Usage, func(t *testing.T, _ *goWorld) { t.Setenv("GOSUMDB", "off") }, nil},
		{"another Go than the database has", "are not those of go1.99.1", verdict.LockStale, func(t *testing.T, w *goWorld) { w.file(t, "src/fmt/more.go", "package fmt\n") }, nil},
	} {
		t.Run(row.name, func(t *testing.T) {
			w := newGoWorld(t)
			if runtime.GOOS == "windows" {
				t.Skip("the programs are scripts")
			}
			find(t, w.update(both)) // the twin
			u := w.update(both)
			if row.platforms != nil {
				u.Platforms = row.platforms
			}
			if row.edit != nil {
				row.edit(t, w)
			}
			c, err := u.Find(t.Context())
			if err == nil || verdict.FindingOf("", err).Code != row.code || !strings.Contains(err.Error(), row.says) {
				t.Errorf("got %v, want %s and %q", err, row.code, row.says)
			}
			if c.Lines != nil {
				t.Errorf("an error with a result: %q", c.Lines)
			}
		})
	}
}
