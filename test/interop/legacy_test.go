package interop

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/waybill-release/waybill/pkg/backend/registry"
	"github.com/waybill-release/waybill/test/lab"
	"github.com/waybill-release/waybill/test/scene"
)

// TestLegacy has Waybill sign a release in the forms from before bundles, too,
// and asks the clients of that time, and those of today told to be like them.
func TestLegacy(t *testing.T) {
	bin := peers(t)
	s := setScene(t)
	config, err := s.Lab.SigningConfigFor(lab.Signing{V1: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(s.Path("signing_config.json"), config, 0o644); err != nil {
		t.Fatal(err)
	}
	w := &world{Scene: s, dir: t.TempDir()}
	for _, r := range []scene.Result{s.Stage(t.Context(), "--legacy"), s.Release(t.Context()), s.Verify(t.Context())} {
		if r.Code != 0 {
			t.Fatalf("%s\nended with status %d\n%s%s", r, r.Code, r.Stdout, r.Stderr)
		}
	}
	files := []string{binary, otherBinary, archive, sums}
	for _, name := range files {
		for _, part := range []string{name, name + ".sig", name + ".cert"} {
			w.write(t, part, download(t, s.Lab.Bucket+"/release/lantern/"+scene.Version+"/"+part))
		}
		body, err := os.ReadFile(w.file(name))
		if err != nil {
			t.Fatal(err)
		}
		w.write(t, name+flippedSuffix, flip(body, len(body)/2))
	}
	w.images.released = look(t, place{s.Lab.Registry + "/release/lantern", "lantern"}, ":"+scene.Version)
	w.images.bare = w.images.released.copyTo(t, s.Lab.Registry+"/bare")
	// Where bundles are there too, cosign 2.6 takes those, whatever it is told.
	tagged := w.images.released.copyTo(t, s.Lab.Registry+"/tagged")
	tagged.attachTags(t, w.images.released.place)
	signer := openLegacy(t, s.Lab, filepath.Join(bin, "cosign2"))
	w.cosign2, w.cosign3 = openCosign(t, s, filepath.Join(bin, "cosign2")), openCosign(t, s, filepath.Join(bin, "cosign3"))
	w.cosign2.env = append(w.cosign2.env, signer.env[4:]...)
	w.cosign3.env = append(w.cosign3.env, signer.env[4:]...)
	answers := table{head: []string{"what", "twin", w.cosign2.title(), w.cosign3.title() + " --new-bundle-format=false"}}
	t.Run("cells", func(t *testing.T) {
		for _, q := range w.legacyQuestions(files, tagged) {
			row := answers.row(q.what, q.twin)
			t.Run(q.what+", "+q.twin, func(t *testing.T) {
				t.Parallel()
				for i, c := range []cosign{w.cosign2, w.cosign3} {
					row[i+2] = legacyAnswer(t, c, q)
				}
			})
		}
	})
	onPage(t, "legacy: they verify ours", answers)
	w.besides(t)
}

// besides asks about the image as it is released, with both forms.
func (w *world) besides(t *testing.T) {
	answers := table{head: []string{"what", "peer", "answer", "why"}}
	issuer, subject := w.Lab.Identity(lab.RoleRelease)
	plain := []string{"verify", w.images.released.reference("tag"), "--allow-http-registry", "--certificate-identity", subject, "--certificate-oidc-issuer", issuer}
	root := []string{"--trusted-root", w.Path("trusted_root.json")}
	lacksTime := regexp.MustCompile(`threshold not met for verified (signed )?timestamps|integrated timestamps`)
	for _, l := range []limit{
		{"image with both forms", "it takes the bundle, whose log promises no time, and does not look at the tag", w.cosign2, root, lacksTime, false},
		{"image with both forms, --new-bundle-format=false", "it takes the bundle all the same", w.cosign2, append([]string{"--new-bundle-format=false"}, root...), lacksTime, false},
		{"image with both forms, --use-signed-timestamps", "the bundle has a timestamp", w.cosign2, append([]string{"--use-signed-timestamps"}, root...), regexp.MustCompile(`were verified|verified`), true},
		{"image with both forms", "it takes the bundle, and the timestamp that is there", w.cosign3, root, regexp.MustCompile(`verified`), true},
		{"image with both forms, --new-bundle-format=false", "it takes the tag when it is told to", w.cosign3, append([]string{"--new-bundle-format=false", "--rekor-url", w.Lab.RekorV1}, root...), regexp.MustCompile(`verified`), true},
	} {
		row := answers.row(l.what, l.peer.title(), "refused", l.why)
		if l.accept {
			row[2] = "accepted"
		}
		said, err := l.peer.run(t.Context(), append(slices.Clone(plain), l.args...)...)
		if err != nil {
			said = err.Error()
		}
		if (err == nil) != l.accept || !l.says.MatchString(said) {
			row[2] = "CHANGED"
			t.Errorf("%s: accepted: %t, want %t and %q:\n%s", l.peer.title(), err == nil, l.accept, l.says, said)
		}
	}
	onPage(t, "legacy: beside bundles", answers)
}

// attachTags copies the tags by which evidence is attached, of every part.
func (p picture) attachTags(t *testing.T, from place) {
	t.Helper()
	src, dst := from.open(t), p.open(t)
	for part, d := range p.parts {
		for _, suffix := range []string{registry.SuffixSignatures, registry.SuffixAttestations} {
			tag := registry.AttachedTag(d.Digest, suffix)
			tagged, err := src.Resolve(t.Context(), p.repo, tag)
			if err != nil {
				t.Fatalf("%s: %v", part, err)
			}
			if _, err := registry.Copy(t.Context(), dst, src, p.repo, tagged); err != nil {
				t.Fatal(err)
			}
			if err := dst.Tag(t.Context(), p.repo, tag, tagged); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// legacyQuestion is a question about a signature in a legacy form.
type legacyQuestion struct {
	what, twin string
	args       []string
	role       string
	says       *regexp.Regexp // why it is refused; nil: accepted
}

// Why the peers refuse in the legacy forms.
var (
	legacySignature = regexp.MustCompile(`invalid signature when validating|searching log query|no matching signatures|crypto/rsa|signature`)
	legacyIdentity  = regexp.MustCompile(`none of the expected identities matched|no matching CertificateIdentity`)
	legacyNothing   = regexp.MustCompile(`no signatures found|no matching attestations|none of the attestations matched|no attestations`)
)

func (w *world) legacyQuestions(files []string, tagged picture) (all []legacyQuestion) {
	for _, name := range files {
		blob := func(twin, of, signature, certificate, role string, says *regexp.Regexp) {
			all = append(all, legacyQuestion{"file " + name + ": .sig and .cert", twin, []string{
				"verify-blob", w.file(of), "--signature", w.file(signature + ".sig"), "--certificate", w.file(certificate + ".cert"), "--rekor-url", w.Lab.RekorV1,
			}, role, says})
		}
		other := otherBinary
		if name == other {
			other = binary
		}
		blob("as released", name, name, name, lab.RoleRelease, nil)
		blob("another identity", name, name, name, lab.RoleBuilder, legacyIdentity)
		blob("flipped byte", name+flippedSuffix, name, name, lab.RoleRelease, legacySignature)
		blob("another file's .sig", name, other, name, lab.RoleRelease, legacySignature)
	}
	for _, part := range []string{"tag", "index", "linux/amd64", "linux/arm64"} {
		image := func(what, twin, verb string, p picture, role string, says *regexp.Regexp, more ...string) {
			all = append(all, legacyQuestion{"image " + part + ": " + what, twin, append([]string{
				verb, p.reference(part), "--allow-http-registry", "--rekor-url", w.Lab.RekorV1,
			}, more...), role, says})
		}
		image(".sig", "as released", "verify", tagged, lab.RoleRelease, nil)
		image(".sig", "another identity", "verify", tagged, lab.RoleBuilder, legacyIdentity)
		image(".sig", "no evidence", "verify", w.images.bare, lab.RoleRelease, legacyNothing)
		image(".att", "as released", "verify-attestation", tagged, lab.RoleRelease, nil, "--type", "spdxjson")
		image(".att", "another identity", "verify-attestation", tagged, lab.RoleBuilder, legacyIdentity, "--type", "spdxjson")
		image(".att", "another kind", "verify-attestation", tagged, lab.RoleRelease, legacyNothing, "--type", "https://example.test/other/v1")
	}
	return all
}

func legacyAnswer(t *testing.T, c cosign, q legacyQuestion) string {
	issuer, subject := c.scene.Lab.Identity(q.role)
	args := append(append([]string{}, q.args...), "--certificate-identity", subject, "--certificate-oidc-issuer", issuer)
	args = append(args, "--new-bundle-format=false")
	if strings.HasPrefix(c.version, "v3.") && q.args[0] != "verify-blob" { // which then reads keys from the environment
		args = append(args, "--trusted-root", c.scene.Path("trusted_root.json"))
	}
	_, err := c.run(t.Context(), args...)
	switch {
	case q.says == nil && err == nil:
		return "accepted"
	case q.says == nil:
		t.Errorf("%s refused: %v", c.title(), err)
		return "REFUSED"
	case err == nil:
		t.Errorf("%s accepted, want a refusal that says %q", c.title(), q.says)
		return "ACCEPTED"
	case !q.says.MatchString(err.Error()):
		t.Errorf("%s refused for another reason than %q: %v", c.title(), q.says, err)
		return "WRONG REASON"
	}
	return "refused"
}
