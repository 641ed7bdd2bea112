// Package sign makes Sigstore signatures: a bundle v0.3 with a short-lived
// certificate, a transparency log proof and a signed timestamp.
//
// A [Signer] acts in one role. Before it signs anything, it compares the
// identity in its token, and then in its certificate, with the identities of
// that role in the policy. It refuses to sign what its role must not state:
// only a builder signs provenance, and a builder signs nothing else; the
// policy's officer and its kinds likewise. It verifies each bundle with
// pkg/judge/verify before returning it. So everything that leaves this
// package has been verified once by the code that downstream verifiers run.
//
//	signer, err := sign.New(sign.Config{Role: policy.Release, …})
//	bundle, evidence, err := signer.Statement(ctx, statement)
//	err = signer.Each(ctx, orders, keep) // many, some at a time
//
// A signature is made in steps, and each answer is checked before it is used:
// the certificate is for our key, from a trusted authority, in certificate
// logs and for the right identity; the timestamp is of our signature, within
// the certificate's validity. Then signature, certificate and timestamp are
// stored on disk ([Kept]), so whatever happens next, the log only ever
// receives these same bytes. Then the log includes the signature, and the
// complete bundle is verified.
//
// A signature goes to every log and timestamp authority that the selectors of
// the signing configuration ask for; see [ParseServices]. An [Order] in the
// legacy form takes the same steps, but its time comes from the Rekor v1 log,
// which must include it while its certificate is valid.
//
// One key and one certificate serve many signatures, while the certificate is
// valid. The key never leaves memory. A signer waits for an unreachable
// service as long as [Work.Patience] says, and signs again, with a fresh
// certificate, what was not timestamped in time.
package sign

