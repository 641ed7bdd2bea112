package sign

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/rsa"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	bundles "github.com/sigstore/protobuf-specs/gen/pb-go/bundle/v1"
	common "github.com/sigstore/protobuf-specs/gen/pb-go/common/v1"
	rekor "github.com/sigstore/protobuf-specs/gen/pb-go/rekor/v1"
	"golang.org/x/sync/errgroup"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/waybill-release/waybill/pkg/backend/tracing/carry"
	"github.com/waybill-release/waybill/pkg/backend/tracing/span"
	"github.com/waybill-release/waybill/pkg/judge/verify"
	"github.com/waybill-release/waybill/pkg/tool/plural"
	"github.com/waybill-release/waybill/pkg/tool/slice"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// bundleType is the only format that is written.
const bundleType = "application/vnd.dev.sigstore.bundle.v0.3+json"

// maxRounds is how often one signature is tried again before it is an error.
const maxRounds = 5

// Tally counts what a signer did.
type Tally struct {
	// Made are new signatures, Finished those that an earlier run made and
	// this one logged, and Found those that were complete.
	Made, Finished, Found int
	// Twice is how many of the finished ones may be duplicated in the log:
	// the earlier run may have sent them, and the log does not detect
	// duplicates.
	Twice int
	// Entries counts the log entries added by this run, in all logs together;
	// entries of an earlier run are not included if the log reports them.
	Entries int
}

type tally struct{ made, finished, found, twice, entries atomic.Int64 }

// Tally is what was done so far.
func (s *Signer) Tally() Tally {
	t := &s.tally
	return Tally{
		Made: int(t.made.Load()), Finished: int(t.finished.Load()), Found: int(t.found.Load()), Twice: int(t.twice.Load()), Entries: int(t.entries.Load()),
	}
}

// Retries is how often a request had to be repeated because a service did not
// answer.
func (s *Signer) Retries() (n int) {
	for _, one := range s.services() {
		one.mu.Lock()
		n += one.retries
		one.mu.Unlock()
	}
	return n
}

// services are all that a signature may need.
func (s *Signer) services() []*service {
	all := append([]*service{s.authority.service}, slice.Map(s.stamps, func(a *stampAuthority) *service { return a.service })...)
	all = append(all, slice.Map(s.logs, func(l *logger) *service { return l.service })...)
	if s.legacy != nil {
		all = append(all, s.legacy.service)
	}
	return all
}

// make signs a content, or continues the work of an earlier run: one span,
// whatever the number of requests.
func (s *Signer) make(ctx context.Context, c content) (bundle []byte, e verify.Evidence, err error) {
	ctx, end := span.Start(ctx, span.Signature, span.PipelineTaskName.String("sign as "+string(s.config.Role)), span.PipelineTaskType.String("build"))
	defer func() { end(err) }()
	if bundle, e, err = s.resume(ctx, c); err == nil {
		span.Set(ctx, span.AttestationHash.String(digest.Of(digest.SHA256, bundle).String()))
	}
	return bundle, e, err
}

// resume continues where an earlier run ended.
func (s *Signer) resume(ctx context.Context, c content) ([]byte, verify.Evidence, error) {
	kept := s.config.Work.Kept
	if kept == nil {
		return s.complete(ctx, c, record{}, "")
	}
	name := c.name(s.as)
	r, release, err := kept.lock(ctx, name)
	if err != nil {
		return nil, verify.Evidence{}, err
	}
	defer release()
	if r.logged() {
		bundle, e, err := s.assemble(c, r)
		if err == nil {
			s.tally.found.Add(1)
			return bundle, e, nil
		}
		r.entries, r.answer = nil, nil
	}
	if r.Signature != nil {
		if err := s.checkStored(c, r.made); err != nil {
			s.config.Work.Report(ctx, "the stored signature of %s is not valid, so it is signed again: %v", name, err)
			r = record{}
		}
	}
	return s.complete(ctx, c, r, name)
}

