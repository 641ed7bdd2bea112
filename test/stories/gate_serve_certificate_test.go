package stories

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"net"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/waybill-release/waybill/test/scene"
)

// authority signs certificates: of the service, and of those who ask it.
type authority struct {
	t    *testing.T
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{t: t}
	a.cert = &x509.Certificate{IsCA: true, BasicConstraintsValid: true, NotAfter: time.Now().Add(time.Hour)}
	a.cert, a.key = a.signed(a.cert)
	return a
}

// signed is a certificate of this authority, or its own, and the key of it.
func (a *authority) signed(c *x509.Certificate) (*x509.Certificate, *ecdsa.PrivateKey) {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	by := a.key
	if by == nil {
		by = key
	}
	c.SerialNumber, c.NotBefore = big.NewInt(time.Now().UnixNano()), time.Now().Add(-time.Hour)
	raw, err := x509.CreateCertificate(rand.Reader, c, a.cert, key.Public(), by)
	if err != nil {
		a.t.Fatal(err)
	}
	if c, err = x509.ParseCertificate(raw); err != nil {
		a.t.Fatal(err)
	}
	return c, key
}

// write writes a certificate for the machine or a URI, and its key.
func (a *authority) write(s *gatehouse, name, uri string, until time.Time) {
	a.t.Helper()
	c := &x509.Certificate{NotAfter: until, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	if uri != "" {
		u, err := url.Parse(uri)
		if err != nil {
			a.t.Fatal(err)
		}
		c = &x509.Certificate{NotAfter: until, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}, URIs: []*url.URL{u}}
	}
	made, key := a.signed(c)
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		a.t.Fatal(err)
	}
	s.write(name+".crt", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: made.Raw})))
	s.write(name+".key", string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})))
}

// certified: a caller shows the service a certificate in place of a token. It is
// let in as the one whom the certificate names, and is told plainly why not.
func (s *gatehouse) certified() {
	t := s.t
	t.Helper()
	ours, theirs, later := newAuthority(t), newAuthority(t), time.Now().Add(time.Hour)
	s.write("authority.pem", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: ours.cert.Raw})))
	ours.write(s, "server", "", later)
	ours.write(s, "admission", "spiffe://example.test/admission", later)
	ours.write(s, "eve", "spiffe://example.test/eve", later)
	ours.write(s, "late", "spiffe://example.test/admission", time.Now().Add(-time.Minute))
	theirs.write(s, "foreign", "spiffe://example.test/admission", later)
	g := &gatehouse{admin: s.admin, second: "tls-"}
	g.start("tls: {certificate: server.crt, key: server.key, clients: authority.pem}\n")
	defer func() { _ = g.cmd.Process.Kill() }()
	g.callers = strings.Replace(g.callers, "http://", "https://", 1)
	s.Env = []string{"SSL_CERT_FILE=" + s.Path("authority.pem")}
	defer func() { s.Env = nil }()

	image := s.Lab.Registry + "/staging/lantern/lantern:" + scene.Version
	with := func(name string) []string {
		return []string{"--client-certificate", name + ".crt", "--client-key", name + ".key"}
	}
	check := func(more ...string) scene.Result {
		return s.Run(t.Context(), append([]string{"waybill", "gate", "check", image, "--release-version", scene.Version}, more...)...)
	}
	for _, c := range []struct {
		name  string
		flags []string
		code  int
		said  []string
	}{
		{"the caller", with("admission"), 0, []string{"OK ", "Decided by the gate at"}},
		{"nobody", nil, 1, []string{"TOKEN_PARSE", "or a client certificate"}},
		{"somebody else", with("eve"), 1, []string{"TOKEN_SUB", "spiffe://example.test/eve"}},
		{"somebody else, with the token of a caller", append(with("eve"), "--identity-token", "caller=caller.token"), 0, []string{"OK "}},
		{"the caller, for what is not granted", append(with("admission"), "--to", s.Lab.Registry+"/eu/lantern"), 1, []string{"NOT_GRANTED"}},
		{"an expired one", with("late"), 1, []string{"TOKEN_SUB", "expired or not yet valid", "renew the certificate"}},
		{"one of another authority", with("foreign"), 1, []string{"TOKEN_SUB", "unknown certificate authority", "tls.clients"}},
		{"without its key", []string{"--client-certificate", "admission.crt"}, 2, []string{"--client-key", "required"}},
		{"a key alone", []string{"--client-key", "admission.key"}, 2, []string{"--client-certificate", "required"}},
		{"with another key", []string{"--client-certificate", "admission.crt", "--client-key", "eve.key"}, 2, []string{"does not match", "provide PEM files"}},
		{"one that is not there", with("nobody"), 2, []string{"nobody.crt", "no such file"}},
		{"to override", append(with("admission"), "--to", "x/y", "--exception", "admission.crt"), 2, []string{"a certificate can be used again", "jti"}},
	} {
		t.Run(c.name, func(t *testing.T) { want(t, check(append(c.flags, "--server", g.callers)...), c.code, c.said...) })
	}
	want(t, check(append(with("admission"), "--server", s.callers)...), 2, "a client certificate needs TLS")
	want(t, check(append(with("admission"), "--policy", "policy.yaml")...), 2, "--server")
	audit := func(flags ...string) scene.Result {
		return s.Run(t.Context(), append([]string{"waybill", "gate", "audit", "--server", g.callers}, flags...)...)
	}
	want(t, audit(with("admission")...), 0, "admission", "accepted", "--head ")
	want(t, audit(with("eve")...), 1, "TOKEN_SUB")
	want(t, s.Run(t.Context(), append([]string{"waybill", "gate", "audit", "gate.log"}, with("admission")...)...), 2, "--server")
	if log := g.log(); !strings.Contains(log, `"principal":"admission"`) || strings.Contains(log, "PRIVATE") {
		t.Errorf("the record does not say who asked, or says too much:\n%s", log)
	}
}
