package builders

import (
	"fmt"
	"strings"
	"testing"

	"github.com/waybill-release/waybill/pkg/document/intoto"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/identity"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

const (
	actions   = "https://token.actions.githubusercontent.com"
	generator = "https://github.com/slsa-framework/slsa-github-generator/.github/workflows/"
)

// maker is who signed, without a signature.
type maker struct {
	who    identity.Identity
	claims identity.Claims
	key    digest.Digest
	id     string // of the builder that the provenance names
}

func (s maker) Identity() identity.Identity { return s.who }
func (s maker) Claims() identity.Claims     { return s.claims }
func (s maker) Key() digest.Digest          { return s.key }

func (s maker) Statement() intoto.Statement {
	raw := fmt.Appendf(nil, `{"_type":"https://in-toto.io/Statement/v1","subject":[{"name":"x","digest":{"sha256":"%s"}}],"predicateType":"https://slsa.dev/provenance/v0.2","predicate":{"builder":{"id":%q},"buildType":"https://example.test/t"}}`, strings.Repeat("0", 64), s.id)
	said, err := intoto.ParseOpen(raw)
	if err != nil {
		panic(err)
	}
	return said
}

func run(subject string) maker {
	return maker{who: identity.Identity{Issuer: actions, Subject: subject, Type: identity.URI}, claims: identity.Claims{RunnerEnvironment: "github-hosted"}}
}

func known(t *testing.T) List {
	t.Helper()
	l, err := Read(nil)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestFind(t *testing.T) {
	google, err := digest.Parse("sha256:3fe6dfada209606798e976322c8b69acae580a6708b7112f0f7a053a5b96d675")
	if err != nil {
		t.Fatal(err)
	}
	elsewhere, selfHosted := run(generator+"builder_go_slsa3.yml@refs/tags/v2.1.0"), run("https://github.com/acme/app/.github/workflows/ci.yml@refs/tags/v1.0.0")
	elsewhere.who.Issuer = "https://gitlab.com"
	selfHosted.claims.RunnerEnvironment = "self-hosted"
	ownRunner, older := run(generator+"builder_go_slsa3.yml@refs/tags/v2.1.0"), run(generator+"builder_go_slsa3.yml@refs/tags/v2.1.0")
	ownRunner.claims.RunnerEnvironment, older.claims.RunnerEnvironment = "self-hosted", ""
	for _, row := range []struct {
		name  string
		by    maker
		id    string
		level int
	}{
		{"a generator", run(generator + "generator_generic_slsa3.yml@refs/tags/v2.1.0"), generator + "generator_generic_slsa3.yml@refs/tags/v2.1.0", 3},
		{"of another version than it names", run(generator + "generator_generic_slsa3.yml@refs/tags/v2.1.0"), generator + "generator_generic_slsa3.yml@refs/tags/v2.0.0", 0},
		{"that names another generator", run(generator + "generator_generic_slsa3.yml@refs/tags/v2.1.0"), generator + "builder_go_slsa3.yml@refs/tags/v2.1.0", 0},
		{"of a branch", run(generator + "generator_generic_slsa3.yml@refs/heads/main"), generator + "generator_generic_slsa3.yml@refs/heads/main", 2},
		{"of a candidate", run(generator + "builder_go_slsa3.yml@refs/tags/v2.1.0-rc.1"), generator + "builder_go_slsa3.yml@refs/tags/v2.1.0-rc.1", 2},
		{"of another issuer", elsewhere, generator + "builder_go_slsa3.yml@refs/tags/v2.1.0", 0},
		{"on a runner of the user's own", ownRunner, generator + "builder_go_slsa3.yml@refs/tags/v2.1.0", 0},
		{"with a certificate of before 2023, which claims no runner", older, generator + "builder_go_slsa3.yml@refs/tags/v2.1.0", 3},
		{"of a fork", run(strings.Replace(generator, "slsa-framework", "stranger", 1) + "builder_go_slsa3.yml@refs/tags/v2.1.0"), generator + "builder_go_slsa3.yml@refs/tags/v2.1.0", 0},
		{"a delegated builder", run(generator + "delegator_lowperms-generic_slsa3.yml@refs/tags/v2.1.0"), generator + "builder_maven_slsa3.yml@refs/tags/v2.0.0", 3},
		{"a delegator that names a stranger's workflow", run(generator + "delegator_generic_slsa3.yml@refs/tags/v2.1.0"), "https://github.com/stranger/trw/.github/workflows/build.yml@refs/tags/v1.0.0", 0},
		{"a workflow that names a delegated builder", run("https://github.com/stranger/trw/.github/workflows/build.yml@refs/tags/v1.0.0"), generator + "builder_maven_slsa3.yml@refs/tags/v2.0.0", 0},
		{"GitHub's attestation", run("https://github.com/acme/app/.github/workflows/ci.yml@refs/tags/v1.0.0"), "https://github.com/acme/app/.github/workflows/ci.yml@refs/tags/v1.0.0", 2},
		{"GitHub's attestation on a self-hosted runner", selfHosted, "https://github.com/acme/app/.github/workflows/ci.yml@refs/tags/v1.0.0", 0},
		{"npm", run("https://github.com/acme/app/.github/workflows/ci.yml@refs/heads/main"), "https://github.com/actions/runner/github-hosted", 2},
		{"npm on a self-hosted runner", run("https://github.com/acme/app/.github/workflows/ci.yml@refs/heads/main"), "https://github.com/actions/runner/self-hosted", 0},
		{"Cloud Build", maker{key: google}, "https://cloudbuild.googleapis.com/GoogleHostedWorker", 3},
		{"Cloud Build by another key", maker{key: digest.Of(digest.SHA256, nil)}, "https://cloudbuild.googleapis.com/GoogleHostedWorker", 0},
		{"nothing", maker{}, "", 0},
	} {
		row.by.id = row.id
		pair, source := known(t).Find(row.by)
		if found := row.level > 0; pair.Level != row.level || found && (pair.BuilderID != row.id || source == "") {
			t.Errorf("%s: %+v, %q, want level %d", row.name, pair, source, row.level)
		}
	}
}

const delegated = `apiVersion: waybill/v1
kind: Builders
builders:
- id: https://github\.com/acme/trw/\.github/workflows/build\.yml@refs/tags/v[0-9.]+
  issuer: https://token.actions.githubusercontent.com
  signer: https://github\.com/slsa-framework/slsa-github-generator/\.github/workflows/delegator_(?:lowperms-)?generic_slsa3\.yml@refs/tags/v[0-9]+\.[0-9]+\.[0-9]+
  level: 3
  source: https://acme.example/builders
`

func TestAdd(t *testing.T) {
	by, id := run(generator+"delegator_generic_slsa3.yml@refs/tags/v2.1.0"), "https://github.com/acme/trw/.github/workflows/build.yml@refs/tags/v1.0.0"
	by.id = id
	list, err := Read([]byte(delegated))
	if err != nil {
		t.Fatal(err)
	}
	if pair, _ := list.Find(by); pair.Level != 3 || len(list) != len(known(t))+1 {
		t.Errorf("%+v of %d", pair, len(list))
	}
	if pair, _ := known(t).Find(by); pair.Level > 0 {
		t.Error("known without the file")
	}
	one := strings.Replace(delegated, `acme/trw/\.github/workflows/build\.yml@refs/tags/v[0-9.]+`, "builder", 1) // of no owner
	if _, err := Read([]byte(one)); one == delegated || err != nil {
		t.Errorf("one id: %v", err)
	}
	_, entry, _ := strings.Cut(delegated, "- id")
	for name, change := range map[string]*strings.Replacer{
		"of a level above 3":          strings.NewReplacer("level: 3", "level: 4"),
		"without a level":             strings.NewReplacer("  level: 3\n", ""),
		"without a source":            strings.NewReplacer("  source: https://acme.example/builders\n", ""),
		"whose source is no page":     strings.NewReplacer("https://acme.example/builders", "trust me"),
		"without an issuer":           strings.NewReplacer("  issuer: https://token.actions.githubusercontent.com\n", ""),
		"without a signer":            strings.NewReplacer("  signer: ", "  runner: "),
		"with another key":            strings.NewReplacer("level: 3", "level: 3\n  because: I say so"),
		"with key and signer":         strings.NewReplacer("level: 3", "level: 3\n  key: sha256:"+strings.Repeat("0", 64)),
		"that everybody can sign for": strings.NewReplacer(`slsa-framework/slsa-github-generator/\.github`, ".+"),
		"of any host":                 strings.NewReplacer(`signer: https://github\.com`, "signer: https://[a-z.]+"),
		"whose id is any":             strings.NewReplacer(`https://github\.com/acme/trw/\.github/workflows/build\.yml@refs/tags/v[0-9.]+`, ".*"),
		"whose id has an open dot":    strings.NewReplacer(`https://github\.com/acme`, "https://github.com/acme"),
		"whose id is no pattern":      strings.NewReplacer(`build\.yml`, "build("),
		"whose signer has two levels": strings.NewReplacer("level: 3", "level: 2"),
		"of a version that is known":  strings.NewReplacer(`acme/trw/\.github/workflows/build\.yml@refs/tags/v[0-9.]+`, `slsa-framework/slsa-github-generator/\.github/workflows/builder_go_slsa3\.yml@refs/tags/v2\.1\.0`),
		"of another kind":             strings.NewReplacer("kind: Builders", "kind: Revocations"),
		"that is empty":               strings.NewReplacer(delegated, "apiVersion: waybill/v1\nkind: Builders\nbuilders: []\n"),
		"listed twice":                strings.NewReplacer("builders:\n", "builders:\n- id"+entry),
	} {
		text := change.Replace(delegated)
		_, err := Read([]byte(text))
		if text == delegated || err == nil || verdict.FindingOf("", err).Code != verdict.ConfigParse {
			t.Errorf("a builder %s: %v", name, err)
		}
	}
}
