package stories

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sigstore/sigstore-go/pkg/sign"

	exception "github.com/waybill-release/waybill/attestations/exception/v1"
	releasemanifest "github.com/waybill-release/waybill/attestations/release-manifest/v1"
	"github.com/waybill-release/waybill/pkg/document/intoto"
	"github.com/waybill-release/waybill/pkg/document/vsa"
	"github.com/waybill-release/waybill/pkg/release/manifest"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/test/scene"
)

// consumer is somebody who has a sealed release, and judges it by policies of
// his own.
type consumer struct {
	*desk
	policy, profile string
}

// TestPolicyOfAConsumer judges one release by many policies.
func TestPolicyOfAConsumer(t *testing.T) {
	s, err := scene.Open(context.Background(), scene.Options{Verbose: true, Bin: bin, Dir: t.TempDir(), Example: shell})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	want(t, s.Stage(t.Context()), 0)
	c := &consumer{desk: &desk{&workshop{Scene: s}}}
	c.policy, c.profile = string(c.read(t, "policy.yaml")), string(c.read(t, "profile.yaml"))
	for _, role := range []string{"policy", "release"} {
		c.write(t, role+".token", []byte(c.Lab.Token(role)))
	}
	want(t, c.judge(t, nil), 0, "nothing extra")
	t.Run("modes", func(t *testing.T) { modes(t, c) })
	t.Run("late evidence", func(t *testing.T) { lateEvidence(t, c) })
	t.Run("signed policies", func(t *testing.T) { signedPolicies(t, c) })
	t.Run("exceptions", func(t *testing.T) { exceptions(t, c) })
}

// judge judges the release by the scene's policy with texts replaced.
func (c *consumer) judge(t *testing.T, changes []string, flags ...string) scene.Result {
	t.Helper()
	bench{c.Scene}.policy(t, "mine.yaml", c.policy, changes...)
	return c.by(t, "waybill verify release", "mine", flags...)
}

// by judges it with a command and a policy.
func (c *consumer) by(t *testing.T, command, name string, flags ...string) scene.Result {
	t.Helper()
	bench{c.Scene}.policy(t, name+"-profile.yaml", c.profile, "policy: policy.yaml", "policy: "+name+".yaml")
	args := append(strings.Fields(command), scene.Version, "--profile", name+"-profile.yaml")
	if len(flags) == 0 || strings.HasPrefix(flags[0], "--") { // who names FILEs is not asked about images
		args = append(args, "--images", filepath.Join("state", "images"))
	}
	if !slices.Contains(flags, "--files") {
		args = append(args, "--files", filepath.Join("state", "files"))
	}
	return c.Run(t.Context(), append(args, flags...)...)
}

