package legacy_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"testing"

	"github.com/waybill-release/waybill/pkg/digest"
	"github.com/waybill-release/waybill/pkg/legacy"
)

// whole demands that what was parsed can be written, the same way twice, and
// that its name does not depend on the log entry.
func whole(t *testing.T, m legacy.Material) {
	t.Helper()
	first, err := m.Bundle()
	if err != nil {
		t.Fatalf("parsed, but cannot be written: %v", err)
	}
	second, err := m.Bundle()
	if err != nil || !bytes.Equal(first, second) || !json.Valid(first) {
		t.Fatalf("written as %q, then as %q (%v)", first, second, err)
	}
	if m.IsZero() || m.Name().IsZero() || m.Signed().IsZero() {
		t.Fatal("parsed, but nameless")
	}
}

func FuzzFiles(f *testing.F) {
	w := newWorld(f)
	a := w.sign(f, []byte("a"))
	f.Add(uint8(1), a.signature, a.certificate)
	f.Add(uint8(2), a.signature, []byte{})
	f.Add(uint8(1), append(a.signature, '\n'), append([]byte("\n"), a.certificate...))
	f.Fuzz(func(t *testing.T, by uint8, signature, certificate []byte) {
		if m, err := legacy.ParseFiles(legacy.Signer(by), a.digest(), signature, certificate); err == nil {
			whole(t, m)
		}
	})
}

func FuzzBundle(f *testing.F) {
	w := newWorld(f)
	a := w.sign(f, []byte("a"))
	f.Add(a.bundle(f))
	f.Add(a.bundle(f, func(l, _ map[string]any) { delete(l, "Payload") }))
	f.Fuzz(func(t *testing.T, raw []byte) {
		if m, err := legacy.ParseBundle(legacy.Certificate, a.digest(), raw); err == nil {
			whole(t, m)
		}
		_ = legacy.IsBundle(raw)
	})
}

func FuzzLayer(f *testing.F) {
	w := newWorld(f)
	a, b := w.sign(f, []byte("a")), w.attest(f, statementOf(image, "https://example.test/x"))
	for _, s := range []signed{a, b} {
		n := s.annotations(f)
		f.Add(s.artifact, s.envelope, n["dev.cosignproject.cosign/signature"], n["dev.sigstore.cosign/certificate"], n["dev.sigstore.cosign/bundle"])
	}
	f.Fuzz(func(t *testing.T, payload, envelope []byte, signature, certificate, bundle string) {
		n := map[string]string{
			"dev.cosignproject.cosign/signature": signature, "dev.sigstore.cosign/certificate": certificate,
			"dev.sigstore.cosign/chain": certificate, "dev.sigstore.cosign/bundle": bundle,
			"dev.sigstore.cosign/rfc3161timestamp": bundle,
		}
		if m, err := legacy.ParseLayer(legacy.Certificate, payload, n); err == nil {
			whole(t, m)
		}
		delete(n, "dev.sigstore.cosign/rfc3161timestamp")
		if m, err := legacy.ParseAttestation(legacy.Certificate, envelope, n); err == nil {
			whole(t, m)
		}
	})
}

func FuzzAnswer(f *testing.F) {
	w := newWorld(f)
	a, b := w.sign(f, []byte("a")), w.attest(f, statementOf(image, "https://example.test/x"))
	raw, _, err := openLog(f, w.RekorV1, http.DefaultTransport).Find(f.Context(), a.files(f))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(raw)
	f.Add(bytes.ReplaceAll(raw, []byte("sha256"), []byte("sha512")))
	f.Add(marshal(f, map[string]any{"00": map[string]any{"body": b.entry.GetCanonicalizedBody()}}))
	m := a.files(f)
	f.Fuzz(func(t *testing.T, raw []byte) {
		_, e, err := legacy.ParseAnswer(raw)
		if err != nil {
			return
		}
		if e.IsZero() {
			t.Fatal("parsed, but nothing")
		}
		if with, err := m.With(e); err == nil {
			whole(t, with)
			if with.Name() != m.Name() {
				t.Fatal("the entry changed the name")
			}
		}
	})
}

func FuzzPayload(f *testing.F) {
	f.Add(fmt.Appendf(nil, payload, image))
	f.Add([]byte(`{"critical":{}}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		p, err := legacy.ParsePayload(raw)
		if err == nil && (p.Image == digest.Digest{} || !bytes.Contains(raw, []byte("critical"))) {
			t.Fatal("parsed, but of no image")
		}
	})
}
