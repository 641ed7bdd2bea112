package serve

import (
	"context"
	"fmt"
	"slices"

	"github.com/waybill-release/waybill/pkg/document/intoto"
	"github.com/waybill-release/waybill/pkg/document/vsa"
	"github.com/waybill-release/waybill/pkg/judge/verify"
	"github.com/waybill-release/waybill/pkg/serve/api"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// Summaries is how a gate vouches for what may be promoted: by a SLSA
// verification summary for each destination, which who asked attaches there.
// That of an override names what was excepted, as every summary of a verdict
// with exceptions does. The gate itself writes to no registry. The zero value
// signs none.
type Summaries struct {
	// Signer signs in the role verifier.
	Signer Signer
	// Verifier is for whom the signer speaks.
	Verifier vsa.Verifier
	// Policy is the address at which the policy can be read.
	Policy string
}

// Signer signs statements, as [*github.com/waybill-release/waybill/pkg/produce/sign.Signer]
// does.
type Signer interface {
	Statement(ctx context.Context, s intoto.Statement) ([]byte, verify.Evidence, error)
}

// String names those who are said to have judged, and by what.
func (s Summaries) String() string {
	if s.Signer == nil {
		return ""
	}
	return fmt.Sprintf("summaries by %q of %q", s.Verifier.ID, s.Policy)
}

// speakOf reports whether a decision is to be vouched for.
func (s Summaries) speakOf(a asked, got made) bool {
	return s.Signer != nil && a.Verb != api.Verify && got.verdict.Outcome() == verdict.Accepted
}

// summary is what is to be summarized: a question, the decision on it, and the
// key by which that is remembered.
type summary struct {
	asked
	made
	key string
}

// summarized is the decision with its summary. One decision has one summary for
// each destination, for as long as it is remembered, however many ask; that of
// an override is nobody else's. Where it cannot be signed nothing is decided:
// whoever counts on the verifier's word does not go on without it.
func (d *decider) summarized(ctx context.Context, basis *standing, of summary) (made, error) {
	remembered := &d.vouch
	if of.Verb == api.Override {
		remembered = new(cache)
	}
	got, _, err := remembered.get(ctx, fmt.Sprintf("%s to %q", of.key, of.To), d.world.Clock(), d.guarded(basis, of.asked, func(own context.Context) made {
		bundle, err := basis.Summaries.sign(own, of)
		if err == nil {
			d.world.Log.InfoContext(own, "summary signed", "image", of.Image, "to", of.To, "bundle", digest.Of(digest.SHA256, bundle).String())
			return made{verdict: of.verdict, until: of.until, summary: bundle}
		}
		d.world.Log.ErrorContext(own, "summary not signed", "image", of.Image, "to", of.To, "error", err.Error(), "code", string(verdict.FindingOf(of.To, err).Code))
		without := *of.verdict
		without.Findings = append(slices.Clone(without.Findings), verdict.Find(verdict.PlaceDown, of.To, "it would be accepted, but its summary could not be signed: %v", err))
		return made{verdict: &without}
	}))
	return got, err
}

// sign signs the summary of a decision: that every manifest of the image was
// judged for the destination that was asked about.
func (s Summaries) sign(ctx context.Context, of summary) ([]byte, error) {
	var subjects []intoto.Subject
	for _, in := range of.verdict.Inputs {
		if in.Place == of.Image && !in.Digest.IsZero() { // the others are documents that were read besides
			subjects = append(subjects, intoto.Subject{Name: of.To + "@" + in.Digest.String(), Digests: digest.Set{SHA256: in.Digest}})
		}
	}
	said, err := vsa.New(*of.verdict, vsa.Claim{Verifier: s.Verifier, Resource: of.To, Policy: s.Policy, Subjects: subjects, Artifacts: len(subjects)})
	if err != nil {
		return nil, err
	}
	bundle, _, err := s.Signer.Statement(ctx, said)
	return bundle, err
}
