package gate

import (
	"context"
	"slices"
	"time"

	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// ImageJudge decides about one image. [PolicyRequest] and [ManifestJudge] do.
type ImageJudge interface {
	Image(ctx context.Context, image Image) *verdict.Verdict
}

// Bench is judges who must all accept. The verdict is of the policy of the
// first; what the others find is added to it. An empty Bench accepts nothing.
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
		more := judge.Image(ctx, image)
		more.Settle(more.Question)
		merge(v, more)
		if v.Least == nil {
			v.Least = more.Least
		}
	}
	return v
}

// Several decides about several things, each by itself, and puts the answers
// together. What is asked is called question.
func Several(question string, answers ...*verdict.Verdict) *verdict.Verdict {
	if len(answers) == 1 {
		return answers[0]
	}
	all := merged{v: verdict.New(question, time.Time{})}
	for i, one := range answers {
		if i == 0 {
			all.v.Time = one.Time
		}
		one.Settle(one.Question)
		all.add(one)
	}
	return all.v
}

// merged is one verdict of several answers. It has no least level, which is of
// each of them.
type merged struct {
	v   *verdict.Verdict
	any bool // answers
}

// add adds an answer. The verdict names a policy if all answers are by that one.
func (m *merged) add(answer *verdict.Verdict) {
	switch {
	case !m.any:
		m.any, m.v.Policy, m.v.TrustRoot = true, answer.Policy, answer.TrustRoot
	case m.v.Policy != answer.Policy:
		m.v.Policy = digest.Digest{}
	}
	m.v.Groups = append(m.v.Groups, answer.Groups...)
	merge(m.v, answer)
}

// merge adds an answer to a verdict: what is required in either of them is
// required. An answer that a proof may be missing of is settled before.
func merge(v, answer *verdict.Verdict) {
	v.Include(*answer)
	v.Counts.Required += max(1, answer.Counts.Required)
	v.Counts.Verified += answer.Counts.Verified
	v.Counts.Excepted += answer.Counts.Excepted
	v.Add(answer.Findings...)
	v.Warn(answer.Warnings...)
	v.Waived = append(v.Waived, answer.Waived...)
	v.Proofs = append(v.Proofs, answer.Proofs...)
	v.Levels = append(v.Levels, answer.Levels...)
	v.Scope.Checks = union(v.Scope.Checks, answer.Scope.Checks)
	v.Scope.Left = union(v.Scope.Left, answer.Scope.Left)
	v.Notes = union(v.Notes, answer.Notes)
	v.Inputs = union(v.Inputs, answer.Inputs)
	v.AddFeatures(answer.Features...)
}

// union adds to a list what it does not have yet.
func union[T comparable](list, more []T) []T {
	for _, one := range more {
		if !slices.Contains(list, one) {
			list = append(list, one)
		}
	}
	return list
}
