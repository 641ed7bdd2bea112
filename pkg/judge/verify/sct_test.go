package verify

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	ctx509 "github.com/google/certificate-transparency-go/x509"
	"github.com/sigstore/sigstore-go/pkg/root"
	sigstore "github.com/sigstore/sigstore-go/pkg/verify"
)

// seenBy is the chain of a genuine certificate, and the logs that may have seen
// it.
func seenBy(t testing.TB) ([]*x509.Certificate, root.TrustedMaterial) {
	t.Helper()
	m, v := known(t, "blob")
	found, err := chained(m.leaf, v.material, []time.Time{m.leaf.NotBefore}, v.seen)
	if err != nil {
		t.Fatal(err)
	}
	return found.chains[0], v.material
}

// logsOf are copies, each changed.
func logsOf(trusted root.TrustedMaterial, change func(*root.TransparencyLog)) map[string]*root.TransparencyLog {
	logs := maps.Clone(trusted.CTLogs())
	for id, log := range logs {
		changed := *log
		change(&changed)
		logs[id] = &changed
	}
	return logs
}

// A log is counted once, for its own promise about this certificate below this
// issuer, within the log's own window.
func TestPromisesOfCertificateLogs(t *testing.T) {
	chain, trusted := seenBy(t)
	other, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	large, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	same := func(*root.TransparencyLog) {}
	at := promisesIn(chain[0])[0].at
	for _, row := range []struct {
		name   string
		chains [][]*x509.Certificate
		change func(*root.TransparencyLog)
		want   int
	}{
		{"as it is", [][]*x509.Certificate{chain}, same, 1},
		{"by two chains", [][]*x509.Certificate{chain, chain}, same, 1},
		{"by the second chain", [][]*x509.Certificate{{chain[0], chain[0]}, chain}, same, 1},
		{"below another issuer", [][]*x509.Certificate{{chain[0], chain[0]}}, same, 0},
		{"below nobody", [][]*x509.Certificate{{chain[0]}}, same, 0},
		{"by another key", [][]*x509.Certificate{chain}, func(l *root.TransparencyLog) { l.PublicKey = other.Public() }, 0},
		{"by a key of another curve", [][]*x509.Certificate{chain}, func(l *root.TransparencyLog) { l.PublicKey = large.Public() }, 0},
		{"by a key of another kind", [][]*x509.Certificate{chain}, func(l *root.TransparencyLog) { l.PublicKey = ed25519.PublicKey(make([]byte, 32)) }, 0},
		{"from its time on", [][]*x509.Certificate{chain}, func(l *root.TransparencyLog) { l.ValidityPeriodStart = time.UnixMilli(at) }, 1},
		{"until its time", [][]*x509.Certificate{chain}, func(l *root.TransparencyLog) { l.ValidityPeriodEnd = time.UnixMilli(at) }, 1},
		{"before the log's window", [][]*x509.Certificate{chain}, func(l *root.TransparencyLog) { l.ValidityPeriodStart = time.UnixMilli(at + 1) }, 0},
		{"after the log's window", [][]*x509.Certificate{chain}, func(l *root.TransparencyLog) { l.ValidityPeriodEnd = time.UnixMilli(at - 1) }, 0},
	} {
		if got := promises(row.chains, logsOf(trusted, row.change)); got != row.want {
			t.Errorf("%s: %d logs promised, want %d", row.name, got, row.want)
		}
	}
	if got := promises([][]*x509.Certificate{chain}, nil); got != 0 {
		t.Errorf("logs that nobody trusts: %d", got)
	}
}

// What holds here holds for the library, whichever byte of the certificate is
// another one, and in whichever way.
func TestPromisesHoldForTheLibrary(t *testing.T) {
	chain, trusted := seenBy(t)
	read, held := 0, 0
	for i := range chain[0].Raw {
		for _, step := range []byte{1, 2, 0x40, 0x80, 0xff} {
			der := bytes.Clone(chain[0].Raw)
			der[i] += step
			leaf, err := x509.ParseCertificate(der)
			if err != nil {
				continue
			}
			read++
			chains := [][]*x509.Certificate{{leaf, chain[1]}}
			if promises(chains, trusted.CTLogs()) == 0 {
				continue
			}
			held++
			if err := sigstore.VerifySignedCertificateTimestamp(chains, 1, trusted); err != nil {
				t.Fatalf("byte %d is %#x more: %v", i, step, err)
			}
		}
	}
	// The certificate's own signature is not what the log has seen.
	if read < 500 || held == 0 || held == read {
		t.Errorf("%d certificates were read, of %d the promise holds", read, held)
	}
}

// What logs have seen is the certificate without the list, wherever that stands
// and however long the rest is; the library reads it anew and writes it again.
func TestUnpromised(t *testing.T) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	extra := func(n, size int) pkix.Extension {
		return pkix.Extension{Id: asn1.ObjectIdentifier{1, 3, 6, 1, 4, 1, 57264, 1, n}, Critical: n%2 == 0, Value: bytes.Repeat([]byte{byte(n)}, size)}
	}
	promise := pkix.Extension{Id: oidSCTs, Value: []byte{4, 2, 0, 0}}
	for _, size := range []int{0, 1, 100, 127, 128, 200, 255, 256, 1000, 65_000, 70_000} {
		for at := range 4 {
			extensions := slices.Insert([]pkix.Extension{extra(1, 3), extra(2, size), extra(3, 1)}, at, promise)
			der := made(t, key, extensions)
			ours, ok := unpromised(der)
			theirs, err := ctx509.RemoveSCTList(der)
			if err != nil || !ok || !bytes.Equal(ours, theirs) {
				t.Errorf("%d bytes, the list at %d: %t, the library: %v", size, at, ok, err)
			}
		}
	}
	for name, extensions := range map[string][]pkix.Extension{"no list": {extra(1, 3)}, "nothing else": {promise}} {
		der := made(t, key, extensions)
		if _, ok := unpromised(der); ok {
			t.Errorf("%s: it is read", name)
		}
	}
	der := made(t, key, []pkix.Extension{extra(1, 3), promise})
	for i := range der {
		if _, ok := unpromised(der[:i]); ok {
			t.Errorf("the first %d bytes are read", i)
		}
	}
	if _, ok := unpromised(append(der, 0)); ok {
		t.Error("what follows is read")
	}
}

// made is what is signed of a certificate with these extensions and no others.
func made(t *testing.T, key *ecdsa.PrivateKey, extensions []pkix.Extension) []byte {
	t.Helper()
	template := &x509.Certificate{ExtraExtensions: extensions, NotBefore: day0, NotAfter: day0.Add(time.Hour), Subject: pkix.Name{CommonName: fmt.Sprint(len(extensions))}}
	leaf, _ := issueTo(t, template, template, key)
	return leaf.RawTBSCertificate
}
