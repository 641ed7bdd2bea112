package stories

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	exception "github.com/waybill-release/waybill/attestations/exception/v1"
	"github.com/waybill-release/waybill/pkg/document/intoto"
	"github.com/waybill-release/waybill/pkg/document/vsa"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
	"github.com/waybill-release/waybill/test/scene"
)

// TestGateOverride: the hosted builder was down, and the release has to go out.
// The officer says so, once for each manifest; whoever promotes shows that to
// the gate, once; and afterwards everybody can see that it was so.
func TestGateOverride(t *testing.T) {
	s := &gatehouse{admin: openAdmin(t)}
	issuer, _ := s.Lab.Identity("builder")
	policy := string(s.read("policy.yaml"))
	for _, c := range [][2]string{
		{"  level: 2\n", "  level: 1\n"},
		{"source: {", fmt.Sprintf("- id: https://builder.example.test\n  level: 2\n  signers: [{issuer: %q, subject: hosted@lab.invalid, type: email}]\nsource: {", issuer)},
		{"sbom: require}\n", "sbom: require}\n  level: 2\n"},
		{"provenance: require, signature: require}}", "provenance: require, signature: require}, level: 2}"},
	} {
		if !strings.Contains(policy, c[0]) {
			t.Fatalf("the policy lacks %q", c[0])
		}
		policy = strings.Replace(policy, c[0], c[1], 1)
	}
	s.write("policy.yaml", policy)
	s.write("policy.token", s.Lab.Token("policy"))
	s.write("verifier.token", s.Lab.Token("verifier"))
	signs := []string{"--identity-token", "verifier=verifier.token"}
	s.start("approvals: approvals\nsummaries: true\n", signs...)
	ready := func() scene.Result {
		return s.Run(t.Context(), append([]string{"waybill", "gate", "serve", "service.yaml", "--check"}, signs...)...)
	}
	image, to := s.Lab.Registry+"/staging/lantern/lantern:"+scene.Version, s.Lab.Registry+"/eu/lantern"
	check := func(token string, more ...string) scene.Result {
		s.write("caller.token", token)
		return s.Run(t.Context(), append([]string{
			"waybill", "gate", "check", image, "--server", s.callers, "--release-version", scene.Version, "--to", to, "--channel", "stable",
			"--identity-token", "caller=caller.token",
		}, more...)...)
	}
	r := check(s.token(nil), "--output", "json")
	want(t, r, 1, "LEVEL")
	with := s.excepted(r.Stdout, to)

	once := s.token(map[string]any{"jti": "one"})
	want(t, check(once, append(with, "--timeout", "3s")...), 3, "UNAVAILABLE", "approvals") // the place is not there yet
	want(t, ready(), 3, "approvals")
	if err := os.Mkdir(s.Path("approvals"), 0o755); err != nil {
		t.Fatal(err)
	}
	want(t, ready(), 0)
	want(t, check(s.token(nil), with...), 1, "REPLAY", "jti")
	want(t, check(once, append(with, "--summary", "one.json")...), 0, "OK ", "the hosted builder was down", "policy@lab.invalid")
	s.names("one.json", len(with)/2, to)
	want(t, check(once, with...), 1, "REPLAY", "fresh token")
	want(t, check(s.token(map[string]any{"jti": "two"}), append(with, "--summary", "two.json")...), 0, "the hosted builder was down")
	if string(s.read("one.json")) == string(s.read("two.json")) {
		t.Error("an override is remembered")
	}
	want(t, check(s.token(map[string]any{"jti": "three"}), with[:len(with)-2]...), 1, "LEVEL")
	want(t, check(s.token(nil)), 1, "LEVEL")
	want(t, s.Run(t.Context(), "waybill", "gate", "check", image, "--server", s.callers, "--exception", with[1]), 2, "--to")
	s.audited(s.image.Digest.String())
}

// names: what a gate vouches for under exceptions says so, and claims nothing
// that was excepted.
func (s *gatehouse) names(path string, exceptions int, to string) {
	t := s.t
	t.Helper()
	var bundle struct {
		Envelope struct{ Payload []byte } `json:"dsseEnvelope"`
	}
	if err := json.Unmarshal(s.read(path), &bundle); err != nil {
		t.Fatal(err)
	}
	statement, err := intoto.Parse(bundle.Envelope.Payload)
	if err != nil {
		t.Fatal(err)
	}
	said, err := vsa.Parse(statement)
	if err != nil {
		t.Fatal(err)
	}
	var predicate map[string]json.RawMessage
	var waived []struct {
		Code       verdict.Code
		By, Reason string
	}
	if err := errors.Join(json.Unmarshal(statement.Predicate(), &predicate), json.Unmarshal(predicate[exception.PredicateType+"#waived"], &waived)); err != nil {
		t.Fatal(err)
	}
	if len(waived) != exceptions || waived[0].Code != verdict.Level || waived[0].Reason != "the hosted builder was down" || !strings.Contains(waived[0].By, "policy@lab.invalid") {
		t.Errorf("the summary does not name all %d exceptions: %+v", exceptions, waived)
	}
	err = said.Answer(vsa.Question{
		VerifierID: verifierID, ResourceURI: to, PolicyURI: policyURI, Policy: digest.Of(digest.SHA256, s.read("policy.yaml")),
		Levels: map[string]int{"BUILD": 1}, Now: time.Now().Add(time.Second), MaxAge: time.Hour,
	})
	if level, claimed := said.Level("BUILD"); claimed || said.Result != vsa.Passed || verdict.FindingOf("", err).Code != "VSA_LEVEL" {
		t.Errorf("%s at level %d, %v: want that it passed, and that no level is claimed where that was excepted", said.Result, level, err)
	}
}

