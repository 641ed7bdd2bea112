package gate

import (
	"fmt"
	"strings"
	"testing"

	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// TestRevocationsName: what is revoked is named so that it can be compared; an
// entry that nothing can equal is refused.
func TestRevocationsName(t *testing.T) {
	short, long := digest.Of(digest.SHA256, []byte("lost")).String(), digest.Of(digest.SHA512, []byte("lost")).String()
	for entry, loads := range map[string]bool{
		"certificate: " + short:                  true,
		"certificate: " + long:                   false,
		"key: " + short:                          true,
		"key: " + long:                           false,
		"key: lost":                              false,
		"since: \"2026-01-01\"\n  key: " + short: true,
		"since: \"0001-01-01\"\n  key: " + short: false,
		"identity: {issuer: https://a.example.test, subject: a@example.test, type: email}": true,
		"identity: {issuer: https://a.example.test, subject: a@example.test}":              false,
	} {
		r, err := ParseRevocations([]byte("apiVersion: waybill/v1\nkind: Revocations\nrevoked:\n- reason: lost\n  " + entry + "\n"))
		if (err == nil) != loads || len(r.list) > 0 != loads {
			t.Errorf("%s: %v", entry, err)
		}
		if err != nil && verdict.FindingOf("", err).Code != verdict.ConfigParse {
			t.Errorf("%s: %v, want CONFIG", entry, err)
		}
		if other := strings.HasSuffix(entry, long); strings.Contains(fmt.Sprint(err), "the algorithm") != other {
			t.Errorf("%s: %v; the algorithm is another one: %t", entry, err, other)
		}
	}
}
