package stories

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"testing"

	"github.com/sigstore/sigstore-go/pkg/sign"

	"github.com/waybill-release/waybill/pkg/document/intoto"
	"github.com/waybill-release/waybill/pkg/document/vsa"
)

// TestRealProvenance: provenance that a reusable workflow of GitHub signed shows
// Build level 3. With a summary of its source, which the lab's verifier signs
// here, one requirement of level 3 of KEP-3027 is left, which only a policy can
// declare.
func TestRealProvenance(t *testing.T) {
	const (
		dir        = "../../../shared/corpora"
		bundle     = dir + "/slsa/bundles/gha_go/v2.1.0/binary-linux-amd64-push-v14.2.intoto.jsonl"
		content    = "sha256:f6ab7ad0c7549b5a4942c3b0690519d791c28c4c0f8b286208cb40da3322a066"
		workflow   = "https://github.com/slsa-framework/slsa-github-generator/.github/workflows/builder_go_slsa3.yml"
		repository = "git+https://github.com/slsa-framework/example-package"
		commit     = "4d329c75e7ec1725f7c9ce917a8799d408d06be3"
		verifier   = "https://verifier.example.test/source"
	)
	raw, err := os.ReadFile(bundle)
	if errors.Is(err, fs.ErrNotExist) && os.Getenv("CI") == "" {
		t.Skip("without the corpora beside the checkout there is no real provenance")
	} else if err != nil {
		t.Fatal(err)
	}
	w := openWorkshop(t)
	w.write(t, "real.json", raw)
	w.write(t, "both_roots.json", bothRoots(t, w.Lab.TrustedRoot, dir+"/trusted-roots/public-good.json"))
	for name, of := range map[string]string{"good.json": commit, "other.json": strings.Repeat("d", 40)} {
		w.write(t, name, w.sign(t, "verifier", &sign.DSSEData{PayloadType: intoto.PayloadType, Data: fmt.Appendf(nil,
			`{"_type":%q,"subject":[{"uri":%[2]q,"digest":{"gitCommit":%[3]q}}],"predicateType":%[4]q,"predicate":{"verifier":{"id":%[5]q},"timeVerified":"2026-03-01T12:00:00Z","resourceUri":%[2]q,`+
				`"policy":{"uri":"https://example.test/policy","digest":{"sha256":"%064[6]d"}},"verificationResult":"PASSED","verifiedLevels":["SLSA_SOURCE_LEVEL_2"],"slsaVersion":"1.2"}}`,
			intoto.TypeV1, repository, of, vsa.PredicateType, verifier, 1)}))
	}
	issuer, subject := w.Lab.Identity("verifier")
	ask := "bundle real.json --digest " + content + " --type slsaprovenance02 --trusted-root both_roots.json --certificate-identity " + workflow + "@refs/tags/v2.1.0" +
		" --certificate-oidc-issuer https://token.actions.githubusercontent.com --builder " + workflow + "@refs/tags/v2.1.0=3"
	source := " --source-verifier " + verifier + "=2 --source-identity " + subject + " --source-oidc-issuer " + issuer + " --source-vsa "
	for _, row := range []struct {
		name, flags string
		status      int
		says        []string
	}{
		{"the build", " --require-level build=3", 0, []string{"SLSA build: level 3 of 3", "SLSA v0.1: level 2 of 4"}},
		{"the source, without a summary", " --require-level source=2", 1, []string{"LEVEL", "source.level-1 (not shown)"}},
		{"the source", source + "good.json --require-level source=2 --require-level build=3", 0, []string{"SLSA source: level 2 of 4"}},
		{"the source, by a summary of another commit", source + "other.json --require-level source=2", 1, []string{"LEVEL", "the given one is of another"}},
		{"what is left", source + "good.json --report kep-3027", 0, []string{"lacks source.retained\n", "met        source.verified-history"}},
		{"level 3", source + "good.json --require-level kep-3027=3", 1, []string{"LEVEL", "source.retained (not shown): missing: a declaration of the policy"}},
	} {
		t.Run(row.name, func(t *testing.T) {
			want(t, w.Run(t.Context(), append([]string{"waybill", "verify"}, strings.Fields(ask+row.flags)...)...), row.status, row.says...)
		})
	}
}

// bothRoots joins the lab's trust root and another.
func bothRoots(t *testing.T, lab []byte, path string) []byte {
	t.Helper()
	other, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var all, more map[string]any
	if err := errors.Join(json.Unmarshal(lab, &all), json.Unmarshal(other, &more)); err != nil {
		t.Fatal(err)
	}
	for key, value := range more {
		if list, is := value.([]any); is {
			have, _ := all[key].([]any)
			all[key] = append(have, list...)
		}
	}
	joined, err := json.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	return joined
}

