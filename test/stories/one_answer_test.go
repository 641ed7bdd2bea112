package stories

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/waybill-release/waybill/test/scene"
)

// TestAWithdrawalStopsEveryCommand: what the policy's officer took back goes
// nowhere, whoever asks. The twin is the same release under the same profile
// without the list: it is promoted.
func TestAWithdrawalStopsEveryCommand(t *testing.T) {
	d := openDesk(t)
	want(t, d.Stage(t.Context()), 0)
	d.withdraw(t, scene.Version)
	profile := string(d.read(t, "profile.yaml"))
	withdrawn := strings.Replace(profile, "trustedRoot:", "knownDefects: withdrawn.yaml.sigstore.json\ntrustedRoot:", 1)
	d.write(t, "withdrawn-profile.yaml", []byte(withdrawn))
	// Who verifies what is public reads here what is staged: it is not public yet.
	for _, name := range []string{"profile.yaml", "withdrawn-profile.yaml"} {
		d.write(t, "public-"+name, []byte(strings.ReplaceAll(string(d.read(t, name)), "release/lantern", "staging/lantern")))
	}
	plan := d.Run(t.Context(), "waybill", "promote", "plan", scene.Version, "--to", "release", "--profile", "profile.yaml", "--output", "json")
	want(t, plan, 0)
	d.write(t, "plan.json", []byte(plan.Stdout))

	run := func(line, profile string) scene.Result {
		return d.Run(t.Context(), strings.Fields(strings.NewReplacer("VERSION", scene.Version, "PROFILE", profile).Replace(line))...)
	}
	commands := []string{ // those that copy come last
		"k8s-verify-release VERSION --profile public-PROFILE",
		"waybill verify release VERSION --profile public-PROFILE",
		"waybill gate check VERSION --profile PROFILE",
		"waybill release VERSION --profile PROFILE --state state",
		"waybill promote VERSION --to release --profile PROFILE --state state",
		"waybill promote plan VERSION --to release --profile PROFILE",
		"waybill promote apply plan.json --profile PROFILE",
		"waybill promote VERSION --to release --profile PROFILE --state state --confirm",
		"waybill promote apply plan.json --profile PROFILE --confirm",
		"waybill release VERSION --profile PROFILE --state state --confirm",
	}
	for _, line := range commands {
		want(t, run(line, "withdrawn-profile.yaml"), 1, "the release was withdrawn", "it leaks oil")
	}
	want(t, d.Verify(t.Context()), 1, "EVIDENCE_MISSING") // nothing got there

	const status = "waybill status VERSION --profile PROFILE --state state"
	r := run(status, "withdrawn-profile.yaml")
	want(t, r, 0, "it leaks oil", "public: no", "k8s-verify-release")
	if strings.Contains(r.Stdout, "waybill release") {
		t.Errorf("the next act is to publish it:\n%s", r.Stdout)
	}
	want(t, run(status, "profile.yaml"), 0, "waybill release")
	const stage = "waybill stage VERSION --source lantern --profile PROFILE --state other"
	want(t, run(stage, "withdrawn-profile.yaml"), 1, "the release was withdrawn", "it leaks oil")
	want(t, run(stage, "profile.yaml"), 0)

	for _, line := range commands {
		want(t, run(line, "profile.yaml"), 0)
	}
	want(t, d.Verify(t.Context()), 0, "nothing extra")
	want(t, run(status, "withdrawn-profile.yaml"), 0, "public: withdrawn")

	// A defect that no list has is wrong use, whoever is told of it.
	for _, line := range commands {
		want(t, run(line+" --accept-defect no-such-id", "profile.yaml"), 2, "USAGE", `no list of known defects has "no-such-id"`)
	}
}

// withdraw signs a list that withdraws a release.
func (d *desk) withdraw(t *testing.T, version string) {
	t.Helper()
	d.write(t, "withdrawn.yaml", fmt.Appendf(nil, `apiVersion: waybill/v1
kind: KnownDefects
name: lantern
sequence: 1
issued: %[2]q
expires: %[3]q
withdrawals:
- {version: %[1]s, reason: it leaks oil, source: "https://issues.example.test/9", since: %[2]q}
`, version, time.Now().UTC().Add(-time.Minute).Format(time.RFC3339), time.Now().UTC().Add(time.Hour).Format(time.RFC3339)))
	want(t, d.Run(t.Context(), "waybill", "policy", "sign", "withdrawn.yaml", "--profile", "profile.yaml",
		"--identity-token", "policy=policy.token", "--confirm"), 0)
}
