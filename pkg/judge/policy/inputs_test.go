package policy

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/waybill-release/waybill/pkg/release/plan"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// withInputs is the policy of these tests, with rows of inputs.
func withInputs(t *testing.T) string {
	t.Helper()
	const rows = `inputs:
- image: registry.example.test/base/static
  signers: [{issuer: "https://accounts.example.test", subject: keyless@example.test, type: email}]
  builders: [{id: "https://example.test/base-builder", level: 3, signers: [{issuer: "https://accounts.example.test", subject: base@example.test, type: email}]}]
  source: {repository: "git+https://example.test/static", ref: refs/heads/main}
  checks: {signature: warn, provenance: require}
  level: 2
- image: registry.example.test/base/
  signers: [{issuer: "https://accounts.example.test", subject: keyless@example.test, type: email}]
  checks: {signature: require, provenance: "off"}
- tool: cross
  bundles: ["https://tools.example.test/{sha256}.sigstore.json"]
  signers: [{issuer: "https://accounts.example.test", subject: tools@example.test, type: email}]
  checks: {signature: require, provenance: "off"}
`
	text := strings.Replace(court(t, -1, nil), "inputs:\n", rows, 1)
	if !strings.Contains(text, "closed: {files: require, images: require}") {
		t.Fatalf("the policy closes otherwise:\n%s", text)
	}
	return strings.Replace(text, "closed: {files: require, images: require}", "closed: {files: require, images: require, inputs: warn}", 1)
}

