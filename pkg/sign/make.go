package sign

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/rsa"
	"crypto/x509"
	"errors"
	"fmt"
	"sync/atomic"

	bundles "github.com/sigstore/protobuf-specs/gen/pb-go/bundle/v1"
	common "github.com/sigstore/protobuf-specs/gen/pb-go/common/v1"
	rekor "github.com/sigstore/protobuf-specs/gen/pb-go/rekor/v1"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/waybill-release/waybill/pkg/verdict"
	"github.com/waybill-release/waybill/pkg/verify"
)

// bundleType is the only form that is written.
const bundleType = "application/vnd.dev.sigstore.bundle.v0.3+json"

// rounds is how often one signature is begun anew before that is an error.
const rounds = 5

// Tally counts what a signer did.
type Tally struct {
	// Made are new signatures, Finished those of an earlier run that the log
	// got, or had, and Found those that were there in full.
	Made, Finished, Found int
	// Twice is how many of the finished ones may be in the log twice: the
	// earlier run may have offered them, and the log does not remember.
	Twice int
}

type tally struct{ made, finished, found, twice atomic.Int64 }

// Tally is what was done so far.
func (s *Signer) Tally() Tally {
	t := &s.tally
	return Tally{Made: int(t.made.Load()), Finished: int(t.finished.Load()), Found: int(t.found.Load()), Twice: int(t.twice.Load())}
}

// Retries is how often a service did not answer, and had to be asked again.
func (s *Signer) Retries() (n int) {
	for _, one := range []*service{s.authority.service, s.stamps.service, s.log.service} {
		one.mu.Lock()
		n += one.again
		one.mu.Unlock()
	}
	return n
}

// make signs a content, or takes up what an earlier run left of it.
func (s *Signer) make(ctx context.Context, c content) ([]byte, verify.Evidence, error) {
	kept := s.config.Work.Kept
	if kept == nil {
		return s.complete(ctx, c, record{}, "")
	}
	name := c.name(s.as)
	r, release, err := kept.hold(ctx, name)
	if err != nil {
		return nil, verify.Evidence{}, err
	}
	defer release()
	if r.entry != nil {
		bundle, e, err := s.assemble(c, r)
		if err == nil {
			s.tally.found.Add(1)
			return bundle, e, nil
		}
		r.entry = nil
	}
	if r.Signature != nil {
		if err := s.stillHolds(c, r.made); err != nil {
			s.config.Work.Report("what was kept of %s does not hold, so it is signed anew: %v", name, err)
			r = record{}
		}
	}
	return s.complete(ctx, c, r, name)
}

// complete takes a signature from where it is to a bundle that was verified.
func (s *Signer) complete(ctx context.Context, c content, r record, name string) ([]byte, verify.Evidence, error) {
	var a answer
	var err error
	for round := 0; ; round++ {
		if r.Signature == nil {
			if r, err = s.begin(ctx, c, name); err != nil {
				return nil, verify.Evidence{}, err
			}
		}
		a, err = s.log.add(ctx, c, r.made)
		if !errors.Is(err, errUnplaced) {
			break
		}
		if round == rounds {
			return nil, verify.Evidence{}, verdict.Refuse(verdict.ServiceRefused, s.log.name, "%v, several times in a row", err)
		}
		s.config.Work.Report("%v, so it is signed once more", err)
		s.tally.twice.Add(1)
		r = record{}
	}
	if err != nil {
		return nil, verify.Evidence{}, err
	}
	r.entry = a.entry
	bundle, e, err := s.assemble(c, r)
	if err != nil {
		return nil, verify.Evidence{}, fmt.Errorf("verifying our own signature: %w", err)
	}
	s.count(r, a)
	if kept := s.config.Work.Kept; kept != nil {
		if err := kept.logged(ctx, name, r, s.config.Clock()); err != nil {
			return nil, verify.Evidence{}, err
		}
	}
	return bundle, e, nil
}

func (s *Signer) count(r record, a answer) {
	switch {
	case !r.old:
		s.tally.made.Add(1)
	default:
		s.tally.finished.Add(1)
		if !a.had {
			s.tally.twice.Add(1)
		}
	}
}

// begin signs and has the signature stamped, with a fresh certificate if the
// life of the one at hand passes meanwhile, and keeps both.
func (s *Signer) begin(ctx context.Context, c content, name string) (record, error) {
	for round := 0; ; {
		m, err := s.stamped(ctx, c)
		switch {
		case errors.Is(err, errLapsed):
			continue // the authority's patience bounds it
		case errors.Is(err, errLate) && round < rounds:
			round++
			continue
		case errors.Is(err, errLate):
			return record{}, verdict.Refuse(verdict.TimeCert, "timestamp", "%v, several times in a row; one of the two authorities has a wrong clock", err)
		case err != nil:
			return record{}, err
		}
		if kept := s.config.Work.Kept; kept != nil {
			if err := kept.signed(ctx, name, m, s.config.Clock()); err != nil {
				return record{}, err
			}
		}
		return record{made: m}, nil
	}
}

