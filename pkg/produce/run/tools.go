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
	"github.com/waybill-release/waybill/pkg/produce/sandbox"
	"github.com/waybill-release/waybill/pkg/release/plan"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// tool is a program that steps use, as it is on this machine.
type tool struct {
	resource provenance.Resource
	pinned   bool
	// tree hashes what comes with the program, once, and takes a while; nil
	// where a step is shown the program alone.
	tree func() (string, error)
}

// defaultTool is what a step has that names none.
const defaultTool = "go"

// toolNames are the tools of a step.
func toolNames(step plan.Step) []string {
	if step.Tools == nil {
		return []string{defaultTool}
	}
	return step.Tools
}

// lookAtTools finds every program that steps use, and holds those of the lock
// against it, before the first step runs. Of other programs than Go, what they
// load beside themselves is not looked at: pin the image that holds them.
func lookAtTools(pins plan.Lock, steps []plan.Step) (map[string]tool, error) {
	found := map[string]tool{}
	for _, name := range slices.Sorted(maps.Keys(pins.Tools)) {
		pin := pins.Tools[name]
		if pin.Program == "" {
			continue // an image, which is fetched
		}
		t, err := lookAt(pin.Program)
		if err != nil {
			return nil, fmt.Errorf("looking for tool %q: %w", name, err)
		}
		if got := t.resource.Digest["sha256"]; got != pin.Digest.Hex() {
			return nil, &verdict.Error{Finding: verdict.Find(verdict.LockStale, plan.LockName, "tool %q: the program in the PATH is not the one that is pinned", name).
				Differ(pin.Digest.String(), "sha256:"+got)}
		}
		t.resource.Name, t.pinned = "tool "+name, true
		found[name] = t
	}
	for _, step := range steps {
		for _, name := range toolNames(step) {
			if _, seen := found[name]; seen || len(step.Run) == 0 || pins.Tools[name].Image != "" {
				continue
			}
			// A program that is not there is the step's to miss.
			if t, err := lookAt(name); err == nil {
				t.resource.Name = "tool " + name
				found[name] = t
			}
		}
	}
	return found, nil
}

// lookAt hashes a program, and finds the tree that comes with it where that is
// what a step is shown.
func lookAt(name string) (tool, error) {
	path, err := exec.LookPath(name)
	if err != nil {
		return tool{}, verdict.Refuse(verdict.Usage, name, "it is not in the PATH; install the tool that %s pins", plan.LockName)
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

// toolsOf are the tools of a step, as its provenance names them. The first to
// ask of a tree waits until it is hashed.
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

// hashing begins to hash the trees of a step's tools, for when they are named.
func (f fetched) hashing(step plan.Step) {
	for _, name := range toolNames(step) {
		if t := f.tools[name]; t.tree != nil {
			go t.tree() //nolint:errcheck // whoever names the tool gets the answer
		}
	}
}

// pinned reports whether the lock pins every tool of a step.
func (f fetched) pinned(step plan.Step) bool {
	return !slices.ContainsFunc(toolNames(step), func(name string) bool { return !f.tools[name].pinned })
}
