package main

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/sha256"
	"math/big"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/waybill-release/waybill/pkg/document/format"
	"github.com/waybill-release/waybill/pkg/document/intoto"
	"github.com/waybill-release/waybill/pkg/document/provenance"
	"github.com/waybill-release/waybill/pkg/document/vsa"
	"github.com/waybill-release/waybill/pkg/judge/trust"
	"github.com/waybill-release/waybill/pkg/judge/verify"
	"github.com/waybill-release/waybill/pkg/value/digest"
)

// The builders that are believed when a request for an artifact names none,
// and who vouches for them.
const (
	actions    = "https://token.actions.githubusercontent.com"
	generators = "https://github.com/slsa-framework/slsa-github-generator/.github/workflows/"
)

var trustedBuilders = []string{generators + "generator_generic_slsa3.yml", generators + "builder_go_slsa3.yml"}

// judge holds a request against what is verified.
type judge struct {
	dir      string
	verifier *verify.Verifier
}

func newJudge(t *testing.T, dir string) judge {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(dir, "..", "trusted-roots", "public-good.json"))
	if err != nil {
		t.Fatal(err)
	}
	root, err := trust.Parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	v, err := verify.New(root)
	if err != nil {
		t.Fatal(err)
	}
	return judge{dir: dir, verifier: v}
}

