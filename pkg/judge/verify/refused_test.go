package verify

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/json"
	"math/big"
	"os"
	"path/filepath"
	"testing"
	"time"

	protobundle "github.com/sigstore/protobuf-specs/gen/pb-go/bundle/v1"
	protocommon "github.com/sigstore/protobuf-specs/gen/pb-go/common/v1"

	"github.com/waybill-release/waybill/pkg/value/verdict"
)

func wantsCode(t *testing.T, what string, err error, code verdict.Code) {
	t.Helper()
	if codeIn(err) != code {
		t.Errorf("%s: %v, want %q", what, err, code)
	}
}

func genuineBundles(t testing.TB) map[string][]byte {
	t.Helper()
	paths, err := filepath.Glob("testdata/genuine/*/bundle.sigstore.json")
	if err != nil || len(paths) < 9 {
		t.Fatalf("%d genuine bundles: %v", len(paths), err)
	}
	all := map[string][]byte{}
	for _, path := range paths {
		if all[path], err = os.ReadFile(path); err != nil {
			t.Fatal(err)
		}
	}
	return all
}

// TestTwoContents: a bundle has an envelope or a signature, and not both, in
// whatever order.
func TestTwoContents(t *testing.T) {
	parts := func(name string) (material, content json.RawMessage) {
		var form map[string]json.RawMessage
		if err := json.Unmarshal(genuineBundles(t)["testdata/genuine/"+name+"/bundle.sigstore.json"], &form); err != nil {
			t.Fatal(err)
		}
		return form["verificationMaterial"], append(form["dsseEnvelope"], form["messageSignature"]...)
	}
	material, signature := parts("blob")
	_, envelope := parts("attestation")
	message, dsse := `,"messageSignature":`+string(signature), `,"dsseEnvelope":`+string(envelope)
	for _, row := range []struct {
		name, content string
		code          verdict.Code
	}{
		{"a signature", message, ""},
		{"an envelope", dsse, ""},
		{"a signature, then an envelope", message + dsse, verdict.BundleParse},
		{"an envelope, then a signature", dsse + message, verdict.BundleParse},
	} {
		raw := []byte(`{"mediaType":"application/vnd.dev.sigstore.bundle.v0.3+json","verificationMaterial":` + string(material) + row.content + `}`)
		_, err := readForm(raw)
		wantsCode(t, row.name, err, row.code)
	}
}

// TestDigestBesideSignature: the digest is one of an algorithm that is known,
// and as long as that.
func TestDigestBesideSignature(t *testing.T) {
	for _, row := range []struct {
		name      string
		algorithm protocommon.HashAlgorithm
		size      int
		code      verdict.Code
	}{
		{"SHA-256", protocommon.HashAlgorithm_SHA2_256, 32, ""},
		{"SHA-384", protocommon.HashAlgorithm_SHA2_384, 48, ""},
		{"SHA-512", protocommon.HashAlgorithm_SHA2_512, 64, ""},
		{"SHA-256, too short", protocommon.HashAlgorithm_SHA2_256, 31, verdict.DigestHint},
		{"SHA-256, as long as SHA-512", protocommon.HashAlgorithm_SHA2_256, 64, verdict.DigestHint},
		{"SHA-512, empty", protocommon.HashAlgorithm_SHA2_512, 0, verdict.DigestHint},
		{"no algorithm", protocommon.HashAlgorithm_HASH_ALGORITHM_UNSPECIFIED, 32, verdict.DigestHint},
		{"no algorithm and no digest", protocommon.HashAlgorithm_HASH_ALGORITHM_UNSPECIFIED, 0, verdict.DigestHint},
		{"an algorithm that is not known", 99, 32, verdict.DigestHint},
	} {
		said := &protocommon.HashOutput{Algorithm: row.algorithm, Digest: make([]byte, row.size)}
		form := &protobundle.Bundle{Content: &protobundle.Bundle_MessageSignature{MessageSignature: &protocommon.MessageSignature{MessageDigest: said}}}
		wantsCode(t, row.name, checkDigest(form), row.code)
	}
}

