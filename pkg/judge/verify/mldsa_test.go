package verify_test

import (
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/pem"
	"strings"
	"testing"

	"github.com/waybill-release/waybill/pkg/judge/verify"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// TestKeysOfMLDSA: a key of ML-DSA is refused by its name; another unknown
// algorithm, the twin, is not called so.
func TestKeysOfMLDSA(t *testing.T) {
	for last, want := range map[int]string{17: "ML-DSA-44", 18: "ML-DSA-65", 19: "ML-DSA-87", 16: ""} {
		der, err := asn1.Marshal(struct {
			Algorithm pkix.AlgorithmIdentifier
			Key       asn1.BitString
		}{pkix.AlgorithmIdentifier{Algorithm: asn1.ObjectIdentifier{2, 16, 840, 1, 101, 3, 4, 3, last}}, asn1.BitString{Bytes: make([]byte, 1952), BitLength: 8 * 1952}})
		if err != nil {
			t.Fatal(err)
		}
		_, err = verify.ParseKey(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}))
		f := verdict.FindingOf("", err)
		if want != "" && (f.Code != verdict.CertLimit || !strings.Contains(f.Message, want+" keys")) || want == "" && f.Code != verdict.Usage {
			t.Errorf("%d: %v", last, err)
		}
	}
}
