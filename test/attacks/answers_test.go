package attacks

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	knowndefects "github.com/waybill-release/waybill/attestations/known-defects/v1"
	releasemanifest "github.com/waybill-release/waybill/attestations/release-manifest/v1"
	"github.com/waybill-release/waybill/pkg/document/intoto"
	"github.com/waybill-release/waybill/pkg/release/manifest"
	"github.com/waybill-release/waybill/pkg/release/plan"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
	"github.com/waybill-release/waybill/test/answers"
	"github.com/waybill-release/waybill/test/lab"
	"github.com/waybill-release/waybill/test/scene"
)

// TestEveryCommand: every command accepts the release as it was sealed, by the
// profile that refuses it in the tests of this package when one fact is another.
func TestEveryCommand(t *testing.T) {
	theWorld(t).attacked(t).everywhere(t, nil)
}

// TestCodesOfReleases holds the codes of releases against the reasons for
// what is not asked: 80 codes and more, of which at most an eighth have one.
func TestCodesOfReleases(t *testing.T) {
	n := 0
	for _, c := range verdict.Codes() {
		if ofRelease(c) {
			n++
		}
	}
	for c, why := range notEverywhere() {
		if !ofRelease(c) || len(why) < 20 {
			t.Errorf("%s: of a release %t, not asked because %q", c, ofRelease(c), why)
		}
	}
	without := len(notEverywhere())
	if n < 80 || without*8 > n {
		t.Errorf("%d codes of a decision about a release, of which %d have a reason instead of a scene", n, without)
	}
	for command, why := range answers.CannotAsk() {
		if len(why) < 40 {
			t.Errorf("%s cannot ask, because %q", command, why)
		}
	}
	t.Logf("%d codes, %d of them by vectors, %d with a reason; %d commands", n, len(answers.ByVector()), without, len(answers.Commands()))
}

// TestEveryCommandByPolicy asks about the genuine release, under a profile or a
// policy with one thing changed. A row without codes is the twin of those after
// it.
func TestEveryCommandByPolicy(t *testing.T) {
	w := theWorld(t)
	_, release := w.Lab.Identity(lab.RoleRelease)
	signed := func(role string) string { // who has the role, for a window to be added
		_, subject := w.Lab.Identity(role)
		return `subject: "` + subject + `", type: email`
	}
	const checks = "checks: {provenance: require, signature: require, sbom: require}"
	const parameters = "build:\n  types: [https://github.com/waybill-release/waybill/attestations/build-step/v1]\n  parameters:\n" +
		"  - {name: config, any: true}\n  - {name: step, any: true}\n  - {name: each, any: true, optional: true}\n"
	for _, row := range []struct {
		name  string
		codes []verdict.Code
		edits []string
	}{
		{"a lab that is told of", nil, []string{"roles:\n", "trustRoot: {lab: warn}\nroles:\n"}},
		{"a lab where none is wanted", codes("TRUST_LAB"), []string{"roles:\n", "trustRoot: {lab: \"off\"}\nroles:\n"}},
		{"a policy that ends later", nil, []string{"roles:\n", "expires: \"2099-01-01\"\nroles:\n"}},
		{"a policy that ended", codes(verdict.PolicyExpired), []string{"roles:\n", "expires: \"2025-01-01\"\nroles:\n"}},
		{"a manifest of an hour", nil, []string{"plan: require\n", "plan: require\nlimits: {manifest: 1h}\n"}},
		{"a manifest of a second", codes(verdict.Stale), []string{"plan: require\n", "plan: require\nlimits: {manifest: 1s}\n"}},
		{"another releaser", codes(verdict.Identity), []string{release, "another@example.test"}},
		{"a releaser who may act", nil, []string{signed(lab.RoleRelease), signed(lab.RoleRelease) + `, from: "2025-01-01", until: "2099-01-01"`}},
		{"a releaser who might act before", codes(verdict.IdentityWindow), []string{signed(lab.RoleRelease), signed(lab.RoleRelease) + `, until: "2025-01-01"`}},
		{"the level that there is", nil, []string{checks, checks + "\n  level: 1"}},
		{"a higher level", codes(verdict.Level), []string{checks, checks + "\n  level: 3"}},
		{"a list of known defects that is not there", codes(verdict.PolicyStale), []string{"plan: require\n", "plan: require\ndefects: {atLeast: 5}\n"}},
		{"two logs", codes(verdict.Threshold), []string{"plan: require\n", "plan: require\nthresholds: {logs: 2}\n"}},
		{"two builders", codes(verdict.Threshold), []string{"plan: require\n", "plan: require\nthresholds: {builders: 2}\n"}},
		{"parameters that are named", nil, []string{"require:\n", parameters + "  - {name: version, is: \"{version}\"}\nrequire:\n"}},
		{"a parameter that nobody names", codes("PARAM_UNKNOWN"), []string{"require:\n", parameters + "require:\n"}},
		{"a parameter of another value", codes(verdict.ParamValue), []string{"require:\n", parameters + "  - {name: version, is: v9.9.9}\nrequire:\n"}},
		{"another type of build", codes(verdict.BuildType), []string{"require:\n", strings.Replace(parameters, "build-step/v1", "poem/v1", 1) + "  - {name: version, is: \"{version}\"}\nrequire:\n"}},
		{"no sign-off", codes(verdict.SignoffMissing), []string{"roles:\n", "roles:\n  signoff: [{issuer: \"" + w.Lab.Issuer + "\", subject: signatory@lab.invalid, type: email}]\n", "plan: require\n", "plan: require\nsignoff: {stages: [staging, release], maxAge: 720h}\n"}},
		{"a policy that asks for nothing", codes(verdict.PolicyEmpty), []string{checks, "checks: {}"}},
		{"a key that no policy has", codes(verdict.ConfigParse), []string{"plan: require\n", "plan: require\ntrusted: true\n"}},
		{"a policy whose officer did not sign", codes(verdict.PolicySig), []string{"policy: policy.yaml\n", "policy: policy.yaml\npolicySigner: {issuer: \"" + w.Lab.Issuer + "\", subject: policy@lab.invalid, type: email}\npolicyName: lantern-release\npolicySequence: 1\n"}},
		{"a trust root that is none", codes(verdict.TrustRootParse), []string{"trusted_root.json", "profile.yaml"}},
		{"a trust root that is not there", codes(verdict.Usage), []string{"trusted_root.json", "no_root.json"}},
		{"another place", codes(verdict.PlaceOther), []string{"https://dl.example.test/lantern/", "https://dl.example.test/lamp/"}},
		{"a registry that is away", codes(verdict.PlaceDown), []string{"staging: \"127.0.0.1:", "staging: \"127.0.0.1:1/x", "release: \"127.0.0.1:", "release: \"127.0.0.1:1/x"}},
	} {
		t.Run(row.name, func(t *testing.T) { w.attacked(t).everywhere(t, row.codes, row.edits...) })
	}
}

