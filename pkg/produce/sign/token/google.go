package token

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
)

// Addresses of Google's services; the variables override them, as in Google's
// own libraries.
const (
	googleHostVar     = "GCE_METADATA_HOST"
	googleHost        = "metadata.google.internal"
	credentialsVar    = "GOOGLE_CLOUD_IAMCREDENTIALS_ENDPOINT"
	googleCredentials = "https://iamcredentials.googleapis.com"
	flavor            = "Metadata-Flavor"
)

// google gets a token of a Google machine's service account from its metadata
// server.
type google struct{ World }

// Token requests a token that names the account by its e-mail address.
func (g google) Token(ctx context.Context) (string, error) {
	body, err := g.metadata(ctx, "identity", url.Values{"audience": {g.audience()}, "format": {"full"}})
	return strings.TrimSpace(string(body)), err
}

// String names the service.
func (google) String() string { return "the Google metadata server" }

// metadata makes a request about the machine's own account. Only a metadata
// server answers with the header; a captive portal does not.
func (g google) metadata(ctx context.Context, what string, query url.Values) ([]byte, error) {
	host := cmp.Or(g.Env(googleHostVar), googleHost)
	u := url.URL{Scheme: "http", Host: host, Path: "/computeMetadata/v1/instance/service-accounts/default/" + what, RawQuery: query.Encode()}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, refused("%s is not a host", googleHostVar)
	}
	r.Header.Set(flavor, "Google")
	body, header, err := ask(ctx, g.Transport, r)
	if err != nil {
		return nil, hint(err, "give the machine a service account")
	}
	if header.Get(flavor) != "Google" {
		return nil, refused("%s is not a metadata server", host)
	}
	return body, nil
}

// impersonated requests a token of another account, which the machine's
// account may impersonate.
type impersonated struct {
	google
	account string
}

// Token uses an access token of the machine's account, which is discarded
// after the request.
func (i impersonated) Token(ctx context.Context) (string, error) {
	own, err := i.metadata(ctx, "token", nil)
	if err != nil {
		return "", err
	}
	access, err := field(own, "the Google metadata server", "access_token")
	if err != nil {
		return "", err
	}
	base := cmp.Or(i.Env(credentialsVar), googleCredentials)
	address := base + "/v1/projects/-/serviceAccounts/" + url.PathEscape(i.account) + ":generateIdToken"
	question, err := json.Marshal(map[string]any{"audience": i.audience(), "includeEmail": true})
	if err != nil {
		return "", err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, address, bytes.NewReader(question))
	if err != nil {
		return "", refused("%s is not a web address", credentialsVar)
	}
	r.Header.Set("Authorization", "Bearer "+access)
	r.Header.Set("Content-Type", "application/json")
	body, _, err := ask(ctx, i.Transport, r)
	if err != nil {
		return "", hint(err, "grant the machine's account the role serviceAccountTokenCreator on "+i.account)
	}
	return field(body, "iamcredentials", "token")
}

// String names the account.
func (i impersonated) String() string { return "Google's service account " + i.account }