// TestProfileOfSigners: a certificate of a signer is for code signing, and for
// nothing that stands for everything.
func TestProfileOfSigners(t *testing.T) {
	key := &ecdsa.PublicKey{Curve: elliptic.P256()}
	signing, everything := x509.ExtKeyUsageCodeSigning, x509.ExtKeyUsageAny
	for _, row := range []struct {
		name string
		leaf x509.Certificate
		code verdict.Code
	}{
		{"for code signing", x509.Certificate{ExtKeyUsage: []x509.ExtKeyUsage{signing}}, ""},
		{"for code signing and more", x509.Certificate{ExtKeyUsage: []x509.ExtKeyUsage{signing, x509.ExtKeyUsageEmailProtection}}, ""},
		{"for code signing and everything", x509.Certificate{ExtKeyUsage: []x509.ExtKeyUsage{signing, everything}}, verdict.CertProfile},
		{"for everything", x509.Certificate{ExtKeyUsage: []x509.ExtKeyUsage{everything}}, verdict.CertProfile},
		{"for servers", x509.Certificate{ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}, verdict.CertProfile},
		{"for nothing", x509.Certificate{}, verdict.CertProfile},
		{"with a key of ML-DSA", x509.Certificate{
			ExtKeyUsage: []x509.ExtKeyUsage{signing}, RawSubjectPublicKeyInfo: []byte("\x30\x82\x07\xb2\x30\x0b\x06\x09\x60\x86\x48\x01\x65\x03\x04\x03\x12"),
		}, verdict.CertLimit},
		{"of an authority", x509.Certificate{IsCA: true, ExtKeyUsage: []x509.ExtKeyUsage{signing}}, verdict.CertProfile},
	} {
		row.leaf.PublicKey = key
		wantsCode(t, row.name, checkProfile(&row.leaf), row.code)
	}
}

// TestSizesOfKeys: at each limit, and one past it.
func TestSizesOfKeys(t *testing.T) {
	modulus := func(bits uint) crypto.PublicKey {
		n := new(big.Int).Lsh(big.NewInt(1), bits-1)
		return &rsa.PublicKey{N: n.Add(n, big.NewInt(1)), E: 65537}
	}
	for _, row := range []struct {
		name string
		key  crypto.PublicKey
		code verdict.Code
	}{
		{"RSA 2047", modulus(2047), verdict.CertLimit},
		{"RSA 2048", modulus(2048), ""},
		{"RSA 8192", modulus(8192), ""},
		{"RSA 8193", modulus(8193), verdict.CertLimit},
		{"P-224", &ecdsa.PublicKey{Curve: elliptic.P224()}, verdict.CertLimit},
		{"P-256", &ecdsa.PublicKey{Curve: elliptic.P256()}, ""},
		{"P-521", &ecdsa.PublicKey{Curve: elliptic.P521()}, ""},
		{"none", nil, verdict.CertLimit},
	} {
		wantsCode(t, row.name, CheckKey(row.key), row.code)
	}
}

// TestNamesOfACertificate: exactly one name, and nothing after it.
func TestNamesOfACertificate(t *testing.T) {
	email := func(s string) asn1.RawValue {
		return asn1.RawValue{Class: asn1.ClassContextSpecific, Tag: 1, Bytes: []byte(s)}
	}
	list := func(names ...asn1.RawValue) []byte {
		raw, err := asn1.Marshal(names)
		if err != nil {
			t.Fatal(err)
		}
		return raw
	}
	one := list(email("release@example.test"))
	for _, row := range []struct {
		name  string
		value []byte
		code  verdict.Code
	}{
		{"one name", one, ""},
		{"a byte after it", append(bytes.Clone(one), 0), verdict.SANCount},
		{"another list after it", append(bytes.Clone(one), one...), verdict.SANCount},
		{"cut short", one[:len(one)-1], verdict.SANCount},
		{"two names", list(email("release@example.test"), email("mallory@evil.example")), verdict.SANCount},
		{"no name", list(), verdict.SANCount},
		{"nothing", nil, verdict.SANCount},
	} {
		leaf := &x509.Certificate{Extensions: []pkix.Extension{{Id: oidSAN, Value: row.value}}}
		wantsCode(t, row.name, oneName(leaf), row.code)
	}
}

// TestTimesThatDisagree: a certificate that was valid at one signed time and not
// at another has times that disagree; one that was valid at none is out of time.
func TestTimesThatDisagree(t *testing.T) {
	leaf := &x509.Certificate{NotBefore: day0, NotAfter: day0.Add(time.Hour)}
	within, late := day0.Add(time.Minute), day0.Add(2*time.Hour)
	untrusted := verdict.Refuse(verdict.ChainUntrusted, "certificate", "issued by a stranger")
	for _, row := range []struct {
		name string
		at   []time.Time
		err  error
		code verdict.Code
	}{
		{"valid at one", []time.Time{within, late}, outOfLife(leaf, late), verdict.TimeDisagree},
		{"valid at none", []time.Time{late, late}, outOfLife(leaf, late), verdict.TimeCert},
		{"another fault", []time.Time{within, late}, untrusted, verdict.ChainUntrusted},
	} {
		wantsCode(t, row.name, disagreeing(leaf, row.at, row.err), row.code)
	}
}