// files is a copy of the release's files with some more in it.
func (c *consumer) files(t *testing.T, more map[string][]byte) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "files")
	if err := os.CopyFS(dir, os.DirFS(c.Path("state", "files"))); err != nil {
		t.Fatal(err)
	}
	for name, body := range more {
		if err := os.WriteFile(filepath.Join(dir, filepath.FromSlash(name)), body, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// modes holds a policy to require, warn and off: only what is required and
// proven is complete, and what is left out is named.
func modes(t *testing.T, c *consumer) {
	const checks, sums = "{provenance: require, signature: require, sbom: require}", "plan: require\n"
	extra := c.files(t, map[string][]byte{"notes.txt": []byte("nobody listed this")})
	source := func(mode string) []string {
		return []string{"source: {repository: ", `source: {ref: "refs/tags/other", repository: `, checks, strings.Replace(checks, "provenance: require", "provenance: "+mode, 1),
			"{provenance: require, signature: require}", "{provenance: " + mode + ", signature: require}"}
	}
	closed := func(mode string) []string { return []string{"{files: require", "{files: " + mode} }
	rule := func(text string) []string {
		return []string{sums, fmt.Sprintf("plan: require\nrules: [{name: ours, classes: [binary], holds: %q}]\n", text)}
	}
	rows := []struct {
		name   string
		change []string
		flags  string
		code   int
		said   string
	}{
		{"provenance that falls short, required", source("require"), "", 1, "SOURCE_REF|bin/linux/amd64/lantern"},
		{"provenance that falls short, warned of", source("warn"), "", 0, "with 5 warnings, in part|SOURCE_REF|Not required by this policy: provenance"},
		{"provenance that falls short, left out", source(`"off"`), "", 0, "in part|Not required by this policy: provenance"},
		{"SBOMs warned of", []string{checks, strings.Replace(checks, "sbom: require", "sbom: warn", 1)}, "", 0, "in part|Not required by this policy: SBOMs"},
		{"an unlisted file, in a closed place", closed("require"), "--files " + extra, 1, "EXTRA"},
		{"an unlisted file, warned of", closed("warn"), "--files " + extra, 0, "with 1 warning, in part|notes.txt|Not required by this policy: search for extra files"},
		{"an unlisted file, left out", closed(`"off"`), "--files " + extra, 0, "in part|Not required by this policy: search for extra files."},
		{"open registries", []string{"images: require}", `images: "off"}`}, "", 0, "in part|Not required by this policy: search for extra image tags."},
		{"a plan that is left out, and provenance is not", []string{sums, "plan: \"off\"\n"}, "", 2, "POLICY_WEAK"},
		{"a plan that is warned of, and provenance is required", []string{sums, "plan: warn\n"}, "", 2, "POLICY_WEAK"},
		{"a policy as for what is published today", []string{checks, `{provenance: "off", signature: require, sbom: "off"}`, "{provenance: require, signature: require}",
			`{provenance: "off", signature: require}`, sums, "plan: \"off\"\n", "{files: require, images: require}", `{files: "off", images: "off"}`}, "",
			0, "in part|Not required by this policy: provenance, SBOMs, comparison with the build plan, search for extra files, search for extra image tags."},
		{"no lab", []string{"kind: Policy\n", "kind: Policy\ntrustRoot: {lab: \"off\"}\n"}, "", 1, "TRUST_LAB"},
		{"a lab", []string{"kind: Policy\n", "kind: Policy\ntrustRoot: {lab: warn}\n"}, "", 0, "nothing extra|INSECURE LAB"},
		{"a manifest that is too old", []string{sums, "plan: require\nlimits: {manifest: 1h}\n"}, "--now " + hence(2*time.Hour), 1, "STALE"},
		{"a manifest that is young enough", []string{sums, "plan: require\nlimits: {manifest: 3h}\n"}, "--now " + hence(2*time.Hour), 0, "nothing extra"},
		{"a policy that expires", []string{"kind: Policy\n", "kind: Policy\nexpires: \"2026-01-01\"\n"}, "", 1, "POLICY_EXPIRED"},
		{"a rule that does not hold", rule(`evidence.exists(e, e.provenance.ref == "refs/tags/" + version + "x")`), "", 1, "POLICY_RULE"},
		{"its twin", rule(`evidence.exists(e, e.provenance.ref == "refs/tags/" + version)`), "", 0, "nothing extra"},
		{"no check of files is closed", []string{"plan: require\nclosed", "plan: require\nClosed"}, "", 2, "YAML_UNKNOWN_KEY"},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			r := c.judge(t, row.change, strings.Fields(row.flags)...)
			want(t, r, row.code, strings.Split(row.said, "|")...)
			if row.code == 0 && !strings.Contains(row.said, "nothing extra") && strings.Contains(r.Stdout, "nothing extra") {
				t.Errorf("it says that it is complete:\n%s", r.Stdout)
			}
		})
	}
	bench{c.Scene}.policy(t, "ruled.yaml", c.policy, rule(`evidence.exists(e, e.provenance.ref == "refs/tags/" + version)`)...)
	want(t, c.by(t, "waybill verify release", "ruled"), 0, "nothing extra")
	want(t, c.by(t, "waybill gate check", "ruled"), 0, "nothing extra")
	want(t, c.by(t, "k8s-verify-release", "ruled"), 2, "this program cannot evaluate rules")
}

func hence(d time.Duration) string { return time.Now().UTC().Add(d).Format(time.RFC3339) }

