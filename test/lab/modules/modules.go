// Package modules is a module proxy (https://go.dev/ref/mod#goproxy-protocol)
// that serves one small module, made on the spot and the same each time.
package modules

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"path"
	"strings"
	"sync"
	"time"

	"golang.org/x/mod/module"
	"golang.org/x/mod/sumdb/dirhash"
	"golang.org/x/mod/zip"
)

// The module that is served: what the example is made with.
const (
	Path    = "example.test/wick"
	Version = "v0.1.0"
)

const (
	goMod  = "module example.test/wick\n\ngo 1.26\n"
	source = `// Package wick is what a lantern burns.
package wick

// Light is what a burning wick gives.
func Light() string { return "a light in the dark" }
`
	licence = "Anybody may do anything with this.\n"
)

// Server answers as a module proxy does.
type Server struct {
	mu    sync.Mutex // owns files
	files map[string][]byte
}

// New makes the module.
func New() (*Server, error) {
	packed, err := pack()
	if err != nil {
		return nil, fmt.Errorf("making module %s: %w", Path, err)
	}
	info, err := json.Marshal(map[string]any{"Version": Version, "Time": time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)})
	if err != nil {
		return nil, fmt.Errorf("describing module %s: %w", Path, err)
	}
	return &Server{files: map[string][]byte{
		Path + "/@latest":                 info,
		Path + "/@v/list":                 []byte(Version + "\n"),
		Path + "/@v/" + Version + ".info": info,
		Path + "/@v/" + Version + ".mod":  []byte(goMod),
		Path + "/@v/" + Version + ".zip":  packed,
	}}, nil
}

func pack() ([]byte, error) {
	var packed bytes.Buffer
	err := zip.Create(&packed, module.Version{Path: Path, Version: Version}, []zip.File{
		file{"LICENSE", licence}, file{"go.mod", goMod}, file{"wick.go", source},
	})
	return packed.Bytes(), err
}

// GoSum is what go.sum says of the module.
func GoSum() (string, error) {
	prefix := Path + "@" + Version + "/"
	content := map[string]string{prefix + "LICENSE": licence, prefix + "go.mod": goMod, prefix + "wick.go": source, "go.mod": goMod}
	read := func(name string) (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(content[name])), nil }
	code, err := dirhash.Hash1([]string{prefix + "LICENSE", prefix + "go.mod", prefix + "wick.go"}, read)
	if err != nil {
		return "", err
	}
	mod, err := dirhash.Hash1([]string{"go.mod"}, read)
	return fmt.Sprintf("%s %s %s\n%s %s/go.mod %s\n", Path, Version, code, Path, Version, mod), err
}

// Put changes an answer, so that a test can see what a proxy leads to that
// lies. name is a path such as "example.test/wick/@v/v0.1.0.zip"; nil takes the
// answer away.
func (s *Server) Put(name string, body []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if body == nil {
		delete(s.files, name)
		return
	}
	s.files[name] = body
}

// ServeHTTP implements [http.Handler].
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	body, ok := s.files[strings.TrimPrefix(r.URL.Path, "/")]
	s.mu.Unlock()
	switch {
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		http.Error(w, "modules are read here, nothing else", http.StatusMethodNotAllowed)
	case !ok:
		http.Error(w, "not found: this proxy has "+Path+" "+Version, http.StatusNotFound)
	default:
		http.ServeContent(w, r, path.Base(r.URL.Path), time.Time{}, bytes.NewReader(body))
	}
}

// file is a file of the module, for [zip.Create].
type file struct{ name, body string }

func (f file) Path() string                 { return f.name }
func (f file) Lstat() (fs.FileInfo, error)  { return f, nil }
func (f file) Open() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(f.body)), nil }
func (f file) Name() string                 { return path.Base(f.name) }
func (f file) Size() int64                  { return int64(len(f.body)) }
func (f file) Mode() fs.FileMode            { return 0o644 }
func (f file) ModTime() time.Time           { return time.Time{} }
func (f file) IsDir() bool                  { return false }
func (f file) Sys() any                     { return nil }
