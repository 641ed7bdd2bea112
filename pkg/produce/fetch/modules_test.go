package fetch_test

import (
	"archive/zip"
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/mod/module"

	"github.com/waybill-release/waybill/pkg/produce/fetch"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

var (
	wick = module.Version{Path: "example.test/wick", Version: "v0.1.0"}
	oil  = module.Version{Path: "example.test/Oil", Version: "v1.2.3-0.20260102030405-abcdefabcdef"}
)

// world is a proxy with two modules.
func world(t *testing.T) *proxy {
	p := serve(t)
	p.add(t, wick, source{"wick.go", "package wick\n\nconst Length = 7\n"})
	p.add(t, oil, source{"oil.go", "package oil\n"})
	return p
}

// tree lists the files below dir.
func tree(t *testing.T, dir string) (names []string) {
	t.Helper()
	err := fs.WalkDir(os.DirFS(dir), ".", func(name string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			names = append(names, name)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

func TestModules(t *testing.T) {
	p, dir := world(t), t.TempDir()
	got, err := open(t, dir).Modules(t.Context(), p.URL+"/", p.goSum())
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"example.test/!oil/@v/list", "example.test/!oil/@v/" + oil.Version + ".info", "example.test/!oil/@v/" + oil.Version + ".mod", "example.test/!oil/@v/" + oil.Version + ".zip",
		"example.test/wick/@v/list", "example.test/wick/@v/v0.1.0.info", "example.test/wick/@v/v0.1.0.mod", "example.test/wick/@v/v0.1.0.zip",
	}
	if names := tree(t, got.Dir); !slices.Equal(names, want) {
		t.Errorf("tree: %q", names)
	}
	if len(got.List) != 2 || got.List[0].Path != oil.Path || got.List[1].Path != wick.Path {
		t.Fatalf("list: %+v", got.List)
	}
	for _, m := range got.List {
		if !strings.Contains(string(p.goSum()), m.H1) || m.H1 == "" || m.Zip.IsZero() {
			t.Errorf("module: %+v", m)
		}
	}
	if asked := p.questions(); len(asked) != 4 || strings.Contains(strings.Join(asked, " "), ".info") {
		t.Errorf("asked for what nothing pins: %q", asked)
	}
	empty(t, dir)

	// What is there and holds is not asked for again.
	again, err := open(t, dir).Modules(t.Context(), p.URL, p.goSum())
	if err != nil || !slices.Equal(again.List, got.List) || len(p.questions()) > 0 {
		t.Errorf("again: %+v, %v", again, err)
	}
}

// TestModulesBuild: the go command builds from the tree, alone and without a
// network, and takes no module that go.sum does not pin.
func TestModulesBuild(t *testing.T) {
	p := world(t)
	got, err := open(t, t.TempDir()).Modules(t.Context(), p.URL, p.goSum())
	if err != nil {
		t.Fatal(err)
	}
	p.Close()
	cache := must(exec.CommandContext(t.Context(), "go", "env", "GOCACHE").Output())(t)
	for name, goSum := range map[string]string{"pinned": string(p.goSum()), "not pinned": ""} {
		dir, home := t.TempDir(), t.TempDir()
		for file, body := range map[string]string{
			"go.mod":  "module example.test/app\n\ngo 1.26\n\nrequire example.test/wick v0.1.0\n",
			"go.sum":  goSum,
			"main.go": "package main\n\nimport \"example.test/wick\"\n\nfunc main() { println(wick.Length) }\n",
		} {
			if err := os.WriteFile(filepath.Join(dir, file), []byte(body), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		for _, args := range [][]string{{"list", "-m", "all"}, {"build", "-o", filepath.Join(home, "app"), "."}} {
			cmd := exec.CommandContext(t.Context(), "go", args...)
			cmd.Dir = dir
			cmd.Env = []string{
				"PATH=" + os.Getenv("PATH"), "HOME=" + home, "GOPROXY=file://" + got.Dir, "GOSUMDB=off", "GOCACHE=" + strings.TrimSpace(string(cache)),
				"GOTOOLCHAIN=local", "GOFLAGS=-mod=readonly -modcacherw", "CGO_ENABLED=0",
				"HTTP_PROXY=http://127.0.0.1:1", "HTTPS_PROXY=http://127.0.0.1:1",
			}
			out, err := cmd.CombinedOutput()
			if built := err == nil; built != (goSum != "") {
				t.Errorf("%s: go %s: %v\n%s", name, args[0], err, out)
			}
			if goSum == "" && !strings.Contains(string(out), "missing go.sum entry") {
				t.Errorf("go %s without go.sum: %s", args[0], out)
			}
		}
	}
}

// TestModulesOtherBytes: what the proxy sends is believed only if go.sum says
// the same.
func TestModulesOtherBytes(t *testing.T) {
	const at = "example.test/wick/@v/v0.1.0"
	for name, change := range map[string]func(*testing.T, *proxy){
		"other code": func(t *testing.T, p *proxy) {
			other := serve(t)
			other.add(t, wick, source{"wick.go", "package wick\n\nconst Length = 8\n"})
			p.files[at+".zip"] = other.files[at+".zip"]
		},
		"another module's code": func(_ *testing.T, p *proxy) { p.files[at+".zip"] = p.files["example.test/!oil/@v/"+oil.Version+".zip"] },
		"no module":             func(_ *testing.T, p *proxy) { p.files[at+".zip"] = []byte("PK") },
		"nothing":               func(_ *testing.T, p *proxy) { p.files[at+".zip"] = nil },
		"other go.mod":          func(_ *testing.T, p *proxy) { p.files[at+".mod"] = []byte("module example.test/wick // changed\n") },
		"a bomb":                func(t *testing.T, p *proxy) { p.files[at+".zip"] = claiming(t, 600<<20) },
		"a size that is not so": func(t *testing.T, p *proxy) { p.files[at+".zip"] = claiming(t, 1) },
		"cut short":             func(_ *testing.T, p *proxy) { p.files[at+".zip"] = p.files[at+".zip"][:100] },
	} {
		t.Run(name, func(t *testing.T) {
			p, dir := world(t), t.TempDir()
			change(t, p)
			_, err := open(t, dir).Modules(t.Context(), p.URL, p.goSum())
			refused(t, err, verdict.FetchHash, "example.test/wick@v0.1.0")
			for _, left := range tree(t, dir) {
				if strings.Contains(left, "wick") && (strings.HasSuffix(left, ".zip") == !strings.Contains(name, "go.mod")) {
					t.Errorf("it has its name: %s", left)
				}
			}
			empty(t, dir)
		})
	}
}

// claiming is a module whose one file calls itself size bytes large.
func claiming(t *testing.T, size uint64) []byte {
	t.Helper()
	var packed bytes.Buffer
	w := zip.NewWriter(&packed)
	body := []byte("package wick\n")
	h := &zip.FileHeader{Name: "example.test/wick@v0.1.0/wick.go", UncompressedSize64: size, CompressedSize64: uint64(len(body)), CRC32: crc32.ChecksumIEEE(body)}
	f, err := w.CreateRaw(h)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Write(body); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return packed.Bytes()
}

// TestModulesTouched: what lies in the store is not believed either.
func TestModulesTouched(t *testing.T) {
	const at = "example.test/wick/@v/v0.1.0"
	replace := func(suffix string) func(string) error {
		return func(dir string) error {
			name := filepath.Join(dir, at+suffix)
			return errors.Join(os.Remove(name), os.WriteFile(name, []byte("poison"), 0o600))
		}
	}
	link := func(dir string) error {
		name := filepath.Join(dir, at+".zip")
		return errors.Join(os.Rename(name, filepath.Join(dir, "elsewhere")), os.Symlink("../../../elsewhere", name))
	}
	for name, touch := range map[string]func(string) error{
		"code": replace(".zip"), "go.mod": replace(".mod"), "info": replace(".info"), "link": link,
		"extra": func(dir string) error {
			return os.WriteFile(filepath.Join(dir, at+"-extra.zip"), nil, 0o600)
		},
		"directory": func(dir string) error {
			name := filepath.Join(dir, at+".zip")
			return errors.Join(os.Remove(name), os.MkdirAll(filepath.Join(name, "in"), 0o755))
		},
	} {
		t.Run(name, func(t *testing.T) {
			p, dir := world(t), t.TempDir()
			s := open(t, dir)
			first, err := s.Modules(t.Context(), p.URL, p.goSum())
			if err != nil {
				t.Fatal(err)
			}
			before := tree(t, first.Dir)
			if err := touch(first.Dir); err != nil {
				t.Fatal(err)
			}
			again, err := s.Modules(t.Context(), p.URL, p.goSum())
			if err != nil || !slices.Equal(again.List, first.List) {
				t.Errorf("again: %+v, %v", again, err)
			}
			if after := tree(t, first.Dir); !slices.Equal(before, after) {
				t.Errorf("tree %q, before %q", after, before)
			}
			for _, f := range tree(t, first.Dir) {
				if info, err := os.Lstat(filepath.Join(first.Dir, f)); err != nil || !info.Mode().IsRegular() || info.Mode().Perm() != 0o444 {
					t.Errorf("%s: %v, %v", f, info, err)
				}
				if raw, err := os.ReadFile(filepath.Join(first.Dir, f)); err != nil || string(raw) == "poison" {
					t.Errorf("%s: %q, %v", f, raw, err)
				}
			}
		})
	}
}

// TestModulesAnswers: not there, no answer and too much are told apart.
func TestModulesAnswers(t *testing.T) {
	p := world(t)
	delete(p.files, "example.test/wick/@v/v0.1.0.mod")
	_, err := open(t, t.TempDir()).Modules(t.Context(), p.URL, p.goSum())
	refused(t, err, verdict.FetchMissing, "example.test/wick@v0.1.0/go.mod")

	for name, handle := range map[string]http.HandlerFunc{
		"status":    func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) },
		"forbidden": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) },
		"hangs up": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "100000")
			_, _ = io.WriteString(w, "PK")
		},
		"leads elsewhere": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://elsewhere.example.test/", http.StatusFound)
		},
	} {
		srv := httptest.NewServer(handle)
		dir := t.TempDir()
		_, err := open(t, dir).Modules(t.Context(), srv.URL, p.goSum())
		t.Log(name, err)
		unavailable(t, err)
		empty(t, dir)
		srv.Close()
		_, err = open(t, dir).Modules(t.Context(), srv.URL, p.goSum())
		unavailable(t, err)
	}

	big := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write(make([]byte, 17<<20))
	}))
	t.Cleanup(big.Close)
	only := strings.Split(string(p.goSum()), "\n")[1] // a go.mod
	_, err = open(t, t.TempDir()).Modules(t.Context(), big.URL, []byte(only))
	refused(t, err, verdict.Limit, "more than")
}

