// Package sign makes Sigstore signatures: a bundle v0.3 with a short-lived
// certificate, a transparency log proof and a signed timestamp.
//
// A [Signer] acts in one role. It compares the identity in its token, and then
// in its certificate, with what the policy says of that role before it signs
// anything; it refuses to sign what its role may not say (only a builder signs
// provenance, and a builder signs nothing else; so with the policy's officer
// and its kinds); and it verifies each bundle with pkg/judge/verify before handing it
// out. What leaves here has been verified once already, by the same code that a
// downstream verifier runs.
//
//	signer, err := sign.New(sign.Config{Role: policy.Release, …})
//	bundle, evidence, err := signer.Statement(ctx, statement)
//	err = signer.Each(ctx, orders, keep) // many, some at a time
//
// A signature is made in steps, and no answer is used before it was checked:
// the certificate is of our key, of a trusted authority, seen by certificate
// logs and names the right identity; the timestamp is of our signature, within
// the certificate's life; then signature, certificate and timestamp are kept
// on disk ([Kept]), so that whatever happens next the log is only ever offered
// these same bytes; then the log includes it; then the whole is verified.
//
// A signature is brought before every log and timestamp authority that the
// signing configuration's selectors ask for; see [ParseServices]. An [Order] in
// the legacy form takes the same steps, but is stamped by the log of version 1
// that it is for, and must get there while its certificate lives.
//
// One key and one certificate serve many signatures, within the certificate's
// life. The key never leaves memory. While a service is away a signer waits for
// it with [Work.Patience], and signs anew, with a fresh certificate, what was
// not stamped in time.
package sign

import (
	"bytes"
	"context"
	"crypto"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/sigstore/sigstore-go/pkg/root"

	"github.com/waybill-release/waybill/pkg/backend/transport"
	"github.com/waybill-release/waybill/pkg/document/intoto"
	"github.com/waybill-release/waybill/pkg/judge/policy"
	"github.com/waybill-release/waybill/pkg/judge/verify"
	"github.com/waybill-release/waybill/pkg/produce/sign/token"
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
	// Token returns an OIDC identity token that has not expired. It is asked
	// for each certificate: see pkg/produce/sign/token for where tokens come from.
	Token func(ctx context.Context) (string, error)
	// Clock says when a certificate has been used long enough.
	Clock func() time.Time
	// Work says what is kept, and how long a service is waited for.
	Work Work
}

// Signer signs in one role. It is safe for use by several goroutines.
type Signer struct {
	config    Config
	as        string            // the role, or the key, for the journal
	key       identity.Identity // that signs; zero for an identity
	prover    prover
	authority *authority
	stamps    []*stampAuthority // each stamps every signature
	logs      []*logger         // each has every signature
	legacy    *legacyLog        // for the legacy forms; nil where there is none

	fetching chan struct{} // held by the one that reads or writes current
	current  *credential
	tally    tally
}

// New makes a signer with short-lived certificates. It asks for nothing yet.
func New(c Config) (*Signer, error) {
	if c.Verifier == nil || c.Transport == nil || c.Token == nil || c.Clock == nil {
		return nil, errors.New("preparing signer: verifier, transport, token and clock are required")
	}
	return prepare(c, string(c.Role), c.Verifier)
}

// NewKeyed makes a signer with a long-lived key: of a file, see
// pkg/produce/sign/keyfile, or of whatever keeps keys behind a [crypto.Signer]. The
// policy must name the key in the role; a key that it does not know signs
// nothing. What it signs is verified with that key and no other.
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
		return nil, verdict.Refuse(verdict.ServiceSelector, "signing config", "a signature needs a timestamp authority and a transparency log")
	}
	if len(c.Policy.Expected(c.Role)) == 0 {
		return nil, verdict.Refuse(verdict.SignedAsElse, string(c.Role), "the policy names nobody in the %s role, so nobody may sign that; nothing was signed", c.Role).
			Advise("have the policy's officer name who may, in its roles")
	}
	s := &Signer{
		config: c, as: as, prover: p, fetching: make(chan struct{}, 1),
		authority: &authority{newService("certificate authority", c.Services.Fulcio, c), material, max(c.Policy.Verification().SCTs, 1)},
	}
	for _, address := range c.Services.TSAs {
		s.stamps = append(s.stamps, &stampAuthority{newService("timestamp authority", address, c), material})
	}
	for _, address := range c.Services.Logs {
		s.logs = append(s.logs, &logger{newService("transparency log", address, c), material})
	}
	if address := c.Services.LogV1; address != "" {
		s.legacy = &legacyLog{newService("transparency log of version 1", address, c)}
	}
	return s, nil
}

