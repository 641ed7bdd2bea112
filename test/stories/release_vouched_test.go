package stories

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/waybill-release/waybill/pkg/document/provenance"
	"github.com/waybill-release/waybill/pkg/document/vsa"
	"github.com/waybill-release/waybill/test/scene"
)

// TestReleaseVouchedFor: who knows the verifier of a release and not its
// builder takes the verifier's word, if it answers everything that is asked;
// each fact that is another lets provenance decide, which he does not believe.
func TestReleaseVouchedFor(t *testing.T) {
	s := openProject(t, shell).Scene
	want(t, s.Stage(t.Context()), 0)
	c := &consumer{desk: &desk{&workshop{Scene: s}}}
	c.policy, c.profile = string(c.read(t, "policy.yaml")), string(c.read(t, "profile.yaml"))
	text := strings.NewReplacer("https://example.test/verifier", verifies, strings.Repeat("0", 63)+"1", sum("the policy").Hex()).
		Replace(summaries("https://dl.example.test/lantern/{version}/"))
	asks := []string{
		provenance.BuilderIsolated, "https://example.test/another-builder", provenance.BuilderUnisolated, "https://example.test/no-builder",
		"plan: require\n", fmt.Sprintf("plan: require\nlate: [{predicate: %q, role: verifier, stages: [release]}]\n%s", vsa.PredicateType, text),
	}
	with := func(old, now string) []string {
		changed := slices.Clone(asks)
		changed[5] = strings.Replace(changed[5], old, now, 1)
		if changed[5] == asks[5] {
			t.Fatalf("%q is not in %s", old, asks[5])
		}
		return changed
	}
	all := everything(c.manifest(t))
	of := func(role string, change fields) []byte {
		return c.sign(t, role, stateAll(vsa.PredicateType, all, summed().with(change)))
	}
	ago := func(d time.Duration) fields {
		return fields{"timeVerified": time.Now().UTC().Add(-d).Format(time.RFC3339)}
	}
	no := fields{"verificationResult": "FAILED", "verifiedLevels": []any{"FAILED"}}
	good := of("verifier", nil)
	rows := []struct {
		name   string
		policy []string
		late   [][]byte
		code   string // what the summary lacks; empty when it counts
	}{
		{"as it must be", asks, [][]byte{good}, ""},
		{"another verifier", with(verifies, "https://verifier.example.test/other"), [][]byte{good}, "VSA_VERIFIER"},
		{"another resource", with("/lantern/{version}/", "/lamp/{version}/"), [][]byte{good}, "VSA_RESOURCE"},
		{"another policy", with("https://example.test/policy", "https://example.test/lax"), [][]byte{good}, "VSA_POLICY"},
		{"another text of the policy", with(sum("the policy").Hex(), sum("a laxer policy").Hex()), [][]byte{good}, "VSA_POLICY"},
		{"a higher level", with("BUILD: 2", "BUILD: 4"), [][]byte{good}, "VSA_LEVEL"},
		{"a lower level in it", asks, [][]byte{of("verifier", fields{"verifiedLevels": []any{"SLSA_BUILD_LEVEL_1"}})}, "VSA_LEVEL"},
		{"a level of another track", asks, [][]byte{of("verifier", fields{"verifiedLevels": []any{"SLSA_SOURCE_LEVEL_3"}})}, "VSA_LEVEL"},
		{"a stale one", asks, [][]byte{of("verifier", ago(25*time.Hour))}, "VSA_STALE"},
		{"one of yesterday", asks, [][]byte{of("verifier", ago(23*time.Hour))}, ""},
		{"one from the future", asks, [][]byte{of("verifier", ago(-time.Hour))}, "VSA_STALE"},
		{"a no", asks, [][]byte{of("verifier", no)}, "VSA_RESULT"},
		{"a no after the yes", asks, [][]byte{of("verifier", ago(time.Hour)), of("verifier", no)}, "VSA_RESULT"},
		{"a no before the yes", asks, [][]byte{of("verifier", no.with(ago(2*time.Hour))), good}, ""},
		{"by the release identity", asks, [][]byte{of("release", nil)}, "EXTRA"},
		{"by a stranger", asks, [][]byte{of("mallory@evil.example", nil)}, "EXTRA"},
		{"of other bytes", asks, [][]byte{c.sign(t, "verifier", stateAll(vsa.PredicateType, []subject{{artifact, sum("other")}}, summed()))}, "EXTRA"},
		{"of one artifact alone", asks, [][]byte{c.sign(t, "verifier", stateAll(vsa.PredicateType, all[:1], summed()))}, "BUILDER"},
		{"none", asks, nil, "BUILDER"},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			more := map[string][]byte{}
			for i, bundle := range row.late {
				more[vsa.Name(i+1)] = bundle
			}
			files := c.files(t, more)
			r := c.judge(t, row.policy, "--files", files, "--accept-vsa")
			if row.code != "" {
				want(t, r, 1, row.code)
				return
			}
			want(t, r, 0, "in part", "provenance of 7 artifacts", "relied on the summary sha256:", "for "+verifies, "SLSA_BUILD_LEVEL_3")
			want(t, c.judge(t, row.policy, "--files", files), 1, "BUILDER") // unless he says so, provenance decides
		})
	}
	pairs(t, c, asks, good, of("mallory@evil.example", nil))
	files := c.files(t, map[string][]byte{vsa.Name(1): good})
	tampered := c.files(t, map[string][]byte{vsa.Name(1): good, artifact: []byte("something else")})
	want(t, c.judge(t, asks, "--files", tampered, "--accept-vsa"), 1, "TAMPERED")
	want(t, c.judge(t, asks, "--files", c.files(t, map[string][]byte{vsa.Name(1): good, "more": nil}), "--accept-vsa"), 1, "EXTRA")
	want(t, c.judge(t, asks, "--files", files, "--accept-vsa", "--require-level", "build=3"), 0, "relied on the summary")
	want(t, c.judge(t, with("BUILD: 2", "BUILD: 3"), "--files", c.files(t, map[string][]byte{vsa.Name(1): of("verifier", fields{"verifiedLevels": []any{"SLSA_BUILD_LEVEL_2"}})}), "--accept-vsa"), 1, "VSA_LEVEL")
	want(t, c.judge(t, nil, "--files", files, "--accept-vsa"), 2, "USAGE", "lists no verifier under summaries")
	want(t, c.judge(t, asks, "--files", files, "--accept-vsa", "--depth", "signatures"), 2, "USAGE", "--depth leaves provenance out")
	want(t, c.judge(t, asks, "--files", files, "--accept-vsa"), 0)
	for _, more := range []string{"", filepath.Join("state", "files", filepath.FromSlash(artifact)), "--only images"} {
		small := c.by(t, "k8s-verify-release", "mine", append(strings.Fields(more), "--files", files, "--accept-vsa")...)
		want(t, small, 0, "relied on the summary")
		want(t, c.by(t, "k8s-verify-release", "mine", append(strings.Fields(more), "--files", files)...), 1, "BUILDER")
	}
}