// TestEveryCommandByList asks about releases that a list of known defects speaks
// of, and about the defects that a list has.
func TestEveryCommandByList(t *testing.T) {
	w := theWorld(t)
	list := func(version, role string) []byte {
		at := func(d time.Duration) string { return time.Now().UTC().Add(d).Format(time.RFC3339) }
		st := must[intoto.Statement](t)(intoto.New(knowndefects.PredicateType, []intoto.Subject{{Name: "defects.yaml", Digests: digest.SetOf([]byte("the list"))}}, map[string]any{
			"name": "lantern", "sequence": 1, "issued": at(-time.Minute), "expires": at(time.Hour),
			"withdrawals": []any{map[string]any{"version": version, "reason": "it leaks oil", "source": "https://issues.example.test/9", "since": at(-time.Minute)}},
		}))
		return must[[]byte](t)(w.Sign(t.Context(), role, st.Raw()))
	}
	for _, row := range []struct {
		name          string
		version, role string
		flags         []string
		codes         []verdict.Code
	}{
		{"a list that withdraws another release", "v9.9.9", lab.RolePolicy, nil, nil},
		{"a list that withdraws it", scene.Version, lab.RolePolicy, nil, codes(verdict.Withdrawn)},
		{"a list that the releaser signed", scene.Version, lab.RoleRelease, nil, codes(verdict.IdentityRole)},
		{"a defect that no list has", "v9.9.9", lab.RolePolicy, []string{"--accept-defect", "no-such-id"}, codes(verdict.Usage)},
		{"the same of a release that is withdrawn", scene.Version, lab.RolePolicy, []string{"--accept-defect", "no-such-id"}, codes(verdict.Usage, verdict.Withdrawn)},
		{"an exception that is none", "v9.9.9", lab.RolePolicy, []string{"--exception", w.Path("profile.yaml")}, codes(verdict.BundleParse)},
		{"an exception that is not there", "v9.9.9", lab.RolePolicy, []string{"--exception", w.Path("no-exception.json")}, codes(verdict.Usage)},
		{"another list, which anybody wrote", "v9.9.9", lab.RolePolicy, []string{"--known-defects", w.Path("profile.yaml")}, codes(verdict.ConfigParse)},
	} {
		t.Run(row.name, func(t *testing.T) {
			r := w.attacked(t)
			path := filepath.Join(r.dir, "defects.sigstore.json")
			if err := os.WriteFile(path, list(row.version, row.role), 0o644); err != nil {
				t.Fatal(err)
			}
			r.flags = row.flags
			r.everywhere(t, row.codes, "trustedRoot:", "knownDefects: "+path+"\ntrustedRoot:")
		})
	}
}

