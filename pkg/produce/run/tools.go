package run

import (
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"

	"golang.org/x/mod/sumdb/dirhash"

	"github.com/waybill-release/waybill/pkg/document/provenance"
	"github.com/waybill-release/waybill/pkg/produce/lock"
	"github.com/waybill-release/waybill/pkg/produce/sandbox"
	"github.com/waybill-release/waybill/pkg/release/plan"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// tool is a program that steps use, as it is on this machine.
type tool struct {
	resource provenance.Resource
	pinned   bool
	// tree hashes the directory tree of the program, once, which takes a
	// while; nil if a step sees only the program's file.
	tree func() (string, error)
}

// defaultTool is the tool of a step that names none.
const defaultTool = "go"

func toolNames(step plan.Step) []string {
	if step.Tools == nil {
		return []string{defaultTool}
	}
	return step.Tools
}

// checkTools finds every program that steps use, and compares pinned ones
// with the lock, before the first step runs. Libraries that programs other
// than Go load are not checked: to pin them, use a tool image.
func checkTools(pins plan.Lock, steps []plan.Step) (map[string]tool, error) {
	found := map[string]tool{}
	for _, name := range slices.Sorted(maps.Keys(pins.Tools)) {
		pin := pins.Tools[name]
		if pin.Program == "" {
			continue // an image, which is downloaded
		}
		t, err := findTool(pin.Program)
		if err != nil {
			return nil, fmt.Errorf("finding tool %q: %w", name, err)
		}
		got, err := digest.ParseHex(digest.SHA256, t.resource.Digest["sha256"])
		if err != nil {
			return nil, err
		}
		if err := lock.Check(name, pin, got); err != nil {
			return nil, err
		}
		t.resource.Name, t.pinned = "tool "+name, true
		found[name] = t
	}
	for _, step := range steps {
		for _, name := range toolNames(step) {
			if _, seen := found[name]; seen || len(step.Run) == 0 || pins.Tools[name].Image != "" {
				continue
			}
			// The step reports a missing program.
			if t, err := findTool(name); err == nil {
				t.resource.Name = "tool " + name
				found[name] = t
			}
		}
	}
	return found, nil
}

// findTool hashes a program, and finds its directory tree if the step sees
// all of it.
func findTool(name string) (tool, error) {
	path, err := exec.LookPath(name)
	if err != nil {
		return tool{}, verdict.Refuse(verdict.Usage, name, "not in PATH; install the tool that %s pins", plan.LockName)
	}
	f, err := os.Open(path)
	if err != nil {
		return tool{}, err
	}
	defer f.Close()
	set, _, err := digest.Sum(f)
	if err != nil {
		return tool{}, err
	}
	t := tool{resource: provenance.Resource{Digest: set.Map()}}
	mounts, _ := sandbox.Toolchains(os.Getenv("PATH"), []string{name})
	for _, m := range mounts {
		if info, err := os.Stat(m.Source); err == nil && info.IsDir() {
			t.tree = sync.OnceValues(func() (string, error) { return hashTree(m.Source) })
		}
	}
	return t, nil
}

// hashTree hashes the regular files of a tree, as in-toto's dirHash does.
func hashTree(dir string) (string, error) {
	var files []string
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		name, err := filepath.Rel(dir, path)
		files = append(files, filepath.ToSlash(name))
		return err
	})
	if err != nil {
		return "", fmt.Errorf("hashing the tree of a tool: %w", err)
	}
	h1, err := dirhash.Hash1(files, func(name string) (io.ReadCloser, error) {
		return os.Open(filepath.Join(dir, filepath.FromSlash(name)))
	})
	if err != nil {
		return "", fmt.Errorf("hashing the tree of a tool: %w", err)
	}
	return hexOfH1(h1)
}

// toolsOf are the tools of a step, for its provenance. The first caller waits
// for the hashes of their trees.
func (f fetched) toolsOf(step plan.Step) (list []provenance.Resource, err error) {
	for _, name := range toolNames(step) {
		t, ok := f.tools[name]
		if !ok {
			continue
		}
		named := t.resource
		if t.tree != nil {
			named.Digest = maps.Clone(named.Digest)
			if named.Digest["dirHash"], err = t.tree(); err != nil {
				return nil, err
			}
		}
		list = append(list, named)
	}
	return list, nil
}

// startHashing starts to hash the trees of a step's tools in the background.
func (f fetched) startHashing(step plan.Step) {
	for _, name := range toolNames(step) {
		if t := f.tools[name]; t.tree != nil {
			go t.tree() //nolint:errcheck // toolsOf returns the error
		}
	}
}

// pinned reports whether the lock pins every tool of a step.
func (f fetched) pinned(step plan.Step) bool {
	return !slices.ContainsFunc(toolNames(step), func(name string) bool { return !f.tools[name].pinned })
}
