package profile_test

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"errors"
	"io/fs"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sigstore/sigstore-go/pkg/root"

	"github.com/waybill-release/waybill/pkg/gate/profile"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
	"github.com/waybill-release/waybill/pkg/value/version"
)

const text = `apiVersion: waybill/v1
kind: Profile
name: lantern
policy: policy.yaml
trustedRoot: trust/root.json
signingConfig: trust/signing.json
places:
  files:
    canonical: "https://dl.example.test/lantern/{version}/"
    staging: "gs://staging/lantern/{version}/"
    release: "gs://release/lantern/{version}/"
  images: {canonical: registry.example.test/lantern, staging: staging.example.test/lantern, release: registry.example.test/lantern}
`

const policyText = `apiVersion: waybill/v1
kind: Policy
name: lantern
source: {repository: "https://example.test/lantern"}
roles:
  release: [{issuer: "https://accounts.example.test", subject: release@example.test, type: email}]
builders:
- {id: "https://example.test/builder", level: 1, signers: [{issuer: "https://accounts.example.test", subject: builder@example.test, type: email}]}
require:
- stages: [staging, release]
  classes: [binary, archive, file, image]
  checks: {provenance: require, signature: require, sbom: require}
- {stages: [staging, release], classes: [image-child], checks: {provenance: require, signature: require}}
- {stages: [staging, release], classes: [sums], checks: {signature: require}}
plan: require
closed: {files: require, images: require}
`

// trustedRoot makes a root of one key, which is every authority at once.
func trustedRoot(t *testing.T) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	start := time.Now().Add(-time.Hour)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority"}, NotBefore: start, NotAfter: start.AddDate(1, 0, 0), IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	id := sha256.Sum256(cert.RawSubjectPublicKeyInfo)
	log := map[string]*root.TransparencyLog{hex.EncodeToString(id[:]): {
		BaseURL: "https://log.example.test", ID: id[:], HashFunc: crypto.SHA256, PublicKey: key.Public(), SignatureHashFunc: crypto.SHA256, ValidityPeriodStart: start,
	}}
	made, err := root.NewTrustedRoot(root.TrustedRootMediaType01,
		[]root.CertificateAuthority{&root.FulcioCertificateAuthority{Root: cert, ValidityPeriodStart: start}}, log,
		[]root.TimestampingAuthority{&root.SigstoreTimestampingAuthority{Root: cert, Leaf: cert, ValidityPeriodStart: start}}, log)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := made.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// place writes a profile and what it names, and returns the profile's path.
func place(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(dir, "profile.yaml")
}

func valid(t *testing.T) map[string]string {
	return map[string]string{
		"profile.yaml": text, "policy.yaml": policyText, "trust/root.json": trustedRoot(t), "trust/signing.json": `{}`,
	}
}

func TestLoad(t *testing.T) {
	files := valid(t)
	path := place(t, files)
	t.Chdir(t.TempDir()) // paths are relative to the profile, not to the caller
	p, err := profile.Load(path, profile.Reader{Now: time.Now()})
	if err != nil {
		t.Fatal(err)
	}
	if p.Name != "lantern" || p.Policy.Name() != "lantern" || string(p.Signing) != "{}" {
		t.Errorf("loaded %q, policy %q, signing %q", p.Name, p.Policy.Name(), p.Signing)
	}
	if p.TrustRoot.Digest() != digest.Of(digest.SHA256, []byte(files["trust/root.json"])) {
		t.Errorf("trust root %s", p.TrustRoot.Digest())
	}
}

// TestMisspelt: a name that is neither a file nor built in is refused with the
// names that are.
func TestMisspelt(t *testing.T) {
	for _, name := range []string{"kubernetes-seald", "Kubernetes", "./kubernetes", "nowhere/profile.yaml"} {
		_, err := profile.Load(name, profile.Reader{Now: time.Now()})
		f := verdict.FindingOf("", err)
		if f.Code != verdict.Usage || !strings.HasSuffix(f.Fix, ": "+profile.Kubernetes+", "+profile.KubernetesSealed) || !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %+v", name, f)
		}
	}
}

