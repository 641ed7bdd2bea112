package verdict

import "slices"

// Basis says what an acceptance must be based on. The zero Basis and an unknown
// one are the strictest: a verdict stored before verdicts had a basis needs a
// proof.
type Basis string

const (
	// Signed requires a proof: a verified signature over the subject of the
	// question, or over a document that names it.
	Signed Basis = ""
	// Checked is for questions that no signature answers, such as whether a
	// document follows its specification. It is never used for a release, a
	// file, an image or a promotion: see [NewCheck].
	Checked Basis = "checks"
	// InsecureUnsigned is for unsigned subjects that a policy accepts because a
	// key of the policy explicitly allows it. The headline of such a verdict
	// begins with UNSIGNED.
	InsecureUnsigned Basis = "insecure-unsigned"
)

// roleOfficer is the role that signs policies, exceptions and lists of defects.
// These documents are about findings, so they prove nothing about an artifact.
const roleOfficer = "policy"

// Proven reports whether a verified signature covers the subject of the question.
func (v Verdict) Proven() bool {
	return slices.ContainsFunc(v.Proofs, func(p Proof) bool { return !p.IsZero() && p.Role != roleOfficer })
}

// IsCheck reports whether v answers a question that no signature answers.
func (v Verdict) IsCheck() bool { return v.Basis == Checked }

// meetsBasis reports whether v has what its basis requires.
func (v Verdict) meetsBasis() bool {
	return v.Basis == Checked || v.Basis == InsecureUnsigned || v.Proven()
}

// Unsigned reports whether v accepts something unsigned.
func (v Verdict) Unsigned() bool { return v.Basis == InsecureUnsigned && v.Outcome() == Accepted }

// Settle ends a verdict about one subject: without findings and without a proof,
// the missing proof becomes a finding. A verdict of another basis, or one that has
// findings, is not changed.
func (v *Verdict) Settle(subject string) {
	if v.meetsBasis() || len(v.unwaived()) > 0 {
		return
	}
	v.Add(Find(NoProof, subject, "no verified signature covers it"))
}

// SettleInsecureUnsigned is [Verdict.Settle] under a policy that accepts unsigned
// subjects. The verdict then says UNSIGNED.
func (v *Verdict) SettleInsecureUnsigned() {
	if !v.Proven() {
		v.Basis = InsecureUnsigned
	}
}

// Include weakens the basis of v to that of a part: a verdict about several
// subjects, one of which was accepted unsigned, says UNSIGNED. It also takes over
// the sentences of the part, and what the policy does not require.
func (v *Verdict) Include(part Verdict) {
	if part.Unsigned() {
		v.Basis = InsecureUnsigned
	}
	for _, sentence := range part.Sentences {
		if len(v.Sentences) < maxSentences && !slices.Contains(v.Sentences, sentence) {
			v.Sentences = append(v.Sentences, sentence)
		}
	}
	for _, lacks := range part.Scope.NotRequired {
		if !slices.Contains(v.Scope.NotRequired, lacks) {
			v.Scope.NotRequired = append(v.Scope.NotRequired, lacks)
		}
	}
}

// maxSentences is how many sentences a verdict about several subjects has at most.
const maxSentences = 20
