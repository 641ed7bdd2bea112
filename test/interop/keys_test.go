package interop

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/sigstore/sigstore/pkg/cryptoutils"

	releasemanifest "github.com/waybill-release/waybill/attestations/release-manifest/v1"
	"github.com/waybill-release/waybill/pkg/document/intoto"
	"github.com/waybill-release/waybill/pkg/judge/policy"
	"github.com/waybill-release/waybill/pkg/judge/trust"
	"github.com/waybill-release/waybill/pkg/judge/verify"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
	"github.com/waybill-release/waybill/test/scene"
)

// keyPassword opens the keys of these tests.
const keyPassword = "correct horse battery staple"

// Why the peers refuse with a key.
var wrongKey = regexp.MustCompile(`invalid signature when validating|verifying inclusion: calculated root|no matching signatures|transparency log signature does not match|verifier in log entry does not match|public key|certificate`)

// TestKeys releases with a key that cosign made and the policy names, has the
// peers verify that with the key and with another, and the other way around.
func TestKeys(t *testing.T) {
	bin := peers(t)
	t.Setenv("COSIGN_PASSWORD", keyPassword)
	s := setScene(t)
	w := &world{Scene: s, dir: t.TempDir()}
	w.cosign2, w.cosign3 = openCosign(t, s, filepath.Join(bin, "cosign2")), openCosign(t, s, filepath.Join(bin, "cosign3"))
	w.cosign2.bundles, w.cosign2.offline = []string{"--new-bundle-format"}, []string{"--offline"}
	for _, c := range []*cosign{&w.cosign2, &w.cosign3} {
		c.env = append(c.env, "COSIGN_PASSWORD="+keyPassword)
	}
	for _, name := range []string{"release", "stranger"} {
		if _, err := w.cosign2.run(t.Context(), "generate-key-pair", "--output-key-prefix", s.Path(name)); err != nil {
			t.Fatal(err)
		}
	}
	w.nameKey(t, s.Path("release.pub"))
	w.releaseWithKey(t)
	for _, name := range []string{binary, binary + bundleSuffix, manifest} {
		w.write(t, name, download(t, s.Lab.Bucket+"/release/lantern/"+scene.Version+"/"+name))
	}
	body, err := os.ReadFile(w.file(binary))
	if err != nil {
		t.Fatal(err)
	}
	w.write(t, binary+flippedSuffix, flip(body, len(body)/2))
	w.images.released = look(t, place{s.Lab.Registry + "/release/lantern", "lantern"}, ":"+scene.Version)
	w.images.signed = w.images.released.copyTo(t, s.Lab.Registry+"/signed")
	t.Run("they verify ours", func(t *testing.T) { w.theyVerifyKeyed(t) })
	t.Run("we verify theirs", func(t *testing.T) { w.weVerifyKeyed(t) })
}

