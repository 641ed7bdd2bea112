package token

import (
	"os"
	"strings"

	"github.com/waybill-release/waybill/pkg/value/verdict"
)

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
