package main

import (
	"context"
	"crypto"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/pem"
	"errors"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"time"

	ct "github.com/google/certificate-transparency-go"
	ctclient "github.com/google/certificate-transparency-go/client"
	"github.com/google/certificate-transparency-go/jsonclient"
	"github.com/sigstore/fulcio/pkg/ca"
	"github.com/sigstore/fulcio/pkg/ca/baseca"
	"github.com/sigstore/sigstore-go/pkg/sign"

	"github.com/waybill-release/waybill/test/lab"
)

// edit is what a forged certificate says: it changes the certificate that the
// authority is about to sign.
type edit func(*x509.Certificate)

// Name is who the holder is to Fulcio, which is not asked here.
func (edit) Name(context.Context) string { return "" }

// Embed edits the certificate.
func (e edit) Embed(_ context.Context, c *x509.Certificate) error {
	e(c)
	return nil
}

// forger is the lab's own certificate authority in an attacker's hands.
type forger struct {
	lab       *lab.Lab
	authority *baseca.BaseCA
	log       *ctclient.LogClient
	others    map[string]*baseca.BaseCA
}

func newForger(l *lab.Lab) (forger, error) {
	state := filepath.Join(l.Dir(), "state")
	keys, errKey := blocks(filepath.Join(state, "fulcio.key"))
	chain, errChain := blocks(filepath.Join(state, "fulcio.pem"))
	if err := errors.Join(errKey, errChain); err != nil {
		return forger{}, err
	}
	signer, err := x509.ParsePKCS8PrivateKey(keys[0])
	if err != nil {
		return forger{}, err
	}
	held := &ca.SignerCerts{Signer: signer.(crypto.Signer)}
	for _, der := range chain {
		c, err := x509.ParseCertificate(der)
		if err != nil {
			return forger{}, err
		}
		held.Certs = append(held.Certs, c)
	}
	log, err := ctclient.New(l.CT, http.DefaultClient, jsonclient.Options{})
	return forger{lab: l, log: log, authority: &baseca.BaseCA{SignerWithChain: held}, others: map[string]*baseca.BaseCA{}}, err
}

func blocks(path string) (found [][]byte, err error) {
	rest, err := os.ReadFile(path)
	for block := (*pem.Block)(nil); err == nil; {
		if block, rest = pem.Decode(rest); block == nil {
			break
		}
		found = append(found, block.Bytes)
	}
	if err == nil && len(found) == 0 {
		err = errors.New(path + " holds nothing")
	}
	return found, err
}

// author has a certificate that the authority signed and, unless it is a
// secret, that the certificate log has seen.
func (f forger) author(ctx context.Context, r forgery) (author, error) {
	pair, err := sign.NewEphemeralKeypair(nil)
	if err != nil {
		return author{}, err
	}
	honest := honest(f.lab)
	e := edit(func(c *x509.Certificate) {
		honest(c)
		if r.change != nil {
			r.change(c)
		}
	})
	if r.secret {
		final, err := f.authority.CreateCertificate(ctx, e, pair.GetPublicKey())
		if err != nil {
			return author{}, err
		}
		return author{lab: f.lab, pair: pair, der: final.FinalCertificate.Raw}, nil
	}
	der, err := f.logged(ctx, e, pair.GetPublicKey())
	if r.twice && err == nil {
		der, err = f.promisedTwice(der)
	}
	return author{lab: f.lab, pair: pair, der: der}, err
}

func (f forger) logged(ctx context.Context, e edit, key crypto.PublicKey) ([]byte, error) {
	pre, err := f.authority.CreatePrecertificate(ctx, e, key)
	if err != nil {
		return nil, err
	}
	chain := []ct.ASN1Cert{{Data: pre.PreCert.Raw}}
	for _, c := range pre.CertChain {
		chain = append(chain, ct.ASN1Cert{Data: c.Raw})
	}
	seen, err := f.log.AddPreChain(ctx, chain)
	if err != nil {
		return nil, err
	}
	final, err := f.authority.IssueFinalCertificate(ctx, pre, seen)
	if err != nil {
		return nil, err
	}
	return final.FinalCertificate.Raw, nil
}

// honest is the certificate that the authority would have made: one address,
// one issuer.
func honest(l *lab.Lab) edit {
	issuer, subject := l.Identity(lab.RoleRelease)
	return func(c *x509.Certificate) {
		c.EmailAddresses = []string{subject}
		c.ExtraExtensions = issuers(issuer, issuer)
	}
}

// issuers are the two extensions that name the issuer.
func issuers(old, current string) []pkix.Extension {
	text, err := asn1.MarshalWithParams(current, "utf8")
	if err != nil {
		panic("vectors: " + err.Error())
	}
	return []pkix.Extension{
		{Id: asn1.ObjectIdentifier{1, 3, 6, 1, 4, 1, 57264, 1, 1}, Value: []byte(old)},
		{Id: asn1.ObjectIdentifier{1, 3, 6, 1, 4, 1, 57264, 1, 8}, Value: text},
	}
}

// as makes the name of the certificate a URI.
func as(text string) edit {
	return func(c *x509.Certificate) {
		u, err := url.Parse(text)
		if err != nil {
			panic("vectors: " + err.Error())
		}
		c.EmailAddresses, c.URIs = nil, []*url.URL{u}
	}
}

// life sets when the certificate is valid, counted from now.
func life(from, until time.Duration) edit {
	return func(c *x509.Certificate) {
		now := time.Now()
		c.NotBefore, c.NotAfter = now.Add(from), now.Add(until)
	}
}
