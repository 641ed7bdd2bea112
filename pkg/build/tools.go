package build

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"slices"

	"github.com/waybill-release/waybill/pkg/digest"
	"github.com/waybill-release/waybill/pkg/plan"
	"github.com/waybill-release/waybill/pkg/provenance"
	"github.com/waybill-release/waybill/pkg/verdict"
)

// pinnedTools holds every tool of the lock against the program that steps
// would run, before the first of them does. What a program loads beside itself
// is not looked at: for a compiler, pin the image that holds it.
func pinnedTools(pins plan.Lock) (map[string]provenance.Resource, error) {
	tools := map[string]provenance.Resource{}
	for _, name := range slices.Sorted(maps.Keys(pins.Tools)) {
		pin := pins.Tools[name]
		if pin.Program == "" {
			return nil, verdict.Refuse(verdict.ConfigParse, plan.LockName, "tool %q is the image %q; this builder runs programs only, so pin one with waybill lock --tool %s=PROGRAM", name, pin.Image, name)
		}
		set, err := hashProgram(pin.Program)
		if err != nil {
			return nil, fmt.Errorf("looking for tool %q: %w", name, err)
		}
		if !set.SHA256.Equal(pin.Digest) {
			return nil, &verdict.Error{Finding: verdict.Find(verdict.LockStale, plan.LockName, "tool %q: the program in the PATH is not the one that is pinned", name).
				Differ(pin.Digest.String(), set.SHA256.String())}
		}
		tools[name] = provenance.Resource{Name: "tool " + name, Digest: set.Map()}
	}
	return tools, nil
}

func hashProgram(name string) (digest.Set, error) {
	path, err := exec.LookPath(name)
	if err != nil {
		return digest.Set{}, verdict.Refuse(verdict.Usage, name, "it is not in the PATH; install the tool that %s pins", plan.LockName)
	}
	f, err := os.Open(path)
	if err != nil {
		return digest.Set{}, err
	}
	defer f.Close()
	set, _, err := digest.Sum(f)
	return set, err
}

// toolsOf are the tools of a step, as its provenance names them.
func (r *run) toolsOf(step plan.Step) (list []provenance.Resource) {
	for _, name := range step.Tools {
		if tool, pinned := r.tools[name]; pinned {
			list = append(list, tool)
		}
	}
	return list
}