// pairs: where two identities have the role verifier, each speaks for its own.
func pairs(t *testing.T, c *consumer, asks []string, good, other []byte) {
	t.Helper()
	who := func(role string) string {
		issuer, subject := c.Lab.Identity(role)
		return fmt.Sprintf("{issuer: %q, subject: %q, type: email}", issuer, subject)
	}
	verifier, mallory := who("verifier"), who("mallory@evil.example")
	two := append(slices.Clone(asks), "  verifier: ["+verifier+"]", "  verifier: ["+verifier+", "+mallory+"]")
	pinned := func(to string) []string {
		changed := slices.Clone(two)
		changed[5] = strings.Replace(changed[5], "summaries: [{", "summaries: [{signers: ["+to+"], ", 1)
		return changed
	}
	ours, theirs := c.files(t, map[string][]byte{vsa.Name(1): good}), c.files(t, map[string][]byte{vsa.Name(1): other})
	want(t, c.judge(t, two, "--files", theirs, "--accept-vsa"), 0, "relied on the summary", "mallory@evil.example")
	want(t, c.judge(t, pinned(verifier), "--files", ours, "--accept-vsa"), 0, "relied on the summary")
	want(t, c.judge(t, pinned(verifier), "--files", theirs, "--accept-vsa"), 1, "VSA_VERIFIER", "may not sign for the verifier")
	want(t, c.judge(t, pinned(who("release")), "--files", ours, "--accept-vsa"), 2, "POLICY_VALUE", "is not an exact identity of the role verifier")
	unsaid := slices.Clone(two)
	another := unsaid[5][strings.Index(unsaid[5], "summaries: [{")+len("summaries: [") : strings.LastIndex(unsaid[5], "]")]
	unsaid[5] = strings.Replace(unsaid[5], "summaries: [{", "summaries: ["+strings.Replace(another, verifies, verifies+"/2", 1)+", {", 1)
	want(t, c.judge(t, unsaid, "--files", ours, "--accept-vsa"), 2, "POLICY_WEAK", "list in signers which identities sign for")
}

// TestGateFileVouchedFor: the same of one file, and of one image.
func TestGateFileVouchedFor(t *testing.T) {
	c := openCourt(t)
	unsigned := []string{`{provenance: require, signature: require, sbom: "off"}`, `{provenance: require, signature: "off", sbom: "off"}`}
	c.write(t, "summary.json", c.sign(t, "verifier", states(vsa.PredicateType, content, summed())))
	c.write(t, "low.json", c.sign(t, "verifier", states(vsa.PredicateType, content, summed().with(fields{"verifiedLevels": []any{"SLSA_BUILD_LEVEL_1"}}))))
	c.write(t, "built.json", c.sign(t, "builder", states(provenance.PredicateType, content, built1())))
	want(t, c.ask(t, unsigned, "summary --accept-vsa"), 0, "relied on the summary sha256:", "in place of provenance")
	want(t, c.ask(t, unsigned, "summary"), 1, "NO_PROVENANCE")
	want(t, c.ask(t, unsigned, "low --accept-vsa"), 1, "VSA_LEVEL")
	if r := c.ask(t, unsigned, "built low --accept-vsa"); r.Code != 0 || strings.Contains(r.Stdout, "relied on") {
		t.Errorf("%d: %s", r.Code, r.Stdout)
	}
	want(t, c.ask(t, []string{"levels: {BUILD: 3}", "levels: {BUILD: 1}"}, "low --accept-vsa"), 1, "UNSIGNED") // it stands for nothing else

	bench{c.Scene}.policy(t, "court.yaml", c.text, slices.Concat(unsigned, []string{"{provenance: require, signature: require}}", `{provenance: require, signature: "off"}}`})...)
	image := c.push(t, "vouched")
	c.attach(t, "vouched", image, c.sign(t, "verifier", statesOf(vsa.PredicateType, "shop/vouched", image.Digest, summed())))
	ask := []string{"waybill", "gate", "image", c.Lab.Registry + "/shop/vouched:v1", "--policy", "court.yaml", "--trusted-root", "trusted_root.json", "--release-version", scene.Version}
	want(t, c.Run(t.Context(), append(ask, "--accept-vsa")...), 0, "in place of provenance")
	want(t, c.Run(t.Context(), ask...), 1, "NO_PROVENANCE")
}
