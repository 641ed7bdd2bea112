package stories

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/test/lab"
	"github.com/waybill-release/waybill/test/scene"
)

// openSwitchingGate stages the example, and starts a service that signs
// summaries, goes by features, reports, and reconciles them.
func openSwitchingGate(t *testing.T) *gatehouse {
	t.Helper()
	s := &gatehouse{admin: openAdmin(t)}
	want(t, s.Run(t.Context(), "waybill", "promote", "apply", "plan.json", "--profile", "profile.yaml", "--state", "promotions", "--confirm"), 0)
	issuer, _ := s.Lab.Identity(lab.RoleRelease)
	s.write("policy.yaml", strings.Replace(string(s.read("policy.yaml")), "roles:\n", fmt.Sprintf(`features:
  RequireProvenance: {floor: "off"}
roles:
  reconciler: [{issuer: %q, subject: reconciler@lab.invalid, type: email}]
`, issuer), 1))
	s.write("FEATURES.yaml", fmt.Sprintf(`apiVersion: waybill/v1
kind: Features
site: site
profile: profile.yaml
identity: gate-0
every: 1s
reporters: [{identity: gate, every: 1s}, {identity: promoter, every: 1s}]
window: 10s
desired: {RequireProvenance: {state: "On", scope: [%[1]s/eu]}}
dynamic: [StatusPage]
public: [%[1]s/eu/lantern/lantern]
`, s.Lab.Registry))
	s.write("verifier.token", s.Lab.Token(lab.RoleVerifier))
	s.write("reconciler.token", s.Lab.Token("reconciler@lab.invalid"))
	if err := os.Mkdir(s.Path("site"), 0o755); err != nil {
		t.Fatal(err)
	}
	s.start("summaries: true\nfeatures: {site: site, reportAs: gate, reconcile: FEATURES.yaml}\n",
		"--identity-token", "verifier=verifier.token", "--identity-token", "reconciler=reconciler.token")
	return s
}

// becomes has the service read everything anew until the feature is in a state,
// while something else goes on.
func (s *gatehouse) becomes(name, state string, meanwhile func()) {
	s.t.Helper()
	line := fmt.Sprintf("waybill_feature_state{name=%q,state=%q} 1\n", name, state)
	for deadline := time.Now().Add(2 * time.Minute); time.Now().Before(deadline); {
		if strings.Contains(s.get("/metrics"), line) {
			return
		}
		meanwhile()
		s.hup()
	}
	s.t.Fatalf("%s is not %s:\n%s\n%s", name, state, s.get("/flagz"), s.log())
}

func (s *gatehouse) hup() {
	s.t.Helper()
	before := strings.Count(s.log(), "basis in force")
	if err := s.cmd.Process.Signal(syscall.SIGHUP); err != nil {
		s.t.Fatal(err)
	}
	s.until(func() bool { return strings.Count(s.log(), "basis in force") > before })
}

// judgedBy is the digest of the policy that a summary names.
func (s *gatehouse) judgedBy(file string) string {
	s.t.Helper()
	var bundle struct {
		Envelope struct{ Payload []byte } `json:"dsseEnvelope"`
	}
	var said struct {
		Predicate struct {
			Policy struct{ Digest map[string]string }
		}
	}
	if err := json.Unmarshal(s.read(file), &bundle); err != nil {
		s.t.Fatal(err)
	}
	if err := json.Unmarshal(bundle.Envelope.Payload, &said); err != nil {
		s.t.Fatal(err)
	}
	return said.Predicate.Policy.Digest["sha256"]
}

