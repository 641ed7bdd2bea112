package vsa

import (
	"maps"
	"slices"
	"time"

	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// Question is what a summary must answer to count. Every field is asked; there
// is no value that means any.
type Question struct {
	// VerifierID is the one that the signer may speak for.
	VerifierID  string
	ResourceURI string
	// PolicyURI and Policy are the policy that was pinned.
	PolicyURI string
	Policy    digest.Digest
	// Levels are the least levels by track, such as "BUILD": 3.
	Levels map[string]int
	// Now is the time of judgement and MaxAge how old the summary may be.
	Now    time.Time
	MaxAge time.Duration
}

// Answer reports by an error why the summary is no yes to the question. That
// its signer may speak for the verifier, and that its subject is the artifact,
// is for the caller to ask of the evidence.
func (s Summary) Answer(q Question) error {
	if q.VerifierID == "" || q.ResourceURI == "" || q.PolicyURI == "" || q.Policy.IsZero() || len(q.Levels) == 0 || q.Now.IsZero() || q.MaxAge <= 0 {
		return verdict.Refuse(verdict.Usage, "summary", "the question leaves something open")
	}
	policy := s.Policy.Strong()
	age := q.Now.Sub(s.Verified)
	switch {
	case s.Verifier.ID != q.VerifierID:
		return differ(verdict.VSAVerifier, "another verifier judged", q.VerifierID, s.Verifier.ID)
	case s.ResourceURI != q.ResourceURI:
		return differ(verdict.VSAResource, "another resource was judged", q.ResourceURI, s.ResourceURI)
	case s.Policy.URI != q.PolicyURI:
		return differ(verdict.VSAPolicy, "it was judged by another policy", q.PolicyURI, s.Policy.URI)
	case !policy.SHA256.Equal(q.Policy) && !policy.SHA512.Equal(q.Policy):
		return differ(verdict.VSAPolicy, "it was judged by another text of the policy", q.Policy.String(), policy.SHA256.String())
	case s.Result != Passed:
		return differ(verdict.VSAResult, "it did not pass", string(Passed), string(s.Result))
	case s.Verified.IsZero():
		return verdict.Refuse(verdict.VSAStale, "summary", "it does not say when it was judged")
	case age > q.MaxAge || age < 0:
		return differ(verdict.VSAStale, "it is too old, or from the future", "at most "+q.MaxAge.String(), age.String())
	}
	for _, track := range slices.Sorted(maps.Keys(q.Levels)) {
		if n, ok := s.Level(track); !ok || n < q.Levels[track] {
			return verdict.Refuse(verdict.VSALevel, "summary", "level %d on track %s, want at least %d", n, track, q.Levels[track])
		}
	}
	return nil
}

func differ(code verdict.Code, message, want, got string) error {
	return &verdict.Error{Finding: verdict.Find(code, "summary", "%s", message).Differ(want, short(got))}
}
