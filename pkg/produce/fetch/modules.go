package fetch

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"

	"golang.org/x/mod/module"
	"golang.org/x/mod/sumdb/dirhash"
	modzip "golang.org/x/mod/zip"

	"github.com/waybill-release/waybill/pkg/backend/atonce"
	"github.com/waybill-release/waybill/pkg/tool/plural"
	"github.com/waybill-release/waybill/pkg/tool/slice"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// modulesDir is the tree of a module proxy within the store.
const modulesDir = "modules"

// Modules are the downloaded modules that go.sum files pin.
type Modules struct {
	// Dir is a module proxy as a tree of files; steps use it with
	// GOPROXY=file://… and GOSUMDB=off, since go.sum is authoritative.
	Dir string
	// List is sorted by path and version.
	List []Module
}

// Module is one module at one version.
type Module struct {
	Path, Version string
	// H1 is the hash of the code in go.sum. It may be empty: most graphs need the
	// go.mod of modules whose code is not built.
	H1 string
	// Zip is of the file with the code; zero without H1.
	Zip digest.Set
}

// Modules gets every module and go.mod that the go.sum files list, from a
// module proxy (https://go.dev/ref/mod#goproxy-protocol). The tree contains
// exactly these, so give the files of all modules of a release at once; other
// files there are removed. Directories that replace a module are part of the
// source and are not downloaded.
//
// Other information about a version that the go command can request, such as
// its time, is not downloaded: nothing pins it, and no build needs it.
func (s *Store) Modules(ctx context.Context, proxy string, goSums ...[]byte) (Modules, error) {
	address, err := checkURL("module proxy", proxy)
	if err != nil {
		return Modules{}, err
	}
	pins, err := parseGoSums(goSums)
	if err != nil {
		return Modules{}, err
	}
	found := make([]fetchedFile, len(pins))
	if err := atonce.Try(ctx, atOnce, pins, func(ctx context.Context, i int, p pinned) (err error) {
		found[i], err = s.module(ctx, strings.TrimSuffix(address.String(), "/"), p)
		return err
	}); err != nil {
		return Modules{}, fmt.Errorf("fetching modules: %w", err)
	}
	list := merge(pins, found)
	if err := s.describe(list, found); err != nil {
		return Modules{}, err
	}
	s.reportModules(ctx, found)
	return Modules{Dir: s.path(modulesDir), List: list}, nil
}

// fetchedFile is one file of a module that is in the tree.
type fetchedFile struct {
	name    string
	hash    string
	digests digest.Set
	size    int64
	fetched bool
}

func (s *Store) module(ctx context.Context, proxy string, p pinned) (fetchedFile, error) {
	at, err := proxyPath(p)
	if err != nil {
		return fetchedFile{}, err
	}
	h := fetchedFile{name: modulesDir + "/" + at}
	f := file{name: h.name, bring: s.from(proxy+"/"+at, modzip.MaxZipFile), check: func(name string) (err error) {
		h.hash, h.digests, h.size, err = s.zipHash(p, name)
		return err
	}}
	if p.goMod {
		f.bring, f.check = s.from(proxy+"/"+at, modzip.MaxGoMod), func(name string) error { return s.checkGoMod(p, name) }
	}
	h.fetched, err = s.ensure(ctx, f)
	if err != nil {
		return fetchedFile{}, fmt.Errorf("%s: %w", p, err)
	}
	return h, nil
}

// proxyPath is the file's path at a module proxy.
func proxyPath(p pinned) (string, error) {
	escapedPath, err := module.EscapePath(p.Path)
	if err != nil {
		return "", verdict.Wrap(verdict.ConfigParse, "go.sum", err)
	}
	version, err := module.EscapeVersion(p.Version.Version)
	if err != nil {
		return "", verdict.Wrap(verdict.ConfigParse, "go.sum", err)
	}
	suffix := ".zip"
	if p.goMod {
		suffix = ".mod"
	}
	return escapedPath + "/@v/" + version + suffix, nil
}

// String names the line as go.sum does.
func (p pinned) String() string { return p.Version.String() + p.kind() }

// checkGoMod compares a go.mod with its hash in go.sum.
func (s *Store) checkGoMod(p pinned, name string) error {
	raw, err := s.root.ReadFile(name)
	if err != nil {
		return err
	}
	hash, err := dirhash.Hash1([]string{"go.mod"}, func(string) (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(raw)), nil
	})
	if err != nil {
		return err
	}
	return p.matches(hash)
}

