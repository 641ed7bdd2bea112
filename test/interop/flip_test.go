package interop

import (
	"bytes"
	"encoding/base64"
	"testing"

	"github.com/sigstore/sigstore-go/pkg/bundle"

	"github.com/waybill-release/waybill/pkg/document/intoto"
)

// flip changes one bit.
func flip(b []byte, at int) []byte {
	b = bytes.Clone(b)
	b[at] ^= 1
	return b
}

// flipSignature changes the last bit of a bundle's signature, which leaves it
// a signature that parses, and everything around it as it was.
func flipSignature(t *testing.T, raw []byte) []byte {
	t.Helper()
	b := parse(t, raw)
	signature := b.GetMessageSignature().GetSignature()
	if b.GetMessageSignature() == nil {
		signature = b.GetDsseEnvelope().GetSignatures()[0].GetSig()
	}
	text := func(signature []byte) []byte { return []byte(base64.StdEncoding.EncodeToString(signature)) }
	if n := bytes.Count(raw, text(signature)); n != 1 {
		t.Fatalf("the signature is there %d times, want once", n)
	}
	return bytes.Replace(raw, text(signature), text(flip(signature, len(signature)-1)), 1)
}

// predicateOf is what a bundle's statement says, believed by nobody.
func predicateOf(t *testing.T, raw []byte) string {
	t.Helper()
	s, err := intoto.Parse(parse(t, raw).GetDsseEnvelope().GetPayload())
	if err != nil {
		t.Fatal(err)
	}
	return s.PredicateType()
}

func parse(t *testing.T, raw []byte) *bundle.Bundle {
	t.Helper()
	b := &bundle.Bundle{}
	if err := b.UnmarshalJSON(raw); err != nil {
		t.Fatal(err)
	}
	return b
}
