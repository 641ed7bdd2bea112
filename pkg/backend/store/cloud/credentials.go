package cloud

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"golang.org/x/oauth2"
	"golang.org/x/oauth2/google"

	"github.com/waybill-release/waybill/pkg/backend/transport"
)

// scope is requested for every token; the account's permissions limit what the
// token may do.
const scope = "https://www.googleapis.com/auth/cloud-platform"

// metadataPatience bounds the search for a machine account: the metadata
// service is on this machine's host, or does not exist.
const metadataPatience = 3 * time.Second

// credentials finds the application default credentials: the file that
// GOOGLE_APPLICATION_CREDENTIALS names, the one that gcloud wrote, or the
// account of this machine. The library's own search would bypass the given
// transport.
//
// https://cloud.google.com/docs/authentication/application-default-credentials
func credentials(ctx context.Context, rt http.RoundTripper) (oauth2.TokenSource, error) {
	file := os.Getenv("GOOGLE_APPLICATION_CREDENTIALS")
	named := file != ""
	if !named {
		file = wellKnown()
	}
	raw, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) && !named {
		return ofMachine(rt)
	}
	if err != nil {
		return nil, fmt.Errorf("finding credentials: %w", err)
	}
	var kind struct {
		Type google.CredentialsType `json:"type"`
	}
	if err := json.Unmarshal(raw, &kind); err != nil {
		return nil, fmt.Errorf("finding credentials: %q is not a credentials file", file)
	}
	ctx = context.WithValue(ctx, oauth2.HTTPClient, transport.Client(rt))
	found, err := google.CredentialsFromJSONWithType(ctx, raw, kind.Type, scope)
	if err != nil {
		return nil, fmt.Errorf("finding credentials in %q: %w", file, err)
	}
	return found.TokenSource, nil
}

// Authorised adds a Google token of this machine or user to each request.
func Authorised(ctx context.Context, rt http.RoundTripper) (http.RoundTripper, error) {
	tokens, err := credentials(context.WithoutCancel(ctx), rt)
	if err != nil {
		return nil, err
	}
	return &oauth2.Transport{Source: tokens, Base: rt}, nil
}

// wellKnown is where gcloud writes credentials.
func wellKnown() string {
	const name = "application_default_credentials.json"
	if dir := os.Getenv("CLOUDSDK_CONFIG"); dir != "" {
		return filepath.Join(dir, name)
	}
	if runtime.GOOS == "windows" {
		return filepath.Join(os.Getenv("APPDATA"), "gcloud", name)
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return name
	}
	return filepath.Join(home, ".config", "gcloud", name)
}

// machine issues tokens of the account that this machine runs as.
type machine struct {
	client *http.Client
	host   string
}

func ofMachine(rt http.RoundTripper) (oauth2.TokenSource, error) {
	m := machine{client: transport.Client(rt), host: os.Getenv("GCE_METADATA_HOST")}
	m.host = cmp.Or(m.host, "169.254.169.254") // link-local: only the machine's own host answers
	first, err := m.Token()
	if err != nil {
		return nil, fmt.Errorf("finding credentials: set GOOGLE_APPLICATION_CREDENTIALS; no credentials file was found, and this machine has no service account: %w", err)
	}
	return oauth2.ReuseTokenSource(first, m), nil
}

// Token implements [oauth2.TokenSource].
//
// https://cloud.google.com/compute/docs/access/authenticate-workloads
func (m machine) Token() (*oauth2.Token, error) {
	ctx, cancel := context.WithTimeout(context.Background(), metadataPatience)
	defer cancel()
	address := "http://" + m.host + "/computeMetadata/v1/instance/service-accounts/default/token?scopes=" + scope
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Metadata-Flavor", "Google")
	resp, err := m.client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK || resp.Header.Get("Metadata-Flavor") != "Google" {
		return nil, fmt.Errorf("requesting a token from the metadata service: status %s", resp.Status)
	}
	var token struct {
		AccessToken string `json:"access_token"`
		ExpiresIn   int64  `json:"expires_in"`
		TokenType   string `json:"token_type"`
	}
	if err := json.NewDecoder(io.LimitReader(resp.Body, 64<<10)).Decode(&token); err != nil || token.AccessToken == "" {
		return nil, errors.New("requesting a token from the metadata service: the answer has none") // the library's text could contain a token
	}
	return &oauth2.Token{
		AccessToken: token.AccessToken, TokenType: token.TokenType, Expiry: time.Now().Add(time.Duration(token.ExpiresIn) * time.Second),
	}, nil
}
