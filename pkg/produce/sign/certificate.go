package sign

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/sigstore/sigstore-go/pkg/root"
	sigstore "github.com/sigstore/sigstore-go/pkg/verify"

	"github.com/waybill-release/waybill/pkg/produce/sign/token"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// credential is a key, with a certificate that is valid for minutes, or
// without one for a key that the policy lists.
type credential struct {
	key            crypto.Signer
	public         []byte            // PKIX, DER
	leaf           *x509.Certificate // nil for a key that has none
	until          time.Time         // by our clock; zero for ever
	expiryReported sync.Once         // expiry before use was reported
}

// usableAt reports whether there is time left to sign and to get a timestamp.
func (c *credential) usableAt(now time.Time) bool {
	return c.until.IsZero() || now.Before(c.until)
}

// validAt reports whether the certificate was valid at a time that an authority
// signed.
func (c *credential) validAt(at time.Time) bool {
	return c.leaf == nil || !at.Before(c.leaf.NotBefore) && !at.After(c.leaf.NotAfter)
}

// sign signs a SHA-256 digest.
func (c *credential) sign(sum []byte) ([]byte, error) {
	signature, err := c.key.Sign(rand.Reader, sum, crypto.SHA256)
	if err != nil {
		return nil, fmt.Errorf("signing: %w", err)
	}
	return signature, nil
}

// authority is the certificate authority, and the trust material with which
// its answers are checked.
type authority struct {
	*service
	material root.TrustedMaterial
	scts     int
}

// JSON of Fulcio's API, version 2.
type (
	certificateRequest struct {
		PublicKeyRequest struct {
			PublicKey struct {
				Algorithm string `json:"algorithm"`
				Content   string `json:"content"`
			} `json:"publicKey"`
			ProofOfPossession []byte `json:"proofOfPossession"`
		} `json:"publicKeyRequest"`
	}
	certificateAnswer struct {
		Embedded struct {
			Chain struct {
				Certificates []string `json:"certificates"`
			} `json:"chain"`
		} `json:"signedCertificateEmbeddedSct"`
	}
)

// certify makes a key and gets a certificate for it with a token. The
// certificate is checked before anything is signed with the key.
func (a *authority) certify(ctx context.Context, text string, said token.Claims) (*credential, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("generating key: %w", err)
	}
	c, err := newCredential(key)
	if err != nil {
		return nil, err
	}
	asked, err := c.request(said.Subject)
	if err != nil {
		return nil, err
	}
	der, err := a.ask(ctx, asked, text)
	if err != nil {
		return nil, err
	}
	if c.leaf, err = x509.ParseCertificate(der); err != nil {
		return nil, verdict.Wrap(verdict.CertParse, "certificate", err)
	}
	return c, a.check(c)
}

// newCredential is a key without a certificate.
func newCredential(key crypto.Signer) (*credential, error) {
	public, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		return nil, fmt.Errorf("encoding public key: %w", err)
	}
	return &credential{key: key, public: public}, nil
}

// request is a certificate request with proof of possession of the key.
func (c *credential) request(subject string) ([]byte, error) {
	sum := sha256.Sum256([]byte(subject))
	proof, err := c.sign(sum[:])
	if err != nil {
		return nil, err
	}
	var r certificateRequest
	r.PublicKeyRequest.PublicKey.Algorithm = "ECDSA"
	r.PublicKeyRequest.PublicKey.Content = string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: c.public}))
	r.PublicKeyRequest.ProofOfPossession = proof
	return json.Marshal(r)
}

