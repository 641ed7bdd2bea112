package lab

import (
	"bytes"
	"crypto"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/json"
	"fmt"
	"net/url"
	"time"

	"github.com/digitorus/timestamp"
	"github.com/secure-systems-lab/go-securesystemslib/dsse"
	"github.com/sigstore/sigstore-go/pkg/root"
)

// Domain is a trust domain without logs, as GitHub's own instance is one: a
// certificate authority, whose certificates need not name an issuer, and a timestamp
// authority.
type Domain struct {
	// TrustedRoot is what to verify against.
	TrustedRoot []byte

	authority *authority
	stamps    *stamper
}

// NewDomain makes a domain whose keys are kept in a directory.
func NewDomain(dir string) (*Domain, error) {
	st, err := openState(dir)
	if err != nil {
		return nil, err
	}
	d := &Domain{}
	if d.stamps, err = newStamper(st); err != nil {
		return nil, err
	}
	if d.authority, err = newAuthority("instance", x509.ExtKeyUsageCodeSigning); err != nil {
		return nil, err
	}
	top := d.authority.chain[0]
	made, err := root.NewTrustedRoot(root.TrustedRootMediaType01, []root.CertificateAuthority{&root.FulcioCertificateAuthority{
		Root: top, URI: "https://instance.lab.invalid", ValidityPeriodStart: top.NotBefore,
	}}, nil, []root.TimestampingAuthority{d.stamps.authority("https://stamps.lab.invalid")}, nil)
	if err != nil {
		return nil, err
	}
	d.TrustedRoot, err = json.Marshal(made)
	return d, err
}

// Sign signs a statement as a URI. The certificate names an issuer unless it is empty.
func (d *Domain) Sign(as, issuer string, statement []byte) ([]byte, error) {
	key, err := newECDSA()
	if err != nil {
		return nil, err
	}
	name, err := url.Parse(as)
	if err != nil {
		return nil, err
	}
	t := template("signer")
	t.URIs, t.KeyUsage, t.ExtKeyUsage = []*url.URL{name}, x509.KeyUsageDigitalSignature, []x509.ExtKeyUsage{x509.ExtKeyUsageCodeSigning}
	if issuer != "" {
		text, err := asn1.MarshalWithParams(issuer, "utf8")
		if err != nil {
			return nil, err
		}
		t.ExtraExtensions = []pkix.Extension{{Id: asn1.ObjectIdentifier{1, 3, 6, 1, 4, 1, 57264, 1, 8}, Value: text}}
	}
	signer := *d.authority
	if err := signer.add(t, key); err != nil {
		return nil, err
	}
	const kind = "application/vnd.in-toto+json"
	sum := sha256.Sum256(dsse.PAE(kind, statement))
	signature, err := key.Sign(rand.Reader, sum[:], crypto.SHA256)
	if err != nil {
		return nil, err
	}
	query, err := timestamp.CreateRequest(bytes.NewReader(signature), &timestamp.RequestOptions{Hash: crypto.SHA256})
	if err != nil {
		return nil, err
	}
	token, err := d.stamps.stamp(query)
	if err != nil {
		return nil, fmt.Errorf("stamping at %s: %w", time.Now(), err)
	}
	return json.Marshal(map[string]any{
		"mediaType": "application/vnd.dev.sigstore.bundle.v0.3+json",
		"verificationMaterial": map[string]any{
			"certificate":               map[string]any{"rawBytes": signer.chain[0].Raw},
			"timestampVerificationData": map[string]any{"rfc3161Timestamps": []any{map[string]any{"signedTimestamp": token}}},
		},
		"dsseEnvelope": map[string]any{"payload": statement, "payloadType": kind, "signatures": []any{map[string]any{"sig": signature}}},
	})
}