func TestPlaces(t *testing.T) {
	p, err := profile.Load(place(t, valid(t)), profile.Reader{Now: time.Now()})
	if err != nil {
		t.Fatal(err)
	}
	v, err := version.Parse("v0.1.0")
	if err != nil {
		t.Fatal(err)
	}
	for stage, want := range map[profile.Stage][2]string{
		profile.Staging: {"gs://staging/lantern/v0.1.0/", "staging.example.test/lantern"},
		profile.Release: {"gs://release/lantern/v0.1.0/", "registry.example.test/lantern"},
	} {
		files, err1 := p.Files(stage, v)
		images, err2 := p.Images(stage, v)
		if files != want[0] || images != want[1] || err1 != nil || err2 != nil {
			t.Errorf("%s: %q %q, %v %v", stage, files, images, err1, err2)
		}
	}
	if files, images := p.Canonical(v); files != "https://dl.example.test/lantern/v0.1.0/" || images != "registry.example.test/lantern" {
		t.Errorf("canonical places %q and %q", files, images)
	}
	if got := p.Listing(profile.Release, v); got != "" {
		t.Errorf("listed at %q", got)
	}
	for _, stage := range []profile.Stage{"", "production"} {
		if uri, err := p.Files(stage, v); err == nil {
			t.Errorf("stage %q is at %q", stage, uri)
		}
	}
}

// TestListing: a web server lists nothing, so a profile may say who does.
func TestListing(t *testing.T) {
	files := valid(t)
	const web, list = `    release: "https://dl.example.test/lantern/{version}/"` + "\n", `    listing: "s3+https://s3.example.test/release/lantern/{version}/"` + "\n"
	files["profile.yaml"] = strings.Replace(text, `    release: "gs://release/lantern/{version}/"`+"\n", web+list, 1)
	p, err := profile.Load(place(t, files), profile.Reader{Now: time.Now()})
	if err != nil {
		t.Fatal(err)
	}
	v, _ := version.Parse("v0.1.0")
	if got := p.Listing(profile.Release, v); got != "s3+https://s3.example.test/release/lantern/v0.1.0/" {
		t.Errorf("listed at %q", got)
	}
	if got := p.Listing(profile.Staging, v); got != "" {
		t.Errorf("staging is listed at %q", got)
	}
}

func TestPlacesThatAreNotThere(t *testing.T) {
	files := valid(t)
	head, _, _ := strings.Cut(text, "  images:")
	files["profile.yaml"] = strings.Replace(head, "    staging: \"gs://staging/lantern/{version}/\"\n", "", 1)
	p, err := profile.Load(place(t, files), profile.Reader{Now: time.Now()})
	if err != nil {
		t.Fatal(err)
	}
	v, _ := version.Parse("v0.1.0")
	if _, err := p.Files(profile.Staging, v); err == nil || verdict.FindingOf("", err).Code != verdict.ConfigParse {
		t.Errorf("no staging place: %v, want CONFIG", err)
	}
	if images, err := p.Images(profile.Staging, v); images != "" || err != nil {
		t.Errorf("no images: %q, %v", images, err)
	}
}

