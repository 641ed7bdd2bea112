package doctor

import (
	"errors"
	"time"

	"github.com/waybill-release/waybill/pkg/judge/policy"
	"github.com/waybill-release/waybill/pkg/judge/trust"
	"github.com/waybill-release/waybill/pkg/tool/plural"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// old is the age at which a copy of a trust root should be looked at.
const old = 90 * 24 * time.Hour

// Root says whether a trust root can judge now: an authority of each kind in
// its time.
func Root(r trust.Root, now time.Time) Check {
	if r.IsZero() {
		return Fault("trust root", verdict.Refuse(verdict.TrustRootParse, "trust root", "there is none"))
	}
	valid := map[trust.Kind]int{}
	for _, a := range r.Authorities() {
		if a.ValidAt(now) {
			valid[a.Kind]++
		}
	}
	for _, kind := range []trust.Kind{trust.CertificateAuthority, trust.TransparencyLog, trust.TimestampAuthority} {
		if valid[kind] == 0 {
			return Fault("trust root", verdict.Refuse(verdict.KeyExpired, "trust root", "no %s of it is believed at %s", kind, now.UTC().Format(time.RFC3339)))
		}
	}
	switch age := now.Sub(r.Date()); {
	case r.IsLab():
		return Doubt("trust root", "for anything real, name the trust root of a real instance", "%s is an INSECURE LAB: anybody can have its keys", r.Digest())
	case !r.Date().IsZero() && age > old:
		return Doubt("trust root", "waybill trust update", "%s is %s old", r.Digest(), plural.Of(int(age.Hours()/24), "day"))
	}
	return Fine("trust root", "%s believes an authority of each kind now", r.Digest())
}

// Policy says whether a policy can judge now, by this trust root.
func Policy(p policy.Policy, r trust.Root, now time.Time) Check {
	if err := errors.Join(p.Life(now), p.Root(r.IsLab())); err != nil {
		return Fault("policy", err)
	}
	return Fine("policy", "%s, %s", p.Name(), p.Digest())
}
