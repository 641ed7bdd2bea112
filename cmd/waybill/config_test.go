package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/waybill-release/waybill/pkg/judge/trust"
	"github.com/waybill-release/waybill/policies"
)

// TestConfigFaultsNameTheirPlace: what is wrong in a file that a person wrote is
// told with the file, and with the line or the key.
func TestConfigFaultsNameTheirPlace(t *testing.T) {
	policy, err := policies.Read("kubernetes-release")
	if err != nil {
		t.Fatal(err)
	}
	const (
		head    = "apiVersion: waybill/v1\nkind: "
		profile = head + "Profile\nname: lantern\npolicy: policy.yaml\ntrustedRoot: root.json\nplaces:\n  files: {canonical: \"https://x.test/{version}/\", release: \"https://x.test/{version}/\"}\n"
		service = head + "GateService\nprofile: profile.yaml\ncallers: callers.yaml\nlisten: 127.0.0.1:0\nadmin: 127.0.0.1:0\n"
		callers = "audience: https://gate.example.test\ncallers:\n- {name: ci, token: {issuer: \"https://i.example.test\", subject: a}}\ngrants:\n"
		images  = "registries:\n- {name: a.example.test/x, src: true}\n- {name: b.example.test/x}\nimages:\n- name: lantern\n"
	)
	check := []string{"gate", "check", "v1.0.0", "--profile", "profile.yaml", "--offline", "--files", "."}
	serve := []string{"gate", "serve", "service.yaml", "--check"}
	documents := []string{"signoff", "check", "--keps", "keps", "--template", "template.md", "--milestone", "v1.37"}
	alter := func(from, to string) string { return strings.Replace(string(policy), from, to, 1) }
	for _, row := range []struct {
		name, file, text string
		args             []string
		place            string // line:column, or the key
	}{
		{"release.yaml, a key", "release.yaml", head + "Release\nnmae: x\n", []string{"inspect", "release.yaml"}, `4:|3:1`},
		{"release.yaml, a value", "release.yaml", head + "Release\nname: 'A b'\n", []string{"inspect", "release.yaml"}, `3:7: name`},
		{"lock", "release.lock.yaml", head + "Lock\nx: 1\n", []string{"inspect", "release.lock.yaml"}, `3:1`},
		{"profile, syntax", "profile.yaml", profile + "x: [\n", check, `YAML at \d+:\d+`},
		{"profile, kind", "profile.yaml", head + "Policy\n", check, `3:1|kind "Policy"`},
		{"profile, place", "profile.yaml", before(profile, "places") + "places: {files: {canonical: \"https://x.test/{version}/\"}}\n", check, `places\.files`},
		{"profile, records", "profile.yaml", profile + "records: {verifier: x}\n", check, `records`},
		{"profile, inspected", "other.yaml", head + "Profile\nnmae: x\n", []string{"inspect", "other.yaml"}, `3:1`},
		{"policy, a key", "policy.yaml", alter("kind: Policy", "kind: Policy\nnmae: x"), check, `6:1: unknown key "nmae"`},
		{"policy, a value", "policy.yaml", alter("type: email", "type: mail"), check, `\d+:\d+`},
		{"policy alone", "policy.yaml", alter("kind: Policy", "kind: Profile"), []string{"policy", "lint", "policy.yaml"}, `kind "Profile"`},
		{"service, a key", "service.yaml", service + "x: 1\n", serve, `7:1`},
		{"service, a value", "service.yaml", service + "tls: {certificate: a}\n", serve, `tls`},
		{"service, a registry without one", "service.yaml", service, []string{"gate", "proxy", "service.yaml", "--check"}, `proxy`},
		{"service, a registry for serve", "service.yaml", service + "proxy: {registry: 127.0.0.1:5000, guarded: [127.0.0.1:5000/prod/]}\n", serve, `proxy`},
		{"service, a registry that guards another", "service.yaml", service + "proxy: {registry: 127.0.0.1:5000, guarded: [127.0.0.1:5001/prod/]}\n", serve, `proxy`},
		{"service, limits", "service.yaml", service + "limits: {deadlineSeconds: -1}\n", serve, `limits`},
		{"callers, grant", "callers.yaml", callers + "- {caller: ci, verbs: [decide]}\n", serve, `5:3: grants\[0\]: grant to "ci": verbs, from, to and channels must not be empty`},
		{"callers, caller", "callers.yaml", callers + "- {caller: cd, verbs: [decide], from: [a.test], to: [b.test], channels: [stable]}\n", serve, `5:3: grants\[0\]`},
		{"promoter, a key", "images.yaml", images + "  dmpa: {}\n", []string{"promote", "plan", "images.yaml"}, `6:3`},
		{"promoter, a digest", "images.yaml", images + "  dmap: {\"sha256:1\": [v1]}\n", []string{"promote", "plan", "images.yaml"}, `images\.yaml:6`},
		{"promoter, no source", "images.yaml", "registries:\n- {name: b.example.test/x}\nimages: []\n", []string{"promote", "plan", "images.yaml"}, `source`},
		{"features, a key", "features.yaml", head + "Features\nsiet: x\n", []string{"feature", "list", "--config", "features.yaml"}, `3:1`},
		{"features, a value", "features.yaml", head + "Features\nsite: x\nfeatures: {}\n", []string{"feature", "list", "--config", "features.yaml"}, `\d+:\d+`},
		{"sign-off record, a key", "record.yaml", head + "SignoffRecord\nmilestone: v1.37\nx: 1\n", append(documents, "--record", "record.yaml"), `4:1`},
		{"sign-off record, a value", "record.yaml", head + "SignoffRecord\nmilestone: v1.37\nexceptions: [{document: a}]\n", append(documents, "--record", "record.yaml"), `exception 1: filed`},
		{"sign-off registry", "registry.yaml", "gates: [{name: A, stage: gamma}]\n", append(documents, "--registry", "registry.yaml"), `gate "?A"?`},
		{"sign-off document", "keps/sig-x/1-a/kep.yaml", "title: A\nauthors: [\n", documents, `kep\.yaml\n\s+reading YAML at 2:1`},
		{"known defects, a key", "defects.yaml", head + "KnownDefects\nx: 1\n", append(check, "--known-defects", "defects.yaml"), `3:1`},
		{"known defects, a value", "defects.yaml", head + "KnownDefects\nname: x\nsequence: 1\nissued: 2026-01-01T00:00:00Z\nexpires: 2026-02-01T00:00:00Z\ndefects: [{id: A}]\n", append(check, "--known-defects", "defects.yaml"), `\d+:\d+|defect`},
		{"revocations", "revoked.yaml", head + "Revocations\nrevoked: [{identity: {issuer: \"https://i.test\", subject: a@b.test, type: email}}]\n",
			[]string{"verify", "file", "policy.yaml", "--offline", "--certificate-identity", "a@b.test", "--certificate-oidc-issuer", "https://i.test", "--revoked", "revoked.yaml"}, `revoked, entry 1|revoked\[0\]`},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Chdir(t.TempDir())
			files := map[string]string{
				"profile.yaml": profile, "policy.yaml": string(policy), "root.json": string(trust.Embedded().Raw()), "service.yaml": service,
				"callers.yaml": callers + "- {caller: ci, verbs: [decide], from: [a.test], to: [b.test], channels: [stable]}\n", "template.md": "# T\n\n## Summary\n",
				"keps/sig-x/1-a/README.md": "# KEP-1: A\n\n## Summary\n", "keps/sig-x/1-a/kep.yaml": "title: A\n",
			}
			files[row.file] = row.text
			for name, text := range files {
				if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			said := execute(t, row.args...)
			if !strings.Contains(said, filepath.Base(row.file)) || !regexp.MustCompile(row.place).MatchString(said) {
				t.Errorf("want %s and %s in:\n%s", row.file, row.place, said)
			}
		})
	}
}

// before is the part of a text before a word of it.
func before(text, word string) string {
	part, _, _ := strings.Cut(text, word)
	return part
}