// lateEvidence: what a verifier adds to a release after it was sealed is not
// extra where the policy lets him; anything else is.
func lateEvidence(t *testing.T, c *consumer) {
	m := c.manifest(t)
	late := func(role, stages string) []string {
		return []string{"plan: require\n", fmt.Sprintf("plan: require\nlate: [{predicate: %q, role: %s, stages: [%s]}]\n", vsa.PredicateType, role, stages)}
	}
	lantern, _ := m.Find(artifact)
	listed := subject{artifact, lantern.Digests.SHA256}
	unlisted := subject{"bin/linux/amd64/lamp", lantern.Digests.SHA256}
	other := subject{artifact, sum("other bytes")}
	allowed := late("verifier", "release")
	const name = artifact + ".vsa.sigstore.json"
	rows := []struct {
		what     string
		change   []string
		name     string
		role     string
		kind     string
		subjects []subject
		code     string
	}{
		{"by the verifier", allowed, name, "verifier", vsa.PredicateType, []subject{listed}, ""},
		{"where the policy allows none", nil, name, "verifier", vsa.PredicateType, []subject{listed}, "EXTRA"},
		{"by a stranger", allowed, name, "mallory@evil.example", vsa.PredicateType, []subject{listed}, "EXTRA"},
		{"by the release identity", allowed, name, "release", vsa.PredicateType, []subject{listed}, "EXTRA"},
		{"by the release identity, which may", late("release", "release"), name, "release", vsa.PredicateType, []subject{listed}, ""},
		{"at another stage", late("verifier", "staging"), name, "verifier", vsa.PredicateType, []subject{listed}, "EXTRA"},
		{"of another kind", allowed, name, "verifier", kind, []subject{listed}, "EXTRA"},
		{"about a name that is not listed", allowed, name, "verifier", vsa.PredicateType, []subject{unlisted}, "EXTRA"},
		{"about other bytes of a name", allowed, name, "verifier", vsa.PredicateType, []subject{other}, "EXTRA"},
		{"also about what is not listed", allowed, name, "verifier", vsa.PredicateType, []subject{listed, unlisted}, "EXTRA"},
		{"under a name of no evidence", allowed, artifact + ".vsa.json", "verifier", vsa.PredicateType, []subject{listed}, "EXTRA"},
	}
	for _, row := range rows {
		t.Run(row.what, func(t *testing.T) {
			bundle := c.sign(t, row.role, stateAll(row.kind, row.subjects, summed()))
			r := c.judge(t, row.change, "--files", c.files(t, map[string][]byte{row.name: bundle}))
			if row.code == "" {
				want(t, r, 0, "nothing extra", "added after sealing")
				return
			}
			refusedBy(t, r, "EXTRA")
			want(t, r, 1, row.name)
		})
	}
	whole := c.sign(t, "verifier", stateAll(vsa.PredicateType, everything(m), summed()))
	summarized(t, c, allowed, whole)
}

// summarized asks for the word of a verifier of everything.
func summarized(t *testing.T, c *consumer, allowed []string, whole []byte) {
	asked := slices.Concat(allowed, []string{
		"{provenance: require, signature: require, sbom: require}", "{provenance: require, signature: require, sbom: require, summary: require}",
		"{provenance: require, signature: require}}", "{provenance: require, signature: require, summary: require}}",
	})
	text := summaries("https://dl.example.test/lantern/{version}/")
	text = strings.NewReplacer("https://example.test/verifier", verifies, strings.Repeat("0", 63)+"1", sum("the policy").Hex()).Replace(text)
	asked[1] += text
	files := c.files(t, map[string][]byte{"release.vsa.sigstore.json": whole})
	want(t, c.judge(t, asked, "--files", files), 0, "nothing extra", "verifier@lab.invalid")
	want(t, c.judge(t, asked), 1, "EVIDENCE_MISSING")
	other := slices.Clone(asked)
	other[1] = strings.Replace(other[1], "BUILD: 2", "BUILD: 4", 1)
	want(t, c.judge(t, other, "--files", files), 1, "VSA_LEVEL")
}

type subject struct {
	name   string
	digest digest.Digest
}

func everything(m manifest.Manifest) []subject {
	var all []subject
	for _, a := range m.Artifacts {
		all = append(all, subject{a.Name, a.Digests.SHA256})
	}
	return all
}

func stateAll(predicateType string, subjects []subject, predicate fields) sign.Content {
	var list []any
	for _, s := range subjects {
		list = append(list, fields{"name": s.name, "digest": fields{"sha256": s.digest.Hex()}})
	}
	raw, err := json.Marshal(fields{"_type": intoto.TypeV1, "predicateType": predicateType, "predicate": predicate, "subject": list})
	if err != nil {
		panic("stories: " + err.Error())
	}
	return &sign.DSSEData{PayloadType: intoto.PayloadType, Data: raw}
}

