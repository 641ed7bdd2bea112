package run

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"

	"github.com/waybill-release/waybill/pkg/backend/registry"
	"github.com/waybill-release/waybill/pkg/backend/store"
	"github.com/waybill-release/waybill/pkg/document/provenance"
	"github.com/waybill-release/waybill/pkg/judge/verify"
	"github.com/waybill-release/waybill/pkg/produce/sandbox"
	"github.com/waybill-release/waybill/pkg/produce/workspace"
	"github.com/waybill-release/waybill/pkg/release/plan"
	"github.com/waybill-release/waybill/pkg/tool/slice"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// outputs are the hashed outputs of a step, not yet released, with their
// inputs besides the source, and the observations of the control plane.
type outputs struct {
	list   []output
	inputs []provenance.Resource
	inside provenance.InternalParameters
	log    *provenance.Resource
	done   func() error // closes what the release of the outputs reads; may be nil
}

type output struct {
	name    string
	digests digest.Set
	size    int64
	release func(context.Context) error
}

// made is a released output.
type made struct {
	digests digest.Set
	size    int64
}

// products are the released outputs of finished steps, in the workspace.
type products struct {
	space *workspace.Workspace

	mu   sync.Mutex // owns made
	made map[string]made
}

// keep remembers an output for the steps that use it.
func (p *products) keep(name string, m made) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.made[name] = m
}

// taken is an output of a finished step.
func (p *products) taken(name string) (made, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	m, ok := p.made[name]
	if !ok {
		return made{}, fmt.Errorf("%q was not made by an earlier step of this run", name)
	}
	return m, nil
}

// fileOutput hashes a file that the control plane itself has made.
func (p *products) fileOutput(name, path string) (output, error) {
	f, err := os.Open(path)
	if err != nil {
		return output{}, fmt.Errorf("reading output: %w", err)
	}
	defer f.Close()
	set, size, err := digest.Sum(f)
	if err != nil {
		return output{}, fmt.Errorf("hashing %q: %w", name, err)
	}
	return p.moved(sandbox.Output{Name: name, Digests: set, Size: size}, path), nil
}

// moved prepares the release of a hashed file that no process can write to
// any more: every process that could have had it open is dead, and it was in
// no place that another step sees. It is released without being read again.
func (p *products) moved(o sandbox.Output, path string) output {
	return output{name: o.Name, digests: o.Digests, size: o.Size, release: func(context.Context) error {
		return p.space.Adopt(o.Name, path)
	}}
}

// copied prepares the release of a hashed file that a process may still have
// open: the copy is compared with the digest in the provenance, so exactly
// the hashed bytes are released.
func (p *products) copied(o sandbox.Output, path string) output {
	return output{name: o.Name, digests: o.Digests, size: o.Size, release: func(ctx context.Context) error {
		again, err := os.Open(path)
		if err != nil {
			return err
		}
		defer again.Close()
		body := digest.NewVerifyingReader(again, o.Digests.SHA256, o.Size)
		return p.space.Writer().Put(ctx, o.Name, o.Size, body, store.PutOptions{})
	}}
}

// openMade opens an output of an earlier step and verifies it while it is
// read.
func (p *products) openMade(ctx context.Context, name string) (io.ReadCloser, made, error) {
	m, err := p.taken(name)
	if err != nil {
		return nil, made{}, err
	}
	body, _, err := p.space.Files().Open(ctx, name)
	if err != nil {
		return nil, made{}, err
	}
	return verifying(body, m.digests, m.size), m, nil
}

// resources names outputs of earlier steps in provenance.
func (p *products) resources(names []string) (list []provenance.Resource, err error) {
	for _, name := range names {
		m, err := p.taken(name)
		if err != nil {
			return nil, err
		}
		list = append(list, provenance.File(name, m.digests))
	}
	return list, nil
}

func (p *products) put(ctx context.Context, name string, raw []byte) error {
	return p.space.Writer().Put(ctx, name, int64(len(raw)), bytes.NewReader(raw), store.PutOptions{})
}

