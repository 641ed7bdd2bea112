package stories

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// TestDeclarationSign: the role that the policy names for a requirement signs its
// declaration, and no other. A bundle is replaced only by one with a higher number.
func TestDeclarationSign(t *testing.T) {
	d := openDesk(t)
	d.write(t, "signoff.token", []byte(d.Lab.Token("mirror@lab.invalid")))
	issuer, _ := d.Lab.Identity("policy")
	text := string(d.read(t, "policy.yaml"))
	role := fmt.Sprintf("roles:\n  signoff: [{issuer: %q, subject: mirror@lab.invalid, type: email}]\n", issuer)
	text = strings.Replace(text, "roles:\n", role, 1)
	text = strings.Replace(text, "builders:\n", "declares: [{requirement: source.retained, role: signoff, levels: {v0.1: 3}}, {requirement: common.access, role: policy, levels: {v0.1: 4}}]\nbuilders:\n", 1)
	d.write(t, "policy.yaml", []byte(text))
	until := time.Now().UTC().AddDate(0, 6, 0).Format(time.DateOnly)
	good := fmt.Sprintf("apiVersion: waybill/v1\nkind: Declaration\nsequence: 1\nrequirement: source.retained\nabout: git+https://example.test/lantern\nby: SIG Infra\nreason: mirrored daily\nuntil: %sT00:00:00Z\n", until)
	for _, row := range []struct {
		name, old, new, flags string
		status                int
		says                  string
	}{
		{"nothing is signed without --confirm", "", "", "--identity-token signoff=signoff.token", 0, "nothing was done"},
		{"by the policy's officer", "", "", "--identity-token policy=policy.token --confirm", 1, "SIGNED_AS_ELSE"},
		{"by the release identity", "", "", "--identity-token signoff=release.token --confirm", 1, "SIGNED_AS_ELSE"},
		{"by two", "", "", "--identity-token policy=policy.token --identity-token signoff=signoff.token --confirm", 2, "leave the other out"},
		{"by none", "", "", "--confirm", 2, "--identity-token policy=FILE or signoff=FILE"},
		{"what no role may declare", "source.retained", "common.security", "--identity-token signoff=signoff.token --confirm", 1, `lets no role declare "common.security"`},
		{"for years", until, "2099-01-01", "--identity-token signoff=signoff.token --confirm", 2, "want a time in the next 366 days"},
		{"that has ended", until, "2020-01-01", "--identity-token signoff=signoff.token --confirm", 2, "want a time in the next 366 days"},
		{"without reason", "reason: mirrored daily\n", "", "--identity-token signoff=signoff.token --confirm", 2, "by and reason"},
		{"about nothing", "about: git+https://example.test/lantern\n", "", "--identity-token signoff=signoff.token --confirm", 2, "about"},
		{"by the role", "", "", "--identity-token signoff=signoff.token --confirm", 0, "read back and verified"},
		{"changed, with the same number", "daily", "hourly", "--identity-token signoff=signoff.token --confirm", 1, "POLICY_STALE"},
		{"changed, with a higher number", "sequence: 1", "sequence: 2", "--identity-token signoff=signoff.token --confirm", 0, "read back and verified"},
		{"by the officer, whose requirement it is", "sequence: 1\nrequirement: source.retained", "sequence: 3\nrequirement: common.access", "--identity-token policy=policy.token --confirm", 0, "read back and verified"},
	} {
		t.Run(row.name, func(t *testing.T) {
			d.write(t, "retained.yaml", []byte(strings.Replace(good, row.old, row.new, 1)))
			args := append([]string{"waybill", "policy", "sign", "retained.yaml", "--profile", "profile.yaml"}, strings.Fields(row.flags)...)
			want(t, d.Run(t.Context(), args...), row.status, row.says)
		})
	}
	want(t, d.Run(t.Context(), "waybill", "inspect", "retained.yaml"), 0, "declaration", "common.access")
	want(t, d.Run(t.Context(), "waybill", "policy", "explain", "policy.yaml"), 0, "source.retained can be declared in a file signed in the role signoff")

	d.write(t, "callers.yaml", fmt.Appendf(nil, "audience: https://gate.example.test\ncallers: [{name: ci, token: {issuer: %q, subject: ci}}]\ngrants: [{caller: ci, verbs: [verify], from: [registry.example.test/staging/], to: [registry.example.test/staging/], channels: [none]}]\n", issuer))
	d.write(t, "service.yaml", []byte("apiVersion: waybill/v1\nkind: GateService\nprofile: profile.yaml\ncallers: callers.yaml\nlisten: 127.0.0.1:0\nadmin: 127.0.0.1:0\n"))
	for flags, status := range map[string]int{
		"--declaration retained.yaml.sigstore.json": 0,
		"--declaration retained.yaml":               1,
		"--declaration nowhere.json":                2,
		"--source-vsa retained.yaml.sigstore.json":  2, // the policy lists no verifier of sources
	} {
		if got := d.Run(t.Context(), append([]string{"waybill", "gate", "serve", "service.yaml", "--check"}, strings.Fields(flags)...)...); got.Code != status {
			t.Errorf("%s: want status %d", got, status)
		}
	}
}
