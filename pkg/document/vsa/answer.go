package vsa

import (
	"maps"
	"slices"
	"time"

	"github.com/waybill-release/waybill/pkg/tool/pattern"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// Question is what a summary must match to count. Every field is required, except
// as AnyCommit says; no other value means "any".
type Question struct {
	// VerifierID is the one that the signer may sign for.
	VerifierID  string
	ResourceURI string
	// PolicyURI and Policy are the pinned policy.
	PolicyURI string
	Policy    digest.Digest
	// AnyCommit accepts, in place of Policy, any version of the policy that the
	// summary names by its Git commit. Levels and MaxAge may then be left out:
	// such a summary is written once, and its levels are only shown.
	AnyCommit bool
	// Levels are the minimum levels by track, such as "BUILD": 3.
	Levels map[string]int
	// Now is the time of verification, and MaxAge the maximum age of the
	// summary.
	Now    time.Time
	MaxAge time.Duration
}

// Answer returns an error if the summary does not match the question. The
// caller checks in the evidence that the signer may sign for the verifier, and
// that the subject is the artifact.
func (s Summary) Answer(q Question) error {
	if q.VerifierID == "" || q.ResourceURI == "" || q.PolicyURI == "" || q.Now.IsZero() || q.AnyCommit != q.Policy.IsZero() ||
		!q.AnyCommit && (len(q.Levels) == 0 || q.MaxAge <= 0) {
		return verdict.Refuse(verdict.Usage, "summary", "the question has an empty field")
	}
	policy := s.Policy.Strong()
	age := q.Now.Sub(s.Verified)
	switch {
	case s.Verifier.ID != q.VerifierID:
		return differ(verdict.VSAVerifier, "the summary is by another verifier", q.VerifierID, s.Verifier.ID)
	case s.ResourceURI != q.ResourceURI:
		return differ("VSA_RESOURCE", "the summary is about another resource", q.ResourceURI, s.ResourceURI)
	case s.Policy.URI != q.PolicyURI:
		return differ("VSA_POLICY", "the summary is by another policy", q.PolicyURI, s.Policy.URI)
	case q.AnyCommit && !gitCommit().MatchString(s.Policy.Digest["gitCommit"]):
		return differ("VSA_POLICY", "the summary does not name the commit of the policy", "a gitCommit", s.Policy.Digest["gitCommit"])
	case !q.AnyCommit && !policy.SHA256.Equal(q.Policy) && !policy.SHA512.Equal(q.Policy):
		return differ("VSA_POLICY", "the summary is by another version of the policy", q.Policy.String(), policy.SHA256.String())
	case s.Result != Passed:
		return differ(verdict.VSAResult, "the result is not PASSED", string(Passed), string(s.Result))
	case s.Verified.IsZero():
		return verdict.Refuse(verdict.VSAStale, "summary", "the summary has no time of verification")
	case age < 0, q.MaxAge > 0 && age > q.MaxAge:
		return differ(verdict.VSAStale, "the summary is too old, or from the future", "at most "+q.MaxAge.String(), age.String())
	}
	for _, track := range slices.Sorted(maps.Keys(q.Levels)) {
		if n, ok := s.Level(track); !ok || n < q.Levels[track] {
			return verdict.Refuse("VSA_LEVEL", "summary", "level %d on track %s, want at least %d", n, track, q.Levels[track])
		}
	}
	return nil
}

// gitCommit is the name of a commit, by SHA-1 or SHA-256.
var gitCommit = pattern.Lazy(`\A(?:[0-9a-f]{40}|[0-9a-f]{64})\z`)

func differ(code verdict.Code, message, want, got string) error {
	return &verdict.Error{Finding: verdict.Find(code, "summary", "%s", message).Differ(want, short(got))}
}
