package stories

import (
	"encoding/json"
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"github.com/waybill-release/waybill/pkg/value/verdict"
	"github.com/waybill-release/waybill/test/scene"
)

// TestVerifySource: the summary of a commit that the verifier writes states what
// a clone shows, is refused under the policy that it was written under, and counts at level 1
// where a policy lists its signer under sources alone.
func TestVerifySource(t *testing.T) {
	s := open(t)
	d := desk{&workshop{Scene: s}}
	const id = "https://verifier.example.test/waybill"
	edit(t, s.Path("profile.yaml"), "modules:", "records: {verifier: \""+id+"\", policy: \"https://example.test/policy\"}\nmodules:")
	signer := func(role string) string {
		issuer, subject := s.Lab.Identity(role)
		return fmt.Sprintf("[{issuer: %q, subject: %q, type: email}]", issuer, subject)
	}
	sources := fmt.Sprintf("sources:\n- {id: %q, levels: {source: 3}, signers: ", id)
	edit(t, s.Path("policy.yaml"), s.Repository(), "git+https://git.example.test/lantern")
	edit(t, s.Path("policy.yaml"), "source: {", sources+signer("sources@lantern.test")+"}\nsource: {")
	raw, err := exec.CommandContext(t.Context(), "git", "-C", s.Path("lantern"), "rev-parse", "HEAD").Output()
	if err != nil {
		t.Fatal(err)
	}
	commit := strings.TrimSpace(string(raw))
	verify := func(commit string, more ...string) scene.Result {
		return s.Run(t.Context(), append([]string{"waybill", "verify", "source", commit, "--source", "lantern", "--ref", "refs/tags/" + scene.Version, "--profile", "profile.yaml"}, more...)...)
	}
	summary := func(commit, role string, more ...string) scene.Result {
		d.write(t, "verifier.token", []byte(s.Lab.Token(role)))
		return verify(commit, append([]string{"--vsa", "ours.json", "--identity-token", "verifier=verifier.token", "--confirm"}, more...)...)
	}
	want(t, verify(commit, "--vsa", "ours.json"), 0, "nothing was done", "SLSA_SOURCE_LEVEL_1", "sourceRefs")
	for _, r := range []struct {
		name   string
		got    scene.Result
		status int
		code   verdict.Code
	}{
		{"of a commit that the clone lacks", summary(strings.Repeat("0", 40), "verifier"), 1, verdict.Missing},
		{"of a commit by another name", summary("HEAD", "verifier"), 2, verdict.Usage},
		{"of a level that a clone does not show", summary(commit, "verifier", "--require-level", "source=2"), 1, verdict.Level},
		{"of a level of another track", summary(commit, "verifier", "--require-level", "build=1"), 2, verdict.Usage},
		{"of an earlier time", summary(commit, "verifier", "--now", "2026-01-02T03:04:05Z"), 2, verdict.Usage},
		{"where no summaries are made", summary(commit, "verifier", "--feature-gates", "EmitVSA=false"), 2, verdict.Usage},
		{"by the builder", summary(commit, "builder"), 1, "SIGNED_AS_ELSE"},
		{"by the release identity", summary(commit, "release"), 1, "SIGNED_AS_ELSE"},
	} {
		t.Run(r.name, func(t *testing.T) {
			want(t, r.got, r.status, string(r.code))
			d.absent(t, "ours.json")
		})
	}
	want(t, verify(commit, "--confirm"), 2, "USAGE", "--confirm")
	want(t, summary(commit, "verifier", "--output", "json"), 0, "read back and verified")
	want(t, summary(commit, "verifier"), 1, "FILE_CONFLICT")
	t.Run("ours does not answer the policy that it was written under", func(t *testing.T) {
		want(t, verify(commit, "--source-vsa", "ours.json"), 1, "IDENTITY_ROLE")
	})

	edit(t, s.Path("policy.yaml"), "  verifier: "+signer("verifier")+"\n", "")
	edit(t, s.Path("policy.yaml"), sources+signer("sources@lantern.test"), sources+signer("verifier"))
	t.Run("its twin, a policy that lists the signer under sources", func(t *testing.T) {
		r := verify(commit, "--source-vsa", "ours.json", "--output", "json")
		want(t, r, 0)
		var v struct{ Proofs []struct{ Identity string } }
		if err := json.Unmarshal([]byte(r.Stdout), &v); err != nil || len(v.Proofs) != 1 {
			t.Errorf("%v, proofs %+v", err, v.Proofs)
		}
		want(t, verify(commit, "--source-vsa", "ours.json", "--require-level", "source=2"), 1, "LEVEL")
	})
}
