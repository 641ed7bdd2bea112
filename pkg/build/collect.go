package build

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/waybill-release/waybill/pkg/digest"
	"github.com/waybill-release/waybill/pkg/plan"
	"github.com/waybill-release/waybill/pkg/provenance"
	"github.com/waybill-release/waybill/pkg/sandbox"
	"github.com/waybill-release/waybill/pkg/store"
	"github.com/waybill-release/waybill/pkg/verdict"
)

// collect hashes the declared outputs. Everything in the output directory
// must be declared and regular; everything declared must be there.
func (r *run) collect(ctx context.Context, step plan.Step, dir string) (list []output, err error) {
	present, err := sandbox.Collect(ctx, dir, sandbox.OutputLimits{Names: append([]string{}, step.Outputs...)})
	if err != nil {
		return nil, err
	}
	found := map[string]sandbox.Output{}
	for _, o := range present {
		found[o.Name] = o
	}
	for _, name := range step.Outputs {
		o, ok := found[name]
		if !ok {
			return nil, verdict.Refuse(verdict.OutputMissing, name, "step %s declared it and did not write it", step.Instance)
		}
		path := filepath.Join(dir, name)
		if r.Machine.Mode == sandbox.Unisolated {
			list = append(list, r.copied(o, path))
		} else {
			list = append(list, r.moved(o, path))
		}
	}
	return list, nil
}

// fileOutput hashes a file that the control plane itself has made.
func (r *run) fileOutput(name, path string) (output, error) {
	f, err := os.Open(path)
	if err != nil {
		return output{}, fmt.Errorf("reading output: %w", err)
	}
	defer f.Close()
	set, size, err := digest.Sum(f)
	if err != nil {
		return output{}, fmt.Errorf("hashing %q: %w", name, err)
	}
	return r.moved(sandbox.Output{Name: name, Digests: set, Size: size}, path), nil
}

// moved prepares the release of a hashed file that nothing can write to any
// more: every process that could have had it open is dead, and it was in no
// place that another step sees. It leaves without being read again.
func (r *run) moved(o sandbox.Output, path string) output {
	return output{name: o.Name, digests: o.Digests, size: o.Size, release: func(context.Context) error {
		return r.Workspace.Adopt(o.Name, path)
	}}
}

// copied prepares the release of a hashed file that something may still have
// open: the copy is checked against the digest that the provenance names, so
// what leaves is what was hashed.
func (r *run) copied(o sandbox.Output, path string) output {
	return output{name: o.Name, digests: o.Digests, size: o.Size, release: func(ctx context.Context) error {
		again, err := os.Open(path)
		if err != nil {
			return err
		}
		defer again.Close()
		body := digest.NewVerifyingReader(again, o.Digests.SHA256, o.Size)
		return r.Workspace.Writer().Put(ctx, o.Name, o.Size, body, store.PutOptions{})
	}}
}

// openMade opens an output of an earlier step and checks it while it is read.
func (r *run) openMade(ctx context.Context, name string) (io.ReadCloser, made, error) {
	m, err := r.taken(name)
	if err != nil {
		return nil, made{}, err
	}
	body, _, err := r.Workspace.Files().Open(ctx, name)
	if err != nil {
		return nil, made{}, err
	}
	return verifying(body, m.digests, m.size), m, nil
}

// resources names outputs of earlier steps in provenance.
func (r *run) resources(names []string) (list []provenance.Resource, err error) {
	for _, name := range names {
		m, err := r.taken(name)
		if err != nil {
			return nil, err
		}
		list = append(list, provenance.File(name, m.digests))
	}
	return list, nil
}
