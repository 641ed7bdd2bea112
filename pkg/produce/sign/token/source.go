package token

import (
	"os"
	"strings"

	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// Where the surroundings show that they have tokens to give.
const (
	kubernetesFile = "/var/run/sigstore/cosign/oidc-token" // where cosign expects the projected token
	kubernetesVar  = "WAYBILL_IDENTITY_TOKEN_FILE"
	machineFile    = "/sys/class/dmi/id/product_name"
)

// Words are what [Parse] understands, for help texts.
func Words() string {
	return "ambient, github, gitlab, google, google:ACCOUNT, kubernetes, kubernetes:FILE, file:FILE or device"
}

// Parse makes the source that an operator asks for by a word. It asks nobody
// for anything yet.
func Parse(word string, w World) (Source, error) {
	kind, of, named := strings.Cut(word, ":")
	var s Source
	switch {
	case word == "ambient":
		return Ambient(w)
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
		return Device(w)
	case named || word != "":
		return nil, verdict.Refuse(verdict.Usage, "identity", "%q names no source of tokens: want %s", word, Words())
	default:
		return nil, verdict.Refuse(verdict.Usage, "identity", "an empty word names no source of tokens: want %s", Words())
	}
	return Keep(s, w.Clock), nil
}

// projected is the file that Kubernetes keeps a projected token in.
func projected(w World) File {
	if path := w.Env(kubernetesVar); path != "" {
		return File(path)
	}
	return kubernetesFile
}

// Ambient finds what the surroundings offer, in this order: GitHub Actions,
// GitLab, a projected token of Kubernetes, a Google machine. Nobody is asked to
// find that out, and no person ever takes the place of what is not there.
func Ambient(w World) (Source, error) {
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
	return nil, verdict.Refuse(verdict.Usage, "identity", "nothing here gives out identity tokens: no %s (GitHub), no %s (GitLab), no file %s (Kubernetes), no Google machine; name a file with --identity-token, or log in with --identity device",
		githubURL, gitlabToken, string(projected(w)))
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

func isGoogle() bool {
	raw, err := os.ReadFile(machineFile)
	return err == nil && strings.HasPrefix(string(raw), "Google")
}
