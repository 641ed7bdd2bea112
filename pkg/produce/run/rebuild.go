package run

import (
	"context"
	"slices"

	"github.com/waybill-release/waybill/pkg/document/provenance"
	"github.com/waybill-release/waybill/pkg/release/plan"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// The codes of rebuilds, with [verdict.RebuildMismatch]. Only the first is an
// answer about what is rebuilt.
const (
	RebuildClaim         verdict.Code = "REBUILD_CLAIM"
	RebuildFailed        verdict.Code = "REBUILD_FAILED"
	SourceGone           verdict.Code = "SOURCE_GONE"
	ToolchainUnavailable verdict.Code = "TOOLCHAIN_UNAVAILABLE"
	InputGone            verdict.Code = "INPUT_GONE"
)

// unfetched is why no step was run: an input could not be fetched.
func (r *run) unfetched(err error) error {
	if !r.Rebuild {
		return err
	}
	return &verdict.Error{Finding: verdict.Find(InputGone, "inputs", "no step was run: %v", err), Cause: err}
}

// HasTool refuses if the program of this machine is not the one that provenance
// names: every digest is compared, that of its directory tree included.
func HasTool(program string, named provenance.Resource) error {
	t, err := findTool(program)
	if err != nil {
		return verdict.Refuse(ToolchainUnavailable, named.Name, "%s is not installed; the provenance names sha256:%s", program, named.Digest["sha256"])
	}
	for algorithm, want := range named.Digest {
		got := t.resource.Digest[algorithm]
		if algorithm == "dirHash" && t.tree != nil {
			if got, err = t.tree(); err != nil {
				return err
			}
		}
		if got != "" && got != want || got == "" && algorithm == "sha256" {
			return &verdict.Error{Finding: verdict.Find(ToolchainUnavailable, named.Name, "%s on this machine is not the one that the provenance names", program).Differ(algorithm+":"+want, algorithm+":"+got)}
		}
	}
	return nil
}

// fetchBases fetches the base images of a rebuild before its first step.
func (r *run) fetchBases(ctx context.Context) error {
	for _, step := range r.Plan.Steps {
		if step.Image == nil || step.Image.Import != "" || !r.Rebuild {
			continue
		}
		if _, _, err := r.base(ctx, step.Image.Base); err != nil {
			return err
		}
	}
	return nil
}

// Needs returns the wanted steps, with the steps whose outputs they use.
func Needs(steps []plan.Step, wanted func(plan.Step) bool) (needed []plan.Step) {
	var inputs []string
	for _, step := range slices.Backward(steps) {
		if wanted(step) || slices.ContainsFunc(step.Outputs, func(name string) bool { return slices.Contains(inputs, name) }) {
			needed, inputs = append(needed, step), append(inputs, step.Inputs()...)
		}
	}
	slices.Reverse(needed)
	return needed
}
