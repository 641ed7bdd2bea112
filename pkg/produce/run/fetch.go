package run

import (
	"context"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"path"
	"strings"

	"github.com/waybill-release/waybill/pkg/backend/git"
	"github.com/waybill-release/waybill/pkg/document/provenance"
	"github.com/waybill-release/waybill/pkg/produce/fetch"
	"github.com/waybill-release/waybill/pkg/release/plan"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// fetched is everything that steps may use besides the source and each other,
// downloaded and compared with the lock before the first step runs.
type fetched struct {
	modules   string // the directory of a module proxy; empty without modules
	list      []provenance.Resource
	downloads map[string]fetch.File
	tools     map[string]tool
	roots     map[string]root
}

// root is the root file system of a tool image.
type root struct {
	dir string
	env []string
}

// fetch is the only phase of a build that uses the network. No program of the
// source runs in it.
func (r *run) fetch(ctx context.Context) (f fetched, err error) {
	if r.Trust.Inputs != nil {
		if err := r.Trust.Inputs(ctx, r.Source.Pins); err != nil {
			return fetched{}, err
		}
	}
	if f.tools, err = checkTools(r.Source.Pins, r.Plan.Steps); err != nil {
		return fetched{}, err
	}
	if r.Rebuild { // no provenance names them, and [HasTool] has compared their trees
		for name, t := range f.tools {
			f.tools[name] = tool{resource: t.resource, pinned: t.pinned}
		}
	}
	if err := r.fetchModules(ctx, &f); err != nil {
		return fetched{}, err
	}
	f.downloads = map[string]fetch.File{}
	for name := range r.Plan.Downloads {
		pin, ok := r.Source.Pins.Downloads[name]
		if !ok {
			return fetched{}, verdict.Refuse(verdict.LockStale, plan.LockName, "the lock does not pin download %q", name)
		}
		if f.downloads[name], err = r.store.Download(ctx, name, pin); err != nil {
			return fetched{}, err
		}
	}
	return f, errors.Join(r.fetchRoots(ctx, &f), r.fetchBases(ctx))
}

// fetchModules downloads the Go modules that the commit's go.sum files pin.
func (r *run) fetchModules(ctx context.Context, f *fetched) error {
	var sums [][]byte
	for _, dir := range r.Plan.Modules {
		sum, err := r.repo.ReadFile(ctx, r.Source.Commit, path.Join(dir, "go.sum"))
		if errors.Is(err, git.ErrNotFound) {
			continue // a module without dependencies
		}
		if err != nil {
			return err
		}
		sums = append(sums, sum)
	}
	if len(sums) == 0 {
		return nil
	}
	modules, err := r.store.Modules(ctx, r.Machine.Modules, sums...)
	if err != nil {
		return err
	}
	f.modules = modules.Dir
	for _, m := range modules.List {
		if m.H1 == "" {
			continue // its code is not built; go.sum, in the commit, pins its go.mod
		}
		files, err := hexOfH1(m.H1)
		if err != nil {
			return err
		}
		f.list = append(f.list, moduleResource(m.Path, m.Version, m.Zip, files))
	}
	return nil
}

// moduleResource makes the resource of a Go module: its archive as it was
// fetched, and the hash of its files in go.sum.
func moduleResource(path, version string, archive digest.Set, files string) provenance.Resource {
	ids := archive.Map()
	ids["dirHash"] = files
	return provenance.Resource{Name: "module " + path, URI: "pkg:golang/" + path + "@" + version, Digest: ids}
}

// fetchRoots downloads the tool images.
func (r *run) fetchRoots(ctx context.Context, f *fetched) error {
	f.roots = map[string]root{}
	for _, step := range r.Plan.Steps {
		name, pin, ok := r.Source.Pins.RootOf(step)
		if _, seen := f.roots[name]; !ok || seen {
			continue
		}
		ref := pin.Image + "@" + pin.Digest.String()
		got, err := r.store.Root(ctx, ref)
		if err != nil {
			return fmt.Errorf("fetching tool %q: %w", name, err)
		}
		f.roots[name] = root{dir: got.Dir, env: got.Env}
		f.tools[name] = tool{resource: pinnedImage("tool "+name, ref, pin.Digest), pinned: true}
	}
	return nil
}

// hexOfH1 is a hash of go.sum in hexadecimal.
func hexOfH1(h1 string) (string, error) {
	raw, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(h1, "h1:"))
	if err != nil {
		return "", fmt.Errorf("reading hash %q: %w", h1, err)
	}
	return hex.EncodeToString(raw), nil
}
