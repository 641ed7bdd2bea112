package main

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/waybill-release/waybill/test/bench"
)

// complete marks what was made to the end.
const complete = "complete"

// Names of the tree's parts, as package tree makes them. That package is not
// imported here: it carries a whole lab, and a large measurer would show up in
// the memory of what it measures.
const (
	version      = "v1.0.0"
	profileName  = "profile.yaml"
	bundleSuffix = ".sigstore.json"
)

// setting is everything that is measured with.
type setting struct {
	options
	tree     string // directory of the tree, with its profile
	released string // the published files in it
	decided  string // directory of a tree of small files
	minted   string // directory of the bundles
	files    []string
	facts    bench.Tree
	lines    []bench.Line
	drawn    []bench.Curve
}

// prepare builds the commands, and makes the tree and the bundles unless they
// are there.
func prepare(ctx context.Context, o options) (*setting, error) {
	if err := build(ctx, &o); err != nil {
		return nil, err
	}
	s := &setting{
		options: o, tree: o.treeOf(o.work.outputs, o.work.size), decided: o.treeOf(o.work.decided, int64(o.work.decided)*smallFile),
		minted: filepath.Join(o.dir, fmt.Sprintf("bundles-%d", o.work.bundles)),
	}
	s.released = filepath.Join(s.tree, "release", version)
	if s.wants("bundles") || s.wants("statement") {
		if err := s.make(ctx, s.minted, "--mint", strconv.Itoa(o.work.bundles)); err != nil {
			return nil, err
		}
	}
	if s.wants("policy") || s.wants("release") {
		if err := s.makeTree(ctx, s.decided, o.work.decided, int64(o.work.decided)*smallFile); err != nil {
			return nil, err
		}
	}
	if !s.wants("release") {
		return s, nil
	}
	if err := s.makeTree(ctx, s.tree, o.work.outputs, o.work.size); err != nil {
		return nil, err
	}
	return s, s.look()
}

// smallFile is how large a file is whose hash does not matter.
const smallFile = 1 << 10

// treeOf is the directory of a tree; the number is that of its policy.
func (o options) treeOf(outputs int, size int64) string {
	return filepath.Join(o.dir, fmt.Sprintf("tree3-%d-outputs-%d-bytes", outputs, size))
}

func (s *setting) makeTree(ctx context.Context, dir string, outputs int, size int64) error {
	// It lies twice on the disk while it is made, as built and as staged, with
	// some room for what is said about it.
	const besides = 500_000_000
	if free := bench.Free(s.dir); !made(dir) && free > 0 && free < 2*size+besides {
		return fmt.Errorf("making a release of %.2f GB takes %.2f GB of disk, and %q has %.2f; see -size and -dir", float64(size)/1e9, float64(2*size+besides)/1e9, s.dir, float64(free)/1e9)
	}
	progress("a release of %d files and %.2f GB is made once, which takes some minutes", outputs, float64(size)/1e9)
	return s.make(ctx, dir, "--bin", s.bin, "--outputs", strconv.Itoa(outputs), "--bytes", strconv.FormatInt(size, 10))
}

// build builds the tree's maker, and the product as it is shipped: static and
// stripped.
func build(ctx context.Context, o *options) error {
	out := filepath.Join(o.dir, "bin")
	if err := os.MkdirAll(out, 0o755); err != nil {
		return err
	}
	type module struct {
		dir      string
		packages []string
	}
	modules := []module{{"test", []string{"./cmd/waybill-bench-tree", "./cmd/waybill-bench-verify", "./cmd/waybill-bench-build", "./cmd/waybill-bench-sign", "./cmd/waybill-bench-promote", "./cmd/waybill-bench-gate"}}}
	if o.bin == "" {
		o.bin = out
		modules = append(modules, module{".", []string{"./cmd/waybill", "./cmd/k8s-verify-release"}})
	}
	for _, m := range modules {
		args := append([]string{"build", "-trimpath", "-ldflags=-s -w", "-o", out + string(filepath.Separator)}, m.packages...)
		cmd := exec.CommandContext(ctx, "go", args...)
		cmd.Dir = filepath.Join(o.root, m.dir)
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off")
		if said, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("building %s: %w\n%s", strings.Join(m.packages, " "), err, said)
		}
	}
	var err error
	o.bin, err = filepath.Abs(o.bin)
	return err
}

// make lets the maker fill a directory, unless it did before.
func (s *setting) make(ctx context.Context, dir string, args ...string) error {
	if made(dir) && !s.trees.fresh {
		return nil
	}
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	progress("making %s", dir)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, s.maker(), append([]string{"--dir", dir}, args...)...)
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("making %q: %w", dir, err)
	}
	return os.WriteFile(filepath.Join(dir, complete), nil, 0o600)
}

// large is how large a release is that nobody wants to find in a cache.
const large = 2_000_000_000

// clear removes a large release, unless somebody said where to keep it.
func (s *setting) clear() error {
	if s.trees.kept || s.work.size <= large {
		return nil
	}
	return os.RemoveAll(s.tree)
}

// made reports whether a directory was filled to the end.
func made(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, complete))
	return err == nil
}

func (s *setting) maker() string { return filepath.Join(s.dir, "bin", "waybill-bench-tree") }

func (s *setting) worker() string { return filepath.Join(s.dir, "bin", "waybill-bench-verify") }

// look counts what there is to verify.
func (s *setting) look() error {
	return filepath.WalkDir(s.released, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		s.files = append(s.files, path)
		s.facts.Files++
		s.facts.Bytes += info.Size()
		if _, err := os.Stat(path + bundleSuffix); err == nil {
			s.facts.Artifacts++
		}
		return nil
	})
}

func progress(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) }
