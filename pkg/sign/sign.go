// Package sign makes keyless Sigstore signatures: a bundle v0.3 with a
// short-lived certificate, a transparency log proof and a signed timestamp.
//
// A [Signer] acts in one role. It compares the identity in its certificate
// with what the policy says of that role before it signs anything, it refuses
// to sign what its role may not say (only a builder signs provenance, and a
// builder signs nothing else; so with the policy's officer and its kinds), and it verifies each bundle with pkg/verify
// before handing it out. What leaves here has been verified once already, by
// the same code that a downstream verifier runs.
//
//	signer, err := sign.New(ctx, sign.Config{Role: policy.Release, …})
//	bundle, evidence, err := signer.Statement(ctx, statement)
//
// One key and one certificate serve many signatures, within the certificate's
// life. The key never leaves memory.
package sign

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/sigstore/sigstore-go/pkg/sign"
	"google.golang.org/protobuf/encoding/protojson"

	exception "github.com/waybill-release/waybill/attestations/exception/v1"
	knowndefects "github.com/waybill-release/waybill/attestations/known-defects/v1"
	signedpolicy "github.com/waybill-release/waybill/attestations/policy/v1"
	"github.com/waybill-release/waybill/pkg/digest"
	"github.com/waybill-release/waybill/pkg/identity"
	"github.com/waybill-release/waybill/pkg/intoto"
	"github.com/waybill-release/waybill/pkg/policy"
	"github.com/waybill-release/waybill/pkg/provenance"
	"github.com/waybill-release/waybill/pkg/verdict"
	"github.com/waybill-release/waybill/pkg/verify"
)

// certificateUse is how long one certificate is used: well within the ten
// minutes that it lives.
const certificateUse = 5 * time.Minute

// Config says who signs and with which services.
type Config struct {
	Role      policy.Role
	Policy    policy.Policy
	Verifier  *verify.Verifier
	Services  Services
	Transport http.RoundTripper
	// Token returns a fresh OIDC identity token.
	Token func(ctx context.Context) (string, error)
	// Clock says when a certificate has been used long enough.
	Clock func() time.Time
}

// Signer signs in one role. It is safe for use by several goroutines.
type Signer struct {
	config Config
	fulcio *sign.Fulcio
	tsa    *sign.TimestampAuthority
	log    *sign.Rekor

	answers *answers
	mu      sync.Mutex // guards current
	current *credential
}

// credential is one key with its certificate.
type credential struct {
	key         *key
	certificate []byte
	since       time.Time
}

// New makes a signer. It asks for nothing yet.
func New(c Config) (*Signer, error) {
	if c.Verifier == nil || c.Transport == nil || c.Token == nil || c.Clock == nil {
		return nil, errors.New("preparing signer: verifier, transport, token and clock are required")
	}
	answers := &answers{next: c.Transport}
	return &Signer{
		config: c, answers: answers,
		fulcio: sign.NewFulcio(&sign.FulcioOptions{BaseURL: c.Services.Fulcio, Transport: answers, Timeout: -1}),
		tsa:    sign.NewTimestampAuthority(&sign.TimestampAuthorityOptions{URL: c.Services.TSA, Transport: c.Transport, Timeout: -1}),
		log:    sign.NewRekor(&sign.RekorOptions{ClientV2: newLogClient(c.Services.Log, c.Transport), Version: 2}),
	}, nil
}

// Prepare fetches a certificate and holds it against the role, so that a token
// that is wrong stops the work before it begins.
func (s *Signer) Prepare(ctx context.Context) error {
	_, err := s.credential(ctx)
	return err
}

// Statement signs an in-toto statement.
func (s *Signer) Statement(ctx context.Context, st intoto.Statement) ([]byte, verify.Evidence, error) {
	if !mayState(s.config.Role, st.PredicateType()) {
		return nil, verify.Evidence{}, verdict.Refuse(verdict.IdentityRole, st.PredicateType(), "the %s role may not sign this", s.config.Role)
	}
	cred, err := s.credential(ctx)
	if err != nil {
		return nil, verify.Evidence{}, err
	}
	bundle, err := s.bundle(ctx, &sign.DSSEData{Data: st.Raw(), PayloadType: intoto.PayloadType}, cred.key, cred)
	if err != nil {
		return nil, verify.Evidence{}, err
	}
	e, err := s.config.Verifier.Attestation(bundle)
	return s.checked(bundle, e, err)
}

