package gate

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha512"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/waybill-release/waybill/pkg/backend/rekorv1"
	"github.com/waybill-release/waybill/pkg/document/format"
	"github.com/waybill-release/waybill/pkg/judge/policy"
	"github.com/waybill-release/waybill/pkg/judge/verify"
	"github.com/waybill-release/waybill/pkg/tool/slice"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// BundleSuffix is what the name of a file's bundle adds to the file's own.
const BundleSuffix = ".sigstore.json"

// FileRequest asks about files on this machine, each on its own.
type FileRequest struct {
	Files []File
	Ask   Ask
	Now   time.Time
	// Finder completes signatures in legacy forms.
	Finder rekorv1.Finder
}

// File is one file and the evidence about it.
type File struct {
	// Path is the path of the file; empty if only its Digest is known.
	Path   string
	Digest digest.Digest
	// Bundle is the path of the evidence. Empty means the file of the same name
	// and [BundleSuffix].
	Bundle string
	// Signature and Certificate are the paths of a detached signature, in place
	// of a bundle. A signature by key has no certificate.
	Signature   string
	Certificate string
}

// Files decides about single files: whether the required signer made the
// required evidence about exactly these bytes.
func Files(ctx context.Context, req FileRequest) *verdict.Verdict {
	question := fmt.Sprintf("%d files", len(req.Files))
	if len(req.Files) == 1 {
		question = "file " + req.Files[0].name()
	}
	j := req.Ask.begin(question, req.Now, "signature", "identity", "binding")
	if err := req.check(); err != nil {
		return j.endUnknown("request", err)
	}
	for _, f := range req.Files {
		j.addCounted(req.collect(ctx, f), "")
	}
	return j.endCounted()
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
			return verdict.Refuse(verdict.Usage, f.name(), "a detached signature is a plain signature of the file, not an attestation of type %s", r.Ask.Type)
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

// collect reads a file and verifies the evidence about it. It hashes the bytes
// first, so that evidence is compared with the actual bytes.
func (r FileRequest) collect(ctx context.Context, file File) (f facts) {
	name := file.name()
	digests, err := file.hash(ctx)
	if err != nil {
		f.unknown(name, err)
		return f
	}
	i := item{question: policy.Question{Subject: name, Bytes: digests}, chosen: file.Bundle != "" || file.Signature != ""}
	input, err := r.evidence(ctx, file, &i, &f)
	if err != nil {
		f.unknown(name, about(name, err))
		return f
	}
	f.items = []item{i}
	f.addInputs(verdict.Input{Name: name, Digest: firstOf(digests)}, input)
	for _, e := range i.evidence {
		if names := boundNames(e, i); r.Ask.Subject == "" && len(names) > 0 {
			f.note("%s: bound by digest; its name in the statement is %s", name, quoted(names))
		}
		if e.SignedAt().IsZero() {
			f.tell("%s: only the key proves the envelope: it is in no log and has no signed time. --min-logs 1 refuses such evidence.", name)
		}
	}
	return f
}

// evidence adds the evidence about a file to its item, and returns what was
// read.
func (r FileRequest) evidence(ctx context.Context, f File, i *item, facts *facts) (verdict.Input, error) {
	if f.Signature != "" {
		m, err := f.detached(r.Ask.Signer.kind(), i.question.Bytes.SHA256)
		if err != nil {
			return verdict.Input{}, err
		}
		e, err := r.verifyLegacy(ctx, m, i.question.Bytes)
		i.evidence = []verify.Evidence{e}
		return verdict.Input{Name: f.Signature, Digest: e.Bundle()}, err
	}
	path := cmp.Or(f.Bundle, f.Path+BundleSuffix)
	raw, err := f.read(path, verify.MaxBundle)
	if err != nil {
		return verdict.Input{}, err
	}
	input := verdict.Input{Name: path, Digest: digest.Of(digest.SHA256, raw)}
	if i.sha384, err = f.hash384(raw, i.question.Bytes); err != nil {
		return input, err
	}
	file, err := format.Read(raw)
	switch {
	case err != nil:
		return input, err
	case file.IsList():
		return input, r.verifyList(ctx, file, i, facts)
	}
	e, err := r.verifyEntry(ctx, file.Entries[0], *i)
	i.evidence = []verify.Evidence{e}
	return input, err
}

// read reads a file of evidence, up to a limit.
func (f File) read(path string, limit int64) ([]byte, error) {
	file, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, verdict.Refuse(verdict.EvidenceMissing, f.name(), "no evidence: there is no file %s", path).
			Advise("fetch the evidence from where the publisher releases the file, and put it there; without evidence nothing is proven about the file")
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

// hash reads the file once; a given digest needs no reading.
func (f File) hash(ctx context.Context) (digest.Set, error) {
	if f.Path == "" {
		return f.Digest.Set(), nil
	}
	info, err := os.Stat(f.Path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return digest.Set{}, verdict.Refuse(verdict.Usage, f.Path, "no such file").Advise("check the spelling and the directory: name a file on this machine")
	case err != nil:
		return digest.Set{}, verdict.Wrap(verdict.PlaceDown, f.Path, err)
	case info.IsDir():
		return digest.Set{}, verdict.Refuse(verdict.FileType, f.Path, "a directory, not a file; name files")
	case !info.Mode().IsRegular(): // opening a named pipe may wait for ever
		return digest.Set{}, verdict.Refuse(verdict.FileType, f.Path, "not a regular file")
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

// hash384 reads the file again if its evidence may sign a SHA-384 digest.
func (f File) hash384(evidence []byte, before digest.Set) ([]byte, error) {
	if f.Path == "" || !bytes.Contains(evidence, []byte(`"SHA2_384"`)) {
		return nil, nil
	}
	file, err := os.Open(f.Path)
	if err != nil {
		return nil, verdict.Wrap(verdict.PlaceDown, f.Path, err)
	}
	defer file.Close()
	h := sha512.New384()
	switch again, _, err := digest.Sum(io.TeeReader(file, h)); {
	case err != nil:
		return nil, verdict.Wrap(verdict.PlaceDown, f.Path, err)
	case again != before:
		return nil, verdict.Refuse(verdict.Tampered, f.Path, "the file changed while it was read")
	}
	return h.Sum(nil), nil
}

func firstOf(s digest.Set) digest.Digest {
	return cmp.Or(s.SHA256, s.SHA512)
}

func quoted(names []string) string {
	return strings.Join(slice.Map(names, func(n string) string { return fmt.Sprintf("%q", n) }), ", ")
}