// excepted has the officer except every finding of a verdict, and returns the
// flags that show it to a gate.
func (s *gatehouse) excepted(output, to string) (flags []string) {
	s.t.Helper()
	var v verdict.Verdict
	if err := json.Unmarshal([]byte(output), &v); err != nil || len(v.Findings) == 0 {
		s.t.Fatalf("%v: %s", err, output)
	}
	for i, f := range v.Findings {
		_, sum, _ := strings.Cut(f.Subject, "@")
		path := fmt.Sprintf("x%d.json", i)
		want(s.t, s.Run(s.t.Context(), "waybill", "policy", "except", "--profile", "profile.yaml", "--code", string(f.Code), "--name", f.Subject, "--subject", sum,
			"--reason", "the hosted builder was down", "--destination", to, "--expires", "1h", "--identity-token", "policy=policy.token", "--output", path, "--confirm"), 0)
		flags = append(flags, "--exception", path)
	}
	return flags
}

// audited: who may reads what was decided, and everybody can check the log.
func (s *gatehouse) audited(digest string) {
	t := s.t
	t.Helper()
	s.write("caller.token", s.token(nil))
	ask := func(more ...string) scene.Result {
		return s.Run(t.Context(), append([]string{"waybill", "gate", "audit", "--server", s.callers, "--identity-token", "caller=caller.token"}, more...)...)
	}
	r := ask("--digest", digest)
	want(t, r, 0, "override", "excepted LEVEL", "promoter", "refused", "--head ")
	want(t, ask("--limit", "1", "--output", "json"), 0, `"schema":"waybill/audit/v1"`)
	want(t, ask("gate.log"), 2, "in another run")
	want(t, ask("--limit", "5000"), 2, "limit")
	want(t, s.Run(t.Context(), "waybill", "gate", "audit", "--server", s.callers), 1, "TOKEN_PARSE")
	head := regexp.MustCompile(`--head (\d+:sha256:[0-9a-f]{64})`).FindStringSubmatch(r.Stdout)
	if head == nil {
		t.Fatalf("no head: %s", r.Stdout)
	}
	for _, has := range []string{"<dt>record</dt><dd>line ", "<td data-name=\"verb\">override</td>"} {
		if page := s.get("/statusz"); !strings.Contains(page, has) {
			t.Errorf("the page lacks %s:\n%s", has, page)
		}
	}
	check := func(log string, more ...string) scene.Result {
		s.write("copy.log", log)
		return s.Run(t.Context(), append([]string{"waybill", "gate", "audit", "copy.log"}, more...)...)
	}
	log := s.log()
	lines := slices.Collect(strings.Lines(log))
	want(t, check(log, "--head", head[1]), 0, "OK ", "by outcome:", "promoter")
	want(t, check(log), 0, "cut off or rewritten")
	at := slices.IndexFunc(lines, func(l string) bool { return strings.Contains(l, `"outcome":"refused"`) })
	edited := slices.Clone(lines)
	edited[at] = strings.Replace(edited[at], `"refused"`, `"accepted"`, 1)
	want(t, check(strings.Join(edited, "")), 1, "AUDIT_CHAIN", fmt.Sprintf("copy.log:%d", at+2))
	want(t, check(strings.Join(slices.Delete(slices.Clone(lines), at, at+1), "")), 1, "AUDIT_CHAIN", "are missing")
	number := strings.Split(head[1], ":")[0]
	cut := slices.IndexFunc(lines, func(l string) bool { return strings.Contains(l, `"number":`+number+`,`) })
	want(t, check(strings.Join(lines[:cut], "")), 0, "OK ")
	want(t, check(strings.Join(lines[:cut], ""), "--head", head[1]), 1, "AUDIT_CHAIN", "cut off")
	want(t, check(log, "--head", "x"), 2, "--head")
	want(t, s.Run(t.Context(), "waybill", "gate", "audit"), 2, "LOG")
	want(t, s.Run(t.Context(), "waybill", "gate", "audit", "no-such.log"), 2, "no such file")
	want(t, s.Run(t.Context(), "waybill", "gate", "audit", "copy.log", "--limit", "3"), 2, "--server")
}
