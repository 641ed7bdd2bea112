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

// complete marks a tree that was made to the end.
const complete = "complete"

// Names of the tree's parts, as package tree makes them. That package is not
// imported here: it carries a whole lab, and a large measurer would show up in
// the memory of what it measures.
const (
	version     = "v1.0.0"
	profileName = "profile.yaml"
)

// setting is everything that is measured with.
type setting struct {
	options
	tree     string // directory of the tree, with its profile
	released string // the published files in it
	files    []string
	facts    bench.Tree
}

// prepare builds the commands and makes the tree, unless it is there.
func prepare(ctx context.Context, o options) (*setting, error) {
	if err := build(ctx, &o); err != nil {
		return nil, err
	}
	s := &setting{options: o, tree: filepath.Join(o.dir, fmt.Sprintf("tree-%d-outputs-%d-bytes", o.outputs, o.size))}
	s.released = filepath.Join(s.tree, "release", version)
	if err := s.makeTree(ctx); err != nil {
		return nil, err
	}
	return s, s.look()
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
	modules := []module{{"test", []string{"./cmd/waybill-bench-tree"}}}
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

func (s *setting) makeTree(ctx context.Context) error {
	mark := filepath.Join(s.tree, complete)
	if _, err := os.Stat(mark); err == nil && !s.fresh {
		return nil
	}
	if err := os.RemoveAll(s.tree); err != nil {
		return err
	}
	progress("making a release of %d files and %.2f GB in %s, once; this takes some minutes", s.outputs, float64(s.size)/1e9, s.tree)
	cmd := exec.CommandContext(ctx, s.maker(), "--dir", s.tree, "--bin", s.bin,
		"--outputs", strconv.Itoa(s.outputs), "--bytes", strconv.FormatInt(s.size, 10))
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("making the tree: %w", err)
	}
	return os.WriteFile(mark, nil, 0o600)
}

func (s *setting) maker() string { return filepath.Join(s.dir, "bin", "waybill-bench-tree") }

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
		if _, err := os.Stat(path + ".sigstore.json"); err == nil {
			s.facts.Artifacts++
		}
		return nil
	})
}

func progress(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) }
