// Package legacy_test judges signatures in the forms that came before the
// Sigstore bundle: each refusal differs from an accepted twin in one fact.
package legacy_test

import (
	"bytes"
	"crypto/elliptic"
	"encoding/asn1"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"math/big"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	protobundle "github.com/sigstore/protobuf-specs/gen/pb-go/bundle/v1"
	rekorpb "github.com/sigstore/protobuf-specs/gen/pb-go/rekor/v1"
	"github.com/sigstore/sigstore-go/pkg/sign"

	"github.com/waybill-release/waybill/pkg/document/legacy"
	"github.com/waybill-release/waybill/pkg/judge/trust"
	"github.com/waybill-release/waybill/pkg/judge/verify"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
	"github.com/waybill-release/waybill/test/lab"
)

// world is a lab whose version 1 log keeps a clock of the test's.
type world struct {
	*lab.Lab
	ahead    atomic.Int64 // how far the clock is ahead, in nanoseconds
	verifier *verify.Verifier
}

func newWorld(t testing.TB) *world {
	t.Helper()
	w := &world{}
	w.Lab = lab.NewWith(t, lab.Options{Clock: func() time.Time { return time.Now().Add(time.Duration(w.ahead.Load())) }})
	trusted, err := trust.Parse(w.TrustedRoot)
	if err != nil {
		t.Fatal(err)
	}
	if w.verifier, err = verify.New(trusted); err != nil {
		t.Fatal(err)
	}
	return w
}

// signed is a signature in all of the legacy forms.
type signed struct {
	artifact    []byte
	signature   []byte // base64
	certificate []byte // base64 of PEM
	der         []byte
	entry       *rekorpb.TransparencyLogEntry
	envelope    []byte // JSON, of an attestation
}

func (s signed) digest() digest.Digest { return digest.Of(digest.SHA256, s.artifact) }

func (w *world) sign(t testing.TB, content []byte) signed {
	t.Helper()
	return w.signAs(t, &sign.PlainData{Data: content}, content, 0)
}

func (w *world) attest(t testing.TB, statement []byte) signed {
	t.Helper()
	return w.signAs(t, &sign.DSSEData{Data: statement, PayloadType: "application/vnd.in-toto+json"}, statement, 0)
}

func (w *world) signAs(t testing.TB, content sign.Content, artifact []byte, by time.Duration) signed {
	t.Helper()
	key, err := sign.NewEphemeralKeypair(nil)
	if err != nil {
		t.Fatal(err)
	}
	token := w.Token(lab.RoleRelease)
	w.ahead.Store(int64(by))
	defer w.ahead.Store(0)
	b, err := sign.Bundle(content, key, sign.BundleOptions{
		CertificateProvider:        sign.NewFulcio(&sign.FulcioOptions{BaseURL: w.Fulcio}),
		CertificateProviderOptions: &sign.CertificateProviderOptions{IDToken: token},
		TransparencyLogs:           []sign.Transparency{sign.NewRekor(&sign.RekorOptions{BaseURL: w.RekorV1, Version: 1})},
	})
	if err != nil {
		t.Fatal(err)
	}
	der := b.GetVerificationMaterial().GetCertificate().GetRawBytes()
	s := signed{
		artifact: artifact, der: der, entry: b.GetVerificationMaterial().GetTlogEntries()[0],
		certificate: encode64(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})),
		signature:   encode64(b.GetMessageSignature().GetSignature()),
	}
	if e := b.GetDsseEnvelope(); e != nil {
		s.envelope = envelope(t, b)
	}
	return s
}

func envelope(t testing.TB, b *protobundle.Bundle) []byte {
	t.Helper()
	e := b.GetDsseEnvelope()
	return marshal(t, map[string]any{
		"payloadType": e.GetPayloadType(), "payload": e.GetPayload(),
		"signatures": []any{map[string]any{"keyid": "", "sig": e.GetSignatures()[0].GetSig()}},
	})
}

func encode64(b []byte) []byte { return []byte(base64.StdEncoding.EncodeToString(b)) }

func marshal(t testing.TB, v any) []byte {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// carried is the entry as cosign carries it along.
func carried(e *rekorpb.TransparencyLogEntry) map[string]any {
	return map[string]any{
		"SignedEntryTimestamp": e.GetInclusionPromise().GetSignedEntryTimestamp(),
		"Payload": map[string]any{
			"body": e.GetCanonicalizedBody(), "integratedTime": e.GetIntegratedTime(),
			"logIndex": e.GetLogIndex(), "logID": hex.EncodeToString(e.GetLogId().GetKeyId()),
		},
	}
}

// bundle is cosign's legacy bundle. An edit may change a fact.
func (s signed) bundle(t testing.TB, edits ...func(log, payload map[string]any)) []byte {
	t.Helper()
	log := carried(s.entry)
	for _, edit := range edits {
		edit(log, log["Payload"].(map[string]any))
	}
	return marshal(t, map[string]any{"base64Signature": string(s.signature), "cert": string(s.certificate), "rekorBundle": log})
}

// annotations are those of the layer of a tag.
func (s signed) annotations(t testing.TB) map[string]string {
	t.Helper()
	a := map[string]string{
		"dev.cosignproject.cosign/signature": string(s.signature),
		"dev.sigstore.cosign/certificate":    string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.der})),
		"dev.sigstore.cosign/bundle":         string(marshal(t, carried(s.entry))),
	}
	if s.envelope != nil {
		a["dev.cosignproject.cosign/signature"] = ""
	}
	return a
}

// prove verifies a blob's signature as pkg/judge/verify does any.
func (w *world) prove(artifact []byte) func([]byte) (verify.Evidence, error) {
	return func(bundle []byte) (verify.Evidence, error) { return w.verifier.Blob(bundle, digest.SetOf(artifact)) }
}

// judge verifies material that needs nothing more.
func (w *world) judge(m legacy.Material, artifact []byte) error {
	raw, err := m.Bundle()
	if err != nil {
		return err
	}
	e, err := w.prove(artifact)(raw)
	if err == nil && !e.Covers("any", digest.SetOf(artifact)) {
		return verdict.Refuse(verdict.InternalBug, "test", "evidence that covers nothing")
	}
	return err
}

// expect demands one code, or acceptance where it is empty.
func expect(t *testing.T, err error, want verdict.Code) {
	t.Helper()
	switch {
	case want == "" && err != nil:
		t.Errorf("refused: %v", err)
	case want != "" && err == nil:
		t.Errorf("accepted, want %s", want)
	case want != "" && verdict.FindingOf("", err).Code != want:
		t.Errorf("got %v, want %s", err, want)
	}
}

// flip changes one bit in the middle.
func flip(b []byte) []byte {
	out := bytes.Clone(b)
	out[len(out)/2] ^= 1
	return out
}

// nobody is a transport to a world that does not answer.
type nobody struct{ t testing.TB }

func (n nobody) RoundTrip(r *http.Request) (*http.Response, error) {
	n.t.Errorf("%s was asked", r.URL)
	return nil, http.ErrServerClosed
}

// malleate is the other form of an ECDSA signature, which holds as well.
func malleate(t testing.TB, text []byte) []byte {
	t.Helper()
	raw, err := base64.StdEncoding.DecodeString(string(text))
	if err != nil {
		t.Fatal(err)
	}
	var rs struct{ R, S *big.Int }
	if _, err := asn1.Unmarshal(raw, &rs); err != nil {
		t.Fatal(err)
	}
	rs.S.Sub(elliptic.P256().Params().N, rs.S)
	if raw, err = asn1.Marshal(rs); err != nil {
		t.Fatal(err)
	}
	return encode64(raw)
}
