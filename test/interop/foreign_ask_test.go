package interop

import (
	"bytes"
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sigstore/sigstore-go/pkg/bundle"
	"github.com/sigstore/sigstore-go/pkg/root"
	"github.com/sigstore/sigstore-go/pkg/verify"
	"github.com/sigstore/sigstore/pkg/cryptoutils"
	"github.com/sigstore/sigstore/pkg/signature"
	judge "github.com/waybill-release/waybill/pkg/judge/verify"
)

var code = regexp.MustCompile(`"code": ?"([A-Z0-9_]+)"`)

// waybill is the answer of the command.
func (q foreign) waybill(t *testing.T, path string) (status int, codes string) {
	args := []string{"verify", "bundle", q.onDisk(t), "--output", "json"}
	if q.artifact != "" {
		args = append(args, q.artifact)
	} else {
		args = append(args, "--digest", q.algorithm+":"+q.sum)
	}
	if q.kind != "" {
		args = append(args, "--type", q.kind)
	}
	if q.key != "" {
		args = append(args, "--key", q.key)
	} else {
		args = append(args, "--certificate-identity", q.identity, "--certificate-oidc-issuer", cmp.Or(q.issuer, "none"))
	}
	if q.root == "github" {
		args = append(args, "--trust", "github", "--offline")
	} else {
		args = append(args, "--trusted-root", q.root)
	}
	cmd := exec.CommandContext(t.Context(), path, args...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	_ = cmd.Run()
	var found []string
	for _, match := range code.FindAllStringSubmatch(stdout.String(), -1) {
		found = append(found, match[1])
	}
	slices.Sort(found)
	if codes = strings.Join(slices.Compact(found), " "); codes == "" && cmd.ProcessState.ExitCode() != 0 {
		codes = fmt.Sprintf("%.200s", stderr.String())
	}
	return cmd.ProcessState.ExitCode(), codes
}

// onDisk is the file with the evidence, written if it was changed.
func (q foreign) onDisk(t *testing.T) string {
	if q.file != "" {
		return q.file
	}
	path := filepath.Join(t.TempDir(), "changed.sigstore.json")
	if err := os.WriteFile(path, q.bundle, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// library is the answer of sigstore-go: a certificate log, a log and a time.
func (q foreign) library() error {
	if q.bare {
		return errNotAsked
	}
	least := []verify.VerifierOption{verify.WithTransparencyLog(1), verify.WithObserverTimestamps(1)}
	if q.key == "" {
		least = append(least, verify.WithSignedCertificateTimestamps(1))
	}
	raw, err := q.rootOf()
	if err != nil {
		return err
	}
	if q.root == "github" {
		least = []verify.VerifierOption{verify.WithSignedTimestamps(1)}
	}
	var trusted root.TrustedMaterial
	if trusted, err = root.NewTrustedRootFromJSON(raw); err != nil {
		return err
	}
	policy := verify.WithKey()
	if q.key != "" {
		if trusted, err = keyed(trusted, q.key); err != nil {
			return err
		}
	} else {
		id, err := verify.NewShortCertificateIdentity(q.issuer, "", q.identity, "")
		if err != nil {
			return err
		}
		policy = verify.WithCertificateIdentity(id)
	}
	v, err := verify.NewVerifier(trusted, least...)
	if err != nil {
		return err
	}
	b := &bundle.Bundle{}
	if err := b.UnmarshalJSON(q.bundle); err != nil {
		return err
	}
	sum, err := hex.DecodeString(q.sum)
	if err != nil {
		return err
	}
	artifact := verify.WithArtifactDigest(q.algorithm, sum)
	if q.artifact != "" {
		content, err := os.ReadFile(q.artifact)
		if err != nil {
			return err
		}
		artifact = verify.WithArtifact(bytes.NewReader(content))
	}
	result, err := v.Verify(b, verify.NewPolicy(artifact, policy))
	if err == nil && result.Statement != nil && result.Statement.GetPredicateType() != q.kind {
		return fmt.Errorf("of type %q", result.Statement.GetPredicateType())
	}
	return err
}

// github is GitHub's root, which is part of the product.
const github = "../../pkg/backend/tuf/github/trusted_root.json"

func (q foreign) rootOf() ([]byte, error) {
	if q.root == "github" {
		return os.ReadFile(github)
	}
	return os.ReadFile(q.root)
}

// keyed trusts one key.
func keyed(base root.TrustedMaterial, path string) (root.TrustedMaterial, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	public, err := cryptoutils.UnmarshalPEMToPublicKey(raw)
	if err != nil {
		return nil, err
	}
	loaded, err := signature.LoadDefaultVerifier(public)
	if err != nil {
		return nil, err
	}
	return keyOnly{base, root.NewExpiringKey(loaded, time.Time{}, time.Time{})}, nil
}

type keyOnly struct {
	root.TrustedMaterial
	key root.TimeConstrainedVerifier
}

func (k keyOnly) PublicKeyVerifier(string) (root.TimeConstrainedVerifier, error) { return k.key, nil }

var errNotAsked = errors.New("the verifier cannot be asked this")

// cosign is the answer of cosign 3, which needs the file for a plain signature,
// and has no option for a trust root without logs.
func (q foreign) cosign(t *testing.T, path string) error {
	if q.bare || q.root == "github" || q.kind == "" && q.artifact == "" {
		return errNotAsked
	}
	q.file = "" // of a list, the one bundle
	file := q.onDisk(t)
	args := []string{"verify-blob"}
	if q.kind != "" {
		args = []string{"verify-blob-attestation", "--type", q.kind}
	}
	if args = append(args, "--bundle", file, "--trusted-root", q.root); q.key != "" {
		args = append(args, "--key", q.key)
	} else {
		args = append(args, "--certificate-identity", q.identity, "--certificate-oidc-issuer", q.issuer)
	}
	if said, err := judge.Read(q.bundle); err == nil && len(said.Timestamps) > 0 {
		args = append(args, "--use-signed-timestamps")
	}
	if q.artifact != "" {
		args = append(args, q.artifact)
	} else {
		args = append(args, "--digest", q.sum, "--digestAlg", q.algorithm)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Env = []string{"HOME=" + filepath.Dir(path), "HTTP_PROXY=http://127.0.0.1:1", "HTTPS_PROXY=http://127.0.0.1:1"}
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%w: %s", err, bytes.TrimSpace(out))
	}
	return nil
}