// ask sends the request and returns the issued certificate. A refused token
// must not look like an unreachable authority.
func (a *authority) ask(ctx context.Context, body []byte, text string) ([]byte, error) {
	raw, response, err := a.send(ctx, question{path: "/api/v2/signingCert", mediaType: mediaJSON, body: body, secret: text}, http.StatusOK, http.StatusCreated)
	var no *verdict.Error
	if errors.As(err, &no) && response != nil {
		return nil, verdict.Refuse(verdict.TokenRefused, "identity token", "the %s: %s", a.name, no.Finding.Message)
	}
	if err != nil {
		return nil, err
	}
	var answer certificateAnswer
	if err := json.Unmarshal(raw, &answer); err != nil || len(answer.Embedded.Chain.Certificates) == 0 {
		return nil, a.refuse("the answer has no certificate with an embedded SCT")
	}
	block, _ := pem.Decode([]byte(answer.Embedded.Chain.Certificates[0]))
	if block == nil {
		return nil, verdict.Refuse(verdict.CertParse, "certificate", "the certificate is not PEM")
	}
	return block.Bytes, nil
}

// check demands that the certificate is for our key, from a trusted
// authority, and in certificate logs.
func (a *authority) check(c *credential) error {
	key, ok := c.leaf.PublicKey.(interface{ Equal(crypto.PublicKey) bool })
	if !ok || !key.Equal(c.key.Public()) {
		return verdict.Refuse("CERT_KEY", "certificate", "the authority certified a different key than ours")
	}
	return a.checkIssued(c.leaf)
}

func (a *authority) checkIssued(leaf *x509.Certificate) error {
	chains, err := sigstore.VerifyLeafCertificate(leaf.NotBefore, leaf, a.material)
	if err != nil {
		return verdict.Wrap(verdict.ChainUntrusted, "certificate", err)
	}
	if err := sigstore.VerifySignedCertificateTimestamp(chains, a.scts, a.material); err != nil {
		return verdict.Wrap(verdict.SCT, "certificate", err)
	}
	return nil
}

// credential returns the current key and certificate, or gets new ones. The
// identity is read from the token before the certificate is requested, and
// compared with the certificate before its first use.
func (s *Signer) credential(ctx context.Context) (*credential, error) {
	select {
	case s.fetching <- struct{}{}:
		defer func() { <-s.fetching }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if s.current != nil && s.current.usableAt(s.config.Clock()) {
		return s.current, nil
	}
	var fresh *credential
	err := s.authority.retry(ctx, always, func(ctx context.Context) (err error) {
		fresh, err = s.fetch(ctx)
		return err
	})
	if err != nil {
		return nil, err
	}
	s.current = fresh
	return fresh, nil
}

func always() bool { return true }

// fetch gets a token, and with it a certificate. Every attempt gets a new
// token, because tokens may be short-lived.
func (s *Signer) fetch(ctx context.Context) (*credential, error) {
	text, err := s.config.Token(ctx)
	if verdict.OutcomeOf(err) == verdict.Unavailable {
		return nil, s.authority.away(fmt.Errorf("identity token for the %s role: %w", s.config.Role, err))
	}
	if err != nil {
		return nil, fmt.Errorf("identity token for the %s role: %w", s.config.Role, err)
	}
	said, err := token.Read(text)
	if err != nil {
		return nil, err
	}
	now := s.config.Clock()
	if err := said.Check(now); err != nil {
		return nil, err
	}
	if err := s.checkToken(said); err != nil {
		return nil, err
	}
	c, err := s.authority.certify(ctx, text, said)
	if err != nil {
		return nil, err
	}
	if err := s.checkCertificate(c); err != nil {
		return nil, err
	}
	// Only the certificate's duration counts here, because our clock may be
	// wrong. The rest at the end is reserved for the timestamp.
	life := c.leaf.NotAfter.Sub(c.leaf.NotBefore)
	c.until = now.Add(life - min(life/4, time.Minute))
	return c, nil
}

// redactSecret removes a secret from a text.
func redactSecret(text, secret string) string {
	if secret == "" {
		return text
	}
	for _, part := range append([]string{secret}, strings.Split(secret, ".")...) {
		if len(part) > 8 {
			text = strings.ReplaceAll(text, part, "[token]")
		}
	}
	return text
}

// hint identifies a key without a certificate in a bundle, by its digest.
func (c *credential) hint() string {
	sum := sha256.Sum256(c.public)
	return base64.StdEncoding.EncodeToString(sum[:])
}
