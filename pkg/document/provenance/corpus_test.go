package provenance_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/waybill-release/waybill/pkg/document/intoto"
	"github.com/waybill-release/waybill/pkg/document/provenance"
)

// corpus reads a file that others wrote. It stands beside a checkout, or where
// WAYBILL_CORPORA says; a clone has none.
func corpus(t *testing.T, name string) []byte {
	t.Helper()
	dir := os.Getenv("WAYBILL_CORPORA")
	if dir == "" {
		dir = filepath.Join("..", "..", "..", "..", "shared", "corpora")
	}
	raw, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(name)))
	if err != nil && os.Getenv("CI") == "" {
		t.Skipf("the corpora are not here: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func kubernetes(t *testing.T) provenance.Claim {
	t.Helper()
	return read(t, corpus(t, "kubernetes/v1.23.0-alpha.4-provenance.json"))
}

func read(t *testing.T, statement []byte) provenance.Claim {
	t.Helper()
	s, err := intoto.ParseOpen(statement)
	if err != nil {
		t.Fatal(err)
	}
	c, err := provenance.Read(s)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestKubernetesProvenance(t *testing.T) {
	c := kubernetes(t)
	distinct := map[string]bool{}
	for _, s := range c.Statement().Subjects() {
		distinct[s.Digests.SHA256.Hex()] = true
	}
	if n := len(c.Statement().Subjects()); n != 461 || len(distinct) != 384 {
		t.Errorf("%d subjects, %d digests, want 461 and 384", n, len(distinct))
	}
	if want := (provenance.Source{Repository: "git+https://github.com/kubernetes/kubernetes", Commit: "94db9bed6b7c56420e722d1b15db4610c9cacd3f"}); c.Source != want {
		t.Errorf("source %+v, want %+v", c.Source, want)
	}
	if got := c.Unexpected("--branch=", "--type="); !slices.Equal(got, []string{"--build-version="}) {
		t.Errorf("unexpected parameters %q", got)
	}
	if len(c.UserParameters()) != 3 || c.Completeness.Materials != provenance.SaidYes || c.Completeness.Environment != provenance.SaidNo {
		t.Errorf("read as %+v", c)
	}
}

func TestLintOfKubernetesProvenance(t *testing.T) {
	type seen struct {
		code  string
		count int
	}
	var got []seen
	for _, n := range provenance.Lint(kubernetes(t)) {
		got = append(got, seen{n.Code, n.Count})
	}
	want := []seen{
		{"LINT_BUILDER_MUTABLE", 1},      // a branch of somebody's fork
		{provenance.LintCompleteness, 1}, // all materials are one: the source
		{provenance.LintToolchain, 1},    // neither kube-cross nor Go
		{provenance.LintEntryMutable, 1}, // blob/master
		{provenance.LintEntryForeign, 1}, // in kubernetes/release, said to be in kubernetes/kubernetes
		{"LINT_SOURCE_OTHER", 1},         // +0ac956ff is not 94db9bed
		{provenance.LintInvocation, 1},
		{"LINT_SUBJECT_STAGING", 461}, // all of them, in the bucket of staging
		{"LINT_SUBJECT_SHARED_BYTES", 77},
	}
	if !slices.Equal(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
}

// signed is the statement inside the bundle or envelope of a corpus file.
func signed(t *testing.T, name string) []byte {
	t.Helper()
	var bundle struct {
		Envelope json.RawMessage `json:"dsseEnvelope"`
	}
	raw := corpus(t, name)
	if err := json.Unmarshal(raw, &bundle); err != nil {
		t.Fatal(err)
	}
	if bundle.Envelope == nil {
		bundle.Envelope = raw
	}
	e, err := intoto.ParseEnvelope(bundle.Envelope)
	if err != nil {
		t.Fatal(err)
	}
	return e.Payload
}

func TestCorpusClaims(t *testing.T) {
	const example = "git+https://github.com/slsa-framework/example-package"
	rows := []struct {
		file, version, builder string
		source                 provenance.Source
		entry                  string
		user                   int
		lint                   []string
	}{
		{"bcr/MODULE.bazel.intoto.jsonl", provenance.PredicateType,
			"https://github.com/bazel-contrib/publish-to-bcr/.github/workflows/publish.yaml@refs/tags/v0.0.1",
			provenance.Source{Repository: "git+https://github.com/aspect-build/rules_lint", Ref: "refs/heads/publish-to-bcr", Commit: "8f70009fde0c94ade6ce2a054b94718c819126ec"},
			".github/workflows/release.yml", 0, []string{provenance.LintToolchain, provenance.LintTimeMissing}},
		{"gha_generic/v2.1.0/binary-linux-amd64-push-v14.intoto.jsonl", provenance.PredicateTypeV02,
			"https://github.com/slsa-framework/slsa-github-generator/.github/workflows/generator_generic_slsa3.yml@refs/tags/v2.1.0",
			provenance.Source{Repository: example, Ref: "refs/tags/v14", Commit: "4d329c75e7ec1725f7c9ce917a8799d408d06be3"},
			".github/workflows/verifier-e2e.all.workflow_dispatch.main.all.slsa3.yml", 0, nil},
		{"gha_go/v2.1.0/binary-linux-amd64-workflow_dispatch.intoto.jsonl", provenance.PredicateTypeV02,
			"https://github.com/slsa-framework/slsa-github-generator/.github/workflows/builder_go_slsa3.yml@refs/tags/v2.1.0",
			provenance.Source{Repository: example, Ref: "refs/heads/main", Commit: "4d329c75e7ec1725f7c9ce917a8799d408d06be3"},
			".github/workflows/verifier-e2e.all.workflow_dispatch.main.all.slsa3.yml", 0, nil},
		{"npm/gundam-visor-cli-v1-tag.tgz.provenance.sigstore.json", provenance.PredicateType,
			"https://github.com/actions/runner/github-hosted",
			provenance.Source{Repository: "git+https://github.com/ramonpetgrave64/gundam-visor", Ref: "refs/tags/v1.0.1", Commit: "599500821344b070902a7a5666064bfdaba715df"},
			".github/workflows/npm-publish.yml", 0, []string{provenance.LintToolchain, provenance.LintTimeMissing, "LINT_SUBJECT_NO_SHA256"}},
	}
	for _, r := range rows {
		t.Run(r.file, func(t *testing.T) {
			c := read(t, signed(t, "slsa/bundles/"+r.file))
			if c.PredicateType != r.version || c.Builder.ID != r.builder || c.Source != r.source || c.EntryPoint != r.entry {
				t.Errorf("%s by %s from %+v, %s", c.PredicateType, c.Builder.ID, c.Source, c.EntryPoint)
			}
			if got := c.UserParameters(); len(got) != r.user {
				t.Errorf("parameters of the user %s", got)
			}
			var lint []string
			for _, n := range provenance.Lint(c) {
				lint = append(lint, n.Code)
			}
			if r.lint != nil && !slices.Equal(lint, r.lint) {
				t.Errorf("lint %v, want %v", lint, r.lint)
			}
		})
	}
}

func TestCorpusPublication(t *testing.T) {
	s, err := intoto.ParseOpen(signed(t, "slsa/bundles/npm/gundam-visor-cli-v1-tag.tgz.publish.sigstore.json"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := provenance.Read(s); err == nil {
		t.Error("a publication was read as provenance")
	}
}
