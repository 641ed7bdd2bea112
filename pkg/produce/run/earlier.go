package run

import (
	"context"
	"errors"

	"github.com/waybill-release/waybill/pkg/backend/registry"
	"github.com/waybill-release/waybill/pkg/backend/store"
	"github.com/waybill-release/waybill/pkg/document/provenance"
	"github.com/waybill-release/waybill/pkg/judge/verify"
	"github.com/waybill-release/waybill/pkg/release/plan"
	"github.com/waybill-release/waybill/pkg/value/digest"
)

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
