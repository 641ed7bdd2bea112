package verify

import (
	"bytes"
	"crypto/x509"
	"encoding/asn1"
	"encoding/base64"
	"encoding/hex"
	"net/url"
	"slices"
	"strings"
	"time"

	tilesnote "github.com/sigstore/rekor-tiles/v2/pkg/note"
	tiles "github.com/sigstore/rekor-tiles/v2/pkg/verify"
	"github.com/sigstore/sigstore-go/pkg/root"
	"github.com/sigstore/sigstore-go/pkg/tlog"
	sigstore "github.com/sigstore/sigstore-go/pkg/verify"
	"github.com/sigstore/sigstore/pkg/signature"

	"github.com/waybill-release/waybill/pkg/tool/slice"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// The functions below run only after a refusal. They choose its code, and
// cannot turn it into an acceptance.

// disproven says why an entry of a known log is invalid. If the log did sign
// the time, but the certificate was not valid then, the log is not at fault.
func disproven(m material, trusted root.TrustedMaterial, entry *tlog.Entry, err error) error {
	log := trusted.RekorLogs()[hex.EncodeToString([]byte(entry.LogKeyID()))]
	at := entry.IntegratedTime()
	if entry.HasInclusionPromise() {
		if tlog.VerifySET(entry, trusted.RekorLogs()) != nil {
			if !believedAt(log, at) {
				return outOfBelief(log, at)
			}
			return verdict.Wrap(verdict.LogPromise, "log entry", err)
		}
		if m.leaf != nil && !lives(m.leaf, at) {
			return disagreeing(m.leaf, stamped(m, trusted), outOfLife(m.leaf, at))
		}
	}
	if !entry.HasInclusionPromise() && !at.IsZero() && m.leaf != nil && !lives(m.leaf, at) {
		return verdict.Wrap(verdict.TimeUnsigned, "log entry", err)
	}
	code := verdict.LogProof
	if entry.HasInclusionProof() {
		code = whyCheckpoint(log, entry)
	}
	return verdict.Wrap(code, "log entry", err)
}

func whyCheckpoint(log *root.TransparencyLog, entry *tlog.Entry) verdict.Code {
	envelope := entry.TransparencyLogEntry().GetInclusionProof().GetCheckpoint().GetEnvelope()
	verifier, err := signature.LoadVerifier(log.PublicKey, log.SignatureHashFunc)
	if err != nil {
		return verdict.LogProof
	}
	if !entry.IsRekorV2() {
		if !signsCheckpoint(verifier, envelope) {
			return verdict.CheckpointSig
		}
		return verdict.LogProof
	}
	address, err := url.Parse(log.BaseURL)
	if err != nil {
		return verdict.LogProof
	}
	if origin, _, _ := strings.Cut(envelope, "\n"); origin != address.Hostname() {
		return verdict.CheckpointOrigin
	}
	if named, err := tilesnote.NewNoteVerifier(address.Hostname(), verifier); err == nil {
		if _, err := tiles.VerifyCheckpoint(envelope, named); err != nil {
			return verdict.CheckpointSig
		}
	}
	return verdict.LogProof
}

// signsCheckpoint reports whether any signature of a checkpoint is valid.
func signsCheckpoint(verifier signature.Verifier, envelope string) bool {
	text, lines, _ := strings.Cut(envelope, "\n\n")
	for line := range strings.Lines(lines) {
		words := strings.Fields(line)
		if len(words) != 3 {
			continue
		}
		sig, err := base64.StdEncoding.DecodeString(words[2])
		const hint = 4 // bytes that identify the key
		if err == nil && len(sig) > hint && verifier.VerifySignature(bytes.NewReader(sig[hint:]), strings.NewReader(text+"\n")) == nil {
			return true
		}
	}
	return false
}

// logKind refuses an entry whose body is of one version of the log and whose
// checkpoint is of another. The library derives the version from the
// checkpoint, which the author of the bundle controls.
func logKind(entry *tlog.Entry) error {
	envelope := entry.TransparencyLogEntry().GetInclusionProof().GetCheckpoint().GetEnvelope()
	if envelope == "" {
		return nil // only a promise
	}
	origin, _, _ := strings.Cut(envelope, "\n")
	_, tree, found := strings.Cut(origin, " - ")
	if numbered := found && tree != "" && strings.Trim(tree, "0123456789") == ""; numbered == entry.IsRekorV2() {
		return verdict.Refuse(verdict.LogKind, "log entry", "the checkpoint is of another log version than the entry")
	}
	return nil
}

// believedAt reports whether a time is within the window of a log's key.
func believedAt(log *root.TransparencyLog, at time.Time) bool {
	return !at.Before(log.ValidityPeriodStart) && (log.ValidityPeriodEnd.IsZero() || !at.After(log.ValidityPeriodEnd))
}

func outOfBelief(log *root.TransparencyLog, at time.Time) error {
	return verdict.Refuse(verdict.KeyExpired, "log entry", "signed at %s, but the trust root trusts the key of %s from %q to %q",
		at.UTC().Format(time.RFC3339), log.BaseURL, day(log.ValidityPeriodStart), day(log.ValidityPeriodEnd))
}

// day formats a time for a message; the zero time gives "".
func day(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}

// lives reports whether a certificate is valid at a time.
func lives(c *x509.Certificate, at time.Time) bool {
	return !at.Before(c.NotBefore) && !at.After(c.NotAfter)
}

// stamped returns the times of the valid timestamps.
func stamped(m material, trusted root.TrustedMaterial) (at []time.Time) {
	stamps, _, _ := sigstore.VerifySignedTimestamp(m.entity, trusted)
	return slice.Map(stamps, func(s *root.Timestamp) time.Time { return s.Time })
}

// disagreeing distinguishes a certificate that was not valid at any signed time
// from one that was valid at one signed time and not at another.
func disagreeing(leaf *x509.Certificate, at []time.Time, err error) error {
	if verdict.FindingOf("", err).Code == verdict.TimeCert && slices.ContainsFunc(at, func(t time.Time) bool { return lives(leaf, t) }) {
		return verdict.Refuse(verdict.TimeDisagree, "certificate", "the certificate was valid at another signed time, but: %s", verdict.FindingOf("", err).Message)
	}
	return err
}

// untimed says why there are fewer signed times than required.
func untimed(m material, have, want int) error {
	if have > 0 {
		return verdict.Refuse(verdict.Threshold, "bundle", "signed times by distinct parties: %d, want %d", have, want)
	}
	if slices.ContainsFunc(m.entries, func(e *tlog.Entry) bool { return !e.IntegratedTime().IsZero() && !e.HasInclusionPromise() }) {
		return verdict.Refuse(verdict.TimeUnsigned, "bundle", "the only time in the bundle is unsigned")
	}
	return verdict.Refuse(verdict.TimeMissing, "bundle", "signed times: %d, want %d", have, want)
}

// whyNotIssued says why no authority of the trust root issued a certificate in
// a chain that was valid at t.
func whyNotIssued(leaf *x509.Certificate, trusted root.TrustedMaterial, t time.Time) error {
	if !lives(leaf, t) {
		return outOfLife(leaf, t)
	}
	for _, authority := range trusted.FulcioCertificateAuthorities() {
		ca, ok := authority.(*root.FulcioCertificateAuthority)
		if !ok {
			continue
		}
		above := append(slices.Clone(ca.Intermediates), ca.Root)
		if !slices.ContainsFunc(above, func(c *x509.Certificate) bool { return c != nil && leaf.CheckSignatureFrom(c) == nil }) {
			continue
		}
		if i := slices.IndexFunc(above, func(c *x509.Certificate) bool { return c != nil && !lives(c, t) }); i >= 0 {
			return verdict.Refuse(verdict.ChainExpired, "certificate", "signed at %s, but %s was valid from %s to %s",
				t.UTC().Format(time.RFC3339), above[i].Subject, day(above[i].NotBefore), day(above[i].NotAfter))
		}
		if t.Before(ca.ValidityPeriodStart) || !ca.ValidityPeriodEnd.IsZero() && t.After(ca.ValidityPeriodEnd) {
			return verdict.Refuse(verdict.KeyExpired, "certificate", "signed at %s, but the trust root trusts the certificate's authority from %q to %q",
				t.UTC().Format(time.RFC3339), day(ca.ValidityPeriodStart), day(ca.ValidityPeriodEnd))
		}
	}
	return verdict.Refuse(verdict.ChainUntrusted, "certificate", "no authority of the trust root issued the certificate with a chain that was valid at %s", t.UTC().Format(time.RFC3339))
}

// oidSCTs is the extension with the promises of certificate logs.
var oidSCTs = asn1.ObjectIdentifier{1, 3, 6, 1, 4, 1, 11129, 2, 4, 2}

// whyUnseen says why too few certificate logs promised to log a certificate.
func whyUnseen(chains [][]*x509.Certificate, trusted root.TrustedMaterial, threshold int, err error) error {
	switch {
	case extension(chains[0][0], oidSCTs) == nil:
		return verdict.Wrap(verdict.SCTMissing, "certificate", err)
	case threshold > 1 && sigstore.VerifySignedCertificateTimestamp(chains, 1, trusted) == nil:
		return verdict.Wrap(verdict.Threshold, "certificate", err)
	}
	return verdict.Wrap(verdict.SCT, "certificate", err)
}
