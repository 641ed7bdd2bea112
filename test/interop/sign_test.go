package interop

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/waybill-release/waybill/pkg/document/intoto"
	"github.com/waybill-release/waybill/pkg/judge/trust"
	"github.com/waybill-release/waybill/pkg/judge/verify"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/identity"
	"github.com/waybill-release/waybill/pkg/value/verdict"
	"github.com/waybill-release/waybill/test/lab"
)

const (
	article   = "an article of somebody else's\n"
	predicate = "https://example.test/inspected/v1"

	// Rekor v2 takes no entries of the kind that cosign 2 makes of everything
	// but the signature of a file.
	onlyHashed = "must be hashedrekord"
)

// signing is one way in which cosign signs.
type signing struct {
	name string
	args []string
	// picture is the image that is signed; unset, the file "article" is.
	picture *picture
	// Exactly one is set: what our verifier must take it for, the code with
	// which it must refuse, or why cosign cannot sign at all.
	kind   string
	ours   verdict.Code
	theirs string
}

func (w *world) signings2() []signing {
	return []signing{
		{name: "sign-blob", args: []string{"sign-blob"}, kind: "blob"},
		{name: "attest-blob", args: w.attest("attest-blob"), theirs: onlyHashed},
		{name: "sign", args: []string{"sign"}, picture: &w.images.bare, theirs: onlyHashed},
		{name: "attest", args: w.attest("attest"), picture: &w.images.bare, theirs: onlyHashed},
	}
}

func (w *world) signings3() []signing {
	return []signing{
		{name: "sign-blob", args: []string{"sign-blob"}, kind: "blob"},
		{name: "attest-blob, statement given", args: []string{"attest-blob", "--statement", w.file("statement.json")}, kind: predicate},
		// Around a predicate, cosign writes a Statement v0.1.
		{name: "attest-blob", args: w.attest("attest-blob"), kind: predicate},
		{name: "sign", args: []string{"sign"}, picture: &w.images.signed, kind: intoto.CosignSignature},
		{name: "attest", args: w.attest("attest"), picture: &w.images.attested, kind: predicate},
	}
}

// weVerifyTheirs has cosign sign in every way it can and asks our verifier.
func weVerifyTheirs(t *testing.T, w *world) {
	w.write(t, "article", []byte(article))
	w.write(t, "predicate.json", []byte(`{"inspected": true}`))
	w.writeStatement(t)
	us := openOurs(t, w)
	answers := table{head: []string{"signed by", "with", "waybill", "other bytes", "flipped signature", "another identity"}}
	ask := func(t *testing.T, c cosign, signings []signing) {
		for _, s := range signings {
			row := answers.row(c.title(), s.name)
			t.Run(c.title()+" "+s.name, func(t *testing.T) {
				t.Parallel()
				us.judge(t, c, s, row)
			})
		}
	}
	t.Run("cells", func(t *testing.T) {
		ask(t, w.cosign2, w.signings2())
		ask(t, w.cosign3, w.signings3())
	})
	onPage(t, "we verify theirs", answers)
}

func (w *world) attest(verb string) []string {
	return []string{verb, "--predicate", w.file("predicate.json"), "--type", predicate}
}

// writeStatement writes a Statement v1 about the article.
func (w *world) writeStatement(t *testing.T) {
	t.Helper()
	s, err := intoto.New(predicate, []intoto.Subject{{Name: "article", Digests: digest.SetOf([]byte(article))}}, map[string]bool{"inspected": true})
	if err != nil {
		t.Fatal(err)
	}
	w.write(t, "statement.json", s.Raw())
}

// ours is Waybill's verifier, and whom it expects.
type ours struct {
	w        *world
	verifier *verify.Verifier
	expected identity.Matcher
	another  identity.Matcher
}

