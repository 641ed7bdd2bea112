package seal

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/waybill-release/waybill/pkg/backend/store"
	"github.com/waybill-release/waybill/pkg/judge/policy"
	"github.com/waybill-release/waybill/pkg/judge/verify"
	"github.com/waybill-release/waybill/pkg/produce/sign"
	"github.com/waybill-release/waybill/pkg/release/plan"
	"github.com/waybill-release/waybill/pkg/tool/plural"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// Signed is what [Sign] did.
type Signed struct {
	Files, Images int // got a signature
	Held          int // had one
}

// Sign writes the checksum files and signs every planned file and image that
// has no signature yet. Only planned files are signed, and the outputs of a
// step only if its verified provenance has the same digests. A file that
// cannot be signed does not stop the others: each failure is a finding.
func Sign(ctx context.Context, req Request) (Signed, error) {
	if req.Plan.Legacy() {
		if err := req.Signer.NeedLegacy(); err != nil {
			return Signed{}, err
		}
	}
	if err := checkExtra(ctx, req); err != nil {
		return Signed{}, err
	}
	if err := req.Workspace.Sweep(ctx); err != nil {
		return Signed{}, err
	}
	p, err := provenances(ctx, req)
	if err != nil {
		return Signed{}, err
	}
	if err := writeSums(ctx, req, p); err != nil {
		return Signed{}, err
	}
	if err := crossCheck(ctx, req, p); err != nil {
		return Signed{}, err
	}
	var done Signed
	l := signingInput{Request: req, proven: p}
	failed := done.files(ctx, l)
	if failed == nil || !endsAll(failed) {
		failed = errors.Join(failed, done.images(ctx, l))
	}
	if failed != nil {
		return done, failures(req, failed)
	}
	req.Report(ctx, "signed %s and %s; %d had a signature", plural.Of(done.Files, "file"), plural.Of(done.Images, "image manifest"), done.Held)
	return done, signLegacy(ctx, l)
}

// files signs every planned file without a valid signature. All of them are
// checked before the first is signed.
func (s *Signed) files(ctx context.Context, l signingInput) error {
	var due []plan.Artifact
	var orders []sign.Order
	for _, a := range l.Plan.Artifacts {
		if a.Class != plan.Signature || a.IsLegacy() || a.IsStatement() {
			continue
		}
		order, err := l.order(ctx, a)
		held := false
		if err == nil {
			held, err = l.isSigned(ctx, a, order)
		}
		if err != nil {
			return fmt.Errorf("signing %q: %w", signedSubject(a), err)
		}
		if held {
			s.Held++
			continue
		}
		due, orders = append(due, a), append(orders, order)
	}
	if len(due) == 0 {
		return nil
	}
	err := l.Signer.Each(ctx, orders, func(i int, bundle []byte, _ verify.Evidence) error {
		if err := checkSignature(l.Request, due[i], orders[i], bundle); err != nil {
			return fmt.Errorf("signing %q: %w", signedSubject(due[i]), err)
		}
		if err := l.Workspace.Writer().Put(ctx, due[i].Name, int64(len(bundle)), bytes.NewReader(bundle), store.PutOptions{}); err != nil {
			return err
		}
		s.Files++
		return nil
	})
	return naming(err, func(i int) string { return signedSubject(due[i]) })
}

// signedSubject is what a planned signature file signs: another file, or the list
// that it contains.
func signedSubject(a plan.Artifact) string { return cmp.Or(a.Of, a.Name) }

func checkBlob(req Request, subject string, set digest.Set, bundle []byte) error {
	e, err := req.Verifier.Blob(bundle, set)
	if err != nil {
		return err
	}
	_, err = req.Policy.Judge(e, policy.Ask{Role: policy.Release, Kind: "blob", Subject: subject, Bytes: set})
	return err
}

// enveloped is the beginning of the bytes that a DSSE envelope's signature
// signs. A blob signature of a file with such bytes would also be valid for
// that envelope: a build step could get any attestation signed by the release
// identity, and no verifier could tell.
const enveloped = "DSSEv1 "

// hashFile hashes a file that may be signed as it is.
func hashFile(ctx context.Context, from store.Place, name string) (digest.Set, int64, error) {
	body, _, err := from.Open(ctx, name)
	if err != nil {
		return digest.Set{}, 0, err
	}
	defer body.Close()
	buffered := bufio.NewReaderSize(body, 256<<10)
	if head, _ := buffered.Peek(len(enveloped)); string(head) == enveloped {
		return digest.Set{}, 0, verdict.Refuse(verdict.MaterialKind, name, "the file has the form of an attestation; signing the file would sign that attestation")
	}
	set, size, err := digest.Sum(buffered)
	if err != nil {
		return digest.Set{}, 0, fmt.Errorf("hashing %q: %w", name, err)
	}
	return set, size, nil
}