// TestGateServeFeatures: a service reconciles the features that it goes by. What
// it vouches for while a requirement is only warned about is not taken for what
// the whole policy accepted; when all who use the feature were heard of it is
// required, and the status page goes and comes as people want it.
func TestGateServeFeatures(t *testing.T) {
	s := openSwitchingGate(t)
	whole := digest.Of(digest.SHA256, s.read("policy.yaml")).Hex()
	nothing := func() {}

	s.becomes("RequireProvenance", "TurningOn", nothing)
	want(t, s.may("eu/lantern", "warned.json"), 0, "OK ", "TurningOn")
	if got := s.judgedBy("warned.json"); got == "" || got == whole {
		t.Errorf("while it is warned about, the summary is of policy %s", got)
	}
	if page := s.get("/statusz"); !strings.Contains(page, "warn in "+s.Lab.Registry+"/eu") || !strings.Contains(page, "WaitForUses: ") {
		t.Errorf("the page does not say what is waited for:\n%s", page)
	}

	s.becomes("RequireProvenance", "On", func() { // the other reporter runs, too
		want(t, s.Run(t.Context(), "waybill", "gate", "check", s.Lab.Registry+"/staging/lantern/lantern:"+scene.Version, "--policy", "policy.yaml",
			"--trusted-root", "trusted_root.json", "--release-version", scene.Version, "--features", "site", "--report-as", "promoter"), 0)
	})
	want(t, s.may("eu/lantern", "required.json"), 0, "OK ")
	if got := s.judgedBy("required.json"); got != whole {
		t.Errorf("when it is required, the summary is of policy %s", got)
	}
	if flags := s.get("/flagz"); !strings.Contains(flags, "transition 2") {
		t.Errorf("who set the flags is not said:\n%s", flags)
	}

	for _, status := range []int{http.StatusNotFound, http.StatusOK} {
		state := map[int]string{http.StatusNotFound: "Off", http.StatusOK: "On"}[status]
		want(t, s.Run(t.Context(), "waybill", "feature", "set", "StatusPage", state, "--features", "site", "--confirm"), 0)
		s.hup()
		resp, err := http.Get(s.page + "/statusz")
		if err != nil {
			t.Fatal(err)
		}
		said, _ := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if resp.StatusCode != status || status != 200 && !strings.Contains(string(said), "StatusPage is off") {
			t.Errorf("%s: %d %s", state, resp.StatusCode, said)
		}
	}
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := s.cmd.Wait(); err != nil {
		t.Errorf("it ended with %v: %s", err, s.log())
	}
	if log := s.log(); strings.Contains(log, "eyJ") || !strings.Contains(log, "TurningOn to On") {
		t.Errorf("the log has a token, or does not tell of the transition:\n%s", log)
	}
}

// TestGateServeFeaturesConfig: a service that is told of features wrongly does
// not begin.
func TestGateServeFeaturesConfig(t *testing.T) {
	s := openSwitchingGate(t)
	tokens := []string{"--identity-token", "verifier=verifier.token", "--identity-token", "reconciler=reconciler.token"}
	good := string(s.read("service.yaml"))
	check := func(old, with string, flags ...string) scene.Result {
		s.write("checked.yaml", strings.Replace(good, old, with, 1))
		return s.Run(t.Context(), append([]string{"waybill", "gate", "serve", "checked.yaml", "--check"}, flags...)...)
	}
	want(t, check("", "", tokens...), 0)
	want(t, check("", "", append([]string{"--feature-gates", "EmitVSA=true"}, tokens...)...), 0)
	want(t, check("", "", append([]string{"--feature-gates", "RequireProvenance=false"}, tokens...)...), 2, "no flag can switch")
	want(t, check("site: site, ", "", tokens...), 2, "site is required")
	want(t, check("reportAs: gate", `reportAs: "a gate"`, tokens...), 2, "reportAs")
	want(t, check("reportAs: gate", "reportsAs: gate", tokens...), 2, "reportsAs")
	want(t, check("FEATURES.yaml", "NONE.yaml", tokens...), 2, "NONE.yaml")
	want(t, check("site: site", "site: elsewhere", tokens...), 2, "elsewhere")
	want(t, check("", "", tokens[:2]...), 2, "token of the reconciler")
	want(t, check(", reconcile: FEATURES.yaml", "", tokens...), 2, "token of the reconciler")
	want(t, check(", reconcile: FEATURES.yaml", "", tokens[:2]...), 0)
	want(t, check("site: site, reportAs: gate, reconcile: FEATURES.yaml", "site: elsewhere", tokens[:2]...), 3, "elsewhere")
}