import (
	"bytes"
	"context"
	"crypto"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"net/http"
	"strings"
	"time"

	bundles "github.com/sigstore/protobuf-specs/gen/pb-go/bundle/v1"
	common "github.com/sigstore/protobuf-specs/gen/pb-go/common/v1"
	dsse "github.com/sigstore/protobuf-specs/gen/pb-go/dsse"
	"github.com/sigstore/sigstore-go/pkg/root"

	"github.com/waybill-release/waybill/pkg/backend/transport"
	"github.com/waybill-release/waybill/pkg/document/intoto"
	"github.com/waybill-release/waybill/pkg/document/legacy"
	"github.com/waybill-release/waybill/pkg/judge/declaration"
	"github.com/waybill-release/waybill/pkg/judge/policy"
	"github.com/waybill-release/waybill/pkg/judge/verify"
	"github.com/waybill-release/waybill/pkg/produce/sign/token"
	"github.com/waybill-release/waybill/pkg/tool/slice"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/identity"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// Config says who signs and with which services.
type Config struct {
	Role      policy.Role
	Policy    policy.Policy
	Verifier  *verify.Verifier
	Services  Services
	Transport http.RoundTripper
	// Token returns an OIDC identity token that has not expired. It is called
	// for each certificate: see pkg/produce/sign/token for sources of tokens.
	Token func(ctx context.Context) (string, error)
	// Clock is used to decide when a certificate needs to be replaced.
	Clock func() time.Time
	// Work configures storage of signatures, and waiting for services.
	Work Work
}

// Signer signs in one role. It is safe for use by several goroutines.
type Signer struct {
	config    Config
	as        string            // the role, or the key, in the journal
	key       identity.Identity // the key that signs; zero for an identity
	prover    prover
	authority *authority
	stamps    []*stampAuthority // each timestamps every signature
	logs      []*logger         // each includes every signature
	legacy    *legacyLog        // for the legacy forms; nil if there is none

	fetching chan struct{} // locked by the goroutine that reads or writes current
	current  *credential
	tally    tally
}

// New makes a signer with short-lived certificates. It requests nothing yet.
func New(c Config) (*Signer, error) {
	if c.Verifier == nil || c.Transport == nil || c.Token == nil || c.Clock == nil {
		return nil, errors.New("preparing signer: verifier, transport, token and clock are required")
	}
	return prepare(c, string(c.Role), c.Verifier)
}

// NewKeyed makes a signer with a long-lived key: from a file, see
// pkg/produce/sign/keyfile, or from any service with a [crypto.Signer]. The
// policy must list the key in the role, or nothing is signed. Its signatures
// are verified with that key and no other.
func NewKeyed(c Config, key crypto.Signer) (*Signer, error) {
	if c.Verifier == nil || c.Transport == nil || c.Clock == nil || key == nil {
		return nil, errors.New("preparing signer: verifier, transport, key and clock are required")
	}
	v, err := c.Verifier.Key(key.Public())
	if err != nil {
		return nil, err
	}
	held, err := newCredential(key)
	if err != nil {
		return nil, err
	}
	if _, err := keyDetails(held.public); err != nil {
		return nil, err
	}
	s, err := prepare(c, string(c.Role)+" "+v.Digest().String(), v)
	if err != nil {
		return nil, err
	}
	s.key = identity.OfKey(v.Digest())
	if err := s.checkRole(s.key, c.Clock()); err != nil {
		return nil, err
	}
	s.current = held
	return s, nil
}

func prepare(c Config, as string, p prover) (*Signer, error) {
	if c.Work.Report == nil {
		c.Work.Report = func(context.Context, string, ...any) {}
	}
	if c.Work.Pause == nil {
		c.Work.Pause = transport.Sleep
	}
	material, err := root.NewTrustedRootFromJSON(c.Verifier.Root().Raw())
	if err != nil {
		return nil, verdict.Wrap(verdict.TrustRootParse, "trust root", err)
	}
	if len(c.Services.TSAs) == 0 || len(c.Services.Logs) == 0 {
		return nil, verdict.Refuse("SERVICE_SELECTOR", "signing config", "a signature needs a timestamp authority and a transparency log")
	}
	if len(c.Policy.Expected(c.Role)) == 0 {
		return nil, verdict.Refuse(verdict.SignedAsElse, string(c.Role), "the policy lists no identity in the %s role; nothing was signed", c.Role).
			Advise("ask the policy's officer to add an identity to this role")
	}
	s := &Signer{
		config: c, as: as, prover: p, fetching: make(chan struct{}, 1),
		authority: &authority{newService("certificate authority", c.Services.Fulcio, c), material, max(c.Policy.Verification().SCTs, 1)},
	}
	s.stamps = slice.Map(c.Services.TSAs, func(address string) *stampAuthority {
		return &stampAuthority{newService("timestamp authority", address, c), material}
	})
	s.logs = slice.Map(c.Services.Logs, func(address string) *logger { return &logger{newService("transparency log", address, c), material} })
	if address := c.Services.LogV1; address != "" {
		s.legacy = &legacyLog{newService("transparency log of version 1", address, c)}
	}
	return s, nil
}

// Prepare gets a certificate and compares it with the role, so a wrong token
// stops the work before it begins.
func (s *Signer) Prepare(ctx context.Context) error {
	_, err := s.credential(ctx)
	return err
}

// Statement signs an in-toto statement.
func (s *Signer) Statement(ctx context.Context, st intoto.Statement) ([]byte, verify.Evidence, error) {
	return s.order(ctx, Order{Statement: st})
}

// Blob signs the bytes that have these digests, without reading them again.
func (s *Signer) Blob(ctx context.Context, bytes digest.Set) ([]byte, verify.Evidence, error) {
	return s.order(ctx, Order{Bytes: bytes})
}

func (s *Signer) order(ctx context.Context, o Order) ([]byte, verify.Evidence, error) {
	c, err := s.content(o)
	if err != nil {
		return nil, verify.Evidence{}, err
	}
	return s.make(ctx, c)
}

// content is the content of an order, if the role may sign it.
func (s *Signer) content(o Order) (content, error) {
	c, err := s.contentOf(o)
	if err != nil || !o.Legacy {
		return c, err
	}
	return s.asLegacy(c, o)
}

// contentOf is the content of an order, in whatever form it is signed.
func (s *Signer) contentOf(o Order) (content, error) {
	if o.Statement.IsZero() {
		if s.config.Role != policy.Release {
			return content{}, verdict.Refuse(verdict.IdentityRole, o.Bytes.SHA256.String(), "the %s role signs statements of its own kinds only", s.config.Role)
		}
		return blob(o.Bytes)
	}
	if !o.Bytes.IsZero() {
		return content{}, errors.New("signing: an order has a statement or bytes, not both")
	}
	if kind := o.Statement.PredicateType(); !mayState(s.config.Role, kind) {
		return content{}, verdict.Refuse(verdict.IdentityRole, kind, "the %s role may not sign this", s.config.Role)
	}
	return statement(o.Statement), nil
}

// mayState reports whether a role may sign a kind of statement. The release
// role also signs kinds that no role owns; all others sign their own kinds
// only, and those that may declare sign declarations.
func mayState(role policy.Role, kind string) bool {
	if kind == declaration.PredicateType {
		return role.MayDeclare()
	}
	owner := policy.Owner(kind)
	return owner == role || owner == "" && role == policy.Release
}

// checkToken fails early if the token's identity does not have the role,
// before any service is contacted. A token that does not say which identity
// its certificate will name passes: then the certificate is checked.
func (s *Signer) checkToken(said token.Claims) error {
	names := said.Identities()
	for _, who := range names {
		if s.checkRole(who, s.config.Clock()) == nil {
			return nil
		}
	}
	if len(names) == 0 {
		return nil
	}
	return s.checkRole(names[0], s.config.Clock())
}

// OtherKey is the advice for a key that the policy does not list in the role.
const OtherKey = "nothing was signed; use --key with a key that the policy lists in this role, or ask the policy's officer to add this key"

// checkRole refuses an identity that the policy does not list in the role, or
// not at this time, before the signature is published.
func (s *Signer) checkRole(who identity.Identity, signs time.Time) error {
	err := s.config.Policy.CheckIdentity(who, s.config.Role, signs)
	if err == nil || verdict.FindingOf("", err).Code == verdict.IdentityWindow {
		return err
	}
	with, fix := "the identity token", verdict.SignedAsElse.Fix()
	if who.Type == identity.Key {
		with, fix = "the key", OtherKey
	}
	return verdict.Refuse(verdict.SignedAsElse, string(s.config.Role), "the policy does not list %s in the %s role; nothing was published", with, s.config.Role).Differ(strings.Join(s.config.Policy.Expected(s.config.Role), " or "), who.String()).
		Advise(fix)
}

// checkCertificate compares a certificate with the role; a key has none.
func (s *Signer) checkCertificate(c *credential) error {
	if c.leaf == nil {
		return nil
	}
	who, err := verify.CertificateIdentity(c.leaf.Raw)
	if err != nil {
		return err
	}
	return s.checkRole(who, s.config.Clock())
}

// mayAct compares verified evidence with the policy: the right identity, at a
// time when it may act, from a permitted run. Restrictions of the identity to
// classes and stages are for the caller, who knows the artifact.
func (s *Signer) mayAct(e verify.Evidence) error {
	if err := s.checkRole(policy.Who(e), e.SignedAt()); err != nil {
		return err
	}
	return policy.ActsSomewhere(s.config.Policy, e, s.config.Role)
}

func (c *credential) equal(m made) bool {
	if c.leaf != nil {
		return bytes.Equal(c.leaf.Raw, m.Certificate)
	}
	return bytes.Equal(c.public, m.Key)
}

type content struct {
	kind string // for people and the journal
	sum  []byte // the SHA-256 that is signed
	// put adds content and signature to a bundle.
	put func(b *bundles.Bundle, signature []byte)
	// prove verifies the bundle, as its consumers will.
	prove func(v prover, raw []byte) (verify.Evidence, error)
	// legacy makes a signature in a form that predates bundles; nil for a
	// bundle.
	legacy func(made) (legacy.Material, error)
}

// prover verifies signatures: by certificates, or by one key.
type prover interface {
	Attestation(raw []byte) (verify.Evidence, error)
	Blob(raw []byte, artifact digest.Set) (verify.Evidence, error)
}

// name identifies the content in the journal, for a role.
func (c content) name(as string) string {
	return as + " " + c.kind + " sha256:" + hex.EncodeToString(c.sum)
}

// statement is a statement in its DSSE envelope.
func statement(st intoto.Statement) content {
	h := sha256.New()
	_, _ = io.Copy(h, st.PAE()) // both are in memory
	return content{
		kind: "statement", sum: h.Sum(nil),
		put: func(b *bundles.Bundle, signature []byte) {
			b.Content = &bundles.Bundle_DsseEnvelope{DsseEnvelope: &dsse.Envelope{
				Payload: st.Raw(), PayloadType: intoto.PayloadType, Signatures: []*dsse.Signature{{Sig: signature}},
			}}
		},
		prove: func(v prover, raw []byte) (verify.Evidence, error) { return v.Attestation(raw) },
	}
}

// blob is bytes known by their digests, so a file of any size is signed
// without being read again.
func blob(bytes digest.Set) (content, error) {
	if bytes.SHA256.IsZero() {
		return content{}, verdict.Refuse(verdict.NoArtifact, "signature", "no SHA-256 digest to sign")
	}
	sum := bytes.SHA256.Bytes()
	return content{
		kind: "blob", sum: sum,
		put: func(b *bundles.Bundle, signature []byte) {
			b.Content = &bundles.Bundle_MessageSignature{MessageSignature: &common.MessageSignature{
				MessageDigest: &common.HashOutput{Algorithm: common.HashAlgorithm_SHA2_256, Digest: sum}, Signature: signature,
			}}
		},
		prove: func(v prover, raw []byte) (verify.Evidence, error) { return v.Blob(raw, bytes) },
	}, nil
}
