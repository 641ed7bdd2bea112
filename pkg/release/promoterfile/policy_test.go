package promoterfile

import (
	"errors"
	"strings"
	"testing"

	"github.com/waybill-release/waybill/pkg/value/identity"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

const (
	builderSpec = "sigstore::https://issuer.example.test::builder@example.test"
	otherSpec   = "sigstore::https://issuer.example.test::https://github.com/example/demo/.github/workflows/build.yml@refs/tags/v1"
)

const wholePolicy = `provenance:
  mode: require
  signers:
  - "sigstore::https://issuer.example.test::builder@example.test"
  - "sigstore::https://issuer.example.test::https://github.com/example/demo/.github/workflows/build.yml@refs/tags/v1"
  builders:
  - {id: "https://builder.example.test/v1", level: 2}
  - id: "https://github.com/example/demo/.github/workflows/build.yml"
    level: 3
    signers: ["sigstore::https://issuer.example.test::https://github.com/example/demo/.github/workflows/build.yml@refs/tags/v1"]
    caller: {workflows: [".github/workflows/release.yml"], refs: ["refs/tags/v*"], events: [push]}
  sources: [github.com/example/demo]
  predicateTypes: ["https://spdx.dev/Document"]
  level: 2
  levels: [{images: ["charts/*", spoc], level: 3}]
`

func readPolicy(text string) (*Policy, error) {
	m, err := ParseThin("team", []byte(registries+text), []byte(list(`"`+one+`": ["v1"]`)))
	return m.Policy, err
}

// TestPolicyIsRefused changes one word of a policy that is read.
func TestPolicyIsRefused(t *testing.T) {
	if _, err := readPolicy(wholePolicy); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string][2]string{
		"a pattern of signers":             {"sigstore::https://issuer.example.test::builder@", "sigstore(regexp)::https://issuer.example.test::builder@"},
		"a key":                            {`"sigstore::https://issuer.example.test::builder@example.test"`, `"key::ecdsa::abc"`},
		"a signer without an issuer":       {"sigstore::https://issuer.example.test::builder@example.test", "sigstore::::builder@example.test"},
		"a signer without an identity":     {"::builder@example.test", "::"},
		"a signer of nobody's form":        {"::builder@example.test", "::builder@example.test::more"},
		"a builder twice":                  {"https://builder.example.test/v1", "https://github.com/example/demo/.github/workflows/build.yml"},
		"a builder at a ref of another":    {"https://builder.example.test/v1", "https://github.com/example/demo/.github/workflows/build.yml@refs/tags/v2"},
		"a builder without an id":          {"https://builder.example.test/v1", " "},
		"a builder of level 4":             {"level: 3\n    signers", "level: 4\n    signers"},
		"a signer that the policy has not": {`signers: ["sigstore::https://issuer.example.test::https`, `signers: ["sigstore::https://issuer.example.test::other`},
		"a caller without refs":            {`refs: ["refs/tags/v*"], `, ""},
		"a caller's ref that is short":     {"refs/tags/v*", "v*"},
		"a caller elsewhere":               {".github/workflows/release.yml", "../release.yml"},
		"an event without a name":          {"events: [push]", `events: [""]`},
		"an empty source":                  {"[github.com/example/demo]", `["https://"]`},
		"a source with spaces":             {"[github.com/example/demo]", `[" github.com/example/demo"]`},
		"an empty predicate type":          {"https://spdx.dev/Document", ""},
		"level 1":                          {"  level: 2\n  levels", "  level: 1\n  levels"},
		"levels of 1":                      {"spoc], level: 3", "spoc], level: 1"},
		"levels of no images":              {`["charts/*", spoc]`, "[]"},
		"a pattern that begins with /":     {"charts/*", "/charts/*"},
		"a pattern of nothing":             {`"charts/*"`, `""`},
		"a level that nobody can show":     {"    level: 3\n    signers", "    level: 2\n    signers"},
		"an unknown key":                   {"mode: require", "mode: require\n  enforce: true"},
	} {
		text := strings.Replace(wholePolicy, change[0], change[1], 1)
		_, err := readPolicy(text)
		var coded *verdict.Error
		if text == wholePolicy || !errors.As(err, &coded) || coded.Finding.Code != verdict.ConfigParse {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestPolicyMeans: who may speak for whom, and how far it is believed.
func TestPolicyMeans(t *testing.T) {
	p, err := readPolicy(wholePolicy)
	if err != nil {
		t.Fatal(err)
	}
	if got := p.Claimable(builderSpec); len(got) != 1 || got[0].ID != "https://builder.example.test/v1" || p.Ceiling(builderSpec) != 2 {
		t.Errorf("a signer that no builder names: %v, level %d", got, p.Ceiling(builderSpec))
	}
	named := p.Claimable(otherSpec)
	if len(named) != 1 || named[0].Level != 3 || p.Ceiling(otherSpec) != 3 {
		t.Errorf("a signer that a builder names: %v, level %d", named, p.Ceiling(otherSpec))
	}
	for id, want := range map[string]bool{
		named[0].ID: true, named[0].ID + "@refs/tags/v1": true, named[0].ID + "x@refs/tags/v1": false, named[0].ID + "/": false, "": false,
	} {
		if named[0].Is(id) != want {
			t.Errorf("builder %q: %t, want %t", id, !want, want)
		}
	}
	if pinned := (Builder{ID: "https://b.example.test/v1@refs/tags/v1"}); !pinned.Is(pinned.ID) || pinned.Is(pinned.ID+"@x") || pinned.Is("https://b.example.test/v1") {
		t.Error("a builder at a ref is another at another")
	}
	for repository, want := range map[string]bool{
		"git+https://github.com/example/demo": true, "https://github.com/example/demo.git": true, "github.com/example/demo": true,
		"git+https://github.com/example/demo2": false, "git+https://evil.example.test/github.com/example/demo": false,
		"git+https://github.com/example": false, "http://github.com/example/demo": false, "": false,
	} {
		if p.From(repository) != want {
			t.Errorf("source %q: %t, want %t", repository, !want, want)
		}
	}
	for image, want := range map[string]int{"demo": 2, "spoc": 3, "charts/a": 3, "charts/a/b": 2, "charts": 2, "aspoc": 2} {
		if got := p.LevelOf(image); got != want {
			t.Errorf("level of %s: %d, want %d", image, got, want)
		}
	}
	q := *p
	q.Builders = append([]Builder{{ID: "https://least.example.test", Level: 1}}, q.Builders...)
	if q.Ceiling(builderSpec) != 1 {
		t.Error("a signer who may speak for two builders is believed as far as the better")
	}
	if other := *p; p.Digest() != other.Digest() || p.Digest() == q.Digest() {
		t.Error("a policy is named by what it says")
	}
	var nothing *Policy
	if nothing.Demands() || (&Policy{}).Demands() || (&Policy{Mode: ModeOff}).Demands() || !p.Demands() {
		t.Error("what demands nothing")
	}
}

// TestPatternsOfSigners: a pattern matches whole identities of one owner; its
// form is that of the promoter.
func TestPatternsOfSigners(t *testing.T) {
	const workflow = `https://github\.com/example/demo/\.github/workflows/build\.yml@refs/tags/v[0-9]+`
	const spec = "sigstore(identityMatch=regex)::https://issuer.example.test::"
	s, err := ParseSigner(spec + workflow)
	if err != nil {
		t.Fatal(err)
	}
	m, err := s.Matcher()
	if err != nil {
		t.Fatal(err)
	}
	const subject = "https://github.com/example/demo/.github/workflows/build.yml@refs/tags/v1"
	for _, row := range []struct {
		name, issuer, subject string
		want                  bool
	}{
		{"as it is", "https://issuer.example.test", subject, true},
		{"with more at the end", "https://issuer.example.test", subject + "-evil", false},
		{"with more at the beginning", "https://issuer.example.test", "https://evil.example/" + subject, false},
		{"of another issuer", "https://issuer.example", subject, false},
	} {
		if got := m.Match(identity.Identity{Issuer: row.issuer, Subject: row.subject, Type: identity.URI}); got != row.want {
			t.Errorf("%s: %t", row.name, got)
		}
	}
	for _, row := range []struct {
		spec string
		code verdict.Code
	}{
		{spec + workflow, ""},
		{spec + "^" + workflow + "$", ""},
		{spec + `.*@project\.example\.test`, ""},
		{spec + `.*`, verdict.PolicyWeak},
		{spec + `https://github\.com/.+`, verdict.PolicyWeak},
		{spec + `https://github.com/example/demo/build@refs/tags/v1`, verdict.PolicyWeak},
		{spec + `builder@project.example.test`, verdict.PolicyWeak},
		{spec + `(`, verdict.PolicyWeak},
		{spec, verdict.ConfigParse},
		{"sigstore(identityMatch=regex/i)::https://issuer.example.test::" + workflow, verdict.ConfigParse},
		{"sigstore(issuerMatch=regex)::https://issuer.example.test::" + workflow, verdict.ConfigParse},
		{"sigstore(regexp)::https://issuer.example.test::" + workflow, verdict.ConfigParse},
		{"sigstore(identityMatch=glob)::https://issuer.example.test::builder@*", verdict.ConfigParse},
	} {
		_, err := readPolicy("provenance:\n  mode: require\n  signers:\n  - '" + row.spec + "'\n  builders: [{id: \"https://builder.example.test/v1\", level: 3}]\n  sources: [example.test/demo]\n")
		var coded *verdict.Error
		if (err == nil) != (row.code == "") || err != nil && (!errors.As(err, &coded) || coded.Finding.Code != row.code || coded.Finding.Subject != "manifests/team/promoter-manifest.yaml:11") {
			t.Errorf("%s: %v, want %q", row.spec, err, row.code)
		}
	}
}

// TestSeveralSigners: who matches two signers may claim the builders of both, and is
// believed as far as the least.
func TestSeveralSigners(t *testing.T) {
	p := &Policy{Builders: []Builder{{ID: "open", Level: 1}, {ID: "one", Level: 3, Signers: []string{"s1"}}, {ID: "two", Level: 2, Signers: []string{"s2"}}}}
	for _, row := range []struct {
		signers  []string
		builders int
		level    int
	}{{[]string{"s1"}, 1, 3}, {[]string{"s1", "s2"}, 2, 2}, {[]string{"s3"}, 1, 1}, {[]string{"s3", "s1"}, 1, 3}} {
		if got := p.Claimable(row.signers...); len(got) != row.builders || p.Ceiling(row.signers...) != row.level {
			t.Errorf("%q: %v, level %d", row.signers, got, p.Ceiling(row.signers...))
		}
	}
}

func TestCaller(t *testing.T) {
	const uri = "https://github.com/example/demo/.github/workflows/release.yml@refs/tags/v1"
	run, ok := ParseRun(uri)
	if !ok || run.Repository != "https://github.com/example/demo" || run.Path != ".github/workflows/release.yml" || run.Ref != "refs/tags/v1" || run.String() != uri {
		t.Fatalf("%+v, %t", run, ok)
	}
	for _, bad := range []string{"", "https://github.com/example/demo@refs/tags/v1", "http" + uri[5:], strings.TrimSuffix(uri, "@refs/tags/v1"), "https://github.com//demo/x@y"} {
		if _, ok := ParseRun(bad); ok {
			t.Errorf("%q was read", bad)
		}
	}
	c := &Caller{Workflows: []string{run.Path}, Refs: []string{"refs/tags/v*"}, Events: []string{"push"}}
	other := func(change func(*Run)) Run { r := run; change(&r); return r }
	for name, row := range map[string]struct {
		run   Run
		event string
		may   bool
	}{
		"as it is":         {run, "push", true},
		"another workflow": {other(func(r *Run) { r.Path = ".github/workflows/test.yml" }), "push", false},
		"a branch":         {other(func(r *Run) { r.Ref = "refs/heads/v1" }), "push", false},
		"a deeper tag":     {other(func(r *Run) { r.Ref = "refs/tags/v1/x" }), "push", false},
		"another event":    {run, "pull_request_target", false},
	} {
		if c.MayBe(row.run, row.event) != row.may {
			t.Errorf("%s: %t", name, !row.may)
		}
	}
	if !(*Caller)(nil).MayBe(run, "") || (&Caller{}).MayBe(run, "") {
		t.Error("no caller is anybody, and an empty one nobody")
	}
}
