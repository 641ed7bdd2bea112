package token

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"

	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// The variables that GitHub Actions sets in jobs with the permission
// id-token: write.
const (
	githubURL    = "ACTIONS_ID_TOKEN_REQUEST_URL"
	githubBearer = "ACTIONS_ID_TOKEN_REQUEST_TOKEN"
)

// gitlabToken is the variable in which cosign and waybill expect GitLab's
// token.
const gitlabToken = "SIGSTORE_ID_TOKEN"

// github gets a token of the running job from GitHub Actions. Every answer is
// a new token.
type github struct{ World }

// Token requests a token from the address that the environment names.
func (g github) Token(ctx context.Context) (string, error) {
	address, bearer := g.Env(githubURL), g.Env(githubBearer)
	if address == "" || bearer == "" {
		return "", verdict.Refuse(verdict.Usage, subject, "the variable %s is not set; give the job the permission id-token: write", githubURL)
	}
	u, err := url.Parse(address)
	if err != nil || u.Host == "" {
		return "", verdict.Refuse(verdict.Usage, subject, "%s is not a web address", githubURL)
	}
	query := u.Query()
	query.Set("audience", g.audience())
	u.RawQuery = query.Encode()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return "", verdict.Refuse(verdict.Usage, subject, "%s is not a web address", githubURL)
	}
	r.Header.Set("Authorization", "Bearer "+bearer)
	r.Header.Set("Accept", "application/json")
	body, _, err := ask(ctx, g.Transport, r)
	if err != nil {
		return "", hint(err, "give the job the permission id-token: write")
	}
	return field(body, "GitHub Actions", "value")
}

// String names the service.
func (github) String() string { return "GitHub Actions" }

// field reads one string from an answer, which is never quoted.
func field(body []byte, who, name string) (text string, err error) {
	var answer map[string]json.RawMessage
	if json.Unmarshal(body, &answer) != nil {
		return "", refused("the answer of %s is not JSON", who)
	}
	if json.Unmarshal(answer[name], &text) != nil || text == "" {
		return "", refused("the answer of %s has no %q", who, name)
	}
	return text, nil
}