// manifest is what the release role sealed.
func (c *consumer) manifest(t *testing.T) manifest.Manifest {
	t.Helper()
	m, err := manifest.ReadManifest(c.evidence(t, filepath.Join("state", "files", releasemanifest.Name)).Statement(), nil)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// signedPolicies: a policy that somebody pinned counts as its officer signed
// it, and no other (H29).
func signedPolicies(t *testing.T, c *consumer) {
	issuer, officer := c.Lab.Identity("policy")
	numbered := strings.Replace(c.policy, "kind: Policy\n", "kind: Policy\nsequence: 4\nexpires: \""+hence(48*time.Hour)+"\"\n", 1)
	c.write(t, "pinned.yaml", []byte(numbered))
	profile := c.profile
	defer func() { c.profile = profile }()
	name := "lantern-release"
	pin := func(subject string, number int) {
		c.profile = profile + fmt.Sprintf("policySigner: {issuer: %q, subject: %q, type: email}\npolicyName: %s\npolicySequence: %d\n", issuer, subject, name, number)
	}
	judged := func(flags ...string) scene.Result {
		t.Helper()
		r := c.by(t, "waybill verify release", "pinned", flags...)
		if small := c.by(t, "k8s-verify-release", "pinned", flags...); small.Code != r.Code {
			t.Errorf("waybill ended with status %d, k8s-verify-release with %d", r.Code, small.Code)
		}
		return r
	}
	pin(officer, 4)
	want(t, judged(), 1, "POLICY_SIG", "there is no")
	want(t, c.Run(t.Context(), "waybill", "policy", "sign", "pinned.yaml", "--profile", "pinned-profile.yaml", "--identity-token", "policy=policy.token", "--confirm"), 0)
	want(t, judged(), 0, "nothing extra")
	want(t, judged("--now", hence(72*time.Hour)), 1, "POLICY_EXPIRED")
	want(t, judged("--now", hence(24*time.Hour)), 0, "nothing extra")

	pin(officer, 5)
	want(t, judged(), 1, "POLICY_STALE")
	name = "lantern-nightly" // the officer signs that one too
	pin(officer, 4)
	want(t, judged(), 1, "POLICY_SIG", "not the pinned one")
	name = "lantern-release"
	pin("nobody@lab.invalid", 4)
	want(t, judged(), 1, "POLICY_SIG", "another identity")
	pin(officer, 4)
	c.write(t, "pinned.yaml", []byte(numbered+"# edited\n"))
	want(t, judged(), 1, "POLICY_SIG")
	c.write(t, "pinned.yaml", []byte(strings.Replace(numbered, "sbom: require", "sbom: warn", 1)))
	want(t, judged(), 1, "POLICY_SIG")
	c.write(t, "pinned.yaml", []byte(numbered))
	want(t, judged(), 0, "nothing extra")

	genuine := c.evidence(t, "pinned.yaml.sigstore.json").Statement().Raw()
	c.write(t, "pinned.yaml.sigstore.json", c.sign(t, "release", &sign.DSSEData{PayloadType: intoto.PayloadType, Data: genuine}))
	want(t, judged(), 1, "POLICY_SIG", "another identity")
	c.write(t, "pinned.yaml.sigstore.json", c.sign(t, "policy", blobOf(numbered)))
	want(t, judged(), 1, "POLICY_SIG")
}

// exceptions: what the officer set aside, for this artifact, here and now, is
// set aside and shown; nothing else is (H30).
func exceptions(t *testing.T, c *consumer) {
	m := c.manifest(t)
	m.Artifacts = slices.Clone(m.Artifacts)
	i := slices.IndexFunc(m.Artifacts, func(a manifest.Artifact) bool { return a.Name == artifact })
	m.Artifacts[i].SBOM = ""
	st, err := m.Statement()
	if err != nil {
		t.Fatal(err)
	}
	bare := c.files(t, map[string][]byte{releasemanifest.Name: c.sign(t, "release", &sign.DSSEData{PayloadType: intoto.PayloadType, Data: st.Raw()})})
	refusedBy(t, c.judge(t, nil, "--files", bare), "NO_SBOM")
	bytes := m.Artifacts[i].Digests.SHA256
	except := func(name string, changes ...string) {
		t.Helper()
		all := append([]string{"--profile mine-profile.yaml", "--subject " + bytes.String(), "--expires 1h", "--output " + name, "--confirm"}, changes...)
		want(t, c.except(t, all...), 0, "read back and verified")
	}
	except("fits.json")
	except("digest.json", "--subject "+sum("other bytes").String())
	except("place.json", "--destination https://mirror.example.test/lantern/v0.1.0/")
	except("name.json", "--name bin/linux/arm64/lantern")
	except("code.json", "--code UNSIGNED")
	c.forgeExceptions(t, bytes)
	later := []string{"--now", hence(2 * time.Hour)}
	rows := []struct {
		name, exception string
		change, flags   []string
		said            string // empty: it is set aside
	}{
		{"as it must be", "fits", nil, nil, ""},
		{"of other bytes", "digest", nil, nil, "NO_SBOM|is not used: the exception is for other bytes"},
		{"for another destination", "place", nil, nil, "NO_SBOM|is not used: the exception is for"},
		{"of another artifact", "name", nil, nil, "NO_SBOM|is not used"},
		{"of another code", "code", nil, nil, "NO_SBOM|is not used"},
		{"under another policy", "fits", []string{"name: lantern-release\n", "name: lantern-release\n# another\n"}, nil, "NO_SBOM|is not used: the exception is for the policy"},
		{"after its time", "fits", nil, later, "NO_SBOM|is not used: the exception expired"},
		{"that nobody signed", "unsigned", nil, nil, "BUNDLE_PARSE"},
		{"by the release identity", "release", nil, nil, "IDENTITY_ROLE"},
		{"by a stranger", "stranger", nil, nil, "IDENTITY"},
		{"of tampered bytes", "never", nil, nil, "NEVER_EXCEPTED"},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			r := c.judge(t, row.change, append([]string{"--files", bare, "--exception", row.exception + ".json"}, row.flags...)...)
			if row.said != "" {
				want(t, r, 1, strings.Split(row.said, "|")...)
				return
			}
			c.setAside(t, r, bare)
		})
	}
	if err := os.WriteFile(filepath.Join(bare, filepath.FromSlash(artifact)), []byte("other bytes"), 0o644); err != nil {
		t.Fatal(err)
	}
	want(t, c.judge(t, nil, "--files", bare, "--exception", "fits.json"), 1, "TAMPERED")
}

