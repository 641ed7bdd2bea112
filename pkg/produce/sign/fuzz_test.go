package sign

import (
	"reflect"
	"testing"
	"time"

	"github.com/waybill-release/waybill/pkg/testing/bounds"
)

var fuzzTime = time.Unix(1_750_000_000, 0)

const services = `{"mediaType":"application/vnd.dev.sigstore.signingconfig.v0.2+json",
"caUrls":[{"url":"https://ca.test","majorApiVersion":1,"validFor":{"start":"2020-01-01T00:00:00Z"},"operator":"o"}],
"oidcUrls":[{"url":"https://id.test","majorApiVersion":1,"validFor":{"start":"2020-01-01T00:00:00Z"},"operator":"o"}],
"rekorTlogUrls":[{"url":"https://log.test","majorApiVersion":2,"validFor":{"start":"2020-01-01T00:00:00Z"},"operator":"o"}],
"rekorTlogConfig":{"selector":"ANY"},
"tsaUrls":[{"url":"https://tsa.test","majorApiVersion":1,"validFor":{"start":"2020-01-01T00:00:00Z"},"operator":"o"}],
"tsaConfig":{"selector":"ANY"}}`

func TestParseServices(t *testing.T) {
	s, err := ParseServices([]byte(services), fuzzTime)
	if want := (Services{Fulcio: "https://ca.test", TSAs: []string{"https://tsa.test"}, Logs: []string{"https://log.test"}, Login: "https://id.test"}); err != nil || !reflect.DeepEqual(s, want) {
		t.Errorf("%+v, %v", s, err)
	}
	if _, err := ParseServices([]byte(services), time.Unix(0, 0)); err == nil {
		t.Error("services are picked before their time")
	}
}

// FuzzParseServices: what is picked is there in full.
func FuzzParseServices(f *testing.F) {
	f.Add([]byte(services))
	f.Add([]byte(`{"mediaType":"application/vnd.dev.sigstore.signingconfig.v0.2+json"}`))
	f.Add([]byte(`{}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		bounds.Bounded(t, raw, func() {
			if s, err := ParseServices(raw, fuzzTime); err == nil && (s.Fulcio == "" || len(s.TSAs) == 0 || len(s.Logs) == 0) {
				t.Errorf("%q was read as %+v", raw, s)
			}
		})
	})
}
