package attacks

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/pem"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	ct "github.com/google/certificate-transparency-go"
	ctclient "github.com/google/certificate-transparency-go/client"
	"github.com/google/certificate-transparency-go/jsonclient"
	"github.com/sigstore/fulcio/pkg/ca"
	"github.com/sigstore/fulcio/pkg/ca/baseca"
	bundlepb "github.com/sigstore/protobuf-specs/gen/pb-go/bundle/v1"
	"github.com/sigstore/sigstore-go/pkg/sign"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/waybill-release/waybill/test/lab"
)

// author is a key with a certificate. It signs whatever it is told to: none of
// the product's own checks before signing stand in its way.
type author struct {
	lab  *lab.Lab
	pair sign.Keypair
	der  []byte // nil: signs with the bare key
}

// GetCertificate hands out the certificate there is.
func (a author) GetCertificate(context.Context, sign.Keypair, *sign.CertificateProviderOptions) ([]byte, error) {
	return a.der, nil
}

// authorIn is honestly certified, as a role or an e-mail address.
func authorIn(t testing.TB, l *lab.Lab, as string) author {
	t.Helper()
	a := author{lab: l, pair: newPair(t)}
	fulcio := sign.NewFulcio(&sign.FulcioOptions{BaseURL: l.Fulcio})
	a.der = must[[]byte](t)(fulcio.GetCertificate(t.Context(), a.pair, &sign.CertificateProviderOptions{IDToken: l.Token(as)}))
	return a
}

func (w *world) author(t testing.TB, as string) author {
	t.Helper()
	return authorIn(t, w.Lab, as)
}

func newPair(t testing.TB) sign.Keypair {
	t.Helper()
	pair, err := sign.NewEphemeralKeypair(nil)
	if err != nil {
		t.Fatal(err)
	}
	return pair
}

// sign signs content with everything that a bundle needs. An edit may take
// something away before.
func (a author) sign(t testing.TB, content sign.Content, edits ...func(*sign.BundleOptions)) *bundlepb.Bundle {
	t.Helper()
	options := sign.BundleOptions{
		Context:              t.Context(),
		TimestampAuthorities: []*sign.TimestampAuthority{sign.NewTimestampAuthority(&sign.TimestampAuthorityOptions{URL: a.lab.TSA})},
		TransparencyLogs:     []sign.Transparency{sign.NewRekor(&sign.RekorOptions{BaseURL: a.lab.Rekor, Version: 2})},
	}
	if a.der != nil {
		options.CertificateProvider = a
	}
	for _, edit := range edits {
		edit(&options)
	}
	return must[*bundlepb.Bundle](t)(sign.Bundle(content, a.pair, options))
}

func encode(t testing.TB, b *bundlepb.Bundle) []byte {
	t.Helper()
	return must[[]byte](t)(protojson.Marshal(b))
}

// names is what a forged certificate says of its holder: it edits the
// certificate that the authority is about to sign.
type names func(*x509.Certificate)

// Name is who the holder is to Fulcio, which is not asked here.
func (names) Name(context.Context) string { return "" }

// Embed edits the certificate.
func (n names) Embed(_ context.Context, c *x509.Certificate) error {
	n(c)
	return nil
}

// forger is the lab's own certificate authority in an attacker's hands.
type forger struct {
	lab       *lab.Lab
	authority *baseca.BaseCA
	log       *ctclient.LogClient
}

func (w *world) forger(t testing.TB) forger {
	t.Helper()
	state := filepath.Join(w.Lab.Dir(), "state")
	key := must[any](t)(x509.ParsePKCS8PrivateKey(blocks(t, filepath.Join(state, "fulcio.key"))[0]))
	var chain []*x509.Certificate
	for _, der := range blocks(t, filepath.Join(state, "fulcio.pem")) {
		chain = append(chain, must[*x509.Certificate](t)(x509.ParseCertificate(der)))
	}
	log := must[*ctclient.LogClient](t)(ctclient.New(w.Lab.CT, http.DefaultClient, jsonclient.Options{}))
	return forger{lab: w.Lab, log: log, authority: &baseca.BaseCA{
		SignerWithChain: &ca.SignerCerts{Signer: key.(crypto.Signer), Certs: chain},
	}}
}

func blocks(t testing.TB, path string) [][]byte {
	t.Helper()
	rest := must[[]byte](t)(os.ReadFile(path))
	var found [][]byte
	for {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			return found
		}
		found = append(found, block.Bytes)
	}
}

// author has a certificate that the certificate log has seen.
func (f forger) author(t testing.TB, n names) author {
	t.Helper()
	a := author{lab: f.lab, pair: newPair(t)}
	pre := must[*ca.CodeSigningPreCertificate](t)(f.authority.CreatePrecertificate(t.Context(), n, a.pair.GetPublicKey()))
	chain := []ct.ASN1Cert{{Data: pre.PreCert.Raw}}
	for _, c := range pre.CertChain {
		chain = append(chain, ct.ASN1Cert{Data: c.Raw})
	}
	seen := must[*ct.SignedCertificateTimestamp](t)(f.log.AddPreChain(t.Context(), chain))
	final := must[*ca.CodeSigningCertificate](t)(f.authority.IssueFinalCertificate(t.Context(), pre, seen))
	a.der = final.FinalCertificate.Raw
	return a
}

// unseen has a certificate that no certificate log has seen.
func (f forger) unseen(t testing.TB, n names) author {
	t.Helper()
	a := author{lab: f.lab, pair: newPair(t)}
	final := must[*ca.CodeSigningCertificate](t)(f.authority.CreateCertificate(t.Context(), n, a.pair.GetPublicKey()))
	a.der = final.FinalCertificate.Raw
	return a
}

// weak is a certificate of a key that is too small to sign with.
func (f forger) weak(t testing.TB, n names) []byte {
	t.Helper()
	key := must[*ecdsa.PrivateKey](t)(ecdsa.GenerateKey(elliptic.P224(), rand.Reader))
	return must[*ca.CodeSigningCertificate](t)(f.authority.CreateCertificate(t.Context(), n, key.Public())).FinalCertificate.Raw
}

// email is the honest certificate: one address, one issuer.
func (f forger) email(address string) names {
	return func(c *x509.Certificate) {
		c.EmailAddresses = []string{address}
		f.issuer(f.lab.Issuer)(c)
	}
}

// issuer puts an issuer into both extensions that carry one.
func (f forger) issuer(url string) names {
	return func(c *x509.Certificate) {
		text, err := asn1.MarshalWithParams(url, "utf8")
		if err != nil {
			panic("attacks: " + err.Error())
		}
		c.ExtraExtensions = []pkix.Extension{
			{Id: asn1.ObjectIdentifier{1, 3, 6, 1, 4, 1, 57264, 1, 1}, Value: []byte(url)},
			{Id: asn1.ObjectIdentifier{1, 3, 6, 1, 4, 1, 57264, 1, 8}, Value: text},
		}
	}
}

// then applies one edit after another.
func (n names) then(edit names) names {
	return func(c *x509.Certificate) {
		n(c)
		edit(c)
	}
}
