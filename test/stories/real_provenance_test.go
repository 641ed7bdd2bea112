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