func openOurs(t *testing.T, w *world) ours {
	t.Helper()
	root, err := trust.Parse(w.Lab.TrustedRoot)
	if err != nil {
		t.Fatal(err)
	}
	v, err := verify.New(root)
	if err != nil {
		t.Fatal(err)
	}
	matcher := func(role string) identity.Matcher {
		issuer, subject := w.Lab.Identity(role)
		m, err := identity.Exact(identity.Identity{Issuer: issuer, Subject: subject, Type: identity.Email})
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	return ours{w: w, verifier: v, expected: matcher(lab.RoleRelease), another: matcher(lab.RoleBuilder)}
}

// judge has cosign sign and Waybill verify, and then the twins.
func (o ours) judge(t *testing.T, c cosign, s signing, row []string) {
	file := filepath.Join(t.TempDir(), "bundle.json")
	err := o.sign(t, c, s, file)
	if s.theirs != "" {
		row[2] = "impossible: " + s.theirs
		if err == nil || !strings.Contains(err.Error(), s.theirs) {
			t.Errorf("signed, or could not for another reason than %q: %v", s.theirs, err)
		}
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	raw, bytes := o.read(t, s, file)
	if s.ours != "" {
		_, err := o.verify(s, raw, bytes)
		row[2] = mustBe(t, err, s.ours)
		o.sound(t, c, s, file)
		return
	}
	e, err := o.verify(s, raw, bytes)
	if row[2] = answer(err); err != nil || e.Kind() != s.kind || !o.expected.Match(e.Identity()) {
		t.Fatalf("verified as %q by %s: %v", e.Kind(), e.Identity(), err)
	}
	_, err = o.verify(s, raw, digest.SetOf([]byte("other bytes")))
	row[3] = mustBe(t, err, verdict.NotBound)
	_, err = o.verify(s, flipSignature(t, raw), bytes)
	row[4] = mustBe(t, err, verdict.LogSigMismatch) // the log has another
	row[5] = "refused"
	if o.another.Match(e.Identity()) {
		row[5] = "ACCEPTED"
		t.Errorf("%s passes for %s", e.Identity(), o.another)
	}
}

// sign has cosign sign as the release identity, into a file or the registry.
func (o ours) sign(t *testing.T, c cosign, s signing, file string) error {
	args := slices.Concat(s.args, c.bundles, []string{
		"--identity-token", o.w.Lab.Token(lab.RoleRelease), "--yes",
		"--trusted-root", o.w.Path("trusted_root.json"), "--signing-config", o.w.Path("signing_config.json"),
	})
	if s.picture != nil {
		args = append(args, "--allow-http-registry", s.picture.reference("index"))
	} else {
		args = append(args, "--bundle", file, o.w.file("article"))
	}
	_, err := c.run(t.Context(), args...)
	return err
}

// read returns the bundle that was made, and the digests of what it is about.
func (o ours) read(t *testing.T, s signing, file string) ([]byte, digest.Set) {
	t.Helper()
	if s.picture != nil {
		sum := s.picture.index.Digest
		return bundlesOf(t, s.picture.place, sum)[0], digest.Set{SHA256: sum}
	}
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return raw, digest.SetOf([]byte(article))
}

// sound asks cosign about its own attestation, so that what we refuse is
// refused for the reason that we give and nothing else.
func (o ours) sound(t *testing.T, c cosign, s signing, file string) {
	t.Helper()
	a := ask{verb: "verify-blob-attestation", role: lab.RoleRelease, kind: predicate, bundle: file, target: o.w.file("article")}
	if s.picture != nil {
		a.verb, a.bundle, a.target = "verify-attestation", "", s.picture.reference("index")
	}
	if err := c.verify(t.Context(), a); err != nil {
		t.Error(err)
	}
}

// verify asks as the product does: whether the bundle proves something, and
// whether that is about these bytes.
func (o ours) verify(s signing, raw []byte, bytes digest.Set) (verify.Evidence, error) {
	if s.kind == "blob" {
		return o.verifier.Blob(raw, bytes)
	}
	e, err := o.verifier.Attestation(raw)
	if err != nil {
		return verify.Evidence{}, err
	}
	if s.picture == nil && !e.Covers("article", bytes) || s.picture != nil && !e.CoversBytes(bytes.SHA256) {
		return verify.Evidence{}, verdict.Refuse(verdict.NotBound, "bundle", "it speaks of something else")
	}
	return e, nil
}

// answer is an error as its code.
func answer(err error) string {
	if err == nil {
		return "accepted"
	}
	return string(verdict.FindingOf("", err).Code)
}

func mustBe(t *testing.T, err error, code verdict.Code) string {
	t.Helper()
	if answer(err) != string(code) {
		t.Errorf("%s, want %s: %v", answer(err), code, err)
	}
	return answer(err)
}
