package attacks

import (
	"testing"

	bundlepb "github.com/sigstore/protobuf-specs/gen/pb-go/bundle/v1"
	"github.com/sigstore/sigstore-go/pkg/sign"

	"github.com/waybill-release/waybill/pkg/judge/verify"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
	"github.com/waybill-release/waybill/test/lab"
)

// TestThresholds: a party that speaks twice is still one party (A15, C14).
func TestThresholds(t *testing.T) {
	w := theWorld(t)
	a := w.author(t, lab.RoleRelease)
	set := digest.SetOf([]byte(artifact))
	stamper := sign.NewTimestampAuthority(&sign.TimestampAuthorityOptions{URL: w.Lab.TSA})
	once := encode(t, a.sign(t, blob()))
	twice := encode(t, a.sign(t, blob(), func(o *sign.BundleOptions) {
		o.TimestampAuthorities = []*sign.TimestampAuthority{stamper, stamper}
	}))
	rows := []struct {
		name  string
		rules verify.Rules
		raw   []byte
		codes []verdict.Code
	}{
		{"one of each", verify.Default(), once, nil},
		{"one of each, stamped twice", verify.Default(), twice, nil},
		{"A15 two times wanted, one given", verify.Rules{Logs: 1, Times: 2, SCTs: 1}, once, codes(verdict.Threshold)},
		{"C14 two times wanted, one authority gave two", verify.Rules{Logs: 1, Times: 2, SCTs: 1}, twice, codes(verdict.Threshold)},
		{"C14 two logs wanted, one given", verify.Rules{Logs: 2, Times: 1, SCTs: 1}, once, codes(verdict.Threshold)},
		{"C14 two certificate logs wanted, one given", verify.Rules{Logs: 1, Times: 1, SCTs: 2}, once, codes(verdict.Threshold)},
	}
	for _, r := range rows {
		t.Run(r.name, func(t *testing.T) {
			v := must[*verify.Verifier](t)(verify.NewWith(w.profile.TrustRoot, r.rules))
			_, err := v.Blob(r.raw, set)
			refused(t, err, r.codes...)
		})
	}
	for _, none := range []verify.Rules{{}, {Times: 1, SCTs: 1}, {Logs: 1, SCTs: 1}, {Logs: 1, Times: 1}, {Logs: -1, Times: 1, SCTs: 1}} {
		_, err := verify.NewWith(w.profile.TrustRoot, none)
		refused(t, err, verdict.Usage)
	}
}

// TestKeys: whether a key or an identity signs is the verifier's choice, never
// the bundle's (A06).
func TestKeys(t *testing.T) {
	w := theWorld(t)
	holder, other := author{lab: w.Lab, pair: newPair(t)}, author{lab: w.Lab, pair: newPair(t)}
	set := digest.SetOf([]byte(artifact))
	keyed := must[*verify.KeyVerifier](t)(w.verifier.Key(holder.pair.GetPublicKey()))
	rows := []struct {
		name   string
		bundle *bundlepb.Bundle
		codes  []verdict.Code
	}{
		{"the key's own", holder.sign(t, blob()), nil},
		{"another key's", other.sign(t, blob()), codes(verdict.LogKeyMismatch)},
		{"an identity's", w.author(t, lab.RoleRelease).sign(t, blob()), codes(verdict.MaterialKind)},
	}
	for _, r := range rows {
		t.Run(r.name, func(t *testing.T) {
			_, err := keyed.Blob(encode(t, r.bundle), set)
			refused(t, err, r.codes...)
		})
	}
	refused(t, w.judgeBlob(encode(t, holder.sign(t, blob()))), verdict.MaterialKind)
}
