package fetch_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/mod/module"
	"golang.org/x/mod/sumdb/dirhash"
	"golang.org/x/mod/zip"

	"github.com/waybill-release/waybill/pkg/produce/fetch"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// source is one file of a module.
type source struct{ name, body string }

// Path implements [zip.File].
func (s source) Path() string { return s.name }

// Lstat implements [zip.File].
func (s source) Lstat() (fs.FileInfo, error) { return s, nil }

// Open implements [zip.File].
func (s source) Open() (io.ReadCloser, error) {
	return io.NopCloser(strings.NewReader(s.body)), nil
}

func (s source) Name() string       { return path.Base(s.name) }
func (s source) Size() int64        { return int64(len(s.body)) }
func (s source) Mode() fs.FileMode  { return 0o644 }
func (s source) ModTime() time.Time { return time.Time{} }
func (s source) IsDir() bool        { return false }
func (s source) Sys() any           { return nil }

// proxy is a module proxy with the modules that are put into it. mu owns
// files and asked.
type proxy struct {
	*httptest.Server
	mu    sync.Mutex
	files map[string][]byte
	asked []string
	sum   strings.Builder
}

func serve(t *testing.T) *proxy {
	p := &proxy{files: map[string][]byte{}}
	p.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.asked = append(p.asked, r.URL.Path)
		body, ok := p.files[strings.TrimPrefix(r.URL.Path, "/")]
		if !ok {
			http.NotFound(w, r)
			return
		}
		_, _ = w.Write(body)
	}))
	t.Cleanup(p.Close)
	return p
}

// add puts a module there and into the go.sum.
func (p *proxy) add(t *testing.T, m module.Version, files ...source) {
	t.Helper()
	goMod := "module " + m.Path + "\n"
	list := []zip.File{source{"go.mod", goMod}}
	for _, f := range files {
		list = append(list, f)
	}
	var packed bytes.Buffer
	if err := zip.Create(&packed, m, list); err != nil {
		t.Fatal(err)
	}
	base := must(module.EscapePath(m.Path))(t) + "/@v/" + must(module.EscapeVersion(m.Version))(t)
	p.files[base+".zip"], p.files[base+".mod"] = packed.Bytes(), []byte(goMod)
	hash := must(dirhash.Hash1([]string{"go.mod"}, func(string) (io.ReadCloser, error) {
		return io.NopCloser(strings.NewReader(goMod)), nil
	}))(t)
	file := filepath.Join(t.TempDir(), "zip")
	if err := os.WriteFile(file, packed.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	code := must(dirhash.HashZip(file, dirhash.Hash1))(t)
	fmt.Fprintf(&p.sum, "%s %s %s\n%s %s/go.mod %s\n", m.Path, m.Version, code, m.Path, m.Version, hash)
}

func (p *proxy) goSum() []byte { return []byte(p.sum.String()) }

// questions are the paths asked since the last call.
func (p *proxy) questions() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	asked := p.asked
	p.asked = nil
	return asked
}

func must[V any](v V, err error) func(*testing.T) V {
	return func(t *testing.T) V {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func open(t *testing.T, dir string) *fetch.Store {
	t.Helper()
	s, err := fetch.Open(dir, http.DefaultTransport, func(_ context.Context, format string, args ...any) { t.Logf(format, args...) })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// refused wants an error with the code, and the words in it.
func refused(t *testing.T, err error, code verdict.Code, words string) {
	t.Helper()
	var refusal *verdict.Error
	if !errors.As(err, &refusal) || refusal.Finding.Code != code || !strings.Contains(err.Error(), words) {
		t.Errorf("want %s with %q, got %v", code, words, err)
	}
}

func unavailable(t *testing.T, err error) {
	t.Helper()
	if got := verdict.OutcomeOf(err); got != verdict.Unavailable {
		t.Errorf("want unavailable, got %s: %v", got, err)
	}
}

// empty wants nothing left over from a fetch.
func empty(t *testing.T, dir string) {
	t.Helper()
	left, err := os.ReadDir(filepath.Join(dir, "tmp"))
	if err != nil || len(left) > 0 {
		t.Errorf("left over: %v, %v", left, err)
	}
}
