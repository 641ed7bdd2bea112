package lab

import (
	"crypto"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"time"

	trustroot "github.com/sigstore/protobuf-specs/gen/pb-go/trustroot/v1"
	"github.com/sigstore/sigstore-go/pkg/root"
)

// parties are those whom the trusted root trusts.
type parties struct {
	ct      *ctLog
	fulcio  *fulcio
	rekor   *rekor
	rekorV1 *rekorV1
	tsa     *tsa
}

func trustedRoot(urls URLs, p parties) ([]byte, error) {
	since := p.fulcio.chain[0].NotBefore
	ctKey, err := x509.ParsePKIXPublicKey(p.ct.der)
	if err != nil {
		return nil, fmt.Errorf("reading the CT log's key: %w", err)
	}
	ct := &root.TransparencyLog{
		BaseURL: urls.CT, ID: p.ct.id[:], PublicKey: ctKey,
		HashFunc: crypto.SHA256, SignatureHashFunc: crypto.SHA256, ValidityPeriodStart: since,
	}
	rekor := &root.TransparencyLog{
		BaseURL: "http://" + rekorOrigin, ID: p.rekor.id, PublicKey: p.rekor.public,
		HashFunc: crypto.SHA256, SignatureHashFunc: crypto.SHA256, ValidityPeriodStart: since,
	}
	v1 := &root.TransparencyLog{
		BaseURL: urls.RekorV1, PublicKey: p.rekorV1.public,
		HashFunc: crypto.SHA256, SignatureHashFunc: crypto.SHA256, ValidityPeriodStart: since,
	}
	if v1.ID, err = hex.DecodeString(p.rekorV1.id); err != nil {
		return nil, fmt.Errorf("reading the v1 log's id: %w", err)
	}
	tr, err := root.NewTrustedRoot(root.TrustedRootMediaType01, []root.CertificateAuthority{fulcioAuthority(urls, p.fulcio)},
		map[string]*root.TransparencyLog{hex.EncodeToString(ct.ID): ct}, timestampAuthorities(urls, p.tsa),
		map[string]*root.TransparencyLog{hex.EncodeToString(rekor.ID): rekor, p.rekorV1.id: v1})
	if err != nil {
		return nil, fmt.Errorf("composing the trusted root: %w", err)
	}
	b, err := json.Marshal(tr)
	if err != nil {
		return nil, fmt.Errorf("encoding the trusted root: %w", err)
	}
	return b, nil
}

func fulcioAuthority(urls URLs, f *fulcio) root.CertificateAuthority {
	top := f.chain[len(f.chain)-1]
	return &root.FulcioCertificateAuthority{
		Root: top, Intermediates: f.chain[:len(f.chain)-1], URI: urls.Fulcio,
		ValidityPeriodStart: top.NotBefore, ValidityPeriodEnd: top.NotAfter,
	}
}

func timestampAuthorities(urls URLs, t *tsa) []root.TimestampingAuthority {
	var out []root.TimestampingAuthority
	for _, c := range t.chains {
		last := len(c) - 1
		out = append(out, &root.SigstoreTimestampingAuthority{
			Leaf: c[0], Intermediates: c[1:last], Root: c[last], URI: urls.TSA,
			ValidityPeriodStart: c[0].NotBefore, ValidityPeriodEnd: c[0].NotAfter,
		})
	}
	return out
}

func signingConfig(urls URLs) ([]byte, error) {
	since := time.Now().Add(-time.Hour)
	service := func(url string, api uint32) []root.Service {
		return []root.Service{{URL: url, MajorAPIVersion: api, Operator: Mark, ValidityPeriodStart: since}}
	}
	one := root.ServiceConfiguration{Selector: trustroot.ServiceSelector_ANY}
	sc, err := root.NewSigningConfig(root.SigningConfigMediaType02, service(urls.Fulcio, 1), service(urls.Issuer, 1),
		service(urls.Rekor, 2), one, service(urls.TSA, 1), one)
	if err != nil {
		return nil, fmt.Errorf("composing the signing configuration: %w", err)
	}
	b, err := json.Marshal(sc)
	if err != nil {
		return nil, fmt.Errorf("encoding the signing configuration: %w", err)
	}
	return b, nil
}
