package profile_test

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/waybill-release/waybill/pkg/gate/profile"
	"github.com/waybill-release/waybill/pkg/judge/trust"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// TestSignaturesThatDoNotCount: a policy whose signer is pinned and a signed list
// of known defects are refused with the reason why their signature does not count.
func TestSignaturesThatDoNotCount(t *testing.T) {
	const (
		genuine = "../../judge/verify/testdata/genuine/attestation/"
		pin     = "policySigner: {issuer: \"https://accounts.example.test\", subject: officer@example.test, type: email}\npolicyName: lantern\npolicySequence: 1\n"
		defects = "knownDefects: policy.yaml.sigstore.json\n"
	)
	read := func(name string) string {
		raw, err := os.ReadFile(genuine + name)
		if err != nil {
			t.Fatal(err)
		}
		return string(raw)
	}
	for name, row := range map[string]struct {
		line, bundle string
		noRoot       bool
		code         verdict.Code
		says         string
	}{
		"a pinned policy, and no trust root":           {pin, read("bundle.sigstore.json"), true, verdict.TrustRootParse, "no trust root"},
		"a pinned policy with a broken signature":      {pin, "{", false, verdict.PolicySig, string(verdict.BundleParse)},
		"a pinned policy that another identity signed": {pin, read("bundle.sigstore.json"), false, verdict.PolicySig, "another identity"},
		"a list of defects, and no trust root":         {defects, read("bundle.sigstore.json"), true, verdict.TrustRootParse, "no trust root"},
		"a list of defects with a broken signature":    {defects, "{", false, verdict.BundleParse, "policy.yaml.sigstore.json"},
		"a statement that is no list of defects":       {defects, read("bundle.sigstore.json"), false, verdict.PredicateType, "policy.yaml.sigstore.json"},
	} {
		files := valid(t)
		files["profile.yaml"] += row.line
		files["policy.yaml.sigstore.json"] = row.bundle
		files["trust/root.json"] = read("trusted_root.json")
		if row.noRoot {
			files["profile.yaml"] = strings.Replace(files["profile.yaml"], "trustedRoot: trust/root.json\n", "", 1)
		}
		_, err := profile.Load(place(t, files), profile.Reader{Now: time.Now(), Trust: func() (trust.Root, error) { return trust.Root{}, nil }})
		if f := verdict.FindingOf("", err); err == nil || f.Code != row.code || !strings.Contains(err.Error(), row.says) {
			t.Errorf("%s: %v, want %s %q", name, err, row.code, row.says)
		}
	}
}
