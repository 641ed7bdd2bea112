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

	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// What follows is asked only of what was refused already. It gives the refusal
// its name, and can turn nothing into an acceptance.

// disproven says why an entry of a known log does not hold. A time that the
// log did sign, but at which the certificate was not valid, is no fault of the
// log's.
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

// signsCheckpoint reports whether any signature line of a checkpoint holds.
func signsCheckpoint(verifier signature.Verifier, envelope string) bool {
	text, lines, _ := strings.Cut(envelope, "\n\n")
	for line := range strings.Lines(lines) {
		words := strings.Fields(line)
		if len(words) != 3 {
			continue
		}
		sig, err := base64.StdEncoding.DecodeString(words[2])
		const hint = 4 // bytes that name the key
		if err == nil && len(sig) > hint && verifier.VerifySignature(bytes.NewReader(sig[hint:]), strings.NewReader(text+"\n")) == nil {
			return true
		}
	}
	return false
}

// logKind refuses an entry whose body is of one version of the log, and whose
// checkpoint of another. The library tells the versions by the checkpoint,
// which whoever makes the bundle writes.
func logKind(entry *tlog.Entry) error {
	envelope := entry.TransparencyLogEntry().GetInclusionProof().GetCheckpoint().GetEnvelope()
	if envelope == "" {
		return nil // a promise alone
	}
	origin, _, _ := strings.Cut(envelope, "\n")
	_, tree, found := strings.Cut(origin, " - ")
	if numbered := found && tree != "" && strings.Trim(tree, "0123456789") == ""; numbered == entry.IsRekorV2() {
		return verdict.Refuse(verdict.LogKind, "log entry", "the checkpoint is not of the log's version that the entry is of")
	}
	return nil
}

// believedAt reports whether a time lies in the window of a log's key.
func believedAt(log *root.TransparencyLog, at time.Time) bool {
	return !at.Before(log.ValidityPeriodStart) && (log.ValidityPeriodEnd.IsZero() || !at.After(log.ValidityPeriodEnd))
}

func outOfBelief(log *root.TransparencyLog, at time.Time) error {
	return verdict.Refuse(verdict.KeyExpired, "log entry", "signed at %s; the trust root believes the key of %s from %q to %q",
		at.UTC().Format(time.RFC3339), log.BaseURL, day(log.ValidityPeriodStart), day(log.ValidityPeriodEnd))
}

// day is a time for a message; no time is no text.
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

// stamped are the times of the timestamps that hold.
func stamped(m material, trusted root.TrustedMaterial) []time.Time {
	var at []time.Time
	stamps, _, _ := sigstore.VerifySignedTimestamp(m.entity, trusted)
	for _, s := range stamps {
		at = append(at, s.Time)
	}
	return at
}

// disagreeing tells a certificate that was not valid at any time from one of
// which one signed time says so, and another does not.
func disagreeing(leaf *x509.Certificate, at []time.Time, err error) error {
	if verdict.FindingOf("", err).Code == verdict.TimeCert && slices.ContainsFunc(at, func(t time.Time) bool { return lives(leaf, t) }) {
		return verdict.Refuse(verdict.TimeDisagree, "certificate", "by another signed time it was valid; %s", verdict.FindingOf("", err).Message)
	}
	return err
}

// untimed says why there are fewer signed times than asked.
func untimed(m material, have, want int) error {
	if have > 0 {
		return verdict.Refuse(verdict.Threshold, "bundle", "%d of %d signed times by distinct parties", have, want)
	}
	if slices.ContainsFunc(m.entries, func(e *tlog.Entry) bool { return !e.IntegratedTime().IsZero() && !e.HasInclusionPromise() }) {
		return verdict.Refuse(verdict.TimeUnsigned, "bundle", "the only time is one that nobody signed")
	}
	return verdict.Refuse(verdict.TimeMissing, "bundle", "%d of %d signed times", have, want)
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
			return verdict.Refuse(verdict.ChainExpired, "certificate", "signed at %s; %s was valid from %s to %s",
				t.UTC().Format(time.RFC3339), above[i].Subject, day(above[i].NotBefore), day(above[i].NotAfter))
		}
		if t.Before(ca.ValidityPeriodStart) || !ca.ValidityPeriodEnd.IsZero() && t.After(ca.ValidityPeriodEnd) {
			return verdict.Refuse(verdict.KeyExpired, "certificate", "signed at %s; the trust root believes its authority from %q to %q",
				t.UTC().Format(time.RFC3339), day(ca.ValidityPeriodStart), day(ca.ValidityPeriodEnd))
		}
	}
	return verdict.Refuse(verdict.ChainUntrusted, "certificate", "no authority of the trust root issued it in a chain that was valid at %s", t.UTC().Format(time.RFC3339))
}

// oidSCTs is the extension that carries the promises of certificate logs.
var oidSCTs = asn1.ObjectIdentifier{1, 3, 6, 1, 4, 1, 11129, 2, 4, 2}

// whyUnseen says why too few certificate logs have seen a certificate.
func whyUnseen(chains [][]*x509.Certificate, trusted root.TrustedMaterial, threshold int, err error) error {
	switch {
	case extension(chains[0][0], oidSCTs) == nil:
		return verdict.Wrap(verdict.SCTMissing, "certificate", err)
	case threshold > 1 && sigstore.VerifySignedCertificateTimestamp(chains, 1, trusted) == nil:
		return verdict.Wrap(verdict.Threshold, "certificate", err)
	}
	return verdict.Wrap(verdict.SCT, "certificate", err)
}
