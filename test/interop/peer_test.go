package interop

import (
	"context"
	"debug/buildinfo"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/sigstore/sigstore-go/pkg/bundle"
	"github.com/sigstore/sigstore-go/pkg/root"
	"github.com/sigstore/sigstore-go/pkg/verify"

	"github.com/waybill-release/waybill/test/scene"
)

// An ask is one question about one thing: did this role sign that?
type ask struct {
	what   string // for people
	verb   string // cosign's command
	role   string // who must have signed
	kind   string // predicate type; empty asks for the signature of a file
	bundle string // file with the signature; empty for images, whose registry has it
	target string // file, or image reference
}

// peer is a tool that somebody else wrote. An error is a refusal.
type peer interface {
	title() string
	verify(ctx context.Context, a ask) error
}

// cosign is one version of cosign.
type cosign struct {
	scene   *scene.Scene
	path    string
	version string
	bundles []string // flags that make this version read and write bundles
	offline []string // flags that make it verify with what the bundle carries
	env     []string
}

func openCosign(t *testing.T, s *scene.Scene, path string) cosign {
	t.Helper()
	info, err := buildinfo.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	home := t.TempDir()
	// An environment of its own: no credentials, no settings, and a proxy that
	// answers nobody, which is used for every address but loopback.
	const nowhere = "http://127.0.0.1:1"
	env := []string{
		"HOME=" + home, "DOCKER_CONFIG=" + home, "TMPDIR=" + home, "PATH=" + os.Getenv("PATH"),
		"HTTP_PROXY=" + nowhere, "HTTPS_PROXY=" + nowhere,
	}
	return cosign{scene: s, path: path, version: info.Main.Version, env: env}
}

func (c cosign) title() string { return "cosign " + c.version }

func (c cosign) verify(ctx context.Context, a ask) error {
	said, err := c.run(ctx, c.question(a)...)
	if err != nil {
		return err
	}
	// `verify` takes any statement about an image; what is asked for is one.
	if a.verb == "verify" && !strings.Contains(said, `"type":"`+a.kind+`"`) {
		return fmt.Errorf("it says nothing of %q: %s", a.kind, said)
	}
	return nil
}

// question is the command line of an ask.
func (c cosign) question(a ask) []string {
	issuer, subject := c.scene.Lab.Identity(a.role)
	args := []string{
		a.verb, a.target, "--certificate-identity", subject, "--certificate-oidc-issuer", issuer,
		"--trusted-root", c.scene.Path("trusted_root.json"), "--use-signed-timestamps",
	}
	if a.bundle == "" {
		args = append(args, "--allow-http-registry")
	} else {
		args = append(args, "--bundle", a.bundle)
	}
	if strings.HasSuffix(a.verb, "attestation") {
		args = append(args, "--type", a.kind)
	}
	return slices.Concat(args, c.bundles, c.offline)
}

// run returns what cosign said; when it ended badly, as the error.
func (c cosign) run(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, c.path, args...)
	cmd.Env = c.env
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%s: %w\n%s", args[0], err, out)
	}
	return string(out), nil
}

// library is sigstore-go, asked directly: for a certificate with an SCT, an
// entry in the log and a timestamp.
type library struct {
	scene    *scene.Scene
	verifier *verify.Verifier
}

func openLibrary(t *testing.T, s *scene.Scene) library {
	t.Helper()
	trusted, err := root.NewTrustedRootFromJSON(s.Lab.TrustedRoot)
	if err != nil {
		t.Fatal(err)
	}
	v, err := verify.NewVerifier(trusted, verify.WithSignedCertificateTimestamps(1), verify.WithTransparencyLog(1), verify.WithSignedTimestamps(1))
	if err != nil {
		t.Fatal(err)
	}
	return library{scene: s, verifier: v}
}

func (l library) title() string { return "sigstore-go" }

func (l library) verify(ctx context.Context, a ask) error {
	if a.bundle == "" {
		return l.image(ctx, a)
	}
	b, err := bundle.LoadJSONFromPath(a.bundle)
	if err != nil {
		return err
	}
	f, err := os.Open(a.target)
	if err != nil {
		return err
	}
	defer f.Close()
	return l.one(b, verify.WithArtifact(f), a)
}

// image accepts when one of the bundles that refer to an image does what is
// asked.
func (l library) image(ctx context.Context, a ask) error {
	ref, err := name.ParseReference(a.target)
	if err != nil {
		return err
	}
	d, err := remote.Head(ref, remote.WithContext(ctx))
	if err != nil {
		return err
	}
	bundles, err := attached(ctx, ref.Context().Digest(d.Digest.String()))
	if err != nil {
		return err
	}
	sum, err := hex.DecodeString(d.Digest.Hex)
	if err != nil {
		return err
	}
	refusals := []error{errors.New("no signatures found")}
	for _, b := range bundles {
		err := l.one(b, verify.WithArtifactDigest(d.Digest.Algorithm, sum), a)
		if err == nil {
			return nil
		}
		refusals = append(refusals, err)
	}
	return errors.Join(refusals...)
}

func (l library) one(b *bundle.Bundle, artifact verify.ArtifactPolicyOption, a ask) error {
	issuer, subject := l.scene.Lab.Identity(a.role)
	id, err := verify.NewShortCertificateIdentity(issuer, "", subject, "")
	if err != nil {
		return err
	}
	result, err := l.verifier.Verify(b, verify.NewPolicy(artifact, verify.WithCertificateIdentity(id)))
	if err != nil {
		return err
	}
	said := ""
	if result.Statement != nil {
		said = result.Statement.GetPredicateType()
	}
	if said != a.kind {
		return fmt.Errorf("it says %q, want %q", said, a.kind)
	}
	return nil
}
