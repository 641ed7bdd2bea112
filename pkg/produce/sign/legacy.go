package sign

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"time"

	sigstore "github.com/sigstore/sigstore-go/pkg/verify"

	"github.com/waybill-release/waybill/pkg/document/legacy"
	"github.com/waybill-release/waybill/pkg/judge/verify"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// errUnlogged says that a signature in a legacy form is of a certificate whose
// life has passed before the log had it. The log says when it was made, so
// nothing of it can be saved.
var errUnlogged = errors.New("the certificate's life has passed before the log had its signature")

// spare is what must be left of a certificate's life when its signature is
// sent to the log that says when it was made.
const spare = 15 * time.Second

// NeedLegacy refuses to go on where the signing configuration has no log for
// signatures in the legacy forms, or where a key signs: what older clients ask
// of a log is a certificate.
func (s *Signer) NeedLegacy() error {
	switch {
	case s.legacy == nil:
		return NeedLegacy(s.config.Services)
	case s.config.Token == nil:
		return verdict.Refuse(verdict.Usage, "--legacy", "a key has no certificate to put beside its signatures; sign in the legacy forms with an identity")
	}
	return nil
}

// NeedLegacy refuses services without a log of version 1.
func NeedLegacy(s Services) error {
	if s.LogV1 != "" {
		return nil
	}
	return verdict.Refuse(verdict.LegacyNeedsRekorV1, "signing config", "older clients look signatures up in a Rekor v1 log, and it names none that is valid now; nothing was signed")
}

// Chain is the chain of authorities of a certificate, from the trust root; none
// if it has none there.
func (s *Signer) Chain(certificate []byte) (chain [][]byte) {
	leaf, err := x509.ParseCertificate(certificate)
	if err != nil {
		return nil
	}
	chains, err := sigstore.VerifyLeafCertificate(leaf.NotBefore, leaf, s.authority.material)
	if err != nil || len(chains) == 0 {
		return nil
	}
	for _, c := range chains[0][1:] {
		chain = append(chain, c.Raw)
	}
	return chain
}

// asLegacy has a content signed in the form from before bundles. What comes of
// it is a bundle of version 0.1 with everything that the legacy forms consist
// of: see [legacy.Open].
func (s *Signer) asLegacy(c content, o Order) (content, error) {
	if err := s.NeedLegacy(); err != nil {
		return content{}, err
	}
	c.kind = "older " + c.kind // the word in journals that were begun before
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

// add has the log include a signature while its certificate lives, and looks
// it up when it does not, or when the log has it already. How long a fresh one
// lives is counted from when it was had, for our clock may be wrong; of one that
// an earlier run left only its own word is there.
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
		r.until = leaf.NotAfter.Add(-spare)
	}
	lives := func() bool { return l.clock().Before(r.until) }
	if lives() {
		err = l.ride(ctx, lives, func(ctx context.Context) (err error) {
			a, err = l.submit(ctx, m, body)
			return err
		})
		var away *awayError
		if !errors.As(err, &away) || lives() || l.work.Patience == 0 || ctx.Err() != nil {
			return a, err
		}
	}
	// It may have been offered before, and may be there.
	err = l.ride(ctx, always, func(ctx context.Context) (err error) {
		a, err = l.lookUp(ctx, m, body)
		return err
	})
	return a, err
}

// submit offers an entry once.
func (l *legacyLog) submit(ctx context.Context, m legacy.Material, body []byte) (answer, error) {
	raw, status, err := l.post(ctx, "log/entries", body, http.StatusCreated, http.StatusConflict)
	if err != nil {
		return answer{}, err
	}
	if status == http.StatusConflict {
		a, err := l.lookUp(ctx, m, body)
		if errors.Is(err, errUnlogged) {
			return answer{}, l.refuse("it says that it has the signature, and has none when it is asked for it")
		}
		return a, err
	}
	return answer{legacy: raw}, check(m, raw)
}

// lookUp asks for the entry that the log made of the very same proposal.
func (l *legacyLog) lookUp(ctx context.Context, m legacy.Material, body []byte) (answer, error) {
	question, err := json.Marshal(map[string][]json.RawMessage{"entries": {body}})
	if err != nil {
		return answer{}, verdict.Wrap(verdict.InternalBug, l.name, err)
	}
	raw, _, err := l.post(ctx, "log/entries/retrieve", question, http.StatusOK)
	if err != nil {
		return answer{}, err
	}
	var found []json.RawMessage
	if err := json.Unmarshal(raw, &found); err != nil {
		return answer{}, l.refuse("its answer is no list of entries: %v", err)
	}
	if len(found) == 0 {
		return answer{}, errUnlogged
	}
	return answer{legacy: found[0], had: true}, check(m, found[0])
}

// check holds an answer against the signature before it is kept.
func check(m legacy.Material, raw []byte) error {
	_, entry, err := legacy.ParseAnswer(raw)
	if err != nil {
		return err
	}
	_, err = m.With(entry)
	return err
}

func (l *legacyLog) post(ctx context.Context, what string, body []byte, expected ...int) ([]byte, int, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, strings.TrimSuffix(l.address, "/")+"/api/v1/"+what, bytes.NewReader(body))
	if err != nil {
		return nil, 0, l.refuse("%v", err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json")
	raw, response, err := l.doLimit(r, legacy.MaxBundle, "", expected...)
	if err != nil {
		return nil, 0, err
	}
	return raw, response.StatusCode, nil
}