// nameKey puts a key in the place of the policy's release identity.
func (w *world) nameKey(t *testing.T, path string) {
	t.Helper()
	public, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(w.Path("policy.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	entry := "  release:\n  - key: |\n      " + strings.ReplaceAll(strings.TrimSpace(string(public)), "\n", "\n      ")
	changed := regexp.MustCompile(`(?m)^  release: \[.*\]$`).ReplaceAllLiteral(raw, []byte(entry))
	if err := os.WriteFile(w.Path("policy.yaml"), changed, 0o644); err != nil {
		t.Fatal(err)
	}
}

// releaseWithKey stages and publishes with the key; a stranger's key, and a key
// without its password, do not get that far.
func (w *world) releaseWithKey(t *testing.T) {
	t.Helper()
	stage := []string{"waybill", "stage", scene.Version, "--profile", "profile.yaml", "--state", "state", "--source", "lantern", "--confirm"}
	for _, role := range []string{"builder", "builder-unisolated"} {
		if err := os.WriteFile(w.Path(role+".token"), []byte(w.Lab.Token(role)), 0o600); err != nil {
			t.Fatal(err)
		}
		stage = append(stage, "--identity-token", role+"="+role+".token")
	}
	for _, c := range []struct {
		flags []string
		code  int
		says  string
	}{
		{[]string{"--key", "release=stranger.key"}, 1, "SIGNED_AS_ELSE"},
		{[]string{"--key", "release=release.key", "--key-password", "env:NOT_SET"}, 2, "the variable NOT_SET is not set"},
		{[]string{"--key", "release=release.pub"}, 2, "not a private key"},
		{[]string{"--key", "builder=release.key"}, 2, "--key"},
		{[]string{"--key", "release=nobody://key"}, 2, "-tags kms"},
		{[]string{"--key", "release=release.key"}, 0, ""},
	} {
		r := w.Run(t.Context(), append(slices.Clone(stage), c.flags...)...)
		if r.Code != c.code || !strings.Contains(r.Stdout+r.Stderr, c.says) {
			t.Fatalf("%s\nended with status %d, want %d and %q\n%s%s", r, r.Code, c.code, c.says, r.Stdout, r.Stderr)
		}
	}
	for _, r := range []scene.Result{w.Release(t.Context()), w.Verify(t.Context())} {
		if r.Code != 0 {
			t.Fatalf("%s\nended with status %d\n%s%s", r, r.Code, r.Stdout, r.Stderr)
		}
	}
}

// theyVerifyKeyed asks the peers about what our key signed.
func (w *world) theyVerifyKeyed(t *testing.T) {
	answers := table{head: []string{"what", "twin", w.cosign2.title(), w.cosign3.title()}}
	file := []string{"verify-blob", w.file(binary), "--bundle", w.file(binary + bundleSuffix)}
	statement := []string{"verify-blob-attestation", w.file(binary), "--bundle", w.file(manifest), "--type", releasemanifest.PredicateType}
	image := []string{"verify", w.images.released.reference("index"), "--allow-http-registry"}
	flipped := slices.Clone(file)
	flipped[1] += flippedSuffix
	for _, q := range []struct {
		what, twin string
		args       []string
		key        string
		says       *regexp.Regexp
	}{
		{"key, binary: signature", "as released", file, "release.pub", nil},
		{"key, binary: signature", "another key", file, "stranger.pub", wrongKey},
		{"key, binary: signature", "flipped byte", flipped, "release.pub", wrongSignature},
		{"key, binary: manifest", "as released", statement, "release.pub", nil},
		{"key, binary: manifest", "another key", statement, "stranger.pub", wrongKey},
		{"key, image: signature", "as released", image, "release.pub", nil},
		{"key, image: signature", "another key", image, "stranger.pub", wrongKey},
	} {
		row := answers.row(q.what, q.twin)
		for i, c := range []cosign{w.cosign2, w.cosign3} {
			args := slices.Concat(q.args, []string{"--key", w.Path(q.key), "--trusted-root", w.Path("trusted_root.json"), "--use-signed-timestamps"}, c.bundles, c.offline)
			said, err := c.run(t.Context(), args...)
			row[i+2] = "accepted"
			switch {
			case q.says == nil && err != nil, q.says != nil && err == nil:
				row[i+2] = "WRONG"
				t.Errorf("%s, %s: %s: %v\n%s", q.what, q.twin, c.title(), err, said)
			case q.says != nil && !q.says.MatchString(err.Error()):
				row[i+2] = "WRONG REASON"
				t.Errorf("%s, %s: %s: %v", q.what, q.twin, c.title(), err)
			case q.says != nil:
				row[i+2] = "refused"
			}
		}
	}
	onPage(t, "keys: they verify ours", answers)
}

// weVerifyKeyed asks us about what cosign signed with a key: with a verifier of
// that key, with a policy that names it, and with those of another.
func (w *world) weVerifyKeyed(t *testing.T) {
	w.write(t, "article", []byte(article))
	answers := table{head: []string{"signed by", "with", "waybill, the key", "a policy's key", "another key", "other bytes"}}
	root, err := trust.Parse(w.Lab.TrustedRoot)
	if err != nil {
		t.Fatal(err)
	}
	named, stranger := w.keyVerifier(t, root, "release.pub"), w.keyVerifier(t, root, "stranger.pub")
	raw, err := os.ReadFile(w.Path("policy.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	p, err := policy.Parse(raw, nil)
	if err != nil {
		t.Fatal(err)
	}
	byPolicy, err := verify.NewWith(root, p.Verification())
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []cosign{w.cosign2, w.cosign3} {
		row := answers.row(c.title(), "sign-blob --key")
		file := filepath.Join(t.TempDir(), "bundle.json")
		args := []string{"sign-blob", "--key", w.Path("release.key"), "--yes", "--bundle", file, "--trusted-root", w.Path("trusted_root.json"), "--signing-config", w.Path("signing_config.json")}
		if _, err := c.run(t.Context(), append(append(args, c.bundles...), w.file("article"))...); err != nil {
			t.Errorf("%s: %v", c.title(), err)
			row[2] = "CANNOT SIGN"
			continue
		}
		bundle, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		set := digest.SetOf([]byte(article))
		_, err = named.Blob(bundle, set)
		row[2] = mustAccept(t, err)
		e, err := byPolicy.Blob(bundle, set)
		if err == nil {
			_, err = p.Judge(e, policy.Ask{Role: policy.Release, Kind: "blob", Subject: "article", Bytes: set})
		}
		row[3] = mustAccept(t, err)
		_, err = stranger.Blob(bundle, set)
		row[4] = mustRefuse(t, err)
		_, err = named.Blob(bundle, digest.SetOf([]byte("other bytes")))
		row[5] = mustBe(t, err, verdict.NotBound)
	}
	row := answers.row(w.cosign3.title(), "sign --key")
	_, err = w.cosign3.run(t.Context(), "sign", "--key", w.Path("release.key"), "--yes", "--allow-http-registry",
		"--trusted-root", w.Path("trusted_root.json"), "--signing-config", w.Path("signing_config.json"), w.images.signed.reference("index"))
	if err != nil {
		t.Fatal(err)
	}
	sum := w.images.signed.index.Digest
	bundle := bundlesOf(t, w.images.signed.place, sum)[0]
	ask := policy.Ask{Role: policy.Release, Kind: intoto.CosignSignature, Subject: "image", Bytes: digest.Set{SHA256: sum}, InRegistry: true}
	_, err = named.Attestation(bundle)
	row[2] = mustAccept(t, err)
	e, err := byPolicy.Attestation(bundle)
	if err == nil {
		_, err = p.Judge(e, ask)
	}
	row[3] = mustAccept(t, err)
	_, err = stranger.Attestation(bundle)
	row[4] = mustRefuse(t, err)
	ask.Bytes = digest.Set{SHA256: digest.Of(digest.SHA256, []byte("another image"))}
	_, err = p.Judge(e, ask)
	row[5] = mustBe(t, err, verdict.NotBound)
	onPage(t, "keys: we verify theirs", answers)
}

func (w *world) keyVerifier(t *testing.T, root trust.Root, name string) *verify.KeyVerifier {
	t.Helper()
	text, err := os.ReadFile(w.Path(name))
	if err != nil {
		t.Fatal(err)
	}
	public, err := cryptoutils.UnmarshalPEMToPublicKey(text)
	if err != nil {
		t.Fatal(err)
	}
	v, err := verify.New(root)
	if err != nil {
		t.Fatal(err)
	}
	k, err := v.Key(public)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func mustAccept(t *testing.T, err error) string {
	t.Helper()
	if err != nil {
		t.Error(err)
	}
	return answer(err)
}

func mustRefuse(t *testing.T, err error) string {
	t.Helper()
	if verdict.OutcomeOf(err) != verdict.Refused {
		t.Errorf("%v, want a refusal", err)
	}
	return answer(err)
}
