package scene

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/waybill-release/waybill/pkg/document/intoto"
	"github.com/waybill-release/waybill/pkg/document/provenance"
	"github.com/waybill-release/waybill/pkg/document/vsa"
)

// What the source verifier of a scene is called, and its identity.
const (
	sourceVerifier = "https://verifier.example.test/source"
	sourceRole     = "source-verifier@lab.invalid"
)

// SourceSummary is the file with the verification summary of the source.
const SourceSummary = "source.vsa.sigstore.json"

// buildService is a build service: it fetches the source from a server, builds as the
// account of this process, and holds the builder's token. All other commands of
// the scene run under an account that cannot read what the service holds.
type buildService struct {
	scene  *Scene
	server *httptest.Server
	user   int // the account of the other commands
}

// LowerLevel says why this machine cannot have a build service that isolates the
// steps of builds, under an account of its own; empty if it can.
func LowerLevel(ctx context.Context, bin string) string {
	if os.Geteuid() != 0 {
		return "this account is not root, so the builder would run under the account that types the commands"
	}
	out, _ := exec.CommandContext(ctx, filepath.Join(bin, "waybill"), "doctor", "--for", "build", "--output", "json").Output() // fails, without a profile
	var report struct {
		Checks []struct{ Name, State, Says string }
	}
	if err := json.Unmarshal(out, &report); err != nil {
		return "waybill doctor did not answer: " + err.Error()
	}
	for _, c := range report.Checks {
		if c.Name == "isolation" && c.State == "ok" {
			return ""
		} else if c.Name == "isolation" {
			return c.Says
		}
	}
	return "waybill doctor does not report how steps are isolated"
}

// Repositories serves the git repositories of a directory.
func Repositories(dir string) (http.Handler, error) {
	git, err := exec.LookPath("git")
	return &cgi.Handler{
		Path: git, Args: []string{"-c", "safe.directory=*", "http-backend"},
		Env: []string{"GIT_PROJECT_ROOT=" + dir, "GIT_HTTP_EXPORT_ALL=1", "HOME=" + dir}, InheritEnv: []string{"PATH"},
	}, err
}

// openService starts the service, and gives the scene to another account.
func (s *Scene) openService(ctx context.Context) error {
	repositories, err := Repositories(s.Path("service"))
	if err != nil {
		return err
	}
	b := &buildService{scene: s, user: otherAccount()}
	mux := http.NewServeMux()
	mux.Handle("/source/", http.StripPrefix("/source", repositories))
	mux.HandleFunc("POST /builds/{version}", b.serve)
	b.server = httptest.NewTLSServer(mux)
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: b.server.Certificate().Raw})
	s.service, s.Env = b, append(s.Env, "SSL_CERT_FILE="+s.Path("service.pem"), "HOME="+s.Dir)
	if err := errors.Join(s.writeFile("service.pem", ca), os.Mkdir(s.Path("service"), 0o700)); err != nil {
		return err
	}
	return s.copyCommands()
}

// copyCommands copies the commands to where the other account can run them.
func (s *Scene) copyCommands() error {
	for _, name := range []string{"waybill", "k8s-verify-release"} {
		body, err := os.ReadFile(filepath.Join(s.Bin, name))
		if err != nil {
			return err
		}
		if err := errors.Join(s.writeFile("bin/"+name, body), os.Chmod(s.Path("bin", name), 0o755)); err != nil {
			return err
		}
	}
	s.Bin = s.Path("bin")
	return nil
}

// handOver publishes the project's repository on the service's server, and gives
// everything but lab and service to the other account.
func (s *Scene) handOver(ctx context.Context) error {
	if s.service == nil {
		return nil
	}
	if out, err := exec.CommandContext(ctx, "git", "clone", "-q", "--bare", s.Path("lantern"), s.Path("service", "lantern")).CombinedOutput(); err != nil {
		return fmt.Errorf("publishing the repository: %w: %s", err, out)
	}
	if err := os.Chmod(s.Dir, 0o755); err != nil { // a temporary directory is closed to other accounts
		return err
	}
	return s.give(s.Dir, s.service.user)
}