// complete takes a signature from its current state to a verified bundle.
func (s *Signer) complete(ctx context.Context, c content, r record, name string) ([]byte, verify.Evidence, error) {
	var a answer
	var err error
	for round := 0; ; round++ {
		if r.Signature == nil {
			if r, err = s.begin(ctx, c, name); err != nil {
				return nil, verify.Evidence{}, err
			}
		}
		a, err = s.addToLogs(ctx, c, r)
		if !errors.Is(err, errUnplaced) && !errors.Is(err, errUnlogged) {
			break
		}
		if round == maxRounds {
			return nil, verify.Evidence{}, verdict.Refuse(verdict.ServiceRefused, "transparency log", "%v, repeatedly", err)
		}
		s.config.Work.Report(ctx, "%v, so it is signed again", err)
		if errors.Is(err, errUnplaced) {
			s.tally.twice.Add(1)
			s.tally.entries.Add(1) // the log has one entry of this signature
		}
		r = record{}
	}
	if err != nil {
		return nil, verify.Evidence{}, err
	}
	r.entries, r.answer = a.entries, a.legacy
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

// addToLogs gets every log to include a signature: a Rekor v1 log for the legacy
// forms, and all Rekor v2 logs for a bundle. Two addresses of one log are an
// error.
func (s *Signer) addToLogs(ctx context.Context, c content, r record) (answer, error) {
	if c.legacy != nil {
		a, err := s.legacy.add(ctx, c, r)
		s.countEntry(err == nil && !a.had)
		return a, err
	}
	all := answer{had: true, entries: make([]*rekor.TransparencyLogEntry, len(s.logs))}
	had := make([]bool, len(s.logs))
	group, ctx := errgroup.WithContext(ctx)
	for i, log := range s.logs {
		group.Go(func() (err error) {
			all.entries[i], had[i], err = log.add(ctx, c, r.made)
			s.countEntry(err == nil && !had[i])
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return answer{}, err
	}
	seen := map[string]bool{}
	for i, e := range all.entries {
		all.had = all.had && had[i]
		log := hex.EncodeToString(e.GetLogId().GetKeyId())
		if seen[log] {
			return answer{}, s.logs[i].refuse("%s is the same log as another address in the signing configuration", s.logs[i].address)
		}
		seen[log] = true
	}
	return all, nil
}

// countEntry counts an entry that a log has added.
func (s *Signer) countEntry(made bool) {
	if made {
		s.tally.entries.Add(1)
	}
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

// begin signs and gets timestamps, again with a fresh certificate if the
// current one expires, and stores the result.
func (s *Signer) begin(ctx context.Context, c content, name string) (record, error) {
	for round := 0; ; {
		m, until, err := s.stamped(ctx, c)
		switch {
		case errors.Is(err, errLapsed):
			continue // limited by the patience with the authority
		case errors.Is(err, errLate) && round < maxRounds:
			round++
			continue
		case errors.Is(err, errLate):
			return record{}, verdict.Refuse(verdict.TimeCert, "timestamp", "%v, repeatedly; the clock of the certificate or timestamp authority is wrong", err)
		case err != nil:
			return record{}, err
		}
		if kept := s.config.Work.Kept; kept != nil {
			if err := kept.signed(ctx, name, m, s.config.Clock()); err != nil {
				return record{}, err
			}
		}
		return record{made: m, until: until}, nil
	}
}

// stamped signs, and gets timestamps. It returns until when the certificate
// is usable, by our clock; zero for ever.
func (s *Signer) stamped(ctx context.Context, c content) (m made, until time.Time, _ error) {
	cred, err := s.credential(ctx)
	if err != nil {
		return made{}, until, &sharedError{err}
	}
	signature, err := cred.sign(c.sum)
	if err != nil {
		return made{}, until, err
	}
	m = made{Signature: signature, Traceparent: carry.From(ctx).Traceparent()}
	for _, authority := range s.stampsOf(c) {
		timestamp, err := authority.stamp(ctx, cred, signature)
		if errors.Is(err, errLapsed) || errors.Is(err, errLate) {
			cred.expiryReported.Do(func() { s.config.Work.Report(ctx, "%v; signing anew", err) })
			s.drop(ctx, cred)
		}
		if err != nil {
			return made{}, until, err
		}
		m.Timestamps = append(m.Timestamps, timestamp)
	}
	if cred.leaf != nil {
		m.Certificate = cred.leaf.Raw
	} else {
		m.Key = cred.public
	}
	return m, cred.until, nil
}

// stampsOf are the authorities that timestamp a signature: all of them, and
// none in the legacy forms, where the log provides the time.
func (s *Signer) stampsOf(c content) []*stampAuthority {
	if c.legacy != nil {
		return nil
	}
	return s.stamps
}

// drop discards an expired credential, whatever our clock says.
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

// checkStored checks the signature of an earlier run as if it had just been
// made: a journal proves nothing.
func (s *Signer) checkStored(c content, m made) error {
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
		return verdict.Refuse("CERT_KEY", "signature", "the signature is of another key")
	}
	if !signedBy(public, c.sum, m.Signature) {
		return verdict.Refuse(verdict.SignatureBad, "signature", "the signature is not of this content")
	}
	stamps := s.stampsOf(c)
	if len(m.Timestamps) != len(stamps) {
		return verdict.Refuse(verdict.TimeMissing, "signature", "the signature has %s, but the signing configuration requires %d", plural.Of(len(m.Timestamps), "timestamp"), len(stamps))
	}
	for i, authority := range stamps {
		at, err := authority.check(m.Timestamps[i], m.Signature)
		if err == nil && !held.validAt(at) {
			err = verdict.Refuse(verdict.TimeCert, "timestamp", "the time is outside the certificate's validity")
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// signedBy verifies a signature over a SHA-256 digest, for the supported
// kinds of keys.
func signedBy(public any, sum, signature []byte) bool {
	switch key := public.(type) {
	case *ecdsa.PublicKey:
		return ecdsa.VerifyASN1(key, sum, signature)
	case *rsa.PublicKey:
		return rsa.VerifyPKCS1v15(key, crypto.SHA256, sum, signature) == nil
	}
	return false
}

// assemble makes the bundle and verifies it, as its consumers will.
func (s *Signer) assemble(c content, r record) ([]byte, verify.Evidence, error) {
	encode := s.encode
	if c.legacy != nil {
		encode = encodeLegacy
	}
	raw, err := encode(c, r)
	if err != nil {
		return nil, verify.Evidence{}, err
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

func (s *Signer) encode(c content, r record) ([]byte, error) {
	if len(r.entries) != len(s.logs) {
		return nil, verdict.Refuse(verdict.LogMissing, "signature", "log entries: %d, but the signing configuration requires %d", len(r.entries), len(s.logs))
	}
	stamps := &bundles.TimestampVerificationData{Rfc3161Timestamps: slice.Map(r.Timestamps, func(stamp []byte) *common.RFC3161SignedTimestamp {
		return &common.RFC3161SignedTimestamp{SignedTimestamp: stamp}
	})}
	b := &bundles.Bundle{MediaType: bundleType, VerificationMaterial: &bundles.VerificationMaterial{TlogEntries: r.entries, TimestampVerificationData: stamps}}
	if len(r.Certificate) > 0 {
		b.VerificationMaterial.Content = &bundles.VerificationMaterial_Certificate{Certificate: &common.X509Certificate{RawBytes: r.Certificate}}
	} else {
		hint := (&credential{public: r.Key}).hint()
		b.VerificationMaterial.Content = &bundles.VerificationMaterial_PublicKey{PublicKey: &common.PublicKeyIdentifier{Hint: hint}}
	}
	c.put(b, r.Signature)
	raw, err := protojson.Marshal(b)
	if err != nil {
		return nil, fmt.Errorf("encoding bundle: %w", err)
	}
	return raw, nil
}

// keyDetails names the kind of a public key, if it is supported.
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
	return 0, verdict.Refuse(verdict.Usage, "key", "unsupported key of type %T and this size: use ECDSA P-256, or RSA of 2048, 3072 or 4096 bits", public)
}