// writeSums writes the planned checksum files.
func writeSums(ctx context.Context, req Request, p proven) error {
	texts, err := sums(ctx, req, p)
	if err != nil {
		return err
	}
	for _, a := range req.Plan.Artifacts {
		if _, theirs := req.imported[a.Name]; theirs || a.Class != plan.Sums && a.Class != plan.Checksum {
			continue
		}
		text := texts[a.Name]
		if err := req.Workspace.Writer().Put(ctx, a.Name, int64(len(text)), bytes.NewReader(text), store.PutOptions{}); err != nil {
			return fmt.Errorf("writing %s: %w", a.Name, err)
		}
	}
	return nil
}

// sums are the texts of all checksum files, by name: SHA256SUMS and
// SHA512SUMS in the format of sha256sum -c, of everything but signatures and
// checksums, and the sidecars of single files. Every file is read before the
// first is signed: unproven bytes get into no checksum file.
func sums(ctx context.Context, req Request, p proven) (map[string][]byte, error) {
	sums := map[string][]byte{}
	var findings []verdict.Finding
	for _, a := range req.Plan.Artifacts {
		if a.IsImage() || slices.Contains([]plan.Class{plan.Signature, plan.Sums, plan.Checksum}, a.Class) {
			continue
		}
		set, _, err := hashFile(ctx, req.Workspace.Files(), a.Name)
		if errors.Is(err, store.ErrNotFound) {
			findings = append(findings, verdict.FindingOf(a.Name, missing(req, a.Name)))
			continue
		}
		if err != nil {
			return nil, err
		}
		if p.needsProof(a) && !p.bytes[a.Name].Equal(set) {
			return nil, unproven(a.Name, p.bytes[a.Name], set)
		}
		sums[plan.SHA256Sums] = fmt.Appendf(sums[plan.SHA256Sums], "%s  %s\n", set.SHA256.Hex(), a.Name)
		sums[plan.SHA512Sums] = fmt.Appendf(sums[plan.SHA512Sums], "%s  %s\n", set.SHA512.Hex(), a.Name)
		sums[a.Name+".sha256"], sums[a.Name+".sha512"] = []byte(set.SHA256.Hex()), []byte(set.SHA512.Hex())
	}
	if len(findings) > 0 {
		return nil, findingsError(req, findings)
	}
	return sums, nil
}

// unsignedError reports what could not be signed, by the names of the
// artifacts.
type unsignedError struct {
	*sign.FailedError
	name func(int) string
}

// Unwrap returns the signer's error.
func (e *unsignedError) Unwrap() error { return e.FailedError }

// naming adds names to the failures of a signer.
func naming(err error, name func(i int) string) error {
	var failed *sign.FailedError
	if !errors.As(err, &failed) {
		return err
	}
	return &unsignedError{failed, name}
}

// endsAll reports whether an error affects more than single artifacts.
func endsAll(err error) bool {
	var failed *unsignedError
	return !errors.As(err, &failed) || failed.Done+len(failed.Failures) < failed.All
}

// ofWhoSigns reports whether a finding is about the signing identity, not
// about the artifact that happened to be first.
func ofWhoSigns(f verdict.Finding) bool {
	return slices.Contains([]verdict.Code{verdict.Usage, verdict.TokenRefused, verdict.SignedAsElse}, f.Code)
}

// failures makes a finding of each artifact that could not be signed. Any
// other error is returned unchanged.
func failures(req Request, err error) error {
	parts := []error{err}
	if joined, several := err.(interface{ Unwrap() []error }); several { // from errors.Join: one level only
		parts = joined.Unwrap()
	}
	var findings []verdict.Finding
	for _, part := range parts {
		var failed *unsignedError
		if !errors.As(part, &failed) {
			return err
		}
		for _, f := range failed.Failures {
			finding := verdict.FindingOf(failed.name(f.Order), f.Err)
			if name := failed.name(f.Order); finding.Subject != name && !ofWhoSigns(finding) {
				finding.Message, finding.Subject = fmt.Sprintf("%s: %s", finding.Subject, finding.Message), name
			}
			findings = append(findings, finding)
		}
		if left := failed.All - failed.Done - len(failed.Failures); left > 0 {
			last := &findings[len(findings)-1]
			if ofWhoSigns(*last) {
				last.Message += fmt.Sprintf(" (not signed: %d)", left+1)
				continue
			}
			last.Message += fmt.Sprintf(" (not tried: %d)", left)
		}
	}
	return findingsError(req, findings)
}
