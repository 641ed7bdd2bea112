package stories

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/waybill-release/waybill/pkg/serve/api"
	"github.com/waybill-release/waybill/test/scene"
)

// gatehouse is the gate as a service, in front of the lab.
type gatehouse struct {
	admin
	callers, page string
	second        string // begins the names of its files where it is not the first in the scene
	within        string // the control group that it runs in, if any
	cmd           *exec.Cmd
}

const audience = "https://gate.example.test"

// openGatehouse stages the example and starts the service.
func openGatehouse(t *testing.T) *gatehouse {
	t.Helper()
	s := &gatehouse{admin: openAdmin(t)}
	s.start("")
	return s
}

// start starts the service with more in its file, and more flags.
func (s *gatehouse) start(more string, flags ...string) {
	s.t.Helper()
	s.startWith(nil, more, flags...)
}

// startWith starts it with more in its environment, too.
func (s *gatehouse) startWith(env []string, more string, flags ...string) {
	t := s.t
	t.Helper()
	issuer, subject := s.Lab.Identity("verifier")
	s.write("callers.yaml", fmt.Sprintf(`audience: %s
callers:
- {name: promoter, token: {issuer: %q, subject: %q}}
- {name: admission, certificate: {uri: "spiffe://example.test/admission"}}
grants:
- {caller: promoter, verbs: [verify], from: [%[4]s/staging/], to: [%[4]s/staging/], channels: [none]}
- {caller: promoter, verbs: [promote], from: [%[4]s/staging/], to: [%[4]s/eu/], channels: [stable]}
- {caller: promoter, verbs: [override, audit], from: [%[4]s/staging/], to: [%[4]s/eu/], channels: [stable]}
- {caller: admission, verbs: [verify, audit], from: [%[4]s/staging/], to: [%[4]s/staging/], channels: [none]}
`, audience, issuer, subject, s.Lab.Registry))
	s.write(s.second+"service.yaml", `apiVersion: waybill/v1
kind: GateService
profile: profile.yaml
callers: callers.yaml
listen: 127.0.0.1:0
admin: 127.0.0.1:0
`+more)
	args := append([]string{filepath.Join(bin, "waybill"), "gate", "serve", s.second + "service.yaml"}, flags...)
	if s.within != "" {
		args = append([]string{"sh", "-c", `echo $$ > "$0"/cgroup.procs && exec "$@"`, s.within}, args...)
	}
	s.cmd = exec.CommandContext(t.Context(), args[0], args[1:]...)
	s.cmd.Dir = s.Path(".")
	log, err := os.Create(s.Path(s.second + "gate.log"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = log.Close() })
	s.cmd.Stderr = log
	s.cmd.Env = append(append(os.Environ(), "WAYBILL_PATIENCE=1s"), env...)
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.cmd.Process.Kill() })
	lines := bufio.NewScanner(out)
	for _, to := range []*string{&s.callers, &s.page} {
		if !lines.Scan() {
			t.Fatalf("the service did not start: %s", s.log())
		}
		*to = "http://" + strings.Fields(lines.Text())[1]
	}
}

func (s *gatehouse) write(name, text string) {
	s.t.Helper()
	if err := os.WriteFile(s.Path(name), []byte(text), 0o600); err != nil {
		s.t.Fatal(err)
	}
}

// log is what the service has logged so far.
func (s *gatehouse) log() string { return string(s.read(s.second + "gate.log")) }

// token is one of the promoter, with some claims changed.
func (s *gatehouse) token(claims map[string]any) string {
	s.t.Helper()
	all := map[string]any{"aud": audience}
	for name, value := range claims {
		all[name] = value
	}
	text, err := s.Lab.Mint("verifier", all)
	if err != nil {
		s.t.Fatal(err)
	}
	return text
}

