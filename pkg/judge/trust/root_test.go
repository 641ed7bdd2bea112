package trust_test

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"math/big"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/sigstore/sigstore-go/pkg/root"

	"github.com/waybill-release/waybill/pkg/judge/trust"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// authorities are the parts of a trusted root, made for the test.
type authorities struct {
	fulcio []root.CertificateAuthority
	ct     map[string]*root.TransparencyLog
	tsa    []root.TimestampingAuthority
	rekor  map[string]*root.TransparencyLog
}

func authority(t *testing.T, organization string) *x509.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{Organization: []string{organization}, CommonName: "an authority"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return cert
}

func log(t *testing.T) map[string]*root.TransparencyLog {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		t.Fatal(err)
	}
	id := sha256.Sum256(der)
	return map[string]*root.TransparencyLog{hex.EncodeToString(id[:]): {
		BaseURL: "https://log.example.test", ID: id[:], HashFunc: crypto.SHA256, PublicKey: key.Public(),
		SignatureHashFunc: crypto.SHA256, ValidityPeriodStart: time.Now().Add(-time.Hour),
	}}
}

func (a authorities) json(t *testing.T) []byte {
	t.Helper()
	made, err := root.NewTrustedRoot(root.TrustedRootMediaType01, a.fulcio, a.ct, a.tsa, a.rekor)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := made.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func whole(t *testing.T, fulcio, tsa string) authorities {
	t.Helper()
	start := time.Now().Add(-time.Hour)
	return authorities{
		fulcio: []root.CertificateAuthority{&root.FulcioCertificateAuthority{Root: authority(t, fulcio), ValidityPeriodStart: start}},
		tsa:    []root.TimestampingAuthority{&root.SigstoreTimestampingAuthority{Root: authority(t, tsa), Leaf: authority(t, tsa), ValidityPeriodStart: start}},
		ct:     log(t), rekor: log(t),
	}
}

func TestParse(t *testing.T) {
	raw := whole(t, "Example", "Example").json(t)
	r, err := trust.Parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	if r.IsZero() || r.IsLab() || string(r.Raw()) != string(raw) || r.Digest() != digest.Of(digest.SHA256, raw) {
		t.Errorf("zero %t, lab %t, digest %s", r.IsZero(), r.IsLab(), r.Digest())
	}
	r.Raw()[0] = 'X'
	if string(r.Raw()) != string(raw) {
		t.Error("what a caller does to a copy reaches the root")
	}
}

func TestZeroRootTrustsNobody(t *testing.T) {
	var r trust.Root
	if !r.IsZero() || !r.Digest().IsZero() || len(r.Raw()) != 0 {
		t.Errorf("the zero root is %v", r)
	}
}

// period is where a root says from when to when an authority is believed.
var period = regexp.MustCompile(`"validFor": *\{[^}]*\}`)

func TestParseRefuses(t *testing.T) {
	without := func(remove func(*authorities)) []byte {
		a := whole(t, "Example", "Example")
		remove(&a)
		return a.json(t)
	}
	valid := string(without(func(*authorities) {}))
	rows := []struct {
		name string
		raw  []byte
		says string
	}{
		{"nobody at all", without(func(a *authorities) { *a = authorities{} }), "contains no authority"},
		{"a key twice", []byte(strings.Replace(valid, `"mediaType":`, `"mediaType":"x","mediaType":`, 1)), "mediaType"},
		{"an authority that ends before it begins", without(func(a *authorities) {
			a.fulcio[0].(*root.FulcioCertificateAuthority).ValidityPeriodEnd = time.Unix(1, 0)
		}), "ends before it begins"},
		{"an end that would stand for none", []byte(period.ReplaceAllString(valid, `"validFor": {"start": "2025-01-01T00:00:00Z", "end": "0001-01-01T00:00:00Z"}`)), "no time is set"},
		{"the same in another zone", []byte(period.ReplaceAllString(valid, `"validFor": {"start": "2025-01-01T00:00:00Z", "end": "0001-01-01T01:00:00+01:00"}`)), "no time is set"},
		{"nothing", nil, ""},
		{"not JSON", []byte("trust me"), ""},
		{"another document", []byte(`{"apiVersion":"waybill/v1"}`), ""},
		{"another version of it", []byte(strings.Replace(valid, "version=0.1", "version=9.9", 1)), "version=9.9"},
		{"a part of it", []byte(valid[:len(valid)/2]), ""},
		{"too much of it", append([]byte(valid), make([]byte, trust.MaxSize)...), "limit"},
	}
	for _, r := range rows {
		t.Run(r.name, func(t *testing.T) {
			got, err := trust.Parse(r.raw)
			if err == nil {
				t.Fatal("accepted")
			}
			if f := verdict.FindingOf("", err); f.Code != verdict.TrustRootParse {
				t.Errorf("refused as %s, want TRUST_ROOT", f.Code)
			}
			if !strings.Contains(err.Error(), r.says) || !got.IsZero() {
				t.Errorf("refusal %q, root %v", err, got)
			}
		})
	}
}

func TestParseAcceptsARootThatLacksAKind(t *testing.T) {
	for name, remove := range map[string]func(*authorities){
		"no certificate authority": func(a *authorities) { a.fulcio = nil },
		"no certificate log":       func(a *authorities) { a.ct = nil },
		"no timestamp authority":   func(a *authorities) { a.tsa = nil },
		"no transparency log":      func(a *authorities) { a.rekor = nil },
		"a log alone":              func(a *authorities) { *a = authorities{rekor: a.rekor} },
	} {
		a := whole(t, "Example", "Example")
		remove(&a)
		if _, err := trust.Parse(a.json(t)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestIsLab(t *testing.T) {
	for _, r := range []struct {
		fulcio, tsa string
		want        bool
	}{
		{"Example", "Example", false},
		{"INSECURE LAB of Example", "Example", true},
		{"Example", "INSECURE LAB of Example", true},
		{"Example Laboratories", "Example", false},
	} {
		got, err := trust.Parse(whole(t, r.fulcio, r.tsa).json(t))
		if err != nil {
			t.Fatal(err)
		}
		if got.IsLab() != r.want {
			t.Errorf("authorities of %q and %q: lab %t, want %t", r.fulcio, r.tsa, got.IsLab(), r.want)
		}
	}
}