func (s *Signer) stamped(ctx context.Context, c content) (made, error) {
	cred, err := s.credential(ctx)
	if err != nil {
		return made{}, &sharedError{err}
	}
	signature, err := cred.sign(c.sum)
	if err != nil {
		return made{}, err
	}
	timestamp, err := s.stamps.stamp(ctx, cred, signature)
	if errors.Is(err, errLapsed) || errors.Is(err, errLate) {
		cred.told.Do(func() { s.config.Work.Report("%v; signing anew", err) })
		s.drop(ctx, cred)
	}
	if err != nil {
		return made{}, err
	}
	m := made{Signature: signature, Timestamp: timestamp}
	if cred.leaf != nil {
		m.Certificate = cred.leaf.Raw
	} else {
		m.Key = cred.public
	}
	return m, nil
}

// drop forgets a credential whose life has passed, whatever our clock says.
func (s *Signer) drop(ctx context.Context, c *credential) {
	select {
	case s.fetching <- struct{}{}:
		defer func() { <-s.fetching }()
	case <-ctx.Done():
		return
	}
	if s.current == c && c.leaf != nil {
		s.current = nil
	}
}

// stillHolds checks what an earlier run made as if it had just been made: a
// journal proves nothing.
func (s *Signer) stillHolds(c content, m made) error {
	held := &credential{public: m.Key}
	var public any
	var err error
	if len(m.Certificate) > 0 {
		if held.leaf, err = x509.ParseCertificate(m.Certificate); err != nil {
			return verdict.Wrap(verdict.CertParse, "certificate", err)
		}
		if err := errors.Join(s.checkCertificate(held), s.authority.checkIssued(held.leaf)); err != nil {
			return err
		}
		public = held.leaf.PublicKey
	} else if public, err = x509.ParsePKIXPublicKey(m.Key); err != nil || s.current == nil || !s.current.equal(m) {
		return verdict.Refuse(verdict.CertKey, "signature", "it is of another key")
	}
	if !signedBy(public, c.sum, m.Signature) {
		return verdict.Refuse(verdict.SignatureBad, "signature", "it is not of this content")
	}
	at, err := s.stamps.check(m.Timestamp, m.Signature)
	if err == nil && !held.lives(at) {
		err = verdict.Refuse(verdict.TimeCert, "timestamp", "it lies outside the certificate's life")
	}
	return err
}

// signedBy verifies a signature over a SHA-256 digest, for the kinds of keys
// that sign here.
func signedBy(public any, sum, signature []byte) bool {
	switch key := public.(type) {
	case *ecdsa.PublicKey:
		return ecdsa.VerifyASN1(key, sum, signature)
	case *rsa.PublicKey:
		return rsa.VerifyPKCS1v15(key, crypto.SHA256, sum, signature) == nil
	}
	return false
}

// assemble makes the bundle and verifies it, as whoever receives it will.
func (s *Signer) assemble(c content, r record) ([]byte, verify.Evidence, error) {
	b := &bundles.Bundle{MediaType: bundleType, VerificationMaterial: &bundles.VerificationMaterial{
		TlogEntries: []*rekor.TransparencyLogEntry{r.entry},
		TimestampVerificationData: &bundles.TimestampVerificationData{
			Rfc3161Timestamps: []*common.RFC3161SignedTimestamp{{SignedTimestamp: r.Timestamp}},
		},
	}}
	if len(r.Certificate) > 0 {
		b.VerificationMaterial.Content = &bundles.VerificationMaterial_Certificate{Certificate: &common.X509Certificate{RawBytes: r.Certificate}}
	} else {
		hint := (&credential{public: r.Key}).hint()
		b.VerificationMaterial.Content = &bundles.VerificationMaterial_PublicKey{PublicKey: &common.PublicKeyIdentifier{Hint: hint}}
	}
	c.put(b, r.Signature)
	raw, err := protojson.Marshal(b)
	if err != nil {
		return nil, verify.Evidence{}, fmt.Errorf("encoding bundle: %w", err)
	}
	e, err := c.prove(s.prover, raw)
	if err != nil {
		return nil, verify.Evidence{}, err
	}
	if err := s.mayAct(e); err != nil {
		return nil, verify.Evidence{}, err
	}
	return raw, e, nil
}

// keyDetails names the kind of a public key, of those that can sign here.
func keyDetails(der []byte) (common.PublicKeyDetails, error) {
	public, err := x509.ParsePKIXPublicKey(der)
	if err != nil {
		return 0, verdict.Wrap(verdict.Usage, "key", err)
	}
	switch key := public.(type) {
	case *ecdsa.PublicKey:
		if key.Curve.Params().BitSize == 256 {
			return common.PublicKeyDetails_PKIX_ECDSA_P256_SHA_256, nil
		}
	case *rsa.PublicKey:
		switch key.N.BitLen() {
		case 2048:
			return common.PublicKeyDetails_PKIX_RSA_PKCS1V15_2048_SHA256, nil
		case 3072:
			return common.PublicKeyDetails_PKIX_RSA_PKCS1V15_3072_SHA256, nil
		case 4096:
			return common.PublicKeyDetails_PKIX_RSA_PKCS1V15_4096_SHA256, nil
		}
	}
	return 0, verdict.Refuse(verdict.Usage, "key", "a key of type %T and this size signs nothing here: use ECDSA P-256, or RSA of 2048, 3072 or 4096 bits", public)
}
