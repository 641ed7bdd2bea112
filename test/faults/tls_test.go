package faults_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/waybill-release/waybill/test/faults"
)

// authority is a certificate authority that this machine is told to believe.
type authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "INSECURE LAB faults"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	raw, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	certificate, err := x509.ParseCertificate(raw)
	if err != nil {
		t.Fatal(err)
	}
	return authority{certificate, key}
}

// certify makes a certificate for an address that ended so long after now.
func (a authority) certify(t *testing.T, ip string, life time.Duration) tls.Certificate {
	t.Helper()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "faults"}, IPAddresses: []net.IP{net.ParseIP(ip)},
		NotBefore: time.Now().Add(-2 * time.Hour), NotAfter: time.Now().Add(life), ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	raw, err := x509.CreateCertificate(rand.Reader, template, a.certificate, a.key.Public(), a.key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{raw}, PrivateKey: a.key}
}

// trustInit fetches the trust root over TLS, believing an authority.
func trustInit(t *testing.T, url string, believed authority) (code int, said string) {
	t.Helper()
	dir := t.TempDir()
	ca, root := filepath.Join(dir, "ca.pem"), filepath.Join(dir, "root.json")
	block := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: believed.certificate.Raw})
	for name, raw := range map[string][]byte{ca: block, root: staged.Lab.TUFRoot} {
		if err := os.WriteFile(name, raw, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	r := runWith(t, []string{"SSL_CERT_FILE=" + ca}, "waybill", "trust", "init", "--tuf", url, "--root", root, "--cache", filepath.Join(dir, "cache"))
	return r.Code, r.Stderr
}

// Row 13: TLS that proves nothing.
func TestRow13TLS(t *testing.T) {
	t.Parallel()
	ours, theirs := newAuthority(t), newAuthority(t)
	for _, c := range []struct {
		name   string
		config *tls.Config
		code   int
		said   string
	}{
		{"good", &tls.Config{Certificates: []tls.Certificate{ours.certify(t, "127.0.0.1", time.Hour)}}, 0, ""},
		{"expired", &tls.Config{Certificates: []tls.Certificate{ours.certify(t, "127.0.0.1", -time.Hour)}}, 3, "expired"},
		{"another host", &tls.Config{Certificates: []tls.Certificate{ours.certify(t, "127.0.0.2", time.Hour)}}, 3, "certificate is valid for"},
		{"unknown authority", &tls.Config{Certificates: []tls.Certificate{theirs.certify(t, "127.0.0.1", time.Hour)}}, 3, "unknown authority"},
		{"older protocol", &tls.Config{MaxVersion: tls.VersionTLS11, MinVersion: tls.VersionTLS10, Certificates: []tls.Certificate{ours.certify(t, "127.0.0.1", time.Hour)}}, 3, "version"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p := faults.BeforeTLS(t, staged.Lab.TUF, c.config)
			code, said := trustInit(t, p.URL, ours)
			if code != c.code || !contains(said, c.said) {
				t.Errorf("status %d, want %d\n%s", code, c.code, said)
			}
			if c.code != 0 && len(p.Seen()) > 0 {
				t.Errorf("%d requests were sent to whoever that is", len(p.Seen()))
			}
		})
	}
	t.Run("to plain http", func(t *testing.T) {
		t.Parallel()
		config := &tls.Config{Certificates: []tls.Certificate{ours.certify(t, "127.0.0.1", time.Hour)}}
		plain := faults.Before(t, staged.Lab.TUF)
		p := faults.BeforeTLS(t, staged.Lab.TUF, config, faults.Fault{Do: faults.Redirects(plain.URL + "…")})
		if code, said := trustInit(t, p.URL, ours); code != 3 || !contains(said, "leaves https") || len(plain.Seen()) > 0 {
			t.Errorf("status %d, %d requests\n%s", code, len(plain.Seen()), said)
		}
	})
	t.Run("row 8, a handshake that stalls", func(t *testing.T) {
		t.Parallel()
		silent, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer silent.Close() // which ends what waits in its queue; nobody accepts
		if code, said := trustInit(t, "https://"+silent.Addr().String(), ours); code != 3 || !contains(said, "timeout") {
			t.Errorf("status %d\n%s", code, said)
		}
	})
}
