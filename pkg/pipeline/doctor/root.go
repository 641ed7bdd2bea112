package doctor

import (
	"errors"
	"time"

	"github.com/waybill-release/waybill/pkg/judge/policy"
	"github.com/waybill-release/waybill/pkg/judge/trust"
	"github.com/waybill-release/waybill/pkg/tool/plural"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// rootMaxAge is the age at which a copy of a trust root should be updated.
const rootMaxAge = 90 * 24 * time.Hour

// Root says whether a trust root can be used now: one currently valid
// authority of each kind.
func Root(r trust.Root, now time.Time) Check {
	if r.IsZero() {
		return Fault("trust root", verdict.Refuse(verdict.TrustRootParse, "trust root", "no trust root was loaded"))
	}
	valid := map[trust.Kind]int{}
	for _, a := range r.Authorities() {
		if a.ValidAt(now) {
			valid[a.Kind]++
		}
	}
	for _, kind := range []trust.Kind{trust.CertificateAuthority, trust.TransparencyLog, trust.TimestampAuthority} {
		if valid[kind] == 0 {
			return Fault("trust root", verdict.Refuse(verdict.KeyExpired, "trust root", "no %s in the trust root is valid at %s", kind, now.UTC().Format(time.RFC3339)))
		}
	}
	switch age := now.Sub(r.Date()); {
	case r.IsLab():
		return Doubt("trust root", "for real releases, use the trust root of a real instance", "%s is of an INSECURE LAB, whose keys are not secret", r.Digest())
	case !r.Date().IsZero() && age > rootMaxAge:
		return Doubt("trust root", "waybill trust update", "%s is %s old", r.Digest(), plural.Of(int(age.Hours()/24), "day"))
	}
	return Fine("trust root", "%s has a valid authority of each kind", r.Digest())
}

// Policy says whether a policy can be used now, with this trust root.
func Policy(p policy.Policy, r trust.Root, now time.Time) Check {
	if err := errors.Join(p.Life(now), p.Root(r.IsLab(), r.Date(), now)); err != nil {
		return Fault("policy", err)
	}
	return Fine("policy", "%s, %s", p.Name(), p.Digest())
}
