package verify

import (
	"bytes"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/hex"
	"time"

	"github.com/secure-systems-lab/go-securesystemslib/dsse"
	"github.com/sigstore/sigstore-go/pkg/bundle"
	"github.com/sigstore/sigstore-go/pkg/root"
	"github.com/sigstore/sigstore-go/pkg/tlog"
	sigstore "github.com/sigstore/sigstore-go/pkg/verify"

	"github.com/waybill-release/waybill/pkg/tool/plural"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// logged is what the transparency logs proved.
type logged struct {
	index int64
	times []time.Time // times signed by logs of version 1, at most one for each log
	by    []*root.TransparencyLog
}

// name is the identifier of the log whose index is reported.
func (l logged) name() string {
	if len(l.by) == 0 {
		return ""
	}
	return hex.EncodeToString(l.by[0].ID)
}

// believed requires that the trust root trusted the key of every log when the
// signature was made.
func (l logged) believed(at time.Time) error {
	for _, log := range l.by {
		if !believedAt(log, at) {
			return outOfBelief(log, at)
		}
	}
	return nil
}

// included proves that enough distinct logs include this signature. An entry of
// a trusted log must be correct in full: a valid proof does not excuse an
// invalid promise, nor the reverse.
func included(m material, trusted root.TrustedMaterial, threshold int) (logged, error) {
	known := map[string]bool{}
	out := logged{index: -1}
	if threshold == 0 && len(m.entries) > 0 {
		return logged{}, verdict.Refuse(verdict.LogUnknown, "bundle", "the bundle has a log entry, and the trust root has no logs: it belongs to another trust domain")
	}
	for _, entry := range m.entries {
		log, ok := trusted.RekorLogs()[hex.EncodeToString([]byte(entry.LogKeyID()))]
		if !ok {
			continue // an entry of an unknown log proves nothing, and is ignored
		}
		if known[entry.LogKeyID()] {
			return logged{}, verdict.Refuse(verdict.Threshold, "bundle", "two entries of one log, but each log may have only one")
		}
		if err := boundTo(m, trusted, entry); err != nil {
			return logged{}, err
		}
		if err := logKind(entry); err != nil {
			return logged{}, err
		}
		at, err := sigstore.VerifyTlogEntry(single{m.entity, entry}, trusted, 1, true)
		if err != nil {
			return logged{}, disproven(m, trusted, entry, err)
		}
		known[entry.LogKeyID()], out.by = true, append(out.by, log)
		if out.index < 0 {
			out.index = entry.LogIndex()
		}
		for _, t := range at {
			out.times = append(out.times, t.Time)
		}
	}
	switch {
	case len(known) >= threshold:
		return out, nil
	case len(m.entries) == 0:
		return logged{}, verdict.Refuse(verdict.LogMissing, "bundle", "the bundle has no transparency log entry")
	case len(known) > 0:
		return logged{}, verdict.Refuse(verdict.Threshold, "bundle", "entries of %d distinct logs, want %d", len(known), threshold)
	}
	return logged{}, verdict.Refuse(verdict.LogUnknown, "bundle", "entries of %s in the trust root, want %d", plural.Of(len(known), "log"), threshold)
}

// single shows the library one entry at a time, so that each is decided alone.
type single struct {
	*bundle.Bundle
	entry *tlog.Entry
}

// TlogEntries returns the one entry.
func (s single) TlogEntries() ([]*tlog.Entry, error) { return []*tlog.Entry{s.entry}, nil }

// boundTo requires that a log entry is for this artifact, this signature and
// this key. The library checks the same, but here each failure has its own
// code.
func boundTo(m material, trusted root.TrustedMaterial, entry *tlog.Entry) error {
	signature, err := m.entity.SignatureContent()
	if err != nil {
		return verdict.Wrap(verdict.BundleParse, "bundle", err)
	}
	content, err := m.entity.VerificationContent()
	if err != nil {
		return verdict.Wrap(verdict.CertParse, "certificate", err)
	}
	switch {
	case !ofContent(signature, entry):
		return verdict.Refuse(verdict.LogEntryUnbound, "log entry", "the entry is for another artifact than the bundle")
	case !bytes.Equal(entry.Signature(), signature.Signature()):
		return verdict.Refuse(verdict.LogSigMismatch, "log entry", "the entry is for another signature than the bundle's")
	case !content.CompareKey(entry.PublicKey(), trusted):
		return verdict.Refuse(verdict.LogKeyMismatch, "log entry", "the entry is for another key or certificate than the bundle's")
	}
	return nil
}

// ofContent reports whether an entry is for the content that the bundle signs.
func ofContent(signature sigstore.SignatureContent, entry *tlog.Entry) bool {
	logged, _, isRecord := entry.GetHashedRekordDigest()
	if message := signature.MessageSignatureContent(); message != nil {
		return isRecord && bytes.Equal(logged, message.Digest())
	}
	envelope := signature.EnvelopeContent().RawEnvelope()
	payload, err := envelope.DecodeB64Payload()
	if err != nil {
		return false
	}
	if !isRecord {
		sum := sha256.Sum256(payload)
		got, ok := entry.GetDssePayloadHash()
		return ok && bytes.Equal(got, sum[:])
	}
	pae := dsse.PAE(envelope.PayloadType, payload)
	sum256, sum384, sum512 := sha256.Sum256(pae), sha512.Sum384(pae), sha512.Sum512(pae)
	return bytes.Equal(logged, sum256[:]) || bytes.Equal(logged, sum384[:]) || bytes.Equal(logged, sum512[:])
}
