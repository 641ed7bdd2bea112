package trust

import (
	"cmp"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"strings"
	"time"

	"github.com/sigstore/sigstore-go/pkg/root"

	"github.com/waybill-release/waybill/pkg/tool/order"
)

// Kind is the kind of an authority.
type Kind string

// The kinds of authority, in the order in which [Root.Authorities] lists them.
const (
	CertificateAuthority Kind = "certificate authority"
	CertificateLog       Kind = "certificate log"
	TransparencyLog      Kind = "transparency log"
	TimestampAuthority   Kind = "timestamp authority"
)

// Authority describes one key of a trust root, for display. Nothing is verified
// with it.
type Authority struct {
	Kind Kind   `json:"kind"`
	URI  string `json:"uri,omitempty"`
	// Subject is the subject of the topmost certificate; empty for a log.
	Subject string `json:"subject,omitempty"`
	// KeyID is the declared identifier of a log, or the SHA-256 of the public
	// key in the topmost certificate; hexadecimal.
	KeyID string `json:"keyId"`
	// From and To bound the time in which the key is trusted. A zero From means
	// no beginning; a zero To means no end yet.
	From time.Time `json:"from,omitzero"`
	To   time.Time `json:"to,omitzero"`
	// Lab says that the subject contains [LabMark].
	Lab bool `json:"insecureLab,omitempty"`
}

// ValidAt reports whether the window includes t; both ends are included.
func (a Authority) ValidAt(t time.Time) bool {
	return !t.Before(a.From) && (a.To.IsZero() || !t.After(a.To))
}

// authorities lists the authorities of a parsed root, sorted by kind and age,
// so that equal roots give equal lists.
func authorities(parsed *root.TrustedRoot) (list []Authority) {
	for _, ca := range parsed.FulcioCertificateAuthorities() {
		if f, ok := ca.(*root.FulcioCertificateAuthority); ok {
			a := Authority{Kind: CertificateAuthority, URI: f.URI, From: f.ValidityPeriodStart, To: f.ValidityPeriodEnd}
			list = append(list, a.certified(f.Root))
		}
	}
	list = append(list, logs(CertificateLog, parsed.CTLogs())...)
	list = append(list, logs(TransparencyLog, parsed.RekorLogs())...)
	for _, tsa := range parsed.TimestampingAuthorities() {
		if s, ok := tsa.(*root.SigstoreTimestampingAuthority); ok {
			a := Authority{Kind: TimestampAuthority, URI: s.URI, From: s.ValidityPeriodStart, To: s.ValidityPeriodEnd}
			list = append(list, a.certified(cmp.Or(s.Root, s.Leaf)))
		}
	}
	return list
}

func logs(kind Kind, parsed map[string]*root.TransparencyLog) (list []Authority) {
	for id, l := range parsed {
		list = append(list, Authority{Kind: kind, URI: l.BaseURL, KeyID: id,
			From: l.ValidityPeriodStart.UTC(), To: l.ValidityPeriodEnd.UTC()})
	}
	order.Sort(list, func(a, b Authority) int {
		return cmp.Or(a.From.Compare(b.From), cmp.Compare(a.KeyID, b.KeyID))
	})
	return list
}

// certified adds what the topmost certificate of a chain contains.
func (a Authority) certified(top *x509.Certificate) Authority {
	a.From, a.To = a.From.UTC(), a.To.UTC()
	if top == nil {
		return a
	}
	key := sha256.Sum256(top.RawSubjectPublicKeyInfo)
	a.Subject, a.KeyID = top.Subject.String(), hex.EncodeToString(key[:])
	a.Lab = strings.Contains(a.Subject, LabMark)
	return a
}