// TestInputsLoadStrictly: each change of inputs that asks less than it seems to
// does not load; a twin that differs in the same place does.
func TestInputsLoadStrictly(t *testing.T) {
	base := withInputs(t)
	const static, source, checks = "registry.example.test/base/static", `  source: {repository: "git+https://example.test/static", ref: refs/heads/main}` + "\n", "{signature: warn, provenance: require}"
	for _, row := range []struct {
		name, old, new, twin string
		code                 verdict.Code
		says                 string
	}{
		{"neither image nor tool", "- image: " + static + "\n  signers", "- signers", "- image: registry.example.test/static\n  signers", verdict.PolicyEmpty, "exactly one of image and tool"},
		{"image and tool", "- tool: cross\n", "- tool: cross\n  image: registry.example.test/cross\n", "- tool: go\n", verdict.PolicyEmpty, "exactly one of image and tool"},
		{"an image twice", "base/\n", "base/static\n", "base/debian\n", verdict.ConfigParse, "has a row already"},
		{"an image with a tag", static, static + ":v1", "registry.example.test:5000/base/static", verdict.ConfigParse, "without tag"},
		{"an image with a digest", static, static + "@sha256:00", static + "-debian", verdict.ConfigParse, "without tag"},
		{"a pattern of images", static, "registry.example.test/*", "registry.example.test/x/", verdict.ConfigParse, "without tag"},
		{"a whole registry", static, "registry.example.test/", "registry.example.test/x", verdict.ConfigParse, "HOST/PATH/"},
		{"an empty registry", static, "/base/static", "registry.example.test/static", verdict.ConfigParse, "HOST/REPOSITORY"},
		{"no registry", static, "static", "registry.example.test/static", verdict.ConfigParse, "HOST/REPOSITORY"},
		{"an image with bundles", "  level: 2\n", "  level: 2\n  bundles: [\"{url}\"]\n", "  level: 3\n", verdict.ConfigParse, "in its registry"},
		{"no bundle", `bundles: ["https://tools.example.test/{sha256}.sigstore.json"]`, "bundles: []", `bundles: ["{url}.sigstore.json"]`, verdict.PolicyEmpty, "empty"},
		{"one bundle for every digest", "{sha256}.sigstore", "cross.sigstore", "cross-{sha256}.sigstore", verdict.ConfigParse, "{url} or {sha256}"},
		{"an unknown placeholder", "{sha256}.sigstore", "{sha256}{version}.sigstore", "{sha256}/{sha256}.sigstore", verdict.ConfigParse, "no other placeholder"},
		{"a build of any source", source, "", strings.Replace(source, "static", "base", 1), verdict.PolicyEmpty, "a build of any source"},
		{"the version of the release", "ref: refs/heads/main", "ref: \"refs/tags/{version}\"", "ref: refs/heads/stable", verdict.ConfigParse, "not that of its inputs"},
		{"a level of the builder that there is not", "level: 3, signers", "level: 5, signers", "level: 2, signers", verdict.ConfigParse, "1, 2, 3, or 4"},
		{"a level that there is not", "  level: 2\n", "  level: 5\n", "  level: 3\n", verdict.ConfigParse, "1, 2, 3 or 4"},
		{"a level of provenance that is not required", checks, "{signature: require, provenance: warn}", "{signature: require, provenance: require}", verdict.PolicyWeak, "which is not required"},
		{"nothing required", checks + "\n  level: 2", "{signature: warn, provenance: warn}", "{signature: warn, provenance: require}", verdict.PolicyEmpty, "nothing is required"},
		{"no checks", "  checks: " + checks + "\n", "", "  checks: {signature: require, provenance: require}\n", verdict.PolicyEmpty, "no mode for"},
		{"an omitted check", checks, "{provenance: require}", "{signature: require, provenance: require}", verdict.PolicyEmpty, "no mode for signature"},
		{"an unknown check", checks, "{signature: warn, provenance: require, sbom: require}", "{signature: require, provenance: require}", verdict.ConfigParse, "unknown check"},
		{"signers without a check", checks, `{signature: "off", provenance: require}`, "{signature: require, provenance: require}", verdict.PolicyEmpty, "list signers"},
		{"a check without signers", "- tool: cross\n", "- tool: other\n  checks: {signature: require, provenance: \"off\"}\n- tool: cross\n", "- tool: other\n", verdict.PolicyEmpty, "list signers"},
		{"a check without builders", `base/` + "\n", "base/\n  builders: []\n", "base/x/\n", verdict.PolicyEmpty, "empty"},
		{"a signer who releases", "keyless@example.test", "release@example.test", "images@example.test", verdict.PolicyWeak, "its own identity"},
		{"a builder who builds the release", "base@example.test", "builder@example.test", "vendor@example.test", verdict.PolicyWeak, "its own identity"},
		{"a signer who builds", "subject: keyless@", "subject: base@", "subject: images@", verdict.PolicyWeak, "its own identity"},
		{"a pattern that matches a signer of the release", "subject: tools@example.test", `pattern: '[a-z]+@example\.test'`, "subject: cross@example.test", verdict.PolicyWeak, "its own identity"},
		{"a signer of one class", "subject: keyless@example.test, type: email", "subject: keyless@example.test, type: email, classes: [image]", "subject: images@example.test, type: email", verdict.ConfigParse, "leave them out"},
		{"an unknown key", "- tool: cross\n", "- tool: cross\n  url: x\n", "- tool: go\n", verdict.ConfigParse, "url"},
		{"an unknown mode of closing", "inputs: warn}", "inputs: sometimes}", "inputs: require}", verdict.ConfigParse, "each require, warn or off"},
	} {
		t.Run(row.name, func(t *testing.T) {
			if !strings.Contains(base, row.old) {
				t.Fatalf("%q is not in the policy", row.old)
			}
			if _, err := Parse([]byte(strings.Replace(base, row.old, row.twin, 1)), nil); err != nil {
				t.Errorf("the twin: %v", err)
			}
			_, err := Parse([]byte(strings.Replace(base, row.old, row.new, 1)), nil)
			if f := verdict.FindingOf("", err); err == nil || f.Code != row.code || !strings.Contains(err.Error(), row.says) || !lineAndColumn.MatchString(err.Error()) {
				t.Errorf("%v, want %s %q with line and column", err, row.code, row.says)
			}
		})
	}
	without := regexp.MustCompile(`inputs:\n(- .*\n(  .*\n)*)+`).ReplaceAllString(base, "")
	for text, says := range map[string]string{
		without: "the policy lists no inputs",
		strings.Replace(without, "summaries:", "inputs: []\nsummaries:", 1): "inputs: empty",
	} {
		if _, err := Parse([]byte(text), nil); err == nil || verdict.FindingOf("", err).Code != verdict.PolicyEmpty || !strings.Contains(err.Error(), says) {
			t.Errorf("%v, want %q", err, says)
		}
	}
	if _, err := Parse([]byte(strings.Replace(without, ", inputs: warn", "", 1)), nil); err != nil {
		t.Errorf("the twin: %v", err)
	}
}

