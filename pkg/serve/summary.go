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

// Summaries configures how a gate attests promotions: by a SLSA verification
// summary for each destination, which the caller attaches there. The summary of
// an override names the exceptions. The gate itself writes to no registry. The
// zero value signs none.
type Summaries struct {
	// Signer signs in the role verifier.
	Signer Signer
	// Verifier is the identity in the summaries.
	Verifier vsa.Verifier
	// Policy is the address at which the policy can be read.
	Policy string
}

// Signer signs statements, as [*github.com/waybill-release/waybill/pkg/produce/sign.Signer]
// does.
type Signer interface {
	Statement(ctx context.Context, s intoto.Statement) ([]byte, verify.Evidence, error)
}

// String names the verifier and the policy in the summaries.
func (s Summaries) String() string {
	if s.Signer == nil {
		return ""
	}
	return fmt.Sprintf("summaries by %q of %q", s.Verifier.ID, s.Policy)
}

func (s Summaries) wants(a asked, got made) bool {
	return s.Signer != nil && (a.Verb == api.Promote || a.Verb == api.Override) && got.verdict.Outcome() == verdict.Accepted
}

// summary is what is to be summarized: a question, its decision, and its cache
// key.
type summary struct {
	asked
	made
	key string
}

// summarized returns the decision with its summary. Each decision has one
// cached summary for each destination, shared by all callers; that of an
// override is not shared. If signing fails, the decision is unavailable: a
// caller that relies on the summary must not proceed without it.
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
		d.world.Log.ErrorContext(own, "summary could not be signed", "image", of.Image, "to", of.To, "error", err.Error(), "code", string(verdict.FindingOf(of.To, err).Code))
		without := *of.verdict
		without.Findings = append(slices.Clone(without.Findings), verdict.Find(verdict.PlaceDown, of.To, "the image would be accepted, but its summary could not be signed: %v", err))
		return made{verdict: &without}
	}))
	return got, err
}

// sign signs the summary of a decision: that every manifest of the image was
// judged for the requested destination.
func (s Summaries) sign(ctx context.Context, of summary) ([]byte, error) {
	var subjects []intoto.Subject
	for _, in := range of.verdict.Inputs {
		if in.Place == of.Image && !in.Digest.IsZero() { // the others are documents that were also read
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
