// Command conformance speaks the Sigstore client conformance protocol, with
// Waybill's verifier behind it.
//
//	conformance sign-bundle --identity-token TOKEN --bundle OUT --signing-config F [--trusted-root F] ARTIFACT
//	conformance verify-bundle --bundle F (--certificate-identity ID --certificate-oidc-issuer URL | --key PEM) --trusted-root F FILE_OR_DIGEST
//
// The digest is sha256:HEX or sha512:HEX. verify-bundle exits 0 if and only if
// the bundle verifies; sign-bundle verifies what it signed before it writes it.
package main

import (
	"crypto"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/waybill-release/waybill/pkg/document/intoto"
	"github.com/waybill-release/waybill/pkg/judge/trust"
	"github.com/waybill-release/waybill/pkg/judge/verify"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/identity"
)

func main() {
	root := &cobra.Command{Use: "conformance", SilenceUsage: true}
	root.AddCommand(verifyBundle(), signBundle())
	if err := root.Execute(); err != nil {
		os.Exit(1)
	}
}

type request struct {
	bundle, subject, issuer, key, trustedRoot string
}

func verifyBundle() *cobra.Command {
	r := &request{}
	cmd := &cobra.Command{
		Use:  "verify-bundle FILE_OR_DIGEST",
		Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error { return r.run(args[0]) },
	}
	f := cmd.Flags()
	f.StringVar(&r.bundle, "bundle", "", "the bundle")
	f.StringVar(&r.subject, "certificate-identity", "", "who must have signed")
	f.StringVar(&r.issuer, "certificate-oidc-issuer", "", "who must have vouched for the signer")
	f.StringVar(&r.key, "key", "", "the key that must have signed")
	f.StringVar(&r.trustedRoot, "trusted-root", "", "the trust root")
	return cmd
}

// askedCommand is the variable with the path of waybill, which then answers: what is
// scored is the command that users type.
const askedCommand = "WAYBILL_COMMAND"

// ask asks the command. Whether a signature or an attestation is meant, the
// protocol does not say; the command wants to be told.
func (r *request) ask(waybill, artifact string) error {
	args := []string{"verify", "bundle", r.bundle, "--output", "json"}
	raw, err := os.ReadFile(r.bundle)
	if err != nil {
		return err
	}
	if said, err := verify.Read(raw); err == nil && said.IsAttestation() {
		s, err := intoto.ParseOpen(said.Payload)
		if err != nil {
			return err
		}
		args = append(args, "--type", s.PredicateType())
	}
	if strings.HasPrefix(artifact, "sha256:") || strings.HasPrefix(artifact, "sha512:") {
		args = append(args, "--digest", artifact)
	} else {
		args = append(args, artifact)
	}
	for _, f := range [][2]string{
		{"--certificate-identity", r.subject}, {"--certificate-oidc-issuer", r.issuer}, {"--key", r.key}, {"--trusted-root", r.trustedRoot},
	} {
		if f[1] != "" {
			args = append(args, f[0], f[1])
		}
	}
	if r.trustedRoot == "" {
		args = append(args, "--offline")
	}
	out, err := exec.Command(waybill, args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return nil
}

func (r *request) run(artifact string) error {
	if waybill := os.Getenv(askedCommand); waybill != "" {
		return r.ask(waybill, artifact)
	}
	set, err := read(artifact)
	if err != nil {
		return err
	}
	v, err := r.verifier()
	if err != nil {
		return err
	}
	raw, err := os.ReadFile(r.bundle)
	if err != nil {
		return err
	}
	e, err := either(v, raw, set)
	if err != nil {
		return err
	}
	if r.key != "" {
		return nil
	}
	if who := e.Identity(); who != (identity.Identity{Issuer: r.issuer, Subject: r.subject, Type: nameType(r.subject)}) {
		return fmt.Errorf("signed by %s", who)
	}
	return nil
}

// nameType is the kind of name that a text is. The protocol does not say; a
// URI of the text of an address must not do for the address.
func nameType(name string) identity.SANType {
	if strings.Contains(name, "@") && !strings.Contains(name, "://") {
		return identity.Email
	}
	return identity.URI
}

// prover is a keyless or a key verifier: the flags decide which.
type prover interface {
	Attestation(raw []byte) (verify.Evidence, error)
	Blob(raw []byte, artifact digest.Set) (verify.Evidence, error)
}

func (r *request) verifier() (prover, error) {
	v, err := newVerifier(r.trustedRoot)
	if err != nil || r.key == "" {
		return v, err
	}
	public, err := readKey(r.key)
	if err != nil {
		return nil, err
	}
	return v.Key(public)
}

// libraryAlone is the variable by which tests have every log entry read by
// sigstore-go: what is left out of this program is then no part of an answer.
const libraryAlone = "WAYBILL_LIBRARY_ALONE"

// newVerifier rests on a trust root file, or on the public-good root.
func newVerifier(trustedRoot string) (*verify.Verifier, error) {
	rules := verify.Default()
	rules.LibraryAlone = os.Getenv(libraryAlone) != ""
	if trustedRoot == "" {
		return verify.NewWith(trust.Embedded(), rules)
	}
	raw, err := os.ReadFile(trustedRoot)
	if err != nil {
		return nil, err
	}
	root, err := trust.Parse(raw)
	if err != nil {
		return nil, err
	}
	return verify.NewWith(root, rules)
}

// either verifies a bundle of either kind; the protocol does not say which.
func either(v prover, raw []byte, set digest.Set) (verify.Evidence, error) {
	e, err := v.Blob(raw, set)
	if err == nil {
		return e, nil
	}
	e, again := v.Attestation(raw)
	if again != nil {
		return verify.Evidence{}, errors.Join(err, again)
	}
	if !covers(e, set) {
		return verify.Evidence{}, errors.New("the statement is not of this artifact")
	}
	return e, nil
}

// covers holds every digest that is known of the artifact against the subjects:
// of a file that is both, and one that agrees does not excuse one that differs.
func covers(e verify.Evidence, set digest.Set) bool {
	if set.SHA256.IsZero() || set.SHA512.IsZero() {
		return e.CoversBytes(set.SHA256) || e.CoversBytes(set.SHA512)
	}
	return slices.ContainsFunc(e.Statement().Subjects(), func(s intoto.Subject) bool { return s.Binds(set) })
}

// read returns the digests of a file, or the one that was given.
func read(artifact string) (digest.Set, error) {
	if strings.HasPrefix(artifact, "sha256:") || strings.HasPrefix(artifact, "sha512:") {
		d, err := digest.Parse(artifact)
		if d.Algorithm() == digest.SHA512 {
			return digest.Set{SHA512: d}, err
		}
		return digest.Set{SHA256: d}, err
	}
	f, err := os.Open(artifact)
	if err != nil {
		return digest.Set{}, err
	}
	defer f.Close()
	set, _, err := digest.Sum(f)
	return set, err
}

func readKey(path string) (crypto.PublicKey, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(raw)
	if block == nil {
		return nil, fmt.Errorf("%s: not a PEM file", path)
	}
	return x509.ParsePKIXPublicKey(block.Bytes)
}
