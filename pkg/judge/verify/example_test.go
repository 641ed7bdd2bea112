package verify_test

import (
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"log"
	"os"

	"github.com/waybill-release/waybill/pkg/judge/trust"
	"github.com/waybill-release/waybill/pkg/judge/verify"
	"github.com/waybill-release/waybill/pkg/value/digest"
)

// file reads what the examples verify; the package itself reads no file.
func file(name string) []byte {
	raw, err := os.ReadFile("testdata/genuine/" + name)
	if err != nil {
		log.Fatal(err)
	}
	return raw
}

func newVerifier() *verify.Verifier {
	root, err := trust.Parse(file("blob/trusted_root.json")) // or trust.Embedded()
	if err != nil {
		log.Fatal(err)
	}
	v, err := verify.New(root)
	if err != nil {
		log.Fatal(err)
	}
	return v
}

// One verifier serves any number of bundles. That the signature is genuine says
// nothing yet about who may sign: compare the identity, or use pkg/judge/policy.
func ExampleVerifier_Blob() {
	v := newVerifier()
	artifact := digest.SetOf(file("blob/artifact"))
	evidence, err := v.Blob(file("blob/bundle.sigstore.json"), artifact)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("signed by", evidence.Identity().Subject)
	fmt.Println("covers the artifact:", evidence.Covers("any name", artifact))

	_, err = v.Blob(file("blob/bundle.sigstore.json"), digest.SetOf([]byte("other bytes")))
	fmt.Println("other bytes are refused:", err != nil)
	// Output:
	// signed by release@lab.invalid
	// covers the artifact: true
	// other bytes are refused: true
}

// A statement is bound to nothing until its subjects are compared, by name and
// by bytes.
func ExampleVerifier_Attestation() {
	v := newVerifier()
	evidence, err := v.Attestation(file("attestation/bundle.sigstore.json"))
	if err != nil {
		log.Fatal(err)
	}
	artifact := digest.SetOf(file("attestation/artifact"))
	fmt.Println("says", evidence.Kind())
	fmt.Println("of the artifact:", evidence.Covers("bin/linux/amd64/lantern", artifact))
	fmt.Println("of another name:", evidence.Covers("bin/linux/arm64/lantern", artifact))
	// Output:
	// says https://example.test/predicate/v1
	// of the artifact: true
	// of another name: false
}

// Whether a key or an identity must have signed is the caller's choice, never
// the bundle's.
func ExampleVerifier_Key() {
	block, _ := pem.Decode(file("blob-key/key.pub"))
	public, err := x509.ParsePKIXPublicKey(block.Bytes)
	if err != nil {
		log.Fatal(err)
	}
	v := newVerifier()
	k, err := v.Key(public)
	if err != nil {
		log.Fatal(err)
	}
	artifact := digest.SetOf(file("blob-key/artifact"))
	evidence, err := k.Blob(file("blob-key/bundle.sigstore.json"), artifact)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("signed by a key:", !evidence.Key().IsZero())

	_, err = v.Blob(file("blob-key/bundle.sigstore.json"), artifact)
	fmt.Println("an identity was asked for:", err)
	// Output:
	// signed by a key: true
	// an identity was asked for: MATERIAL_KIND bundle: signed with a key, want a certificate with an identity
}
