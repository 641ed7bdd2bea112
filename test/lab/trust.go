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
	second  *second // nil where the lab has one of each
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
	logs := map[string]*root.TransparencyLog{hex.EncodeToString(rekor.ID): rekor}
	stamps := timestampAuthorities(urls, p.tsa)
	if p.second != nil {
		other := *rekor
		other.BaseURL, other.ID, other.PublicKey = "http://"+rekor2Origin, p.second.rekor.id, p.second.rekor.public
		logs[hex.EncodeToString(other.ID)] = &other
		stamps = append(stamps, p.second.stamps.authority(urls.TSA2))
	}
	v1 := &root.TransparencyLog{
		BaseURL: urls.RekorV1, PublicKey: p.rekorV1.public,
		HashFunc: crypto.SHA256, SignatureHashFunc: crypto.SHA256, ValidityPeriodStart: since,
	}
	if v1.ID, err = hex.DecodeString(p.rekorV1.id); err != nil {
		return nil, fmt.Errorf("reading the v1 log's id: %w", err)
	}
	logs[p.rekorV1.id] = v1
	tr, err := root.NewTrustedRoot(root.TrustedRootMediaType01, []root.CertificateAuthority{fulcioAuthority(urls, p.fulcio)},
		map[string]*root.TransparencyLog{hex.EncodeToString(ct.ID): ct}, stamps, logs)
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

// Signing says which services a signing configuration names, and how many of
// them each signature must be brought before. The zero value is what
// [Lab.SigningConfig] is: one of each, any one of them.
type Signing struct {
	// V1 names the log of version 1, too.
	V1 bool
	// Selector is of the logs and of the timestamp authorities; zero is ANY.
	Selector trustroot.ServiceSelector
	// Count is for EXACT.
	Count uint32
	// Until ends the validity of everything, if it is set.
	Until time.Time
}

// SigningConfigFor writes another signing configuration.
func (l *Lab) SigningConfigFor(s Signing) ([]byte, error) { return signingConfig(l.URLs, s) }

func signingConfig(urls URLs, s Signing) ([]byte, error) {
	since := time.Now().Add(-time.Hour)
	service := func(url string, api uint32, operator string) root.Service {
		return root.Service{URL: url, MajorAPIVersion: api, Operator: operator, ValidityPeriodStart: since, ValidityPeriodEnd: s.Until}
	}
	selector := root.ServiceConfiguration{Selector: s.Selector, Count: s.Count}
	if s.Selector == trustroot.ServiceSelector_SERVICE_SELECTOR_UNDEFINED {
		selector.Selector = trustroot.ServiceSelector_ANY
	}
	logs, stamps := []root.Service{service(urls.Rekor, 2, Mark)}, []root.Service{service(urls.TSA, 1, Mark)}
	if urls.Rekor2 != "" {
		logs, stamps = append(logs, service(urls.Rekor2, 2, Mark+" 2")), append(stamps, service(urls.TSA2, 1, Mark+" 2"))
	}
	if s.V1 {
		logs = append(logs, service(urls.RekorV1, 1, Mark))
	}
	sc, err := root.NewSigningConfig(root.SigningConfigMediaType02, []root.Service{service(urls.Fulcio, 1, Mark)}, []root.Service{service(urls.Issuer, 1, Mark)},
		logs, selector, stamps, selector)
	if err != nil {
		return nil, fmt.Errorf("composing the signing configuration: %w", err)
	}
	b, err := json.Marshal(sc)
	if err != nil {
		return nil, fmt.Errorf("encoding the signing configuration: %w", err)
	}
	return b, nil
}