// zipHash is the hash of a module's code in the form of go.sum, and the
// digests of the file. The format is checked first, which limits what is
// unpacked for hashing.
func (s *Store) zipHash(p pinned, name string) (hash string, set digest.Set, size int64, err error) {
	if _, err := modzip.CheckZip(p.Version, s.path(name)); err != nil {
		return "", digest.Set{}, 0, verdict.Refuse(verdict.FetchHash, p.String(), "the file from the proxy is not a module: %.300s", err)
	}
	f, err := s.root.Open(name)
	if err != nil {
		return "", digest.Set{}, 0, err
	}
	defer f.Close()
	if set, size, err = digest.Sum(f); err != nil {
		return "", digest.Set{}, 0, err
	}
	if hash, err = dirhash.HashZip(s.path(name), dirhash.Hash1); err != nil {
		return "", digest.Set{}, 0, verdict.Refuse(verdict.FetchHash, p.String(), "the file from the proxy cannot be read: %.300s", err)
	}
	return hash, set, size, p.matches(hash)
}

// matches refuses a hash that go.sum does not list.
func (p pinned) matches(hash string) error {
	if slices.Contains(p.hashes, hash) {
		return nil
	}
	return &verdict.Error{Finding: verdict.Find(verdict.FetchHash, p.String(), "the module is not the one pinned in go.sum").
		Differ(strings.Join(p.hashes, " or "), hash)}
}

// merge combines code and go.mod of a version; both lists have the same
// order.
func merge(pins []pinned, found []fetchedFile) (list []Module) {
	for i, p := range pins {
		if n := len(list); n == 0 || list[n-1].Path != p.Path || list[n-1].Version != p.Version.Version {
			list = append(list, Module{Path: p.Path, Version: p.Version.Version})
		}
		if m := &list[len(list)-1]; !p.goMod {
			m.H1, m.Zip = found[i].hash, found[i].digests
		}
	}
	return list
}

// describe writes the version information of a proxy, and removes everything
// that is not part of the tree.
func (s *Store) describe(list []Module, found []fetchedFile) error {
	versions := map[string][]string{} // by directory
	keep := slice.Set(found, func(h fetchedFile) string { return h.name })
	for _, m := range list {
		at, err := proxyPath(pinned{Version: module.Version{Path: m.Path, Version: m.Version}})
		if err != nil {
			return err
		}
		info, err := json.Marshal(struct{ Version string }{m.Version})
		if err != nil {
			return fmt.Errorf("describing %s: %w", m.Path, err)
		}
		name := modulesDir + "/" + strings.TrimSuffix(at, ".zip") + ".info"
		if err := s.write(name, info); err != nil {
			return err
		}
		keep[name] = true
		versions[path.Dir(name)] = append(versions[path.Dir(name)], m.Version)
	}
	for dir, of := range versions {
		keep[dir+"/list"] = true
		if err := s.write(dir+"/list", []byte(strings.Join(of, "\n")+"\n")); err != nil {
			return err
		}
	}
	return s.clear(modulesDir, keep)
}

// write writes a small file of our own under a name.
func (s *Store) write(name string, body []byte) error {
	if held, err := s.root.ReadFile(name); err == nil && s.regular(name) && bytes.Equal(held, body) {
		return nil
	}
	temporary, f, err := s.temporary()
	if err != nil {
		return err
	}
	_, err = f.Write(body)
	if err = errors.Join(err, f.Close()); err != nil {
		return errors.Join(fmt.Errorf("writing %q: %w", name, err), s.discard(temporary))
	}
	return s.adopt(temporary, name)
}

// clear removes every file below dir that is not in keep.
func (s *Store) clear(dir string, keep map[string]bool) error {
	if err := s.root.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("making %q: %w", dir, err)
	}
	return fs.WalkDir(s.root.FS(), dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || keep[name] {
			return err
		}
		return s.root.Remove(name)
	})
}

// reportModules reports the result in one line.
func (s *Store) reportModules(ctx context.Context, found []fetchedFile) {
	var fetched, there int
	var size int64
	for _, h := range found {
		if !h.fetched {
			there++
			continue
		}
		fetched++
		size += h.size
	}
	if len(found) > 0 {
		s.report(ctx, "modules: %s downloaded (%d bytes of code), %d reused; all match go.sum", plural.Of(fetched, "file"), size, there)
	}
}
