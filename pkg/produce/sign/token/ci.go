package token

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"

	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// The variables that GitHub Actions gives to jobs with the permission
// id-token: write.
const (
	githubURL    = "ACTIONS_ID_TOKEN_REQUEST_URL"
	githubBearer = "ACTIONS_ID_TOKEN_REQUEST_TOKEN"
)

// gitlabToken is the variable that cosign and we expect GitLab's token in.
const gitlabToken = "SIGSTORE_ID_TOKEN"

// github asks GitHub Actions for a token of the running job. Every answer is a
// new token.
type github struct{ World }

// Token asks the address that the environment names.
func (g github) Token(ctx context.Context) (string, error) {
	address, bearer := g.Env(githubURL), g.Env(githubBearer)
	if address == "" || bearer == "" {
		return "", verdict.Refuse(verdict.Usage, subject, "the environment has no %s; give the job the permission id-token: write", githubURL)
	}
	u, err := url.Parse(address)
	if err != nil || u.Host == "" {
		return "", verdict.Refuse(verdict.Usage, subject, "%s is no address", githubURL)
	}
	query := u.Query()
	query.Set("audience", g.audience())
	u.RawQuery = query.Encode()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return "", verdict.Refuse(verdict.Usage, subject, "%s is no address", githubURL)
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

// field reads one text out of an answer, which is never quoted.
func field(body []byte, who, name string) (string, error) {
	var answer map[string]json.RawMessage
	if json.Unmarshal(body, &answer) != nil {
		return "", refused("%s answered no JSON", who)
	}
	var text string
	if json.Unmarshal(answer[name], &text) != nil || text == "" {
		return "", refused("%s answered without %q", who, name)
	}
	return text, nil
}
