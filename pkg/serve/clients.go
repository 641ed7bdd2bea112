package serve

import (
	"crypto/sha256"
	"crypto/x509"
	"os"
	"sync"
	"time"

	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// authoritiesEvery is how often the file of the client certificate authorities
// is read.
const authoritiesEvery = time.Second

// authorities are the certificate authorities of clients, as currently in their
// file. A certificate is verified again with each request, not only when the
// connection is made: the authority may have been removed, and the certificate
// may have expired.
type authorities struct {
	file string // "" without client certificates

	mu       sync.Mutex // guards the fields below
	pool     *x509.CertPool
	raw      [sha256.Size]byte
	read     time.Time
	verified map[[sha256.Size]byte]time.Time // until when a chain need not be verified again
}

// verify checks that a current authority signed the certificate.
func (a *authorities) verify(chain []*x509.Certificate, now time.Time) error {
	if a.file == "" {
		return nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if since := now.Sub(a.read); a.pool == nil || since < 0 || since >= authoritiesEvery {
		a.renew(now)
	}
	if a.pool == nil || len(chain) == 0 {
		return untrusted("the file of the certificate authorities cannot be read")
	}
	hash := sha256.New()
	for _, c := range chain {
		hash.Write(c.Raw)
	}
	key := [sha256.Size]byte(hash.Sum(nil))
	if now.Before(a.verified[key]) && now.After(a.verified[key].Add(-knownFor)) {
		return nil
	}
	others := x509.NewCertPool()
	for _, c := range chain[1:] {
		others.AddCert(c)
	}
	_, err := chain[0].Verify(x509.VerifyOptions{Roots: a.pool, Intermediates: others, CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
	if err != nil {
		return untrusted(err.Error())
	}
	if a.verified == nil || len(a.verified) >= maxKnown {
		a.verified = map[[sha256.Size]byte]time.Time{}
	}
	a.verified[key] = now.Add(knownFor)
	return nil
}

func untrusted(why string) error {
	return verdict.Refuse(verdict.TokenSub, "certificate", "the certificate does not verify with the current certificate authorities: %s", why)
}

// renew reads the file. An invalid one, perhaps half written, is ignored.
func (a *authorities) renew(now time.Time) {
	raw, err := os.ReadFile(a.file)
	if err != nil {
		return
	}
	a.read = now
	sum := sha256.Sum256(raw)
	if a.pool != nil && sum == a.raw {
		return
	}
	pool := x509.NewCertPool()
	if pool.AppendCertsFromPEM(raw) {
		a.pool, a.raw, a.verified = pool, sum, nil
	}
}
