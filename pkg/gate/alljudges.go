package gate

import (
	"context"
	"slices"
	"time"

	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// ImageJudge decides about one image: [PolicyRequest], [ManifestJudge] or
// [AllJudges].
type ImageJudge interface {
	Image(ctx context.Context, image Image) *verdict.Verdict
}

// AllJudges accepts only if every judge accepts. The verdict names the policy
// of the first and has the findings of all. An empty AllJudges accepts nothing.
type AllJudges []ImageJudge

// Image asks every judge. Each registry request is made once for all of them.
func (b AllJudges) Image(ctx context.Context, image Image) *verdict.Verdict {
	if len(b) == 0 {
		v := verdict.New("image "+image.Name, verdict.Verdict{}.Time)
		v.Add(verdict.Find(verdict.PolicyEmpty, image.Name, "no policy was named to decide by"))
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

// Several joins verdicts about several things into one about the question.
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

// merged is one verdict made of several. It has no least level; each answer has
// its own.
type merged struct {
	v   *verdict.Verdict
	any bool // has at least one answer
}

// add adds an answer. The verdict names a policy if all answers have the same.
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

// merge adds an answer to a verdict: the requirements of both are required. An
// answer must be settled before, in case it lacks a proof.
func merge(v, answer *verdict.Verdict) {
	v.Include(*answer)
	v.Counts.Required += max(1, answer.Counts.Required)
	v.Counts.Verified += answer.Counts.Verified
	v.Counts.Excepted += answer.Counts.Excepted
	v.Add(answer.Findings...)
	v.Warn(answer.Warnings...)
	v.Waived = append(v.Waived, answer.Waived...)
	v.Proofs = append(v.Proofs, answer.Proofs...)
	v.Levels = joined(append(v.Levels, answer.Levels...))
	v.Scope.Checks = union(v.Scope.Checks, answer.Scope.Checks)
	v.Scope.Left = union(v.Scope.Left, answer.Scope.Left)
	v.Notes = union(v.Notes, answer.Notes)
	v.Inputs = union(v.Inputs, answer.Inputs)
	v.AddFeatures(answer.Features...)
}

func joined(all []verdict.Levels) (out []verdict.Levels) {
	for _, on := range all {
		i := slices.IndexFunc(out, func(o verdict.Levels) bool { return o.Track == on.Track })
		if i < 0 {
			i = len(out)
			out = append(out, verdict.Levels{})
		}
		out[i].Join(on)
	}
	return out
}

// union adds to a list the elements that it lacks.
func union[T comparable](list, more []T) []T {
	for _, one := range more {
		if !slices.Contains(list, one) {
			list = append(list, one)
		}
	}
	return list
}
