package serve

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/waybill-release/waybill/pkg/backend/transport"
	"github.com/waybill-release/waybill/pkg/serve/caller"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// maxDocument bounds what an issuer says of itself, and its keys.
const maxDocument = 1 << 20

// IssuerKeys returns what asks issuers for their keys through rt, as OpenID
// Connect Discovery 1.0 says. Only issuers of the book are ever asked. Where
// the keys lie stands in a document, so that address is held to the rules for
// addresses that others name: it is not followed to inside our network, and
// nothing is followed from there.
func IssuerKeys(rt http.RoundTripper) func(ctx context.Context, issuer string) (caller.Keys, error) {
	return func(ctx context.Context, issuer string) (caller.Keys, error) {
		home, err := url.Parse(issuer)
		if err != nil {
			return caller.Keys{}, verdict.Wrap(verdict.ConfigParse, "issuer", err)
		}
		within := transport.Within(rt, home)
		raw, err := document(ctx, within, strings.TrimSuffix(issuer, "/")+"/.well-known/openid-configuration")
		if err != nil {
			return caller.Keys{}, err
		}
		var said struct {
			Issuer string `json:"issuer"`
			Keys   string `json:"jwks_uri"`
		}
		if err := json.Unmarshal(raw, &said); err != nil || said.Issuer != issuer || said.Keys == "" {
			return caller.Keys{}, unavailable(issuer, fmt.Errorf("it says nothing of its keys, or is another issuer"))
		}
		if raw, err = document(ctx, within, said.Keys); err != nil {
			return caller.Keys{}, err
		}
		keys, err := caller.ParseKeys(raw)
		if err != nil { // which is no fault of who showed a token
			return caller.Keys{}, unavailable(said.Keys, err)
		}
		return keys, nil
	}
}

func unavailable(place string, err error) error {
	return &verdict.UnavailableError{Place: place, Op: "asking for keys", Err: err}
}

// document reads one document of an issuer. A redirect is no answer.
func document(ctx context.Context, rt http.RoundTripper, address string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, unavailable(address, err)
	}
	resp, err := rt.RoundTrip(req) // below a client, which would follow redirects
	if err != nil {
		return nil, unavailable(address, err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, unavailable(address, fmt.Errorf("it answered %d", resp.StatusCode))
	}
	raw, err := readAll(resp.Body, maxDocument)
	if err != nil {
		return nil, unavailable(address, err)
	}
	return raw, nil
}
