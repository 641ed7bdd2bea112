package git

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// Signatures that a tag can have.
const (
	Unsigned         = "none"
	SignatureSSH     = "ssh"
	SignatureOpenPGP = "openpgp"
	SignatureX509    = "x509"
)

// Tag says who is verified to have signed a tag. The zero Tag is for a
// reference that is not a tag.
type Tag struct {
	// Signature is the kind of signature that the tag carries.
	Signature string
	// Signer is the verified signer, by the name in the allowed signers file;
	// "" if none is verified, and then NotVerified says why.
	Signer, NotVerified string
}

// maxTag is the largest tag object that is read.
const maxTag = 1 << 20

// VerifyTag says who signed the tag that c was resolved from. Signers is an
// allowed signers file in the format of ssh-keygen, as for git's
// gpg.ssh.allowedSignersFile; without one, no signer is verified. Only SSH
// signatures are verified, by ssh-keygen. An unverified tag is an answer, not
// an error; NotVerified gives the reason.
//
// A signer is returned only if the tag object has this very name and names the
// commit directly: a signed tag remains genuine when stored under another name.
func VerifyTag(ctx context.Context, c Commit, signers []byte) (Tag, error) {
	if len(signers) > 0 {
		if err := checkSigners(signers); err != nil {
			return Tag{}, err
		}
	}
	if !strings.HasPrefix(c.Ref, "refs/tags/") {
		return Tag{}, nil
	}
	if c.Tag == "" {
		return Tag{Signature: Unsigned, NotVerified: "the tag is lightweight, so it carries no signature; use git tag -s"}, nil
	}
	r, err := c.Open(ctx)
	if err != nil {
		return Tag{}, err
	}
	defer r.Close()
	return r.verifyTag(ctx, c, signers)
}

// verifyTag compares the signature of an annotated tag with the allowed signers.
func (r *Repository) verifyTag(ctx context.Context, c Commit, signers []byte) (Tag, error) {
	if err := r.ensureCommit(ctx, c.Tag); err != nil {
		return Tag{}, err
	}
	o, err := r.objects(ctx)
	if err != nil {
		return Tag{}, err
	}
	defer func() { _ = o.Close() }()
	raw, err := o.meta(c.Tag, "tag", maxTag)
	if err != nil {
		return Tag{}, err
	}
	payload, signature, kind := splitTag(raw)
	tag := Tag{Signature: kind}
	if tag.NotVerified = notVerifiable(c, raw, kind, signers); tag.NotVerified != "" {
		return tag, nil
	}
	if tag.Signer, tag.NotVerified, err = allowedSigner(ctx, payload, signature, signers); err != nil {
		return Tag{}, err
	}
	return tag, nil
}

// notVerifiable is why a tag's signature cannot be verified, "" if it can be
// tried.
func notVerifiable(c Commit, raw []byte, kind string, signers []byte) string {
	commit := c.Commit
	commit = cmp.Or(c.Release, commit)
	names := "object " + commit + "\ntype commit\ntag " + strings.TrimPrefix(c.Ref, "refs/tags/") + "\n"
	switch {
	case kind == Unsigned:
		return "the tag is not signed"
	case kind != SignatureSSH:
		return "only SSH signatures are verified"
	case !bytes.HasPrefix(raw, []byte(names)):
		return "the signature is for a tag with another name or of another commit"
	case len(signers) == 0:
		return "no allowed signers were given"
	}
	return ""
}

// splitTag cuts a tag before its signature, where git does: before the last
// line that begins a signature.
func splitTag(raw []byte) (payload, signature []byte, kind string) {
	kind, at := Unsigned, len(raw)
	begins := map[string]string{
		"-----BEGIN SSH SIGNATURE-----": SignatureSSH, "-----BEGIN PGP SIGNATURE-----": SignatureOpenPGP,
		"-----BEGIN PGP MESSAGE-----": SignatureOpenPGP, "-----BEGIN SIGNED MESSAGE-----": SignatureX509,
	}
	offset := 0
	for line := range bytes.Lines(raw) {
		for begin, k := range begins {
			if bytes.HasPrefix(line, []byte(begin)) {
				kind, at = k, offset
			}
		}
		offset += len(line)
	}
	return raw[:at], raw[at:], kind
}

// checkSigners refuses a file in which ssh-keygen would find no signer.
func checkSigners(signers []byte) error {
	found := false
	for line := range strings.Lines(string(signers)) {
		fields := strings.Fields(line)
		if len(fields) == 0 || fields[0][0] == '#' {
			continue
		}
		if len(fields) < 3 {
			return usage("reading allowed signers: %.80q is not a name, a key type and a key", strings.TrimSpace(line))
		}
		found = true
	}
	if !found {
		return usage("reading allowed signers: the file lists no signers")
	}
	return nil
}

// allowedSigner asks ssh-keygen which of the signers made the signature.
func allowedSigner(ctx context.Context, payload, signature, signers []byte) (signer, reason string, err error) {
	dir, err := os.MkdirTemp("", "waybill-tag-")
	if err != nil {
		return "", "", keygenError(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	allowed, signed := filepath.Join(dir, "signers"), filepath.Join(dir, "signature")
	if err := errors.Join(os.WriteFile(allowed, signers, 0o600), os.WriteFile(signed, signature, 0o600)); err != nil {
		return "", "", keygenError(err)
	}
	names, ok, err := keygen(ctx, nil, "-Y", "find-principals", "-f", allowed, "-s", signed)
	if err != nil {
		return "", "", err
	}
	if !ok {
		return "", "the key that signed does not belong to an allowed signer", err
	}
	for line := range strings.Lines(names) {
		name := strings.TrimSpace(line)
		_, ok, err := keygen(ctx, payload, "-Y", "verify", "-f", allowed, "-I", name, "-n", "git", "-s", signed)
		if err != nil {
			return "", "", err
		}
		if ok {
			return name, "", nil
		}
	}
	return "", "the signature is invalid", nil
}

// keygen runs ssh-keygen in an empty environment. ok is false if ssh-keygen
// rejects.
func keygen(ctx context.Context, in []byte, args ...string) (out string, ok bool, err error) {
	cmd := exec.CommandContext(ctx, "ssh-keygen", args...)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "LC_ALL=C"}
	cmd.Dir = string(filepath.Separator)
	cmd.WaitDelay = 5 * time.Second
	cmd.Stdin = bytes.NewReader(in)
	raw, err := cmd.Output()
	var exit *exec.ExitError
	switch {
	case err == nil:
		return string(raw), true, nil
	case context.Cause(ctx) != nil:
		return "", false, keygenError(context.Cause(ctx))
	case errors.As(err, &exit) && exit.Exited():
		return "", false, nil
	}
	return "", false, keygenError(err)
}

func keygenError(err error) error {
	return &verdict.UnavailableError{Place: "ssh-keygen", Op: "verifying the signature of the tag", Err: err}
}