func TestLoadRefuses(t *testing.T) {
	rows := []struct {
		name           string
		file, old, new string // an empty old removes the file
		code           verdict.Code
		says           string
	}{
		{"another version of the file", "profile.yaml", "waybill/v1", "waybill/v2", verdict.ConfigParse, "apiVersion"},
		{"another kind", "profile.yaml", "kind: Profile", "kind: Policy", verdict.ConfigParse, "want waybill/v1 and Profile"},
		{"an unknown key", "profile.yaml", "kind: Profile", "kind: Profile\ninsecure: true", verdict.ConfigParse, "insecure"},
		{"no name", "profile.yaml", "name: lantern\n", "", verdict.ConfigParse, "name"},
		{"no policy", "profile.yaml", "policy: policy.yaml\n", "", verdict.ConfigParse, "policy"},
		{"no trust root", "profile.yaml", "trustedRoot: trust/root.json\n", "", verdict.ConfigParse, "trustedRoot"},
		{"no canonical file place", "profile.yaml", "    canonical: \"https://dl.example.test/lantern/{version}/\"\n", "", verdict.ConfigParse, "places.files"},
		{"no release file place", "profile.yaml", "    release: \"gs://release/lantern/{version}/\"\n", "", verdict.ConfigParse, "places.files"},
		{"a canonical place for all versions", "profile.yaml", "dl.example.test/lantern/{version}/", "dl.example.test/lantern/", verdict.ConfigParse, "{version}/"},
		{"a staging place for all versions", "profile.yaml", "gs://staging/lantern/{version}/", "gs://staging/lantern/", verdict.ConfigParse, "{version}/"},
		{"a place that is no directory", "profile.yaml", "gs://release/lantern/{version}/", "gs://release/lantern/{version}", verdict.ConfigParse, "{version}/"},
		{"a listing of all versions", "profile.yaml", "    release: \"gs://release", "    listing: \"gs://release/lantern/\"\n    release: \"gs://release", verdict.ConfigParse, "{version}/"},
		{"a listing of images", "profile.yaml", "images: {canonical", "images: {listing: registry.example.test, canonical", verdict.ConfigParse, "no listing"},
		{"no canonical registry", "profile.yaml", "canonical: registry.example.test/lantern, ", "", verdict.ConfigParse, "places.images"},
		{"no release registry", "profile.yaml", ", release: registry.example.test/lantern", "", verdict.ConfigParse, "places.images"},
		{"no profile", "profile.yaml", "", "", verdict.Usage, "profile.yaml"},
		{"a policy that is not there", "policy.yaml", "", "", verdict.Usage, "policy.yaml"},
		{"a trust root that is not there", "trust/root.json", "", "", verdict.Usage, "root.json"},
		{"a signing configuration that is not there", "trust/signing.json", "", "", verdict.Usage, "signing.json"},
		{"a policy that does not load", "policy.yaml", "closed: {files: require, images: require}", "closed: {files: require}", verdict.PolicyEmpty, "closed"},
		{"a trust root that trusts nobody", "trust/root.json", `"tlogs"`, `"unknown"`, verdict.TrustRootParse, "TRUST_ROOT"},
		{"a profile in the policy's place", "profile.yaml", "policy: policy.yaml", "policy: profile.yaml", verdict.ConfigParse, "policy"},
		{"a directory in the policy's place", "profile.yaml", "policy: policy.yaml", "policy: trust", verdict.Usage, "trust"},
	}
	for _, r := range rows {
		t.Run(r.name, func(t *testing.T) {
			files := valid(t)
			if !strings.Contains(files[r.file], r.old) {
				t.Fatalf("%q is not in %s", r.old, r.file)
			}
			files[r.file] = strings.Replace(files[r.file], r.old, r.new, 1)
			if r.old == "" {
				delete(files, r.file)
			}
			refused(t, place(t, files), r.code, r.says)
		})
	}
}

func TestLoadRefusesLargeFiles(t *testing.T) {
	files := valid(t)
	files["policy.yaml"] = policyText + "#" + strings.Repeat("x", 4<<20)
	refused(t, place(t, files), verdict.ConfigParse, "limit")
}

func refused(t *testing.T, path string, code verdict.Code, says string) {
	t.Helper()
	p, err := profile.Load(path, profile.Reader{Now: time.Now()})
	if err == nil {
		t.Fatal("loaded")
	}
	if f := verdict.FindingOf("", err); f.Code != code {
		t.Errorf("refused as %s: %v, want %s", f.Code, err, code)
	}
	if !strings.Contains(err.Error(), says) {
		t.Errorf("the refusal does not name %q: %v", says, err)
	}
	if p.Name != "" || !p.TrustRoot.IsZero() {
		t.Error("a refusal came with a profile")
	}
}