// TestEveryCommandAtPlaces asks about places that do not answer, or list nothing.
func TestEveryCommandAtPlaces(t *testing.T) {
	w := theWorld(t)
	t.Run("a bucket that is away", func(t *testing.T) {
		r := w.attacked(t)
		r.everywhere(t, codes(verdict.PlaceDown), "staging: \""+r.dir, "staging: \"gs+http://127.0.0.1:1/staging", "release: \""+r.dir, "release: \"gs+http://127.0.0.1:1/release")
	})
	t.Run("a directory that is not there", func(t *testing.T) {
		r := w.attacked(t)
		r.everywhere(t, codes(verdict.PlaceDown), "staging: \""+r.dir, "staging: \""+t.TempDir()+"/no", "release: \""+r.dir, "release: \""+t.TempDir()+"/no")
	})
	t.Run("a web server", func(t *testing.T) {
		r := w.attacked(t)
		web := httptest.NewServer(http.FileServer(http.Dir(r.dir)))
		defer web.Close()
		r.everywhere(t, codes(verdict.NotListable), "staging: \""+r.dir, "staging: \""+web.URL, "release: \""+r.dir, "release: \""+web.URL)
	})
	t.Run("a manifest that expired", func(t *testing.T) {
		r := w.attacked(t)
		r.reseal(t, func(m *manifest.Manifest) { m.Expires = time.Now().Add(-time.Minute).UTC() })
		r.everywhere(t, codes(verdict.Expired))
	})
	t.Run("another version", func(t *testing.T) {
		r := w.attacked(t)
		r.moved = "v0.1.1"
		r.everywhere(t, codes(verdict.Version))
	})
}

// TestEveryCommandBySigner has the very manifest signed again, by certificates
// and with timestamps that are not what they must be. The first row is the twin.
func TestEveryCommandBySigner(t *testing.T) {
	w := theWorld(t)
	f := w.forger(t)
	_, address := w.Lab.Identity(lab.RoleRelease)
	honest := f.email(address)
	for _, row := range []struct {
		name  string
		as    func(t testing.TB) author
		text  func(raw string) string
		codes []verdict.Code
	}{
		{name: "as it must be", as: forged(f, honest)},
		{name: "two addresses", as: forged(f, honest.then(alsoEmail("mallory@evil.example"))), codes: codes(verdict.SANCount)},
		{name: "a pattern as an address", as: forged(f, f.email("*@lab.invalid")), codes: codes(verdict.SANType)},
		{name: "no name", as: forged(f, honest.then(noEmail)), codes: codes(verdict.CertParse)},
		{name: "two issuers", as: forged(f, honest.then(func(c *x509.Certificate) { c.ExtraExtensions[0].Value = []byte("https://issuer.evil.example") })), codes: codes(verdict.IssuerConflict)},
		{name: "a certificate for servers", as: forged(f, honest.then(func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth} })), codes: codes(verdict.CertProfile)},
		{name: "a certificate that had expired", as: forged(f, honest.then(func(c *x509.Certificate) {
			c.NotBefore, c.NotAfter = time.Now().Add(-20*time.Minute), time.Now().Add(-10*time.Minute)
		})), codes: codes(verdict.TimeCert)},
		{name: "a critical extension that nobody knows", as: forged(f, honest.then(func(c *x509.Certificate) {
			c.ExtraExtensions = append(c.ExtraExtensions, pkix.Extension{Id: asn1.ObjectIdentifier{1, 3, 9999}, Critical: true, Value: asn1.NullBytes})
		})), codes: codes(verdict.ChainUntrusted)},
		{name: "a certificate that no log has seen", as: func(t testing.TB) author { return f.unseen(t, honest) }, codes: codes(verdict.SCTMissing)},
		{name: "a line end within the signature", as: forged(f, honest), text: func(raw string) string {
			i := strings.Index(raw, `"sig":`) + len(`"sig":`) + 12
			return raw[:i] + strings.Repeat(`\n`, 4) + raw[i:]
		}, codes: codes(verdict.Encoding)},
	} {
		t.Run(row.name, func(t *testing.T) {
			r := w.attacked(t)
			raw := encode(t, row.as(t).sign(t, envelope(r.statement(t, releasemanifest.Name).Raw())))
			if row.text != nil {
				raw = []byte(row.text(string(raw)))
			}
			r.write(t, releasemanifest.Name, raw)
			r.everywhere(t, row.codes)
		})
	}
	t.Run("a digest beside a signature that is another's", func(t *testing.T) {
		r := w.attacked(t)
		b := w.author(t, lab.RoleRelease).sign(t, blobOf(r.read(t, binary)))
		b.GetMessageSignature().MessageDigest.Digest[0] ^= 1
		r.write(t, plan.BundleName(binary), encode(t, b))
		r.reseal(t, func(m *manifest.Manifest) { r.relist(t, m, plan.BundleName(binary)) })
		r.everywhere(t, codes(verdict.DigestHint))
	})
}

// forged is the author of an edited certificate.
func forged(f forger, n names) func(testing.TB) author {
	return func(t testing.TB) author { return f.author(t, n) }
}
