package policy_test

import (
	"os"
	"strings"
	"testing"

	"github.com/waybill-release/waybill/pkg/digest"
	"github.com/waybill-release/waybill/pkg/identity"
	"github.com/waybill-release/waybill/pkg/policy"
	"github.com/waybill-release/waybill/pkg/provenance"
	"github.com/waybill-release/waybill/pkg/verdict"
	"github.com/waybill-release/waybill/pkg/verify"
)

const valid = "testdata/valid.yaml"

func text(t testing.TB) string {
	t.Helper()
	raw, err := os.ReadFile(valid)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

func load(t testing.TB) policy.Policy {
	t.Helper()
	p, err := policy.Parse([]byte(text(t)))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func who(subject string) identity.Identity {
	return identity.Identity{Issuer: "https://accounts.example.test", Subject: subject + "@example.test", Type: identity.Email}
}

func TestParse(t *testing.T) {
	p := load(t)
	if p.Name() != "lantern" || p.Digest() != digest.Of(digest.SHA256, []byte(text(t))) {
		t.Errorf("name %q, digest %s", p.Name(), p.Digest())
	}
	if !p.Closes(policy.Files) || !p.Closes(policy.Images) || p.Closes("tapes") {
		t.Error("the closed places are not files and images")
	}
}

func TestRoleOf(t *testing.T) {
	p := load(t)
	for subject, want := range map[string]policy.Role{
		"release": policy.Release, "deputy": policy.Release, "verifier": policy.Verifier, "officer": policy.Officer, "builder": policy.Builder,
	} {
		if got, known := p.RoleOf(who(subject)); !known || got != want {
			t.Errorf("%s is %q, known %t, want %s", subject, got, known, want)
		}
	}
	stranger, uri := who("stranger"), who("release")
	uri.Type = identity.URI
	for _, nobody := range []identity.Identity{{}, stranger, uri} {
		if role, known := p.RoleOf(nobody); known || role != "" {
			t.Errorf("%s is known as %q", nobody, role)
		}
	}
	if got := p.Expected(policy.Release); len(got) != 2 || !strings.Contains(got[0], "release@example.test") {
		t.Errorf("expected release identities: %q", got)
	}
	if got := p.Expected(policy.Builder); len(got) != 1 || !strings.Contains(got[0], "builder@example.test") {
		t.Errorf("expected builders: %q", got)
	}
}

func TestZeroPolicyKnowsNobody(t *testing.T) {
	var p policy.Policy
	if _, known := p.RoleOf(who("release")); known {
		t.Error("the zero policy knows somebody")
	}
	if _, known := p.RoleOf(identity.Identity{}); known {
		t.Error("the zero policy knows nobody by name")
	}
	if p.Closes(policy.Files) || len(p.Expected(policy.Release)) != 0 {
		t.Error("the zero policy says something")
	}
}

// TestNoEvidence is the part of Judge that needs no verifier: what evidence
// proves is tested where evidence can be made, in the test module.
func TestNoEvidence(t *testing.T) {
	asks := []policy.Ask{
		{},
		{Role: policy.Release, Kind: "blob", Subject: "bin/lantern", Bytes: digest.SetOf([]byte("x"))},
		{Role: policy.Release, Kind: "blob", Subject: "oci/lantern", InRegistry: true},
		{Role: policy.Release, Kind: "blob", Subject: "manifest", Whole: true},
	}
	for _, p := range []policy.Policy{load(t), {}} {
		for _, ask := range asks {
			proof, err := p.Judge(verify.Evidence{}, ask)
			if err == nil || verdict.FindingOf("", err).Code != verdict.EvidenceMissing {
				t.Errorf("ask %+v: %v, want EVIDENCE_MISSING", ask, err)
			}
			if !proof.IsZero() {
				t.Errorf("a refusal came with proof %+v", proof)
			}
		}
		err := p.Provenance(verify.Evidence{}, provenance.Provenance{})
		if err == nil || verdict.FindingOf("", err).Code != verdict.Builder {
			t.Errorf("provenance that nobody signed: %v, want BUILDER", err)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	const release = "subject: release@example.test"
	rows := []struct{ name, old, new, says string }{
		{"another version of the file", "waybill/v1", "waybill/v2", "apiVersion"},
		{"another kind", "kind: Policy", "kind: Profile", "kind"},
		{"no name", "name: lantern\n", "", "name"},
		{"no source", "source: {repository: \"https://example.test/lantern\"}\n", "", "source"},
		{"an unknown key", "name: lantern\n", "name: lantern\nlevel: 3\n", "level"},
		{"an unknown key in an identity", "type: email}", "type: email, regexp: true}", "regexp"},
		{"an unknown key in a builder", "- id:", "- level: 3\n  id:", "level"},
		{"a key twice", "kind: Policy", "kind: Policy\nkind: Policy", "kind"},
		{"an unknown role", "  verifier:", "  auditor:", "auditor"},
		{"the builder as a role", "  verifier:", "  builder:", "builder"},
		{"an empty role", "roles:\n", "roles:\n  verifiers: []\n", "verifiers"},
		{"no issuer", "issuer: \"https://accounts.example.test\", " + release, release, "issuer"},
		{"no subject", release + ", ", "", "subject"},
		{"no type", release + ", type: email", release, "type"},
		{"a pattern", release, `subject: "*@example.test"`, "patterns"},
		{"an issuer without https", "https://accounts.example.test", "http://accounts.example.test", "https"},
		{"one identity in two roles", "verifier@example.test", "release@example.test", "own identity"},
		{"one identity twice in a role", "deputy@example.test", "release@example.test", "own identity"},
		{"a builder who releases", "builder@example.test", "release@example.test", "own identity"},
		{"a builder without an id", "id: \"https://example.test/builder\"", `id: ""`, "id"},
		{"one builder twice", "closed:", secondBuilder("https://example.test/builder", "other") + "closed:", "twice"},
		{"one identity for two builders", "closed:", secondBuilder("https://example.test/other", "builder") + "closed:", "own identity"},
		{"a builder without an identity", "closed:", "- id: other\nclosed:", "issuer"},
		{"an unknown place", "closed: [files, images]", "closed: [files, tapes]", "tapes"},
		{"a place twice", "closed: [files, images]", "closed: [files, files]", "twice"},
		{"no closed places", "closed: [files, images]", "closed: []", "closed"},
		{"no word on closed places", "closed: [files, images]", "", "closed"},
	}
	for _, r := range rows {
		t.Run(r.name, func(t *testing.T) {
			if !strings.Contains(text(t), r.old) {
				t.Fatalf("%q is not in %s", r.old, valid)
			}
			refused(t, strings.Replace(text(t), r.old, r.new, 1), r.says)
		})
	}
}

func secondBuilder(id, subject string) string {
	return "- id: \"" + id + "\"\n  identity: {issuer: \"https://accounts.example.test\", subject: " + subject + "@example.test, type: email}\n"
}

func TestParseRefusesWithoutSections(t *testing.T) {
	head, rest, _ := strings.Cut(text(t), "roles:\n")
	roles, rest, _ := strings.Cut(rest, "builders:\n")
	builders, tail, _ := strings.Cut(rest, "source:")
	release, others, _ := strings.Cut(roles, "  verifier:")
	const r, b, s = "roles:\n", "builders:\n", "source:"
	rows := []struct{ name, text, says string }{
		{"no roles", head + b + builders + s + tail, "roles.release"},
		{"roles that are empty", head + "roles: {}\n" + b + builders + s + tail, "roles.release"},
		{"nobody releases", head + r + "  verifier:" + others + b + builders + s + tail, "roles.release"},
		{"a role that is empty", head + r + release + "  verifier: []\n" + b + builders + s + tail, "roles.verifier"},
		{"no builders", head + r + roles + s + tail, "builders"},
		{"builders that are empty", head + r + roles + "builders: []\n" + s + tail, "builders"},
		{"nothing", "", ""},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) { refused(t, row.text, row.says) })
	}
}

func refused(t *testing.T, text, says string) {
	t.Helper()
	p, err := policy.Parse([]byte(text))
	if err == nil {
		t.Fatalf("loaded:\n%s", text)
	}
	if f := verdict.FindingOf("", err); f.Code != verdict.ConfigParse || f.Code.Outcome() != verdict.Malformed {
		t.Errorf("refused as %s: %v, want CONFIG", f.Code, err)
	}
	if !strings.Contains(err.Error(), says) {
		t.Errorf("the refusal does not name %q: %v", says, err)
	}
	if !p.Digest().IsZero() {
		t.Error("a refusal came with a policy")
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(text(f)))
	f.Add([]byte(strings.Replace(text(f), "release@", "*@", 1)))
	f.Fuzz(func(t *testing.T, raw []byte) {
		p, err := policy.Parse(raw)
		if err != nil {
			if verdict.FindingOf("", err).Code != verdict.ConfigParse {
				t.Fatalf("refused as something else than CONFIG: %v", err)
			}
			return
		}
		if p.Digest() != digest.Of(digest.SHA256, raw) || p.Name() == "" {
			t.Fatal("a policy without its name or digest")
		}
		if len(p.Expected(policy.Release)) == 0 || len(p.Expected(policy.Builder)) == 0 || !p.Closes(policy.Files) && !p.Closes(policy.Images) {
			t.Fatal("a policy that asks nothing was loaded")
		}
		if _, known := p.RoleOf(identity.Identity{}); known {
			t.Fatal("nobody has a role")
		}
		if _, err := p.Judge(verify.Evidence{}, policy.Ask{Whole: true}); err == nil {
			t.Fatal("no evidence was accepted")
		}
	})
}
