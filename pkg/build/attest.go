package build

import (
	"bytes"
	"context"
	"errors"
	"time"

	"github.com/waybill-release/waybill/pkg/digest"
	"github.com/waybill-release/waybill/pkg/intoto"
	"github.com/waybill-release/waybill/pkg/plan"
	"github.com/waybill-release/waybill/pkg/provenance"
	"github.com/waybill-release/waybill/pkg/sandbox"
	"github.com/waybill-release/waybill/pkg/store"
	"github.com/waybill-release/waybill/pkg/verify"
)

// attest writes the provenance of a step, from what the control plane itself
// knows and hashed, and has the builder sign it.
func (r *run) attest(ctx context.Context, step plan.Step, out outputs, start time.Time) ([]byte, error) {
	subjects := make([]intoto.Subject, 0, len(out.list))
	for _, o := range out.list {
		subjects = append(subjects, intoto.Subject{Name: o.name, Digests: o.digests})
	}
	commit := r.Source.Commit
	if err := r.repo.CheckUnmoved(ctx, commit); err != nil {
		return nil, err
	}
	deps := append(r.Source.resources(), provenance.File(plan.ConfigName, digest.SetOf(r.Source.Config)))
	if r.Plan.Locked {
		deps = append(deps, provenance.File(plan.LockName, digest.SetOf(r.Source.Lock)))
	}
	statement, err := provenance.Encode(subjects, provenance.Predicate{
		BuildDefinition: provenance.BuildDefinition{
			BuildType: provenance.BuildType,
			ExternalParameters: provenance.ExternalParameters{
				Config: provenance.Config{
					Repository: commit.Repository, Ref: commit.AskedFor(), Path: plan.ConfigName,
					SHA256: digest.Of(digest.SHA256, r.Source.Config).Hex(),
				},
				Version: r.Plan.Version.String(), Step: step.Name, Each: step.Each, Parameters: r.Plan.Parameters,
			},
			InternalParameters:   provenance.InternalParameters{Isolation: string(r.isolation(step)), Command: out.command, Env: out.env, Tag: r.Source.tag()},
			ResolvedDependencies: append(deps, out.inputs...),
		},
		RunDetails: provenance.RunDetails{
			Builder:  provenance.BuilderID{ID: BuilderID(r.Mode)},
			Metadata: provenance.Metadata{InvocationID: r.Workspace.Identity().Invocation, StartedOn: start.UTC(), FinishedOn: r.Trust.Clock().UTC()},
		},
	})
	if err != nil {
		return nil, err
	}
	bundle, _, err := r.Signer.Statement(ctx, statement)
	return bundle, err
}

// BuilderID is the builder that a mode of isolation is. Each has its own
// signing identity.
func BuilderID(m sandbox.Mode) string {
	if m == sandbox.Isolated {
		return provenance.BuilderIsolated
	}
	return provenance.BuilderUnisolated
}

// isolation of a step: archives and images are made by the control plane
// itself and run nothing of the source.
func (r *run) isolation(step plan.Step) sandbox.Mode {
	if len(step.Run) == 0 {
		return "control-plane"
	}
	return r.Mode
}

// reuse takes over a finished step, if its provenance holds, is of this very
// run and still fits every output.
func (r *run) reuse(ctx context.Context, step plan.Step) (bool, error) {
	raw, err := store.Read(ctx, r.Workspace.Files(), plan.ProvenanceName(step.Instance), verify.MaxBundle)
	if errors.Is(err, store.ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	e, err := r.Trust.Verifier.Attestation(raw)
	if err != nil {
		return false, nil //nolint:nilerr // provenance that does not hold is no reason to stop: the step runs again
	}
	said, err := provenance.Parse(e.Statement())
	if err != nil || r.Trust.Policy.Provenance(e, r.Plan.Version.String()) != nil || said.RunDetails.Metadata.InvocationID != r.Workspace.Identity().Invocation {
		return false, nil //nolint:nilerr // as above
	}
	return r.stillThere(ctx, step, e), nil
}

func (r *run) stillThere(ctx context.Context, step plan.Step, e verify.Evidence) bool {
	found := map[string]made{}
	for _, name := range step.Outputs {
		m, err := r.rehash(ctx, name)
		if err != nil || !e.Covers(name, m.digests) {
			return false
		}
		found[name] = m
	}
	for name, m := range found {
		r.made[name] = m
	}
	return true
}

// rehash reads an output that is there already.
func (r *run) rehash(ctx context.Context, name string) (made, error) {
	if a, ok := r.Plan.Find(name); ok && a.IsImage() {
		return r.rehashImage(ctx, a)
	}
	body, _, err := r.Workspace.Files().Open(ctx, name)
	if err != nil {
		return made{}, err
	}
	defer body.Close()
	set, size, err := digest.Sum(body)
	return made{digests: set, size: size}, err
}

func (r *run) put(ctx context.Context, name string, raw []byte) error {
	return r.Workspace.Writer().Put(ctx, name, int64(len(raw)), bytes.NewReader(raw), store.PutOptions{})
}

func removeAll(dir string) {
	_ = sandbox.Remove(dir) // a scratch directory that stays is in nobody's way
}
