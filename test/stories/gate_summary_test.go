package stories

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/waybill-release/waybill/pkg/backend/registry"
	"github.com/waybill-release/waybill/pkg/document/vsa"
	"github.com/waybill-release/waybill/pkg/serve/api"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/test/scene"
)

// may asks the gate whether the staged image may go to a repository, and has the
// summary written.
func (s *gatehouse) may(to, summary string, more ...string) scene.Result {
	s.t.Helper()
	return s.askFor(s.Lab.Registry+"/staging/lantern/lantern:"+scene.Version, to, append([]string{"--summary", summary}, more...)...)
}

func (s *gatehouse) askFor(image, to string, more ...string) scene.Result {
	s.t.Helper()
	s.write("caller.token", s.token(nil))
	return s.Run(s.t.Context(), append([]string{"waybill", "gate", "check", image, "--server", s.callers, "--release-version", scene.Version,
		"--identity-token", "caller=caller.token", "--channel", "stable", "--to", s.Lab.Registry + "/" + to}, more...)...)
}

// none says that no file is there.
func (s *gatehouse) none(name string) {
	s.t.Helper()
	if _, err := os.Stat(s.Path(name)); !errors.Is(err, fs.ErrNotExist) {
		s.t.Errorf("%s is there: %v", name, err)
	}
}

// TestGateSummaries: a gate that signs summaries vouches once for what may go
// somewhere, and for nothing else; where it cannot, it decides nothing. What it
// signs counts for whoever believes it.
func TestGateSummaries(t *testing.T) {
	s := &gatehouse{admin: openAdmin(t)}
	s.write("verifier.token", "this is no token")
	s.start("summaries: true\n", "--identity-token", "verifier=verifier.token")

	// Nobody vouches without a token of the verifier; the token is read anew.
	once := []string{"--timeout", "5s"} // is no time to ask again
	want(t, s.may("eu/lantern", "early.json", once...), 3, "UNAVAILABLE", "could not be signed")
	s.none("early.json")
	s.write("verifier.token", s.Lab.Token("release"))
	want(t, s.may("eu/lantern", "early.json", once...), 3, "could not be signed")
	s.write("verifier.token", s.Lab.Token("verifier"))
	before := len(s.Lab.Logged())
	want(t, s.may("eu/lantern", "one.json"), 0, "OK ")
	want(t, s.may("eu/lantern", "again.json"), 0)
	if one, again := s.read("one.json"), s.read("again.json"); string(one) != string(again) || len(s.Lab.Logged())-before != 1 {
		t.Errorf("one decision was vouched for %d times", len(s.Lab.Logged())-before)
	}
	want(t, s.may("eu/another", "."), 0)
	if another := s.read("sha256-" + s.image.Digest.Hex() + ".vsa.sigstore.json"); string(another) == string(s.read("one.json")) || len(s.Lab.Logged())-before != 2 {
		t.Errorf("for another destination: %d in the log", len(s.Lab.Logged())-before)
	}
	s.vouched()

	// What is refused, and what is only asked about, has none.
	bare := s.Lab.Registry + "/staging/lantern/lantern@" + s.bare("staging/lantern").Digest.String()
	want(t, s.askFor(bare, "eu/lantern", "--summary", "refused.json"), 1, "UNSIGNED")
	s.none("refused.json")
	if status, said := s.ask(s.token(nil), s.question("verify", s.image.Digest.String(), "")); status != http.StatusOK || strings.Contains(said, `"summary"`) {
		t.Errorf("verified: %d %s", status, said)
	}
	want(t, s.Run(t.Context(), "waybill", "gate", "check", bare, "--server", s.callers, "--summary", "x.json"), 2, "--summary")
	want(t, s.Run(t.Context(), "waybill", "gate", "check", bare, bare, "--server", s.callers, "--to", "x/y", "--summary", "x.json"), 2, "an existing directory")

	// Without a log nobody vouches for anything new.
	if err := s.Lab.Stop("rekor"); err != nil {
		t.Fatal(err)
	}
	want(t, s.may("eu/third", "third.json", once...), 3, "could not be signed")
	s.none("third.json")
	want(t, s.may("eu/lantern", "kept.json"), 0)
	if string(s.read("kept.json")) != string(s.read("one.json")) {
		t.Error("what was decided is vouched for anew")
	}
	if log := s.log(); strings.Contains(log, "eyJ") || strings.Count(log, `"summary signed"`) != 2 {
		t.Errorf("the log has a token, or not each summary once:\n%s", log)
	}
}

