package policy

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	signedpolicy "github.com/waybill-release/waybill/attestations/policy/v1"
	"github.com/waybill-release/waybill/pkg/judge/verify"
	"github.com/waybill-release/waybill/pkg/release/plan"
	"github.com/waybill-release/waybill/pkg/tool/slice"
	"github.com/waybill-release/waybill/pkg/value/identity"
	"github.com/waybill-release/waybill/pkg/value/verdict"
	"github.com/waybill-release/waybill/pkg/value/version"
)

// allowedSigner is an identity in a role, with the time window in which it may
// act.
type allowedSigner struct {
	matcher identity.Matcher
	exact   identity.Identity // zero for a pattern
	from    time.Time
	until   time.Time // zero: no end
	claims  map[string]string
	stages  []Stage // nil: at every stage
	classes []plan.Class
}

// Who returns the signer of evidence: the identity in the certificate, or the
// key if there is no certificate.
func Who(e verify.Evidence) identity.Identity {
	if !e.Key().IsZero() {
		return identity.OfKey(e.Key())
	}
	return e.Identity()
}

// String is the identity, pattern or key.
func (s allowedSigner) String() string { return s.matcher.String() }

// Window says when the identity may act, empty if always.
func (s allowedSigner) Window() string {
	var words []string
	for _, end := range []struct {
		word string
		at   time.Time
	}{{"from ", s.from}, {"until ", s.until}} {
		switch {
		case end.at.IsZero():
		case end.at.Equal(end.at.Truncate(24 * time.Hour)):
			words = append(words, end.word+end.at.Format(time.DateOnly))
		default: // the day alone would not tell it from a signature of that day
			words = append(words, end.word+end.at.UTC().Format(time.RFC3339))
		}
	}
	return strings.Join(words, " ")
}

// valid reports whether the identity may act at a time.
func (s *allowedSigner) valid(at time.Time) bool {
	return !at.Before(s.from) && (s.until.IsZero() || at.Before(s.until))
}

// narrowed reports whether the identity is limited to some stages or classes.
func narrowed(s allowedSigner) bool { return s.stages != nil || s.classes != nil }

// over reports whether the identity may sign for a question. An identity that
// is limited to classes may not sign anything without a class, such as a
// manifest.
func (s *allowedSigner) over(q *Question) bool {
	return (s.stages == nil || slices.Contains(s.stages, q.Stage)) && (s.classes == nil || slices.Contains(s.classes, q.Class))
}

// words describes the class and stage of a question.
func (q *Question) words() string {
	if q.Class == "" {
		return "the release as a whole"
	}
	return string(q.Class) + " at stage " + string(q.Stage)
}

// claimed reports whether the certificate has all required claims, for the
// version of a question. A check that is made before the version is known accepts
// any version; a decision does not.
func (s *allowedSigner) claimed(f *fact, q *Question) bool {
	if len(s.claims) == 0 {
		return true
	}
	said := maps.Collect(f.certified().All())
	for name, value := range s.claims {
		if before, after, tied := strings.Cut(value, versionPlaceholder); tied && q.Version == "" {
			text, begins := strings.CutPrefix(said[name], before)
			text, ends := strings.CutSuffix(text, after)
			if _, err := version.Parse(text); err != nil || !begins || !ends || q.decides {
				return false
			}
		} else if said[name] != strings.Replace(value, versionPlaceholder, q.Version, 1) {
			return false
		}
	}
	return true
}

// versionPlaceholder stands for the version of the release.
const versionPlaceholder = "{version}"

// holders lists the identities that may act in a role.
func (a *actors) holders(role Role) (all []allowedSigner) {
	for _, one := range a.entries {
		if one.role == role {
			all = append(all, one.signers...)
		}
	}
	return all
}

// first returns one identity of a role, for messages.
func (a *actors) first(role Role) string {
	if all := a.holders(role); len(all) > 0 {
		return all[0].String()
	}
	return "no identity"
}

// Expected lists the identities that may act in a role, for messages.
func (p Policy) Expected(role Role) []string {
	return slice.Map(p.actors.holders(role), allowedSigner.String)
}

// Matchers are what the identities of a role match in a policy, at any time.
func (r Role) Matchers(p Policy) []identity.Matcher {
	return slice.Map(p.actors.holders(r), func(s allowedSigner) identity.Matcher { return s.matcher })
}

// AtAnyTime is a policy in which the identities of the role may act at any time. What it
// accepts may have been signed with an identity that was stolen: use it only to withdraw.
func (r Role) AtAnyTime(p Policy) Policy {
	p.actors.entries = slices.Clone(p.actors.entries)
	for i, one := range p.actors.entries {
		if one.role == r {
			one.signers = slices.Clone(one.signers)
			for j := range one.signers {
				one.signers[j].from, one.signers[j].until = time.Time{}, time.Time{}
			}
			p.actors.entries[i] = one
		}
	}
	return p
}

// Pin is what is known about a policy from outside: its name, its required
// signer, and its lowest accepted number.
type Pin struct {
	Name     string
	Signer   identity.Matcher
	Sequence int
}

// Signed refuses a policy unless its officer signed these very bytes, with this
// number, which is not lower than the pinned one. raw must be the text that p
// was parsed from.
func (p Policy) Signed(e verify.Evidence, raw []byte, pin Pin, now time.Time) error {
	differ := func(code verdict.Code, message, want, got string) error {
		return &verdict.Error{Finding: verdict.Find(code, p.name, "%s", message).Differ(want, got).Citing(e.Bundle())}
	}
	switch {
	case e.IsZero():
		return verdict.Refuse(verdict.PolicySig, p.name, "the policy is unsigned")
	case !pin.Signer.Match(e.Identity()):
		return differ(verdict.PolicySig, "the policy is signed by another identity", pin.Signer.String(), e.Identity().String())
	case e.Kind() != signedpolicy.PredicateType:
		return differ(verdict.PolicySig, "the signed statement is not a policy", signedpolicy.PredicateType, e.Kind())
	}
	said, err := signedpolicy.Parse(e.Statement())
	if err != nil {
		return verdict.Wrap(verdict.PolicySig, p.name, err)
	}
	if err := said.Names(raw); err != nil {
		return verdict.Wrap(verdict.PolicySig, p.name, err)
	}
	switch {
	case p.name != pin.Name:
		return differ(verdict.PolicySig, "the policy is not the pinned one", pin.Name, p.name)
	case said.Name != p.name || said.Sequence != p.validity.sequence || !said.Expires.Equal(p.validity.expires):
		return differ(verdict.PolicySig, "the signature covers another policy, number or expiry",
			fmt.Sprintf("%s %d until %s", p.name, p.validity.sequence, p.validity.expires), fmt.Sprintf("%s %d until %s", said.Name, said.Sequence, said.Expires))
	case p.validity.sequence < max(pin.Sequence, 1):
		return differ(verdict.PolicyStale, "the policy is older than the pinned number", fmt.Sprint(pin.Sequence), fmt.Sprint(p.validity.sequence))
	}
	return p.Life(now)
}
