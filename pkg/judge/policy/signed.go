package policy

import (
	"fmt"
	"time"

	signedpolicy "github.com/waybill-release/waybill/attestations/policy/v1"
	"github.com/waybill-release/waybill/pkg/judge/verify"
	"github.com/waybill-release/waybill/pkg/value/identity"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

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