func TestModulesRefusesWords(t *testing.T) {
	p := world(t)
	good := string(p.goSum())
	s := open(t, t.TempDir())
	for _, line := range []string{
		"example.test/wick v0.1.0", "example.test/wick v0.1.0 h2:abc", "../wick v0.1.0 h1:abc", "example.test/../wick v0.1.0 h1:abc",
		"example.test/wick v0.1 h1:abc", "example.test/wick latest h1:abc", "example.test/wick v2.0.0 h1:abc", "a b c d", "/etc v1.0.0 h1:abc",
		"example.test/wick v0.1.0/../../x h1:abc",
	} {
		_, err := s.Modules(t.Context(), p.URL, []byte(good+line+"\n"))
		refused(t, err, verdict.ConfigParse, "line 5")
	}
	for _, address := range []string{"", "proxy.example.test", "http://proxy.example.test", "https://user@proxy.example.test", "off", "direct", "file:///tmp", "https://"} {
		_, err := s.Modules(t.Context(), address, p.goSum())
		refused(t, err, verdict.ConfigParse, "module proxy")
	}
	if asked := p.questions(); len(asked) > 0 {
		t.Errorf("asked %q", asked)
	}
	if got, err := s.Modules(t.Context(), p.URL, []byte(good), []byte(good+"\n")); err != nil || len(got.List) != 2 {
		t.Errorf("the twin: %+v, %v", got, err)
	}
	if got, err := s.Modules(t.Context(), p.URL); err != nil || len(got.List) != 0 || len(tree(t, got.Dir)) != 0 {
		t.Errorf("no modules at all: %+v, %v", got, err)
	}
	if _, err := fetch.Open(t.TempDir(), nil, func(context.Context, string, ...any) {}); err == nil {
		t.Error("a store without transport")
	}
}

// TestModulesSomeHashes: go.sum may hold several hashes of a version, and one
// that holds is enough, as it is for the go command.
func TestModulesSomeHashes(t *testing.T) {
	p := world(t)
	var other strings.Builder
	for line := range strings.Lines(string(p.goSum())) {
		parts := strings.Fields(line)
		fmt.Fprintf(&other, "%s %s h1:another\n", parts[0], parts[1])
	}
	s := open(t, t.TempDir())
	if _, err := s.Modules(t.Context(), p.URL, []byte(other.String()+string(p.goSum()))); err != nil {
		t.Error(err)
	}
	_, err := s.Modules(t.Context(), p.URL, []byte(other.String()))
	refused(t, err, verdict.FetchHash, "want h1:another")
}