// give makes an account the owner of a directory, without lab and service.
func (s *Scene) give(dir string, account int) error {
	return filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if path == s.Path("lab") || path == s.Path("service") {
			return filepath.SkipDir
		}
		return os.Lchown(path, account, account)
	})
}

// serve builds a version and copies the result to where the caller can read it.
func (b *buildService) serve(w http.ResponseWriter, r *http.Request) {
	s, state := b.scene, b.scene.Path("service", "state")
	if r.PathValue("version") != Version {
		http.Error(w, "no such version", http.StatusNotFound)
		return
	}
	token := s.Path("service", "builder.token")
	if err := os.WriteFile(token, []byte(s.Lab.Token("builder")), 0o600); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	built := s.runAs(r.Context(), -1, "waybill", "build", Version, "--profile", "profile.yaml", "--state", state, "--source", s.Repository(), "--identity-token", "builder="+token)
	if built.Code != 0 {
		http.Error(w, built.Stdout+built.Stderr, http.StatusInternalServerError)
		return
	}
	if err := errors.Join(os.CopyFS(s.Path("state"), os.DirFS(state)), s.give(s.Path("state"), s.service.user)); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
	}
}

// Build asks the service for the release. Afterwards its files, with the signed
// provenance, are in the state directory.
func (s *Scene) Build(ctx context.Context) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.service.server.URL+"/builds/"+Version, nil)
	if err != nil {
		return err
	}
	resp, err := s.service.server.Client().Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("the build service answered %s", resp.Status)
	}
	return nil
}

// VerifySource is [Scene.VerifyRevision] for the project.
func (s *Scene) VerifySource(ctx context.Context) error {
	return s.VerifyRevision(ctx, s.Path("service", "lantern"), Version, s.Repository())
}

// VerifyRevision is the lab's source verifier: it signs that the revision has a
// verified history. Nothing is verified, as nothing of a lab is.
func (s *Scene) VerifyRevision(ctx context.Context, dir, tag, address string) error {
	head, err := exec.CommandContext(ctx, "git", "-c", "safe.directory=*", "-C", dir, "rev-parse", tag+"^{commit}").Output()
	if err != nil {
		return err
	}
	commit := strings.TrimSpace(string(head))
	type object = map[string]any
	statement, err := json.Marshal(object{
		"_type": intoto.TypeV1, "predicateType": vsa.PredicateType,
		"subject": []object{{"uri": address, "digest": object{"gitCommit": commit}}},
		"predicate": object{
			"verifier": object{"id": sourceVerifier}, "timeVerified": time.Now().UTC().Format(time.RFC3339), "resourceUri": address,
			"policy":             object{"uri": "https://verifier.example.test/policy", "digest": object{"sha256": strings.Repeat("0", 64)}},
			"verificationResult": "PASSED", "verifiedLevels": []string{"SLSA_SOURCE_LEVEL_2"}, "slsaVersion": "1.2",
		},
	})
	if err != nil {
		return err
	}
	signed, err := s.Sign(ctx, sourceRole, statement)
	if err != nil {
		return err
	}
	return s.writeFile(SourceSummary, signed)
}

// Declared is a policy with the lab's source verifier, and with what the lab
// declares because no program can check it. Its builder that isolates steps
// reaches level 3.
func (s *Scene) Declared(policy []byte) []byte {
	issuer, subject := s.Lab.Identity(sourceRole)
	facts := fmt.Sprintf(`sources:
- {id: %[1]q, levels: {source: 2}, signers: [{issuer: %[2]q, subject: %[3]q, type: email}]}
declares:
- {requirement: source.retained, by: the lab, until: %[4]q, reason: it keeps its repository as long as the lab exists, levels: {v0.1: 3}}
- {requirement: OSPS-GV-03.01, by: the lab, until: %[4]q, reason: its README explains how to contribute}
source: {`, sourceVerifier, issuer, subject, time.Now().UTC().AddDate(0, 6, 0).Format(time.DateOnly))
	isolated := "- id: " + provenance.BuilderIsolated + "\n  level: "
	return []byte(strings.NewReplacer(isolated+"2", isolated+"3", "source: {", facts).Replace(string(policy)))
}
