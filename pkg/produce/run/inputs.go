package run

import (
	"context"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/waybill-release/waybill/pkg/document/provenance"
	"github.com/waybill-release/waybill/pkg/produce/sandbox"
	"github.com/waybill-release/waybill/pkg/release/plan"
	"github.com/waybill-release/waybill/pkg/value/digest"
)

// Where an isolated step finds its inputs and the downloaded modules; the
// first is [plan.InputDir] relative to the source.
const (
	inputsSeen  = "/build/in"
	modulesSeen = "/build/modules"
)

// addTools gives a step its tools: programs of the machine, or the root of an
// image.
func (r *run) addTools(step plan.Step, at *surroundings) error {
	at.pinned = r.fetched.pinned(step)
	r.fetched.startHashing(step)
	name, _, inImage := r.Source.Pins.RootOf(step)
	if r.Machine.Mode == sandbox.Unisolated && !inImage {
		at.path = os.Getenv("PATH")
		return nil
	}
	at.mounts, at.path = sandbox.Toolchains(os.Getenv("PATH"), toolNames(step))
	switch {
	case inImage:
		at.root, at.bare = r.fetched.roots[name].dir, true
		at.env, at.path = r.fetched.roots[name].environment(at.path)
	case step.Root == plan.Scratch:
		at.root, at.bare = filepath.Join(at.scratch, "root"), true
	default:
		return nil
	}
	return makeMountPoints(at.root, at.mounts)
}

// makeMountPoints creates the mount points of tools in a root that may not
// have them, but never outside of it, whatever links an image contains.
func makeMountPoints(dir string, tools []sandbox.Mount) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("making a root: %w", err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return fmt.Errorf("making a root: %w", err)
	}
	defer root.Close()
	for _, m := range tools {
		if err := makeMountPoint(root, m); err != nil {
			return fmt.Errorf("making a root: %w", err)
		}
	}
	return nil
}

func makeMountPoint(root *os.Root, m sandbox.Mount) error {
	info, err := os.Stat(m.Source)
	if err != nil {
		return err
	}
	name := strings.TrimPrefix(m.Target, "/")
	if info.IsDir() {
		return root.MkdirAll(name, 0o755)
	}
	if err := root.MkdirAll(path.Dir(name), 0o755); err != nil {
		return err
	}
	f, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE, 0o755)
	if err != nil {
		return err
	}
	return f.Close()
}

// environment is what the image sets for its programs, with its PATH before
// that of the mounted tools.
func (r root) environment(tools string) (env []string, path string) {
	path = tools
	for _, v := range r.env {
		if list, ok := strings.CutPrefix(v, "PATH="); ok {
			path = list + string(filepath.ListSeparator) + tools
		} else {
			env = append(env, v)
		}
	}
	return env, path
}

// addModules gives a step the downloaded modules.
func (r *run) addModules(at *surroundings) {
	if r.fetched.modules == "" {
		return
	}
	at.inputs = append(at.inputs, r.fetched.list...)
	at.modules = "file://" + r.fetched.modules
	if r.Machine.Mode != sandbox.Unisolated {
		at.modules = "file://" + modulesSeen
		at.mounts = append(at.mounts, sandbox.Mount{Source: r.fetched.modules, Target: modulesSeen})
	}
}

// addInputs gives a step its own copies of its inputs, verified while they
// are copied.
func (r *run) addInputs(ctx context.Context, step plan.Step, at *surroundings) error {
	in := filepath.Join(at.scratch, path.Base(plan.InputDir))
	if err := os.Mkdir(in, 0o755); err != nil {
		return fmt.Errorf("copying inputs: %w", err)
	}
	for _, name := range step.Take {
		body, m, err := r.products.openMade(ctx, name)
		if err != nil {
			return err
		}
		if err := copyInput(in, name, body); err != nil {
			return err
		}
		at.inputs = append(at.inputs, provenance.File(name, m.digests))
	}
	for _, name := range step.Downloads {
		f, err := os.Open(r.fetched.downloads[name].Path)
		if err != nil {
			return fmt.Errorf("copying input %q: %w", name, err)
		}
		held := r.fetched.downloads[name]
		if err := copyInput(in, name, verifying(f, held.Digests, held.Size)); err != nil {
			return err
		}
		named := provenance.File("download "+name, held.Digests)
		named.URI = r.Plan.Downloads[name]
		at.inputs = append(at.inputs, named)
	}
	if r.Machine.Mode != sandbox.Unisolated && len(step.Take)+len(step.Downloads) > 0 {
		at.mounts = append(at.mounts, sandbox.Mount{Source: in, Target: inputsSeen})
	}
	return nil
}

// copyInput copies one input and closes it. Every input is executable,
// because only the step knows whether it is a program.
func copyInput(dir, name string, body io.ReadCloser) error {
	defer body.Close()
	target := filepath.Join(dir, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
		return fmt.Errorf("copying input %q: %w", name, err)
	}
	f, err := os.OpenFile(target, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o755)
	if err != nil {
		return fmt.Errorf("copying input %q: %w", name, err)
	}
	if _, err := io.Copy(f, body); err != nil {
		_ = f.Close() // the first error is returned
		return fmt.Errorf("copying input %q: %w", name, err)
	}
	return f.Close()
}

// verifying verifies a file while it is read.
func verifying(f io.ReadCloser, want digest.Set, size int64) io.ReadCloser {
	return struct {
		io.Reader
		io.Closer
	}{digest.NewVerifyingReader(f, want.SHA256, size), f}
}