// TestKnownBuilders: the same provenance shows its level by the list of known
// builders, and answers questions about the version of its tag.
func TestKnownBuilders(t *testing.T) {
	const (
		dir      = "../../../shared/corpora"
		workflow = "https://github.com/slsa-framework/slsa-github-generator/.github/workflows/builder_go_slsa3.yml@refs/tags/v2.1.0"
		actions  = " --certificate-oidc-issuer https://token.actions.githubusercontent.com --trusted-root root.json"
		build    = "bundle build.json --type slsaprovenance02" + actions + " --certificate-identity " + workflow +
			" --digest sha256:f6ab7ad0c7549b5a4942c3b0690519d791c28c4c0f8b286208cb40da3322a066"
		npm = "bundle npm.json --type slsaprovenance1" + actions +
			" --certificate-identity https://github.com/ramonpetgrave64/gundam-visor/.github/workflows/npm-publish.yml@refs/tags/v1.0.1 --digest " +
			"sha512:8d9d7972f676516c75014aa074e11ae604d98f0b64ec6725a61e2838ff3dab162118fa71433fb31e1550d30bd0dec9d086ce032b94457b583900c507acf39c40"
		published = "bundle published.json --type https://github.com/npm/attestation/tree/main/specs/publish/v0.1 --trusted-root root.json --key npm.pem --digest " +
			"sha512:8d9d7972f676516c75014aa074e11ae604d98f0b64ec6725a61e2838ff3dab162118fa71433fb31e1550d30bd0dec9d086ce032b94457b583900c507acf39c40"
	)
	if _, err := os.Stat(dir + "/slsa/bundles"); errors.Is(err, fs.ErrNotExist) && os.Getenv("CI") == "" {
		t.Skip("without the corpora beside the checkout there is no real provenance")
	}
	w := openWorkshop(t)
	for name, path := range map[string]string{
		"root.json": "/trusted-roots/public-good.json", "build.json": "/slsa/bundles/gha_go/v2.1.0/binary-linux-amd64-push-v14.2.intoto.jsonl",
		"npm.json": "/slsa/bundles/npm/gundam-visor-cli-v1-tag.tgz.provenance.sigstore.json", "npm.pem": "/slsa/bundles/npm-jl3bwswu.pem",
		"published.json": "/slsa/bundles/npm/gundam-visor-cli-v1-tag.tgz.publish.sigstore.json",
	} {
		raw, err := os.ReadFile(dir + path)
		if err != nil {
			t.Fatal(err)
		}
		w.write(t, name, raw)
	}
	for name, level := range map[string]string{"more.yaml": "3", "high.yaml": "4"} {
		w.write(t, name, fmt.Appendf(nil, "apiVersion: waybill/v1\nkind: Builders\nbuilders:\n- {id: 'https://builder\\.example\\.test/v1', issuer: https://issuer.example.test, signer: 'https://builder\\.example\\.test/team/v1', level: %s, source: https://builder.example.test}\n", level))
	}
	for _, row := range []struct {
		name, flags string
		status      int
		says        []string
	}{
		{"by the list", build + " --require-level build=3", 0, []string{"SLSA build: level 3 of 3", "list of known builders"}},
		{"by the list and a file", build + " --require-level build=3 --builders more.yaml", 0, []string{"level 3 of 3"}},
		{"a file with too high a level", build + " --builders high.yaml", 2, []string{"CONFIG", "from 1 to 3"}},
		{"only what the user names", build + " --require-level build=3 --builder https://builder.example.test/v1=3", 1, []string{"LEVEL"}},
		{"a list without effect", build + " --builder " + workflow + "=3 --builders more.yaml", 2, []string{"--builders"}},
		{"npm reaches level 2", npm + " --require-level build=2", 0, []string{"level 2 of 3"}},
		{"npm does not reach level 3", npm + " --require-level build=3", 1, []string{"LEVEL"}},
		{"the major version", build + " --source-versioned-tag v14", 0, nil},
		{"the minor version", build + " --source-versioned-tag v14.2", 0, nil},
		{"another minor version", build + " --source-versioned-tag v14.1", 1, []string{"SOURCE_REF"}},
		{"a beginning of the text", build + " --source-versioned-tag v1", 1, []string{"SOURCE_REF"}},
		{"no version", build + " --source-versioned-tag 14", 2, []string{"USAGE"}},
		{"the package", npm + " --package gundam-visor@1.0.1", 0, nil},
		{"another version of the package", npm + " --package gundam-visor@1.0.2", 1, []string{"NOT_BOUND"}},
		{"another package", npm + " --package gundam@1.0.1", 1, []string{"NOT_BOUND"}},
		{"npm's statement about the package", published + " --package gundam-visor@1.0.1", 0, nil},
		{"npm's statement about another version", published + " --package gundam-visor@1.0.2", 1, []string{"NOT_BOUND"}},
		{"a package without version", npm + " --package gundam-visor", 2, []string{"USAGE"}},
		{"a package and a subject", npm + " --package gundam-visor@1.0.1 --subject pkg:npm/gundam-visor@1.0.1", 2, []string{"USAGE"}},
	} {
		t.Run(row.name, func(t *testing.T) {
			want(t, w.Run(t.Context(), append([]string{"waybill", "verify"}, strings.Fields(row.flags)...)...), row.status, row.says...)
		})
	}
	want(t, w.Run(t.Context(), "waybill", "trust", "builders"), 0, "generator_generic_slsa3", `"level": 2`)
}
