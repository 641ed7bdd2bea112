package token

import (
	"context"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// fileAdvice is the advice for a file without a usable token.
const fileAdvice = "get a token, write it to a file that only you can read, and use --identity-token NAME=FILE"

// File is a file that contains a token. It is read each time, because the
// token may be rotated, as Kubernetes does with projected tokens.
type File string

// Token reads the file.
func (f File) Token(context.Context) (string, error) {
	open, err := os.Open(string(f))
	if err != nil {
		return "", verdict.Wrap(verdict.Usage, subject, err).Advise(fileAdvice)
	}
	defer open.Close()
	raw, err := io.ReadAll(io.LimitReader(open, maxToken+1))
	if err != nil {
		return "", verdict.Wrap(verdict.Usage, subject, err).Advise(fileAdvice)
	}
	if len(raw) > maxToken {
		return "", verdict.Refuse(verdict.Usage, subject, "%q has more than %d bytes, so it is not a token", string(f), maxToken).Advise(fileAdvice)
	}
	text := strings.TrimSpace(string(raw))
	if text == "" {
		return "", verdict.Refuse(verdict.Usage, subject, "%q is empty", string(f)).Advise(fileAdvice)
	}
	return text, nil
}

// String is the path.
func (f File) String() string { return "the file " + string(f) }

// variable is an environment variable that contains a token, as GitLab sets
// for a job that asks for it under id_tokens.
type variable struct {
	name string
	env  func(string) string
}

// Token reads the variable.
func (v variable) Token(context.Context) (string, error) {
	text := strings.TrimSpace(v.env(v.name))
	if text == "" {
		return "", verdict.Refuse(verdict.Usage, subject, "the variable %s is not set; let the job ask for a token under id_tokens, with the audience %q", v.name, audience)
	}
	return text, nil
}

// String names the variable.
func (v variable) String() string { return "the environment variable " + v.name }

// keep caches the tokens of a source, each until half of its life has passed:
// so a new one is requested early, but not for every certificate. If no new
// one is available, the old one is used while it is valid.
func keep(source Source, clock func() time.Time) Source {
	return &kept{Source: source, clock: clock}
}

type kept struct {
	Source
	clock func() time.Time

	mu      sync.Mutex // guards the fields below
	text    string
	since   time.Time
	expires time.Time
}

// Token returns the cached token, or gets a new one.
func (k *kept) Token(ctx context.Context) (string, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := k.clock()
	if k.text != "" && now.Sub(k.since) < k.expires.Sub(k.since)/2 {
		return k.text, nil
	}
	text, err := k.Source.Token(ctx)
	if err == nil {
		var said Claims
		if said, err = Read(text); err == nil {
			k.text, k.since, k.expires = text, now, said.Expires
			return text, said.Check(k.clock())
		}
	}
	// Half a minute is reserved for transfer, and for the authority's clock.
	if k.text != "" && now.Add(30*time.Second).Before(k.expires) {
		return k.text, nil
	}
	return "", err
}

// Where an environment shows that it issues tokens.
const (
	kubernetesFile = "/var/run/sigstore/cosign/oidc-token" // where cosign expects the projected token
	kubernetesVar  = "WAYBILL_IDENTITY_TOKEN_FILE"
	machineFile    = "/sys/class/dmi/id/product_name"
)

// Words lists what [Parse] understands, for help texts.
func Words() string {
	return "ambient, github, gitlab, google, google:ACCOUNT, kubernetes, kubernetes:FILE, file:FILE or device"
}

// Parse makes the source that a word names. It makes no request yet.
func Parse(word string, w World) (Source, error) {
	kind, of, named := strings.Cut(word, ":")
	var s Source
	switch {
	case word == "ambient":
		return ambient(w)
	case word == "github":
		s = github{w}
	case word == "gitlab":
		return variable{gitlabToken, w.Env}, nil
	case word == "google":
		s = google{w}
	case kind == "google" && strings.Count(of, "@") == 1 && !strings.ContainsAny(of, "/?# "):
		s = impersonated{google{w}, of}
	case word == "kubernetes":
		return projected(w), nil
	case (kind == "kubernetes" || kind == "file") && of != "":
		return File(of), nil
	case word == "device":
		return deviceSource(w)
	case named || word != "":
		return nil, verdict.Refuse(verdict.Usage, "identity", "%q is not a source of tokens: want %s", word, Words())
	default:
		return nil, verdict.Refuse(verdict.Usage, "identity", "no source of tokens was named: want %s", Words())
	}
	return keep(s, w.Clock), nil
}

// projected is the file of a projected token in Kubernetes.
func projected(w World) File {
	if path := w.Env(kubernetesVar); path != "" {
		return File(path)
	}
	return kubernetesFile
}

// ambient finds the source that the environment offers, in this order: GitHub
// Actions, GitLab, a projected token of Kubernetes, a Google machine. It
// makes no request to find out, and never falls back to a login by a person.
func ambient(w World) (Source, error) {
	switch {
	case w.Env(githubURL) != "" && w.Env(githubBearer) != "":
		return Parse("github", w)
	case w.Env(gitlabToken) != "":
		return Parse("gitlab", w)
	case isFile(string(projected(w))):
		return Parse("kubernetes", w)
	case w.Env(googleHostVar) != "" || isGoogle():
		return Parse("google", w)
	}
	return nil, verdict.Refuse(verdict.Usage, "identity", "this environment issues no identity tokens: no %s (GitHub), no %s (GitLab), no file %s (Kubernetes), no Google machine",
		githubURL, gitlabToken, string(projected(w))).Advise("give a token with --identity-token NAME=FILE, or log in with --identity NAME=device")
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

func isGoogle() bool {
	raw, err := os.ReadFile(machineFile)
	return err == nil && strings.HasPrefix(string(raw), "Google")
}