// vouched: who believes the verifier takes its word at the destination, for
// exactly what was asked.
func (s *gatehouse) vouched() {
	s.t.Helper()
	want(s.t, s.Run(s.t.Context(), "waybill", "promote", "apply", "plan.json", "--profile", "profile.yaml", "--state", "promotions", "--confirm"), 0)
	consumer := func(name, resource string, changes ...string) {
		bench{s.Scene}.policy(s.t, name, string(s.read("policy.yaml")), append([]string{
			"plan: require\n", fmt.Sprintf("plan: require\nsummaries:\n- {verifier: %q, resource: %q, policy: {uri: %q, sha256: %q}, levels: {BUILD: 1}, maxAge: 1h}\n",
				verifierID, resource, policyURI, digest.Of(digest.SHA256, s.read("policy.yaml")).Hex()),
			"sbom: require", "sbom: \"off\""}, changes...)...)
	}
	to := s.Lab.Registry + "/eu/lantern"
	judge := func(policy string) scene.Result {
		return s.Run(s.t.Context(), "waybill", "gate", "check", to+"/lantern@"+s.image.Digest.String(), "--policy", policy, "--trusted-root", "trusted_root.json",
			"--stage", "release", "--release-version", scene.Version)
	}
	asks := []string{
		"classes: [binary, archive, file, image]\n  checks: {provenance: require, signature: require,", "classes: [binary, archive, file, image]\n  checks: {summary: require, provenance: require, signature: require,",
		"classes: [image-child], checks: {", "classes: [image-child], checks: {summary: require, ",
	}
	consumer("consumer.yaml", to, asks...)
	consumer("elsewhere.yaml", s.Lab.Registry+"/us/lantern", asks...)
	want(s.t, judge("consumer.yaml"), 1, "EVIDENCE_MISSING")
	s.attachAll("eu/lantern", s.read("one.json"))
	want(s.t, judge("consumer.yaml"), 0, "OK ")
	want(s.t, judge("elsewhere.yaml"), 1, "VSA_RESOURCE")
	// In the place of provenance.
	consumer("consumer.yaml", to)
	consumer("elsewhere.yaml", s.Lab.Registry+"/us/lantern")
	vouched := func(policy string) scene.Result {
		return s.Run(s.t.Context(), "waybill", "gate", "image", to+"/lantern@"+s.image.Digest.String(), "--policy", policy, "--trusted-root", "trusted_root.json",
			"--stage", "release", "--release-version", scene.Version, "--accept-vsa")
	}
	want(s.t, vouched("consumer.yaml"), 0, "3 × "+vsa.PredicateType)
	if r := vouched("elsewhere.yaml"); r.Code != 0 || strings.Contains(r.Stdout, vsa.PredicateType) { // by provenance, which is there as well
		s.t.Errorf("%s: %d\n%s%s", r, r.Code, r.Stdout, r.Stderr)
	}
	// The bundle by itself, as anybody reads it.
	issuer, subject := s.Lab.Identity("verifier")
	bundle := func(of digest.Digest) scene.Result {
		return s.Run(s.t.Context(), "waybill", "verify", "bundle", "one.json", "--digest", of.String(), "--type", vsa.PredicateType, "--trusted-root", "trusted_root.json",
			"--certificate-identity", subject, "--certificate-oidc-issuer", issuer)
	}
	want(s.t, bundle(s.image.Digest), 0)
	want(s.t, bundle(digest.Of(digest.SHA256, nil)), 1, "NOT_BOUND")
}

// attachAll attaches a bundle to the staged image, and to each of its manifests,
// at a destination.
func (s *gatehouse) attachAll(prefix string, bundle []byte) {
	s.t.Helper()
	at := s.at(prefix)
	graph, err := registry.Graph(s.t.Context(), at, "lantern", s.image)
	if err != nil {
		s.t.Fatal(err)
	}
	w := &workshop{remote: at}
	w.attach(s.t, "lantern", graph.Descriptor, bundle)
	for _, child := range graph.Children {
		w.attach(s.t, "lantern", child.Descriptor, bundle)
	}
}

// TestGateWithoutSummaries: a gate that signs none gives none, and is not taken
// for one that does; one that should and cannot does not begin.
func TestGateWithoutSummaries(t *testing.T) {
	s := openGatehouse(t)
	want(t, s.may("eu/lantern", "one.json"), 2, "signs no summaries")
	s.none("one.json")
	want(t, s.askFor(s.Lab.Registry+"/staging/lantern/lantern:"+scene.Version, "eu/lantern"), 0, "OK ")
	var answer api.Answer
	_, said := s.ask(s.token(nil), s.question("promote", s.image.Digest.String(), fmt.Sprintf(`,"to":"%s/eu/lantern","channel":"stable"`, s.Lab.Registry)))
	if err := json.Unmarshal([]byte(said), &answer); err != nil || !answer.Accepted() || len(answer.Decisions[0].Summary) > 0 {
		t.Errorf("%v: %s", err, said)
	}
	check := func(flags ...string) scene.Result {
		return s.Run(t.Context(), append([]string{"waybill", "gate", "serve", "service.yaml", "--check"}, flags...)...)
	}
	s.write("verifier.token", s.Lab.Token("verifier"))
	with := []string{"--identity-token", "verifier=verifier.token"}
	want(t, check(), 0)
	want(t, check(with...), 2, "summaries: true")
	s.write("service.yaml", string(s.read("service.yaml"))+"summaries: true\n")
	want(t, check(), 2, "needs a token of the verifier")
	want(t, check(with...), 0)
	profile := string(s.read("profile.yaml"))
	for _, without := range []string{"records: ", "signingConfig: "} {
		var kept []string
		for line := range strings.Lines(profile) {
			if !strings.HasPrefix(line, without) {
				kept = append(kept, line)
			}
		}
		s.write("profile.yaml", strings.Join(kept, ""))
		want(t, check(with...), 2, "signingConfig and records: missing")
	}
}
