package gate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/waybill-release/waybill/pkg/digest"
	"github.com/waybill-release/waybill/pkg/legacy"
	"github.com/waybill-release/waybill/pkg/rekor"
	"github.com/waybill-release/waybill/pkg/verdict"
	"github.com/waybill-release/waybill/pkg/verify"
)

// BundleSuffix is what the name of a file's bundle adds to the file's own.
const BundleSuffix = ".sigstore.json"

// FileRequest asks about files on this machine, each by itself.
type FileRequest struct {
	Files []File
	Ask   Ask
	Now   time.Time
	// Finder completes signatures in legacy forms.
	Finder rekor.Finder
}

// File is one file and the evidence about it.
type File struct {
	// Path is the file. It is empty where only a Digest is known.
	Path   string
	Digest digest.Digest
	// Bundle is the path of the evidence. Empty means the file of the same
	// name and [BundleSuffix], if there is one.
	Bundle string
	// Signature and Certificate are the paths of a detached signature, instead
	// of a bundle. With a key there is no certificate.
	Signature   string
	Certificate string
}

// Files decides about single files: whether evidence says what was asked, by
// the one who was asked for, of exactly these bytes.
func Files(ctx context.Context, req FileRequest) *verdict.Verdict {
	v := verdict.New(questionOf(req.Files), req.Now)
	v.Scope.Checks = []string{"signature", "identity", "binding"}
	v.Counts.Required = max(1, len(req.Files))
	if err := req.check(); err != nil {
		v.AddError("request", err)
		return v
	}
	nameRoot(v, req.Ask.Signer)
	for _, f := range req.Files {
		proof, err := req.decide(ctx, v, f)
		if err != nil {
			v.AddError(f.name(), err)
			continue
		}
		v.Counts.Verified++
		v.Proofs = append(v.Proofs, proof)
	}
	checkClock(v)
	return v
}

func questionOf(files []File) string {
	if len(files) == 1 {
		return "file " + files[0].name()
	}
	return fmt.Sprintf("%d files", len(files))
}

// nameRoot names the trust root of a verdict, and says when it is nobody's.
func nameRoot(v *verdict.Verdict, s Signer) {
	v.TrustRoot = s.verifier.Root().Digest()
	if s.verifier.Root().IsLab() {
		v.Note("the trust root is an INSECURE LAB: anybody can have its keys")
	}
}

func (r FileRequest) check() error {
	if len(r.Files) == 0 {
		return verdict.Refuse(verdict.Usage, "files", "no file was named")
	}
	for _, f := range r.Files {
		if (f.Path == "") == f.Digest.IsZero() {
			return verdict.Refuse(verdict.Usage, f.name(), "want a file or a digest, and not both")
		}
		if f.Path == "" && f.Bundle == "" {
			return verdict.Refuse(verdict.Usage, f.name(), "a digest needs a bundle")
		}
		if f.Signature != "" && f.Bundle != "" || f.Signature == "" && f.Certificate != "" {
			return verdict.Refuse(verdict.Usage, f.name(), "want a bundle, or a signature and its certificate")
		}
		if f.Signature != "" && r.Ask.Type != "" {
			return verdict.Refuse(verdict.Usage, f.name(), "a detached signature is of the file, and says nothing of %s", r.Ask.Type)
		}
	}
	if r.Ask.Type == "" && r.Ask.Subject != "" {
		return verdict.Refuse(verdict.Usage, "subject", "a plain signature names no subject; ask for an attestation")
	}
	return r.Ask.check()
}

func (f File) name() string {
	if f.Path == "" {
		return f.Digest.String()
	}
	return f.Path
}

// decide answers for one file. The bytes are hashed before the evidence is
// read, so that it is held against what is there.
func (r FileRequest) decide(ctx context.Context, v *verdict.Verdict, f File) (verdict.Proof, error) {
	digests, err := f.hash(ctx)
	if err != nil {
		return verdict.Proof{}, err
	}
	t := target{name: f.name(), digests: digests, chosen: f.Bundle != "" || f.Signature != ""}
	e, proof, path, err := r.prove(ctx, f, t)
	if err != nil {
		return verdict.Proof{}, f.placed(err)
	}
	v.Inputs = append(v.Inputs, verdict.Input{Name: f.name(), Digest: firstOf(digests)},
		verdict.Input{Name: path, Digest: e.Bundle()})
	if names := named(e, t); r.Ask.Subject == "" && len(names) > 0 {
		v.Note("%s: bound by digest; the statement calls it %s", f.name(), quoted(names))
	}
	return r.Ask.rate(v, t, []proven{{proof, e}})
}

