package gate

import (
	"context"
	"slices"

	"github.com/waybill-release/waybill/pkg/verdict"
)

// ImageJudge decides about one image. [PolicyRequest] and [ManifestJudge] do.
type ImageJudge interface {
	Image(ctx context.Context, image Image) *verdict.Verdict
}

// Bench is judges who must all accept. The verdict is of the policy of the
// first; what the others find is added to it. A Bench of nobody accepts nothing.
type Bench []ImageJudge

// Image has every judge decide. The registry is asked each thing once for all
// of them.
func (b Bench) Image(ctx context.Context, image Image) *verdict.Verdict {
	if len(b) == 0 {
		v := verdict.New("image "+image.Name, verdict.Verdict{}.Time)
		v.Add(verdict.Find(verdict.PolicyEmpty, image.Name, "nobody was named who decides"))
		return v
	}
	image, done := remembered(image)
	defer done()
	v := b[0].Image(ctx, image)
	v.Settle(image.Name)
	for _, judge := range b[1:] {
		join(v, judge.Image(ctx, image))
	}
	return v
}

// join adds an answer to another. Neither outweighs the other: what is required
// is required of both.
func join(v, more *verdict.Verdict) {
	more.Settle(more.Question)
	v.Include(*more)
	v.Counts.Required += max(1, more.Counts.Required)
	v.Counts.Verified += more.Counts.Verified
	v.Counts.Excepted += more.Counts.Excepted
	v.Add(more.Findings...)
	v.Warn(more.Warnings...)
	v.Waived = append(v.Waived, more.Waived...)
	v.Proofs = append(v.Proofs, more.Proofs...)
	v.Levels = append(v.Levels, more.Levels...)
	v.Scope.Checks = union(v.Scope.Checks, more.Scope.Checks)
	v.Scope.Left = union(v.Scope.Left, more.Scope.Left)
	v.Notes = union(v.Notes, more.Notes)
	v.AddFeatures(more.Features...)
	for _, in := range more.Inputs {
		if !slices.Contains(v.Inputs, in) {
			v.Inputs = append(v.Inputs, in)
		}
	}
	if v.Least == nil {
		v.Least = more.Least
	}
}

// union adds what is not there yet.
func union(list, more []string) []string {
	for _, one := range more {
		if !slices.Contains(list, one) {
			list = append(list, one)
		}
	}
	return list
}
