package legacy_test

import (
	"bytes"
	"testing"

	"github.com/waybill-release/waybill/pkg/document/legacy"
	"github.com/waybill-release/waybill/pkg/value/digest"
)

func FuzzParseFiles(f *testing.F) {
	signature, certificate, of := fixture(f, "artifact.sig"), fixture(f, "artifact.cert"), artifact(f)
	f.Add(uint8(1), signature, certificate)
	f.Add(uint8(2), signature, []byte{})
	f.Add(uint8(1), append(bytes.Clone(signature), '\n'), []byte(annotations(f)["dev.sigstore.cosign/certificate"]))
	f.Fuzz(func(t *testing.T, by uint8, signature, certificate []byte) {
		if m, err := legacy.ParseFiles(legacy.Signer(by), of, signature, certificate); err == nil {
			whole(t, m)
		}
	})
}

func FuzzParseBundle(f *testing.F) {
	of := artifact(f)
	f.Add(fixture(f, "bundle.json"))
	f.Add([]byte(`{"base64Signature":"AA==","cert":"","rekorBundle":{"SignedEntryTimestamp":"AA==","Payload":{}}}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		for _, by := range []legacy.Signer{legacy.Certificate, legacy.Key} {
			if m, err := legacy.ParseBundle(by, of, raw); err == nil {
				whole(t, m)
			}
		}
		_ = legacy.IsBundle(raw)
	})
}

func FuzzParseLayer(f *testing.F) {
	a := annotations(f)
	f.Add(fixture(f, "payload.json"), fixture(f, "envelope.json"), string(fixture(f, "artifact.sig")),
		a["dev.sigstore.cosign/certificate"], a["dev.sigstore.cosign/bundle"])
	f.Fuzz(func(t *testing.T, payload, envelope []byte, signature, certificate, log string) {
		a := map[string]string{
			"dev.cosignproject.cosign/signature": signature, "dev.sigstore.cosign/certificate": certificate,
			"dev.sigstore.cosign/chain": certificate, "dev.sigstore.cosign/bundle": log,
		}
		if m, err := legacy.ParseLayer(legacy.Certificate, layer(t, payload, a)); err == nil {
			whole(t, m)
		}
		if m, err := legacy.ParseAttestation(legacy.Certificate, layer(t, envelope, a)); err == nil {
			whole(t, m)
		}
		a["dev.sigstore.cosign/rfc3161timestamp"] = log
		if m, err := legacy.ParseLayer(legacy.Certificate, layer(t, payload, a)); err == nil {
			whole(t, m)
		}
	})
}

func FuzzParseAnswer(f *testing.F) {
	f.Add(fixture(f, "answer.json"))
	f.Add([]byte(`{"00":{"body":"e30=","integratedTime":1,"logIndex":0,"logID":"00","verification":{}}}`))
	m, err := legacy.ParseFiles(legacy.Certificate, artifact(f), fixture(f, "artifact.sig"), fixture(f, "artifact.cert"))
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		_, e, err := legacy.ParseAnswer(raw)
		if err != nil {
			return
		}
		if e.IsZero() {
			t.Fatal("parsed, but nothing")
		}
		with, err := m.With(e)
		if err != nil {
			return
		}
		whole(t, with)
		if with.Name() != m.Name() {
			t.Fatal("the entry changed the name")
		}
	})
}

func FuzzParsePayload(f *testing.F) {
	f.Add(fixture(f, "payload.json"))
	f.Add([]byte(`{"critical":{}}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		if p, err := legacy.ParsePayload(raw); err == nil && p.Image == (digest.Digest{}) {
			t.Fatal("parsed, but of no image")
		}
	})
}
