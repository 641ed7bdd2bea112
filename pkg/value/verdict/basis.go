package verdict

import "slices"

// Basis says what an acceptance has to rest on. The zero Basis is the
// strictest, and so is one that is unknown: a verdict that was stored before
// verdicts had one needs a proof.
type Basis string

const (
	// Signed demands a proof: a signature that was verified, of what was asked
	// about or of a document that names it.
	Signed Basis = ""
	// Checked is for questions that no signature answers, such as whether a
	// document has the form that its specification asks. It is never for a
	// release, a file, an image or a promotion: see [NewCheck].
	Checked Basis = "checks"
	// InsecureUnsigned is for what a policy accepts although nothing about it is
	// signed, because the policy says in a word of its own that it may. The
	// headline of such a verdict begins with UNSIGNED.
	InsecureUnsigned Basis = "insecure-unsigned"
)

// roleOfficer is the role of who signs policies, exceptions and lists of
// defects. What it signs is about findings, so it proves nothing of an artifact.
const roleOfficer = "policy"

// Proven reports whether something that is signed speaks for what was asked
// about.
func (v Verdict) Proven() bool {
	return slices.ContainsFunc(v.Proofs, func(p Proof) bool { return !p.IsZero() && p.Role != roleOfficer })
}

// supported reports whether v rests on what its basis demands.
func (v Verdict) supported() bool {
	return v.Basis == Checked || v.Basis == InsecureUnsigned || v.Proven()
}

// Unsigned reports whether v accepts something about which nothing is signed.
func (v Verdict) Unsigned() bool { return v.Basis == InsecureUnsigned && v.Outcome() == Accepted }

// Settle ends a verdict about one thing: if nothing stands against it and
// nothing about it is proven by a signature, that is a finding about subject.
// A verdict of another basis, and one that has findings, stays as it is.
func (v *Verdict) Settle(subject string) {
	if v.supported() || len(v.standing()) > 0 {
		return
	}
	v.Add(Find(NoProof, subject, "nothing that is signed speaks for it"))
}

// SettleInsecureUnsigned is [Verdict.Settle] under a policy that accepts what
// nothing signed speaks for. The verdict then says so.
func (v *Verdict) SettleInsecureUnsigned() {
	if !v.Proven() {
		v.Basis = InsecureUnsigned
	}
}

// Include has v rest on no more than an answer that becomes a part of it: a
// verdict of several things of which one is accepted unsigned says UNSIGNED.
func (v *Verdict) Include(part Verdict) {
	if part.Unsigned() {
		v.Basis = InsecureUnsigned
	}
}