// collect hashes the declared outputs. Everything in the output directory
// must be declared and regular; everything declared must exist.
func (r *run) collect(ctx context.Context, step plan.Step, dir string) (list []output, err error) {
	present, err := sandbox.Collect(ctx, dir, sandbox.OutputLimits{Names: append([]string{}, step.Outputs...)})
	if err != nil {
		return nil, err
	}
	found := slice.By(present, func(o sandbox.Output) string { return o.Name })
	for _, name := range step.Outputs {
		o, ok := found[name]
		if !ok {
			return nil, verdict.Refuse("OUTPUT_MISSING", name, "step %s declared this output but did not write it", step.Instance)
		}
		path := filepath.Join(dir, name)
		if r.Machine.Mode == sandbox.Unisolated {
			list = append(list, r.products.copied(o, path))
		} else {
			list = append(list, r.products.moved(o, path))
		}
	}
	return list, nil
}

// earlierTry is what an earlier attempt of this run left of a step.
type earlierTry struct {
	run  *run
	step plan.Step
}

// isDone reports whether the step is done: its provenance is valid, is of this
// run and still matches all inputs and outputs.
func (t *earlierTry) isDone(ctx context.Context) (bool, error) {
	raw, err := store.Read(ctx, t.run.Workspace.Files(), plan.ProvenanceName(t.step.Instance), verify.MaxBundle)
	if errors.Is(err, store.ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	e, err := t.run.Trust.Verifier.Attestation(raw)
	if err != nil {
		return false, nil //nolint:nilerr // invalid provenance is no error: the step runs again
	}
	said, err := provenance.Parse(e.Statement())
	if err != nil || t.run.Trust.Policy.Provenance(e, t.run.Plan.Version.String()) != nil || said.RunDetails.Metadata.InvocationID != t.run.Workspace.Identity().Invocation {
		return false, nil //nolint:nilerr // as above
	}
	return t.stillMadeOf(ctx, said) && t.stillThere(ctx, e) && t.stillV02(ctx), nil
}

// stillMadeOf reports whether the inputs of a finished step are still the
// current outputs of the earlier steps.
func (t *earlierTry) stillMadeOf(ctx context.Context, said provenance.Provenance) bool {
	for _, name := range t.step.Inputs() {
		m, err := t.run.products.taken(name)
		if err != nil || !said.Used(name).Equal(m.digests) {
			t.run.Report(ctx, "step %s runs again: its input %s has changed", t.step.Instance, name)
			return false
		}
	}
	return true
}

func (t *earlierTry) stillThere(ctx context.Context, e verify.Evidence) bool {
	found := map[string]made{}
	for _, name := range t.step.Outputs {
		m, err := t.rehash(ctx, name)
		if err != nil || !e.Covers(name, m.digests) {
			return false
		}
		found[name] = m
	}
	for name, m := range found {
		t.run.products.keep(name, m)
	}
	return true
}

// stillV02 reports whether the provenance in the legacy form exists, if
// planned. The seal compares it with the newer one.
func (t *earlierTry) stillV02(ctx context.Context) bool {
	if !t.run.Plan.ProvenanceV02 {
		return true
	}
	raw, err := store.Read(ctx, t.run.Workspace.Files(), plan.ProvenanceV02Name(t.step.Instance), verify.MaxBundle)
	if err != nil {
		return false
	}
	_, err = t.run.Trust.Verifier.Attestation(raw)
	return err == nil
}

// rehash hashes an existing output.
func (t *earlierTry) rehash(ctx context.Context, name string) (made, error) {
	if a, ok := t.run.Plan.Find(name); ok && a.IsImage() {
		return t.rehashImage(ctx, a)
	}
	body, _, err := t.run.Workspace.Files().Open(ctx, name)
	if err != nil {
		return made{}, err
	}
	defer body.Close()
	set, size, err := digest.Sum(body)
	return made{digests: set, size: size}, err
}

// rehashImage reads the manifest of an existing image.
func (t *earlierTry) rehashImage(ctx context.Context, a plan.Artifact) (made, error) {
	images := t.run.Workspace.Images()
	node, err := registry.Target{Source: images, Repository: a.Repository}.Graph(ctx, t.run.Plan.Version.ImageTag())
	if err != nil {
		return made{}, err
	}
	part := node.Part(a.InIndex())
	if part == nil {
		return made{}, registry.ErrNotFound
	}
	return made{digests: digest.SetOf(part.Raw), size: int64(len(part.Raw))}, nil
}