// TestForeignBytes: the bytes of the probe are never those of the question, even
// of one about exactly the bytes that the probe of a policy takes.
func TestForeignBytes(t *testing.T) {
	p, err := Parse([]byte(withInputs(t)), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, bytes := range []digest.Set{p.others, {SHA256: p.others.SHA256}, {SHA512: p.others.SHA512}, digest.SetOf([]byte("x"))} {
		m := &judgement{policy: &p, q: Question{Bytes: bytes}}
		if got := m.foreignBytes(); got.SHA256.IsZero() || got.SHA512.IsZero() || got.SHA256 == bytes.SHA256 || got.SHA512 == bytes.SHA512 {
			t.Errorf("%v for %v", got, bytes)
		}
	}
}

// TestInputsAreMatchedExactly: an input belongs to the row that names its
// repository, else to the longest path above it; a tool to the row of its name.
func TestInputsAreMatchedExactly(t *testing.T) {
	p, err := Parse([]byte(withInputs(t)), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct {
		repository, tool string
		named            bool
		level            int
	}{
		{"registry.example.test/base/static", "", true, 2},
		{"registry.example.test/base/static-debian", "", true, 0},
		{"registry.example.test/base/static/debug", "", true, 0},
		{"registry.example.test/base", "", false, 0},
		{"registry.example.test/bases/static", "", false, 0},
		{"evil.test/registry.example.test/base/static", "", false, 0},
		{"registry.example.test/base/static", "cross", true, 2},
		{"", "cross", true, 0},
		{"", "cross2", false, 0},
		{"registry.example.test/cross", "cross", false, 0}, // a tool image is matched by its repository
		{"", "", false, 0},
	} {
		got, named := p.NewSession().OfInput(row.repository, row.tool)
		level := 0
		for _, d := range got.NewSession().Demands(Published, plan.Image) {
			level = d.Level
		}
		if named != row.named || level != row.level {
			t.Errorf("%q %q: named %t, level %d; want %t, %d", row.repository, row.tool, named, level, row.named, row.level)
		}
	}
	sum := digest.Of(digest.SHA256, []byte("cross"))
	for _, row := range []struct {
		tool, url string
		want      []string
	}{
		{"cross", "", []string{"https://tools.example.test/" + sum.Hex() + ".sigstore.json"}},
		{"helper", "https://dl.example.test/helper", []string{"https://dl.example.test/helper.sigstore.json"}},
		{"go", "", nil},
	} {
		if got := p.NewSession().BundlesOf(row.tool, row.url, sum); !slices.Equal(got, row.want) {
			t.Errorf("%s: %q, want %q", row.tool, got, row.want)
		}
	}
	lines := strings.Join(explainInputs(p).Lines, "\n")
	if n := strings.Count(lines, "have at most its level (LEVEL)"); n != 1 {
		t.Errorf("%d of the rows limit the level, want that of static alone:\n%s", n, lines)
	}
	for _, want := range []string{"the image registry.example.test/base/static needs provenance, signature (only a warning), at SLSA Build level 2", "images below registry.example.test/base/ needs signature", "the tool cross", "base@example.test", "only a warning (EXTRA)"} {
		if !strings.Contains(lines, want) {
			t.Errorf("%q is not in:\n%s", want, lines)
		}
	}
}