func (j judge) read(t *testing.T, name string) []byte {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(j.dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// reasons are all reasons to refuse a request; none accepts it.
func (j judge) reasons(t *testing.T, c policyCase) []reason {
	t.Helper()
	switch c.Kind {
	case "artifact", "github-attestation":
		return j.run(t, c)
	case "image":
		return j.image(t, c)
	case "vsa":
		return j.summary(t, c.Given)
	}
	t.Fatalf("a request of kind %q", c.Kind)
	return nil
}

func want(t *testing.T, c policyCase) digest.Digest {
	t.Helper()
	d, err := digest.Parse(c.Artifacts[0].Digest)
	if err != nil || len(c.Artifacts) != 1 {
		t.Fatalf("%d artifacts: %v", len(c.Artifacts), err)
	}
	return d
}

// run judges the provenance of a run on GitHub: what the certificate says
// decides, and the provenance must say the same.
func (j judge) run(t *testing.T, c policyCase) (why []reason) {
	e, err := j.verifier.Attestation(j.read(t, c.Given.ProvenancePath+c.Given.AttestationPath))
	if err != nil {
		t.Logf("%s: %v", c.Name, err)
		return []reason{badSignature}
	}
	claim, err := provenance.Read(e.Statement())
	if err != nil {
		t.Fatal(err)
	}
	if !e.CoversBytes(want(t, c)) {
		why = append(why, otherArtifact)
	}
	signer, _, _ := strings.Cut(e.Identity().Subject, "@")
	asked := c.Given.BuilderID
	byDefault := asked == "" && c.Kind == "artifact" && slices.Contains(trustedBuilders, signer)
	if e.Identity().Issuer != actions || claim.Builder.ID != e.Identity().Subject || !byDefault && !sameBuilder(asked, e.Identity().Subject) {
		why = append(why, otherBuilder)
	}
	says := e.Claims()
	if says.SourceRepository != strings.TrimPrefix(claim.Source.Repository, "git+") || says.SourceRef != claim.Source.Ref || says.SourceDigest != claim.Source.Commit {
		why = append(why, otherSource)
	}
	return append(why, c.Given.source(claim.Source)...)
}

// image judges a list of Google Cloud Build; any one entry may answer.
func (j judge) image(t *testing.T, c policyCase) []reason {
	raw := j.read(t, c.Given.ProvenancePath)
	list, err := format.Of(raw).Split(raw)
	if err != nil {
		t.Fatalf("%s: %v", c.Name, err)
	}
	var best []reason
	for i, one := range list {
		envelope, err := intoto.ParseEnvelope(one)
		if err != nil {
			t.Fatalf("%s: %v", c.Name, err)
		}
		if why := listed(t, c, envelope); i == 0 || len(why) < len(best) {
			best = why
		}
	}
	return best
}

func listed(t *testing.T, c policyCase, envelope intoto.Envelope) []reason {
	statement, err := envelope.Statement()
	if err != nil {
		t.Fatal(err)
	}
	claim, err := provenance.Read(statement)
	if err != nil {
		t.Fatal(err)
	}
	why := []reason{noKey} // whatever it says: no request gives a key
	image := want(t, c)
	if !slices.ContainsFunc(statement.Subjects(), func(s intoto.Subject) bool { return s.Digests.SHA256.Equal(image) }) {
		why = append(why, otherArtifact)
	}
	if !sameBuilder(c.Given.BuilderID, claim.Builder.ID) {
		why = append(why, otherBuilder)
	}
	return append(why, c.Given.source(cloudSource(claim))...)
}

// cloudSource is the source of a Google build. Older ones name it as their
// first material, at an address that does not say that it is of Git.
func cloudSource(c provenance.Claim) provenance.Source {
	s := c.Source
	if s.Repository == "" && len(c.Dependencies) > 0 {
		s.Repository = "git+" + c.Dependencies[0].URI
	}
	return s
}

// sameBuilder holds a builder against the one that was asked for, which may
// leave out the version, or name a tag without its refs/tags/.
func sameBuilder(asked, got string) bool {
	id, version, _ := strings.Cut(got, "@")
	wantID, wantVersion, versioned := strings.Cut(asked, "@")
	return id != "" && id == wantID && (!versioned || wantVersion == version || "refs/tags/"+wantVersion == version)
}

var versionPrefix = regexp.MustCompile(`\Av[0-9]+(\.[0-9]+){0,2}\z`)

// source holds a source against what was asked.
func (g given) source(s provenance.Source) (why []reason) {
	if s.Repository != "git+https://"+g.SourceURI {
		why = append(why, otherSource)
	}
	if g.SourceBranch != "" && s.Ref != "refs/heads/"+g.SourceBranch {
		why = append(why, otherBranch)
	}
	tag, tagged := strings.CutPrefix(s.Ref, "refs/tags/")
	switch prefix := g.SourceVersionTag; {
	case !tagged && (g.SourceTag != "" || prefix != ""):
		why = append(why, noTag)
	case g.SourceTag != "" && tag != g.SourceTag,
		prefix != "" && (!versionPrefix.MatchString(prefix) || tag != prefix && !strings.HasPrefix(tag, prefix+".")):
		why = append(why, otherTag)
	}
	return why
}

// summary judges a verification summary in a bare envelope.
func (j judge) summary(t *testing.T, g given) (why []reason) {
	raw := j.read(t, g.AttestationPath)
	envelope, err := intoto.ParseEnvelope(bytes.TrimSuffix(raw, []byte("\n")))
	if err != nil {
		t.Fatal(err)
	}
	if !j.signedWith(t, envelope, g) {
		return []reason{badSignature}
	}
	statement, err := envelope.Statement()
	if err != nil {
		t.Fatal(err)
	}
	s, err := vsa.Parse(statement)
	if err != nil {
		t.Fatal(err)
	}
	algorithm, value, _ := strings.Cut(g.SubjectDigests[0], ":")
	if len(g.SubjectDigests) != 1 || value == "" || statement.Resources()[0].Digest[algorithm] != value {
		why = append(why, otherArtifact)
	}
	if s.Verifier.ID != g.VerifierID || s.ResourceURI != g.ResourceURI || s.Result != vsa.Passed || !verified(s, g.VerifiedLevels) {
		why = append(why, otherSummary)
	}
	public, err := readKey(filepath.Join(j.dir, g.PublicKeyPath))
	if err != nil {
		t.Fatal(err)
	}
	k, err := j.verifier.Key(public)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := k.Attestation(raw); err != nil {
		why = append(why, noLog)
	}
	q := vsa.Question{
		VerifierID: g.VerifierID, ResourceURI: g.ResourceURI, PolicyURI: s.Policy.URI, Policy: s.Policy.Strong().SHA256,
		Levels: map[string]int{vsa.TrackBuild: 2}, Now: s.Verified, MaxAge: time.Hour,
	}
	if s.Answer(q) != nil {
		why = append(why, noPolicy)
	}
	return why
}

func verified(s vsa.Summary, asked []string) bool {
	return !slices.ContainsFunc(asked, func(l string) bool { return !slices.Contains(s.Levels, vsa.Level(l)) })
}

// signedWith looks for a signature of the key under the name it was asked by.
func (j judge) signedWith(t *testing.T, e intoto.Envelope, g given) bool {
	t.Helper()
	public, err := readKey(filepath.Join(j.dir, g.PublicKeyPath))
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(e.PAE())
	return slices.ContainsFunc(e.Signatures, func(s intoto.Signature) bool {
		if s.KeyID != g.PublicKeyID || len(s.Sig) != 64 { // two numbers side by side, not ASN.1
			return false
		}
		return ecdsa.Verify(public.(*ecdsa.PublicKey), sum[:], new(big.Int).SetBytes(s.Sig[:32]), new(big.Int).SetBytes(s.Sig[32:]))
	})
}
