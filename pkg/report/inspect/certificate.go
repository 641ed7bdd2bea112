package inspect

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/waybill-release/waybill/pkg/judge/verify"
	"github.com/waybill-release/waybill/pkg/tool/slice"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// maxBlocks is how many blocks one PEM file may have.
const maxBlocks = 64

// fromPEM reads certificates and public keys. Nothing is shown of a private
// key, not even whether it parses.
func fromPEM(raw []byte) (Document, error) {
	d := Document{Kind: Collection}
	for rest := raw; len(bytes.TrimSpace(rest)) > 0; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			return Document{}, verdict.Refuse(verdict.CertParse, "PEM", "what follows block %d is not PEM", len(d.Parts))
		}
		if len(d.Parts) == maxBlocks {
			return Document{}, verdict.Refuse(verdict.Limit, "PEM", "more than %d blocks", maxBlocks)
		}
		part, err := fromBlock(block)
		if err != nil {
			return Document{}, err
		}
		d.Parts = append(d.Parts, part)
	}
	if len(d.Parts) == 1 {
		return d.Parts[0], nil
	}
	d.say("blocks", fmt.Sprint(len(d.Parts)))
	return d, nil
}

func fromBlock(block *pem.Block) (Document, error) {
	switch block.Type {
	case "CERTIFICATE":
		return fromDER(block.Bytes)
	case "PUBLIC KEY":
		key, err := x509.ParsePKIXPublicKey(block.Bytes)
		if err != nil {
			if _, named := verify.ParseKey(pem.EncodeToMemory(block)); verdict.FindingOf("", named).Code == verdict.CertLimit {
				return Document{}, named
			}
			return Document{}, verdict.Wrap(verdict.CertParse, "public key", err)
		}
		d := Document{Kind: PublicKey, Digest: digest.Of(digest.SHA256, block.Bytes)}
		d.say("key", keyWords(key))
		d.say("digest", d.Digest.String())
		return d, nil
	}
	return Document{}, verdict.Refuse(verdict.Usage, "PEM", "a block has type %q; want a certificate or a public key", block.Type)
}

func fromEncodedPEM(raw []byte) (Document, error) {
	text, err := base64.StdEncoding.DecodeString(strings.TrimSpace(string(raw)))
	if err != nil {
		return Document{}, verdict.Wrap(verdict.CertParse, "certificate", err)
	}
	return fromPEM(text)
}

func fromDER(der []byte) (Document, error) {
	c, err := x509.ParseCertificate(der)
	if err != nil {
		return Document{}, verdict.Wrap(verdict.CertParse, "certificate", err)
	}
	d := Document{Kind: Certificate, Digest: digest.Of(digest.SHA256, der)}
	if who, err := verify.CertificateIdentity(der); err == nil {
		d.say("identity", who.String())
	}
	for _, name := range names(c) {
		d.say("name", name)
	}
	d.say("subject", c.Subject.String())
	d.say("issued by", c.Issuer.String())
	d.say("serial", fmt.Sprintf("%x", c.SerialNumber))
	d.say("valid from", c.NotBefore.UTC().Format(time.RFC3339))
	d.say("valid until", c.NotAfter.UTC().Format(time.RFC3339))
	d.say("key", keyWords(c.PublicKey))
	if c.IsCA {
		d.say("authority", "yes")
	}
	claims, err := verify.CertificateClaims(der)
	if err != nil {
		d.say("claims", err.Error())
	}
	for name, value := range claims.All() {
		d.say(name, value)
	}
	return d, nil
}

// names lists the names in a certificate, each with its kind.
func names(c *x509.Certificate) []string {
	return slices.Concat(
		slice.Map(c.EmailAddresses, func(s string) string { return "email " + s }),
		slice.Map(c.URIs, func(u *url.URL) string { return "uri " + u.String() }),
		slice.Map(c.DNSNames, func(s string) string { return "dns " + s }),
		slice.Map(c.IPAddresses, func(ip net.IP) string { return "ip " + ip.String() }),
	)
}

func keyWords(key any) string {
	switch k := key.(type) {
	case *ecdsa.PublicKey:
		return "ECDSA " + k.Curve.Params().Name
	case ed25519.PublicKey:
		return "Ed25519"
	case *rsa.PublicKey:
		return fmt.Sprintf("RSA %d bits", k.N.BitLen())
	}
	return fmt.Sprintf("%T", key)
}

// timestamp shows the time in a token. An unreadable token is shown as
// unreadable; verifying it is the verifier's job.
func timestamp(said verify.Said, i int) Document {
	d := Document{Kind: Timestamp, Digest: digest.Of(digest.SHA256, said.Timestamps[i])}
	at, serial, err := said.Timestamp(i)
	if err != nil {
		d.say("unreadable", err.Error())
		return d
	}
	d.say("time", at.UTC().Format(time.RFC3339))
	d.say("serial", fmt.Sprintf("%x", serial))
	return d
}