// prove verifies the evidence of the asked kind, then judges what it says. It
// returns where the evidence is.
func (r FileRequest) prove(ctx context.Context, f File, t target) (e verify.Evidence, proof verdict.Proof, path string, err error) {
	kind := kindBlob
	switch {
	case f.Signature != "":
		path = f.Signature
		var m legacy.Material
		if m, err = f.detached(r.Ask.Signer.kind(), t.digests.SHA256); err == nil {
			e, err = r.proveLegacy(ctx, m, t)
		}
	default:
		var raw []byte
		if raw, path, err = f.evidence(); err != nil {
			return e, proof, path, err
		}
		if r.Ask.Type != "" {
			kind = r.Ask.Type
		}
		e, err = r.proveBundle(ctx, raw, t)
	}
	if err == nil {
		proof, err = r.Ask.judge(e, kind, t)
	}
	return e, proof, path, err
}

// proveBundle verifies a bundle: of an attestation where one was asked for,
// else of the file, and then also the bundle that cosign wrote before.
func (r FileRequest) proveBundle(ctx context.Context, raw []byte, t target) (verify.Evidence, error) {
	if r.Ask.Type != "" {
		if said, err := verify.Read(raw); err == nil && !said.IsAttestation() && !t.chosen {
			return verify.Evidence{}, verdict.Refuse(verdict.PredicateNone, t.name, "beside it lies a plain signature, and nothing that says %s", r.Ask.Type)
		}
		return r.Ask.Signer.verifier.Attestation(raw)
	}
	if !legacy.IsBundle(raw) {
		return r.Ask.Signer.verifier.Blob(raw, t.digests)
	}
	m, err := legacy.ParseBundle(r.Ask.Signer.kind(), t.digests.SHA256, raw)
	if err != nil {
		return verify.Evidence{}, err
	}
	return r.proveLegacy(ctx, m, t)
}

// placed names the file in a refusal that speaks of a part of its evidence.
func (f File) placed(err error) error {
	var refusal *verdict.Error
	if !errors.As(err, &refusal) || refusal.Finding.Subject == f.name() {
		return err
	}
	found := refusal.Finding
	found.Subject, found.Message = f.name(), found.Subject+": "+found.Message
	return &verdict.Error{Finding: found, Cause: refusal}
}

// evidence reads the bundle.
func (f File) evidence() (raw []byte, path string, err error) {
	path = f.Bundle
	if path == "" {
		path = f.Path + BundleSuffix
	}
	raw, err = f.read(path, verify.MaxBundle)
	return raw, path, err
}

// read reads a file of evidence, bounded.
func (f File) read(path string, limit int64) ([]byte, error) {
	file, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, verdict.Refuse(verdict.EvidenceMissing, f.name(), "there is no %s", path)
	}
	if err != nil {
		return nil, verdict.Wrap(verdict.PlaceDown, path, err)
	}
	defer file.Close()
	raw, err := io.ReadAll(io.LimitReader(file, limit+1))
	switch {
	case err != nil:
		return nil, verdict.Wrap(verdict.PlaceDown, path, err)
	case int64(len(raw)) > limit:
		return nil, verdict.Refuse(verdict.Limit, f.name(), "%s: more than %d bytes", path, limit)
	}
	return raw, nil
}

// hash reads the file once; of a digest there is nothing to read.
func (f File) hash(ctx context.Context) (digest.Set, error) {
	if f.Path == "" {
		return setOf(f.Digest), nil
	}
	info, err := os.Stat(f.Path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return digest.Set{}, verdict.Refuse(verdict.Usage, f.Path, "there is no such file")
	case err != nil:
		return digest.Set{}, verdict.Wrap(verdict.PlaceDown, f.Path, err)
	case info.IsDir():
		return digest.Set{}, verdict.Refuse(verdict.FileType, f.Path, "it is a directory; name files")
	case !info.Mode().IsRegular(): // opening a pipe may wait for ever
		return digest.Set{}, verdict.Refuse(verdict.FileType, f.Path, "it is no regular file")
	}
	file, err := os.Open(f.Path)
	if err != nil {
		return digest.Set{}, verdict.Wrap(verdict.PlaceDown, f.Path, err)
	}
	defer file.Close()
	defer context.AfterFunc(ctx, func() { _ = file.Close() })() // stops a long read
	set, _, err := digest.Sum(file)
	if err != nil {
		return digest.Set{}, verdict.Wrap(verdict.PlaceDown, f.Path, err)
	}
	return set, nil
}

func setOf(d digest.Digest) digest.Set {
	if d.Algorithm() == digest.SHA512 {
		return digest.Set{SHA512: d}
	}
	return digest.Set{SHA256: d}
}

func firstOf(s digest.Set) digest.Digest {
	if s.SHA256.IsZero() {
		return s.SHA512
	}
	return s.SHA256
}

func quoted(names []string) string {
	words := make([]string, len(names))
	for i, n := range names {
		words[i] = fmt.Sprintf("%q", n)
	}
	return strings.Join(words, ", ")
}
