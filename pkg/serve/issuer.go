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

// maxDocument bounds the discovery document of an issuer, and its keys.
const maxDocument = 1 << 20

// IssuerKeys returns a function that fetches the keys of an issuer through rt,
// by OpenID Connect Discovery 1.0. Only issuers of the book are contacted. The
// address of the keys comes from a document, so the rules for addresses that
// others name apply: it must not lead into our network, and redirects are not
// followed.
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
			return caller.Keys{}, unavailable(issuer, fmt.Errorf("the discovery document names no keys, or another issuer"))
		}
		if raw, err = document(ctx, within, said.Keys); err != nil {
			return caller.Keys{}, err
		}
		keys, err := caller.ParseKeys(raw)
		if err != nil { // the owner of the token is not to blame for this
			return caller.Keys{}, unavailable(said.Keys, err)
		}
		return keys, nil
	}
}

func unavailable(place string, err error) error {
	return &verdict.UnavailableError{Place: place, Op: "asking for keys", Err: err}
}

// document reads one document of an issuer. Redirects are errors.
func document(ctx context.Context, rt http.RoundTripper, address string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, unavailable(address, err)
	}
	resp, err := rt.RoundTrip(req) // not through a client, which would follow redirects
	if err != nil {
		return nil, unavailable(address, err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, unavailable(address, fmt.Errorf("status %d", resp.StatusCode))
	}
	raw, err := readAll(resp.Body, maxDocument)
	if err != nil {
		return nil, unavailable(address, err)
	}
	return raw, nil
}