// mayState reports whether a role may sign a kind of statement. A builder and
// the policy's officer have kinds of their own: they sign nothing else, and
// nobody else signs those.
func mayState(role policy.Role, kind string) bool {
	owner := policy.Role("")
	switch kind {
	case provenance.PredicateType, provenance.PredicateTypeV02, provenance.PredicateTypeV01:
		owner = policy.Builder
	case signedpolicy.PredicateType, knowndefects.PredicateType, exception.PredicateType:
		owner = policy.Officer
	}
	if role == policy.Builder || role == policy.Officer {
		return owner == role
	}
	return owner == ""
}

// Blob signs the bytes that have these digests, without reading them again.
func (s *Signer) Blob(ctx context.Context, bytes digest.Set) ([]byte, verify.Evidence, error) {
	if s.config.Role == policy.Builder || s.config.Role == policy.Officer {
		return nil, verify.Evidence{}, verdict.Refuse(verdict.IdentityRole, bytes.SHA256.String(), "the %s role signs statements of its own kinds only", s.config.Role)
	}
	cred, err := s.credential(ctx)
	if err != nil {
		return nil, verify.Evidence{}, err
	}
	bundle, err := s.bundle(ctx, &sign.PlainData{Data: bytes.SHA256.Bytes()}, prehashed{cred.key}, cred)
	if err != nil {
		return nil, verify.Evidence{}, err
	}
	e, err := s.config.Verifier.Blob(bundle, bytes)
	return s.checked(bundle, e, err)
}

// checked returns a bundle only with the evidence that it is.
func (s *Signer) checked(bundle []byte, e verify.Evidence, err error) ([]byte, verify.Evidence, error) {
	if err != nil {
		return nil, verify.Evidence{}, fmt.Errorf("verifying our own signature: %w", err)
	}
	if err := s.checkRole(e.Identity()); err != nil {
		return nil, verify.Evidence{}, err
	}
	return bundle, e, nil
}

// checkRole stops a signature by somebody else before anyone sees it.
func (s *Signer) checkRole(who identity.Identity) error {
	if role, known := s.config.Policy.RoleOf(who); known && role == s.config.Role {
		return nil
	}
	f := verdict.Find(verdict.SignedAsElse, string(s.config.Role), "the identity token is not one of the %s role; nothing was published", s.config.Role)
	return &verdict.Error{Finding: f.Differ(strings.Join(s.config.Policy.Expected(s.config.Role), " or "), who.String())}
}

func (s *Signer) bundle(ctx context.Context, content sign.Content, pair sign.Keypair, cred *credential) ([]byte, error) {
	pb, err := sign.Bundle(content, pair, sign.BundleOptions{
		Context:              ctx,
		CertificateProvider:  cred,
		TimestampAuthorities: []*sign.TimestampAuthority{s.tsa},
		TransparencyLogs:     []sign.Transparency{s.log},
	})
	if err != nil {
		return nil, verdict.Wrap(verdict.PlaceDown, "signing services", err)
	}
	raw, err := protojson.Marshal(pb)
	if err != nil {
		return nil, fmt.Errorf("encoding bundle: %w", err)
	}
	return raw, nil
}

// credential returns the current key and certificate, or fetches fresh ones.
// The certificate's identity is compared with the role before its first use.
func (s *Signer) credential(ctx context.Context) (*credential, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.config.Clock()
	if s.current != nil && now.Sub(s.current.since) < certificateUse {
		return s.current, nil
	}
	token, err := s.config.Token(ctx)
	if err != nil {
		return nil, fmt.Errorf("identity token for the %s role: %w", s.config.Role, err)
	}
	if err := checkToken(token, now); err != nil {
		return nil, err
	}
	k, err := newKey()
	if err != nil {
		return nil, err
	}
	cert, err := s.fulcio.GetCertificate(ctx, k, &sign.CertificateProviderOptions{IDToken: token})
	if err != nil && s.answers.refused() {
		return nil, verdict.Wrap(verdict.TokenRefused, "identity token", err)
	}
	if err != nil {
		return nil, verdict.Wrap(verdict.PlaceDown, "certificate authority", err)
	}
	who, err := verify.CertificateIdentity(cert)
	if err != nil {
		return nil, err
	}
	if err := s.checkRole(who); err != nil {
		return nil, err
	}
	s.current = &credential{key: k, certificate: cert, since: now}
	return s.current, nil
}

// GetCertificate hands the certificate to the library, whatever key it asks
// for: the key of this credential is the only one there is.
func (c *credential) GetCertificate(context.Context, sign.Keypair, *sign.CertificateProviderOptions) ([]byte, error) {
	return c.certificate, nil
}