// Prepare fetches a certificate and holds it against the role, so that a token
// that is wrong stops the work before it begins.
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

// content is what an order is about, if the role may sign it.
func (s *Signer) content(o Order) (content, error) {
	c, err := s.meant(o)
	if err != nil || !o.Legacy {
		return c, err
	}
	return s.asLegacy(c, o)
}

// meant is a content, whatever the form in which it is signed.
func (s *Signer) meant(o Order) (content, error) {
	if o.Statement.IsZero() {
		if ownKindsOnly(s.config.Role) {
			return content{}, verdict.Refuse(verdict.IdentityRole, o.Bytes.SHA256.String(), "the %s role signs statements of its own kinds only", s.config.Role)
		}
		return blob(o.Bytes)
	}
	if !o.Bytes.IsZero() {
		return content{}, errors.New("signing: an order is of a statement or of bytes, not of both")
	}
	if kind := o.Statement.PredicateType(); !mayState(s.config.Role, kind) {
		return content{}, verdict.Refuse(verdict.IdentityRole, kind, "the %s role may not sign this", s.config.Role)
	}
	return statement(o.Statement), nil
}

// mayState reports whether a role may sign a kind of statement. The release
// role signs what no role owns, too; all others sign their own kinds only.
func mayState(role policy.Role, kind string) bool {
	owner := policy.Owner(kind)
	return owner == role || owner == "" && !ownKindsOnly(role)
}

// ownKindsOnly reports whether a role signs statements of its own kinds, and
// nothing else.
func ownKindsOnly(role policy.Role) bool {
	switch role {
	case policy.Builder, policy.Verifier, policy.Officer, policy.Channels, policy.Signoffs, policy.Reconciler:
		return true
	}
	return false
}

// foresee stops a signature by somebody else before anybody is asked for
// anything. A token that does not tell whom a certificate will name passes:
// then the certificate tells.
func (s *Signer) foresee(said token.Claims) error {
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

// OtherKey is the next act of who gave a key that the policy does not know in
// its role.
const OtherKey = "nothing was signed with it; give with --key the one that the policy names in the role, or have the policy's officer add this one"

// checkRole stops a signature by somebody else, or by somebody whose time in
// the role is not now, before anyone sees it.
func (s *Signer) checkRole(who identity.Identity, signs time.Time) error {
	err := s.config.Policy.CheckIdentity(who, s.config.Role, signs)
	if err == nil || verdict.FindingOf("", err).Code == verdict.IdentityWindow {
		return err
	}
	with, fix := "the identity token", verdict.SignedAsElse.Fix()
	if who.Type == identity.Key {
		with, fix = "the key", OtherKey
	}
	f := verdict.Find(verdict.SignedAsElse, string(s.config.Role), "%s is not one of the %s role; nothing was published", with, s.config.Role)
	f.Fix = fix
	return &verdict.Error{Finding: f.Differ(strings.Join(s.config.Policy.Expected(s.config.Role), " or "), who.String())}
}

// checkCertificate holds a certificate against the role; a key has none.
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

// mayAct holds verified evidence against the policy: by the right identity, at
// a time when it may act, of a run such as is asked. Which classes and stages
// the identity is kept to is for the caller to judge, who knows the artifact.
func (s *Signer) mayAct(e verify.Evidence) error {
	if err := s.checkRole(policy.Who(e), e.SignedAt()); err != nil {
		return err
	}
	return policy.ActsSomewhere(s.config.Policy, e, s.config.Role)
}

// equal reports whether a signature was made with this very credential.
func (c *credential) equal(m made) bool {
	if c.leaf != nil {
		return bytes.Equal(c.leaf.Raw, m.Certificate)
	}
	return bytes.Equal(c.public, m.Key)
}
