package run

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"sync"

	"github.com/waybill-release/waybill/pkg/backend/store"
	"github.com/waybill-release/waybill/pkg/document/provenance"
	"github.com/waybill-release/waybill/pkg/produce/sandbox"
	"github.com/waybill-release/waybill/pkg/produce/workspace"
	"github.com/waybill-release/waybill/pkg/value/digest"
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
	if p.made == nil {
		p.made = map[string]made{}
	}
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