// forgeExceptions writes exceptions that the command would not sign.
func (c *consumer) forgeExceptions(t *testing.T, bytes digest.Digest) {
	t.Helper()
	genuine := c.evidence(t, "fits.json").Statement()
	c.write(t, "unsigned.json", genuine.Raw())
	c.write(t, "release.json", c.sign(t, "release", &sign.DSSEData{PayloadType: intoto.PayloadType, Data: genuine.Raw()}))
	c.write(t, "stranger.json", c.sign(t, "mallory@evil.example", &sign.DSSEData{PayloadType: intoto.PayloadType, Data: genuine.Raw()}))
	never := strings.Replace(string(genuine.Predicate()), "NO_SBOM", "TAMPERED", 1)
	var predicate fields
	if err := json.Unmarshal([]byte(never), &predicate); err != nil {
		t.Fatal(err)
	}
	c.write(t, "never.json", c.sign(t, "policy", statesOf(exception.PredicateType, artifact, bytes, predicate)))
}

// setAside expects an acceptance that says what was set aside, by whom and
// why, in every form, and that is not complete.
func (c *consumer) setAside(t *testing.T, r scene.Result, files string) {
	t.Helper()
	want(t, r, 0, "NO_SBOM", "the scanner was down", "policy@lab.invalid", "exception")
	if strings.Contains(r.Stdout, "nothing extra") || !strings.Contains(r.Stdout, "OK ") {
		t.Errorf("nothing shows that something was set aside:\n%s", r.Stdout)
	}
	r = c.by(t, "k8s-verify-release", "mine", "--files", files, "--exception", "fits.json", "--output", "json")
	want(t, r, 0)
	var v struct {
		Headline string
		Waived   []struct{ Kind, Reason, By string }
		Findings []struct{ Code string }
	}
	if err := json.Unmarshal([]byte(r.Stdout), &v); err != nil || len(v.Waived) != 1 || strings.Contains(v.Headline, "nothing extra") {
		t.Errorf("JSON %+v, %v", v, err)
	}
	want(t, c.by(t, "waybill gate check", "mine", "--files", files, "--exception", "fits.json"), 0, "the scanner was down")
}
