package trust_test

import (
	"bytes"
	"testing"

	"github.com/waybill-release/waybill/pkg/trust"
	"github.com/waybill-release/waybill/pkg/verdict"
)

// what every answer of Parse must keep, whatever it was given.
func judged(t *testing.T, raw []byte) {
	t.Helper()
	r, err := trust.Parse(raw)
	if err != nil {
		if f := verdict.FindingOf("", err); f.Code != verdict.TrustRootParse || !r.IsZero() {
			t.Errorf("refused as %s, root %v", f.Code, r)
		}
		return
	}
	if !bytes.Equal(r.Raw(), raw) || r.Digest().IsZero() || len(r.Authorities()) == 0 {
		t.Errorf("accepted %q as a root of %d authorities", raw, len(r.Authorities()))
	}
}

func FuzzParse(f *testing.F) {
	f.Add(trust.Embedded().Raw())
	f.Add([]byte(`{"mediaType":"application/vnd.dev.sigstore.trustedroot+json;version=0.1"}`))
	f.Add([]byte(`{"mediaType":"application/vnd.dev.sigstore.trustedroot+json;version=0.1","tlogs":[{}]}`))
	f.Add([]byte(`{"mediaType":"application/vnd.dev.sigstore.trustedroot+json;version=0.1","timestampAuthorities":[{"certChain":{"certificates":[{}]}}]}`))
	f.Fuzz(judged)
}

func TestParseMangled(t *testing.T) {
	raw := trust.Embedded().Raw()
	for i := 0; i < len(raw); i += 7 {
		judged(t, raw[:i])
		bumped := bytes.Clone(raw)
		bumped[i]++
		judged(t, bumped)
	}
}