// ask asks, and returns the status and what was said.
func (s *gatehouse) ask(token, body string) (int, string) {
	s.t.Helper()
	ctx, stop := context.WithTimeout(s.t.Context(), 20*time.Second)
	defer stop()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.callers+"/v1/decisions", strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		s.t.Fatal(err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return resp.StatusCode, string(raw)
}

// question asks one thing about an image of the staging repository.
func (s *gatehouse) question(verb, digest string, more string) string {
	return fmt.Sprintf(`{"schema":%q,"decisions":[{"verb":%q,"image":"%s/staging/lantern/lantern@%s","version":%q%s}]}`,
		api.SchemaRequest, verb, s.Lab.Registry, digest, scene.Version, more)
}

// TestGateServe: one question over the network, every answer.
func TestGateServe(t *testing.T) {
	s := openGatehouse(t)
	good, bare := s.image.Digest.String(), s.bare("staging/lantern").Digest.String()
	to := fmt.Sprintf(`,"to":"%s/eu/lantern","channel":"stable"`, s.Lab.Registry)
	for _, c := range []struct {
		name, token, body string
		status            int
		said              string
	}{
		{"accepted", s.token(nil), s.question("verify", good, ""), 200, `"outcome":"accepted"`},
		{"again", s.token(nil), s.question("verify", good, ""), 200, `"cached":true`},
		{"to be promoted", s.token(nil), s.question("promote", good, to), 200, `"outcome":"accepted"`},
		{"refused", s.token(nil), s.question("verify", bare, ""), 403, `"code":"UNSIGNED"`},
		{"not there", s.token(nil), s.question("verify", "sha256:"+strings.Repeat("0", 64), ""), 403, `"code":"MISSING"`},
		{"nobody", "", s.question("verify", good, ""), 401, `"code":"TOKEN_PARSE"`},
		{"another audience", s.token(map[string]any{"aud": "sigstore"}), s.question("verify", good, ""), 401, `"code":"TOKEN_AUD"`},
		{"somebody else", s.token(map[string]any{"sub": "eve"}), s.question("verify", good, ""), 401, `"code":"TOKEN_SUB"`},
		{"expired", s.token(map[string]any{"exp": time.Now().Add(-time.Hour).Unix()}), s.question("verify", good, ""), 401, `"code":"TOKEN_TIME"`},
		{"another channel", s.token(nil), s.question("promote", good, strings.Replace(to, "stable", "beta", 1)), 403, `"code":"NOT_GRANTED"`},
		{"another destination", s.token(nil), s.question("promote", good, strings.Replace(to, "/eu/", "/us/", 1)), 403, `"code":"NOT_GRANTED"`},
		{"a tag", s.token(nil), strings.Replace(s.question("verify", good, ""), "@"+good, ":"+scene.Version, 1), 422, "sha256"},
		{"an unknown key", s.token(nil), strings.Replace(s.question("verify", good, ""), `"verb"`, `"verified":true,"verb"`, 1), 422, "verified"},
		{"nothing", s.token(nil), `{"schema":"waybill/decision-request/v1","decisions":[]}`, 422, "decisions"},
		{"too much", s.token(nil), strings.Repeat(" ", 1<<20) + s.question("verify", good, ""), 422, "exceeds"},
	} {
		if status, said := s.ask(c.token, c.body); status != c.status || !strings.Contains(said, c.said) {
			t.Errorf("%s: %d, want %d and %s:\n%s", c.name, status, c.status, c.said, said)
		}
	}
	want(t, s.Run(t.Context(), "waybill", "gate", "serve", "service.yaml", "--check"), 0, "service.yaml is valid: ")
	s.write("bad.yaml", string(s.read("service.yaml"))+"tls: {certificate: none.crt, key: none.key}\n")
	want(t, s.Run(t.Context(), "waybill", "gate", "serve", "bad.yaml", "--check"), 2, "none.crt")
	s.asked()
	s.certified()
	s.reloads(good)
	s.pages()
	if err := s.Lab.Stop("registry"); err != nil {
		t.Fatal(err)
	}
	if status, said := s.ask(s.token(nil), s.question("verify", "sha256:"+strings.Repeat("1", 64), "")); status != 503 || !strings.Contains(said, `"unavailable"`) {
		t.Errorf("without a registry: %d %s", status, said)
	}
	if status, said := s.ask(s.token(nil), s.question("verify", good, "")); status != 200 && status != 503 {
		t.Errorf("without a registry, decided before: %d %s", status, said)
	}
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := s.cmd.Wait(); err != nil {
		t.Errorf("it ended with %v: %s", err, s.log())
	}
	s.logged()
}

// asked: the command asks the service, and prints its verdict as its own.
func (s *gatehouse) asked() {
	s.t.Helper()
	s.write("caller.token", s.token(nil))
	image := s.Lab.Registry + "/staging/lantern/lantern:" + scene.Version
	ask := func(more ...string) scene.Result {
		return s.Run(s.t.Context(), append([]string{"waybill", "gate", "check", image, "--server", s.callers, "--release-version", scene.Version}, more...)...)
	}
	with := []string{"--identity-token", "caller=caller.token"}
	want(s.t, ask(with...), 0, "OK ", "Decided by the gate at")
	want(s.t, ask(append(with, "--to", s.Lab.Registry+"/eu/lantern", "--channel", "stable")...), 0, "OK ")
	want(s.t, ask(append(with, "--to", s.Lab.Registry+"/us/lantern", "--channel", "stable")...), 1, "NOT_GRANTED")
	want(s.t, ask(), 1, "TOKEN_PARSE")
	want(s.t, ask(append(with, "--policy", "policy.yaml")...), 2, "uses its own policy")
	want(s.t, s.Run(s.t.Context(), "waybill", "gate", "check", image, "--policy", "policy.yaml", "--to", "x"), 2, "--server")
	want(s.t, s.Run(s.t.Context(), "waybill", "gate", "check", image, "--server", "http://127.0.0.1:1"), 3, "UNAVAILABLE")
}

// reloads: a policy that cannot be read leaves the last in force; one that
// refuses counts from then on, whatever was decided before.
func (s *gatehouse) reloads(good string) {
	s.t.Helper()
	policy := string(s.read("policy.yaml"))
	for _, c := range []struct {
		text   string
		status int
		shown  string
	}{
		{policy + "nonsense: true\n", 200, "could not be read"},
		{strings.Replace(policy, "name: lantern-release", "name: stricter", 1), 200, "stricter"},
		{strings.Replace(policy, "release: [", "release: [{issuer: \"https://accounts.example.test\", subject: nobody@example.test, type: email}]\n  x: [", 1), 200, "could not be read"},
	} {
		s.write("policy.yaml", c.text)
		before := strings.Count(s.log(), "basis in force") + strings.Count(s.log(), "reload failed")
		if err := s.cmd.Process.Signal(syscall.SIGHUP); err != nil {
			s.t.Fatal(err)
		}
		s.until(func() bool {
			return strings.Count(s.log(), "basis in force")+strings.Count(s.log(), "reload failed") > before
		})
		if status, said := s.ask(s.token(nil), s.question("verify", good, "")); status != c.status {
			s.t.Errorf("after a reload: %d %s", status, said)
		}
		if page := s.get("/statusz"); !strings.Contains(page, c.shown) {
			s.t.Errorf("the page does not say %q:\n%s", c.shown, page)
		}
	}
}

// until waits for something that another process does.
func (s *gatehouse) until(done func() bool) {
	s.t.Helper()
	for range 500 {
		if done() {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	s.t.Fatalf("it did not happen: %s", s.log())
}

func (s *gatehouse) get(path string) string {
	s.t.Helper()
	resp, err := http.Get(s.page + path)
	if err != nil {
		s.t.Fatal(err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		s.t.Fatalf("%s: %d, %v", path, resp.StatusCode, err)
	}
	return string(raw)
}

// pages: what those who look after the service see.
func (s *gatehouse) pages() {
	s.t.Helper()
	page := s.get("/statusz")
	for _, has := range []string{"UNSIGNED", "TOKEN_AUD", "INSECURE LAB", "</code>, read ", "GET /openapi.json", "<td data-name=\"verb\">verify</td>", "· version ", "· running for ", "less than 5m earlier"} {
		if !strings.Contains(page, has) {
			s.t.Errorf("the page lacks %s:\n%s", has, page)
		}
	}
	if strings.Contains(page, "--help") {
		s.t.Errorf("the page sends who asks over HTTP to the help of a command:\n%s", page)
	}
	s.findings(page)
	metrics := s.get("/metrics")
	for _, line := range []string{`waybill_gate_decisions_total{outcome="refused"}`, `waybill_gate_rejected_requests_total{code="TOKEN_AUD"} 1`, "waybill_gate_cached_decisions_total"} {
		if !strings.Contains(metrics, line) {
			s.t.Errorf("the metrics lack %s:\n%s", line, metrics)
		}
	}
	if strings.Contains(metrics, "sha256") || strings.Contains(metrics, "lantern") {
		s.t.Error("the metrics name what was asked about")
	}
	if got := s.get("/readyz"); got != "ready\n" {
		s.t.Errorf("ready: %q", got)
	}
	for _, path := range []string{"/statusz", "/metrics"} {
		if resp, err := http.Get(s.callers + path); err != nil || resp.StatusCode != http.StatusNotFound {
			s.t.Errorf("callers see %s: %v", path, err)
		}
	}
}

// findings: each decision on the page leads to a page of its own with every finding
// of it, which loads nothing and runs no script.
func (s *gatehouse) findings(page string) {
	s.t.Helper()
	refused := 0
	for _, link := range regexp.MustCompile(`href="(statusz/decision/[^"]+)"`).FindAllStringSubmatch(page, -1) {
		resp, err := http.Get(s.page + "/" + link[1])
		if err != nil {
			s.t.Fatal(err)
		}
		raw, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		text := string(raw)
		if err != nil || resp.StatusCode != http.StatusOK || !strings.HasPrefix(resp.Header.Get("Content-Security-Policy"), "default-src 'none'; style-src 'unsafe-inline';") || strings.Contains(text, "<script") {
			s.t.Errorf("%s: %v %v %s", link[1], err, resp.Header, text)
		}
		if strings.Contains(text, "<code class=\"bad\">UNSIGNED</code>") && strings.Contains(text, "what to do") {
			refused++
		}
	}
	if refused == 0 {
		s.t.Errorf("no page has the findings of the refusal:\n%s", page)
	}
	if resp, err := http.Get(s.page + "/statusz/decision/NONE-1"); err != nil || resp.StatusCode != http.StatusNotFound {
		s.t.Errorf("a decision that was not made: %v %v", resp, err)
	}
}

// logged: each decision stands in the log, with who asked, and no token does.
func (s *gatehouse) logged() {
	s.t.Helper()
	decisions := 0
	for line := range strings.Lines(s.log()) {
		var entry map[string]any
		if err := json.Unmarshal([]byte(line), &entry); err != nil {
			s.t.Errorf("no JSON: %s", line)
		}
		if entry["msg"] == "decision" {
			decisions++
			if entry["principal"] != "promoter" || entry["policy"] == "" || entry["request_id"] == "" {
				s.t.Errorf("a decision is logged without who asked: %s", line)
			}
		}
	}
	if decisions < 5 || strings.Contains(s.log(), "eyJ") {
		s.t.Errorf("%d decisions are logged, or a token is", decisions)
	}
}
