package sign

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"github.com/waybill-release/waybill/pkg/document/legacy"
	"github.com/waybill-release/waybill/pkg/judge/verify"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// errUnlogged means that the certificate of a signature in a legacy form
// expired before the log included it. The log entry proves the time of
// signing, so the signature is useless.
var errUnlogged = errors.New("the certificate expired before the log included its signature")

// minValidity is the remaining validity of a certificate that is required when its
// signature is sent to the log, whose entry proves the time.
const minValidity = 15 * time.Second

// NeedLegacy refuses if the signing configuration has no log for signatures
// in the legacy forms, or if a key signs: older clients require a
// certificate.
func (s *Signer) NeedLegacy() error {
	switch {
	case s.legacy == nil:
		return NeedLegacy(s.config.Services)
	case s.config.Token == nil:
		return verdict.Refuse(verdict.Usage, "--legacy", "the legacy forms need a certificate, which a key does not have; sign with an identity instead")
	}
	return nil
}

// NeedLegacy refuses services without a Rekor v1 log.
func NeedLegacy(s Services) error {
	if s.LogV1 != "" {
		return nil
	}
	return verdict.Refuse("LEGACY_NEEDS_REKOR_V1", "signing config", "older clients need a Rekor v1 log, but the signing configuration has none that is valid now; nothing was signed")
}

// asLegacy signs a content in the form that predates bundles. The result is a
// bundle of version 0.1 with all parts of the legacy forms: see
// [legacy.Open].
func (s *Signer) asLegacy(c content, o Order) (content, error) {
	if err := s.NeedLegacy(); err != nil {
		return content{}, err
	}
	c.kind = "older " + c.kind // this word is in existing journals
	if o.Statement.IsZero() {
		signed := o.Bytes.SHA256
		c.legacy = func(m made) (legacy.Material, error) { return legacy.New(signed, m.Signature, m.Certificate) }
		c.prove = func(v prover, raw []byte) (verify.Evidence, error) { return v.Blob(raw, digest.Set{SHA256: signed}) }
		return c, nil
	}
	payload := o.Statement.Raw()
	c.legacy = func(m made) (legacy.Material, error) {
		return legacy.NewAttestation(payload, m.Signature, m.Certificate)
	}
	return c, nil
}

// encodeLegacy writes the bundle of a signature in a legacy form.
func encodeLegacy(c content, r record) ([]byte, error) {
	m, err := c.legacy(r.made)
	if err != nil {
		return nil, err
	}
	_, entry, err := legacy.ParseAnswer(r.answer)
	if err != nil {
		return nil, err
	}
	if m, err = m.With(entry); err != nil {
		return nil, err
	}
	return m.Bundle()
}

// legacyLog is a Rekor v1 log.
type legacyLog struct{ *service }

// add gets the log to include a signature while its certificate is valid. It
// looks the entry up afterwards, or if the log has it already. The validity
// of a new certificate is counted from when it was received, because our
// clock may be wrong; for one of an earlier run only the certificate itself
// is available.
func (l *legacyLog) add(ctx context.Context, c content, r record) (a answer, err error) {
	m, err := c.legacy(r.made)
	if err != nil {
		return answer{}, err
	}
	body, err := m.Proposal()
	if err != nil {
		return answer{}, err
	}
	if r.until.IsZero() {
		leaf, err := x509.ParseCertificate(r.Certificate)
		if err != nil {
			return answer{}, verdict.Wrap(verdict.CertParse, "certificate", err)
		}
		r.until = leaf.NotAfter.Add(-minValidity)
	}
	lives := func() bool { return l.clock().Before(r.until) }
	if lives() {
		err = l.retry(ctx, lives, func(ctx context.Context) (err error) {
			a, err = l.submit(ctx, m, body)
			return err
		})
		if _, is := errors.AsType[*awayError](err); !is || lives() || l.work.Patience == 0 || ctx.Err() != nil {
			return a, err
		}
	}
	// It may have been sent before, and be in the log.
	err = l.retry(ctx, always, func(ctx context.Context) (err error) {
		a, err = l.lookUp(ctx, m, body)
		return err
	})
	return a, err
}

// submit sends an entry once.
func (l *legacyLog) submit(ctx context.Context, m legacy.Material, body []byte) (answer, error) {
	raw, response, err := l.send(ctx, question{path: "/api/v1/log/entries", mediaType: mediaJSON, body: body, limit: legacy.MaxBundle},
		http.StatusCreated, http.StatusConflict)
	if err != nil {
		return answer{}, err
	}
	if response.StatusCode == http.StatusConflict {
		a, err := l.lookUp(ctx, m, body)
		if errors.Is(err, errUnlogged) {
			return answer{}, l.refuse("the log reports a duplicate, but does not return the existing entry")
		}
		return a, err
	}
	return answer{legacy: raw}, checkAnswer(m, raw)
}

// lookUp finds the log entry of the same proposal.
func (l *legacyLog) lookUp(ctx context.Context, m legacy.Material, body []byte) (answer, error) {
	asked, err := json.Marshal(map[string][]json.RawMessage{"entries": {body}})
	if err != nil {
		return answer{}, verdict.Wrap(verdict.InternalBug, l.name, err)
	}
	raw, _, err := l.send(ctx, question{path: "/api/v1/log/entries/retrieve", mediaType: mediaJSON, body: asked, limit: legacy.MaxBundle}, http.StatusOK)
	if err != nil {
		return answer{}, err
	}
	var found []json.RawMessage
	if err := json.Unmarshal(raw, &found); err != nil {
		return answer{}, l.refuse("the answer is not a list of entries: %v", err)
	}
	if len(found) == 0 {
		return answer{}, errUnlogged
	}
	return answer{legacy: found[0], had: true}, checkAnswer(m, found[0])
}

// checkAnswer verifies an answer against the signature before it is stored.
func checkAnswer(m legacy.Material, raw []byte) error {
	_, entry, err := legacy.ParseAnswer(raw)
	if err != nil {
		return err
	}
	_, err = m.With(entry)
	return err
}
