package sign_test

import (
	"fmt"
	"time"

	"github.com/waybill-release/waybill/pkg/produce/sign"
)

// A signing configuration says which services sign. A [sign.Signer] is made from
// it with a role, a policy and a source of tokens.
func ExampleParseServices() {
	const from = `"majorApiVersion":1,"validFor":{"start":"2026-01-01T00:00:00Z"},"operator":"example"`
	services, err := sign.ParseServices([]byte(`{
		"mediaType": "application/vnd.dev.sigstore.signingconfig.v0.2+json",
		"caUrls": [{"url":"https://ca.example.test",`+from+`}],
		"oidcUrls": [{"url":"https://id.example.test",`+from+`}],
		"rekorTlogUrls": [{"url":"https://log.example.test","majorApiVersion":2,"validFor":{"start":"2026-01-01T00:00:00Z"},"operator":"example"}],
		"rekorTlogConfig": {"selector":"ANY"},
		"tsaUrls": [{"url":"https://tsa.example.test",`+from+`}],
		"tsaConfig": {"selector":"ANY"}}`), time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC))
	fmt.Println(services.Fulcio, services.Logs, services.TSAs, err)
	// Output: https://ca.example.test [https://log.example.test] [https://tsa.example.test] <nil>
}
