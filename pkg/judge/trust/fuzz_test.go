package trust_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/waybill-release/waybill/pkg/judge/trust"
	"github.com/waybill-release/waybill/pkg/testing/bounds"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// what every answer of Parse must keep, whatever it was given.
func judged(t *testing.T, raw []byte) {
	t.Helper()
	var r trust.Root
	var err error
	bounds.Within(t, len(raw), func() { r, err = trust.Parse(raw) })
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

// TestBounds: a file that is full of nothings costs no more than any other, and
// a root of many authorities is read.
func TestBounds(t *testing.T) {
	fill := func(open, item, end string) []byte {
		return []byte(open + strings.TrimSuffix(strings.Repeat(item+",", (trust.MaxSize-len(open)-len(end))/(len(item)+1)), ",") + end)
	}
	head := `{"mediaType":"application/vnd.dev.sigstore.trustedroot+json;version=0.1",`
	for _, raw := range [][]byte{
		fill(`[`, `{}`, `]`), fill(head+`"tlogs":[`, `{}`, `]}`), fill(head+`"certificateAuthorities":[`, `{}`, `]}`),
		fill(head+`"timestampAuthorities":[`, `{"certChain":{"certificates":[{}]}}`, `]}`),
		fill(head+`"ctlogs":[`, `{"publicKey":{"rawBytes":"AAAA"}}`, `]}`), fill(head+`"x":"`, `AAAA`, `"}`),
		fill(head+`"certificateAuthorities":[{"certChain":{"certificates":[`, `{"rawBytes":"AAAA"}`, `]}}]}`),
	} {
		judged(t, raw)
	}
	text := string(trust.Embedded().Raw())
	at := strings.Index(text, `"tlogs": [`) + len(`"tlogs": [`)
	end := strings.Index(text, `"certificateAuthorities"`)
	list := strings.TrimSpace(text[at:end])
	list = strings.TrimSuffix(strings.TrimSuffix(list, ","), "]")
	many := text[:at] + strings.Repeat(list+",", 200) + list + "]," + text[end:]
	judged(t, []byte(many))
	if _, err := trust.Parse([]byte(many)); err != nil {
		t.Error(err)
	}
}
