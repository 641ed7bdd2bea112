package legacy_test

import (
	"bytes"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/sigstore/cosign/v2/pkg/oci"
	"github.com/sigstore/cosign/v2/pkg/oci/static"
	"github.com/sigstore/rekor/pkg/types"
	"github.com/sigstore/rekor/pkg/types/intoto"

	"github.com/waybill-release/waybill/pkg/backend/registry"
	"github.com/waybill-release/waybill/pkg/document/legacy"
	"github.com/waybill-release/waybill/pkg/judge/verify"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

const payload = `{"critical":{"identity":{"docker-reference":"registry.example.test/demo"},"image":{"docker-manifest-digest":"%s"},"type":"cosign container image signature"},"optional":null}`

var image = digest.Of(digest.SHA256, []byte("an image"))

func statementOf(d digest.Digest, kind string) []byte {
	return fmt.Appendf(nil, `{"_type":"https://in-toto.io/Statement/v1","subject":[{"name":"demo","digest":{"sha256":%q}}],"predicateType":%q,"predicate":{}}`, d.Hex(), kind)
}

// layer is one of a tag.
func layer(t testing.TB, payload []byte, annotations map[string]string) oci.Signature {
	t.Helper()
	l, err := static.NewSignature(payload, annotations[static.SignatureAnnotationKey], static.WithAnnotations(annotations))
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// TestImage judges layers of the tag sha256-….sig.
func TestImage(t *testing.T) {
	w := newWorld(t)
	other := digest.Of(digest.SHA256, []byte("another image"))
	good := fmt.Sprintf(payload, image)
	for _, c := range []struct {
		name, payload string
		want          verdict.Code
	}{
		{"as cosign writes it", good, ""},
		{"with optional annotations", strings.Replace(good, "null", `{"a":"b","n":1}`, 1), ""},
		{"of another image", fmt.Sprintf(payload, other), verdict.NotBound},
		{"of two images", strings.Replace(good, `"image":{`, `"image":{"docker-manifest-digest":"`+other.String()+`",`, 1), verdict.StatementParse},
		{"something critical more", strings.Replace(good, `"type"`, `"expires":"never","type"`, 1), verdict.StatementParse},
		{"of another type", strings.Replace(good, "cosign container", "atomic container", 1), verdict.PayloadType},
		{"a digest cut short", fmt.Sprintf(payload, image.String()[:20]), verdict.StatementParse},
		{"a digest in upper case", fmt.Sprintf(payload, strings.ToUpper(image.String())), verdict.StatementParse},
		{"nothing critical", `{"optional":null}`, verdict.StatementParse},
		{"a statement", string(statementOf(image, "https://example.test/x")), verdict.StatementParse},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := w.sign(t, []byte(c.payload))
			m, err := legacy.ParseLayer(legacy.Certificate, layer(t, s.artifact, s.annotations(t)))
			if err != nil {
				t.Fatal(err)
			}
			raw, err := m.Bundle()
			if err != nil {
				t.Fatal(err)
			}
			e, err := w.verifier.Image(raw, s.artifact, image)
			expect(t, err, c.want)
			if err == nil && (e.Kind() != verify.KindImage || !e.CoversBytes(image) || e.CoversBytes(other) || e.Covers("demo", digest.SetOf(s.artifact))) {
				t.Errorf("kind %s, covers the image %t, another %t", e.Kind(), e.CoversBytes(image), e.CoversBytes(other))
			}
			_, err = w.verifier.Image(raw, append(s.artifact, ' '), image)
			expect(t, err, verdict.NotBound)
			_, err = w.verifier.Image(raw, s.artifact, digest.Digest{})
			expect(t, err, verdict.NoArtifact)
		})
	}
}

// TestAttestation judges layers of the tag sha256-….att.
func TestAttestation(t *testing.T) {
	w := newWorld(t)
	a := w.attest(t, statementOf(image, "https://example.test/x"))
	other := w.attest(t, statementOf(image, "https://example.test/y"))
	odd := w.attest(t, statementOf(image, verify.KindImage))
	again := w.attest(t, a.artifact)
	for _, c := range []struct {
		name string
		of   signed
		want verdict.Code
	}{
		{"as it was made", a, ""},
		{"the entry of another statement", a.with(other), verdict.LogEntryUnbound},
		{"the entry of another signature", a.with(again), verdict.LogSigMismatch},
		{"a statement that says it is none", odd, verdict.PredicateType},
		{"an entry of a blob", a.with(w.sign(t, a.artifact)), verdict.LogEntryUnbound},
		{"no signature", signed{envelope: []byte(`{"payloadType":"application/vnd.in-toto+json","payload":"e30=","signatures":[]}`), der: a.der, entry: a.entry}, verdict.SigCount},
	} {
		t.Run(c.name, func(t *testing.T) {
			m, err := legacy.ParseAttestation(legacy.Certificate, layer(t, c.of.envelope, c.of.annotations(t)))
			if err != nil {
				expect(t, err, c.want)
				return
			}
			raw, err := m.Bundle()
			if err != nil {
				t.Fatal(err)
			}
			e, err := w.verifier.Attestation(raw)
			expect(t, err, c.want)
			if err == nil && !e.CoversBytes(image) {
				t.Error("the evidence does not cover its subject")
			}
		})
	}
}

// TestIntotoEntry reads the other kinds of entries that attestations have. The
// older one has no signature: it is for the text of the envelope.
func TestIntotoEntry(t *testing.T) {
	w := newWorld(t)
	for version, code := range map[string]verdict.Code{"0.0.1": verdict.LogEntryUnbound, "0.0.2": verdict.LogSigMismatch} {
		t.Run(version, func(t *testing.T) { intotoEntry(t, w, version, code) })
	}
}

func intotoEntry(t *testing.T, w *world, version string, code verdict.Code) {
	a := w.attest(t, statementOf(image, "https://example.test/x"))
	var spelled struct { // in the order of cosign
		PayloadType string `json:"payloadType"`
		Payload     string `json:"payload"`
		Signatures  []struct {
			KeyID string `json:"keyid"`
			Sig   string `json:"sig"`
		} `json:"signatures"`
	}
	if err := json.Unmarshal(a.envelope, &spelled); err != nil {
		t.Fatal(err)
	}
	a.envelope = marshal(t, spelled)
	proposed, err := intoto.New().CreateProposedEntry(t.Context(), version, types.ArtifactProperties{
		ArtifactBytes: a.envelope, PKIFormat: "x509", PublicKeyBytes: [][]byte{pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.der})},
	})
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.Post(w.RekorV1+"/api/v1/log/entries", "application/json", bytes.NewReader(marshal(t, proposed)))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusCreated {
		t.Fatalf("%s %s %v", resp.Status, raw, err)
	}
	_, e, err := legacy.ParseAnswer(raw)
	if err != nil || e.Kind() != "intoto "+version {
		t.Fatalf("%s %v", e.Kind(), err)
	}
	annotations := a.annotations(t)
	delete(annotations, "dev.sigstore.cosign/bundle")
	m, err := legacy.ParseAttestation(legacy.Certificate, layer(t, a.envelope, annotations))
	if err != nil {
		t.Fatal(err)
	}
	if m, err = m.With(e); err != nil {
		t.Fatal(err)
	}
	bundle, err := m.Bundle()
	if err != nil {
		t.Fatal(err)
	}
	_, err = w.verifier.Layer(bundle)
	expect(t, err, "")
	_, err = w.verifier.Attestation(bundle) // for which sigstore-go is the reference
	expect(t, err, map[string]verdict.Code{"0.0.1": verdict.MaterialKind}[version])
	m, err = legacy.ParseAttestation(legacy.Certificate, layer(t, w.attest(t, a.artifact).envelope, annotations))
	if err != nil {
		t.Fatal(err)
	}
	_, err = m.With(e)
	expect(t, err, code)
	for old, changed := range map[string]string{
		`"payload":"`: `"payload":"IA`, `"integratedTime":"`: `"integratedTime":"9`,
	} {
		altered := bytes.Replace(bundle, []byte(old), []byte(changed), 1)
		if _, err := w.verifier.Layer(altered); bytes.Equal(altered, bundle) || err == nil {
			t.Errorf("%s in place of %s: accepted, or not in the bundle", changed, old)
		}
	}
}

// TestAttestationLookup finds the entry of an attestation that came without.
func TestAttestationLookup(t *testing.T) {
	w := newWorld(t)
	a := w.attest(t, statementOf(image, "https://example.test/x"))
	_ = w.attest(t, a.artifact)
	annotations := a.annotations(t)
	delete(annotations, "dev.sigstore.cosign/bundle")
	m, err := legacy.ParseAttestation(legacy.Certificate, layer(t, a.envelope, annotations))
	if err != nil {
		t.Fatal(err)
	}
	_, whole, err := openLog(t, w.RekorV1, http.DefaultTransport).Find(t.Context(), m)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := whole.Bundle()
	if err != nil {
		t.Fatal(err)
	}
	_, err = w.verifier.Attestation(raw)
	expect(t, err, "")
}

// TestAttached reads the layers of such a tag from a registry.
func TestAttached(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	r, err := registry.OpenRemote(w.Registry, http.DefaultTransport)
	if err != nil {
		t.Fatal(err)
	}
	s := w.sign(t, fmt.Appendf(nil, payload, image))
	tag := "sha256-" + image.Hex() + ".sig"
	none, err := registry.AttachedTo(ctx, r, "demo", image, registry.SuffixSignatures)
	if err != nil || len(none) != 0 {
		t.Fatalf("%v, %v", none, err)
	}
	config := push(t, r, "application/vnd.oci.image.config.v1+json", []byte(`{}`))
	pushed := push(t, r, "application/vnd.dev.cosign.simplesigning.v1+json", s.artifact)
	pushed["annotations"] = s.annotations(t)
	raw := marshal(t, map[string]any{"schemaVersion": 2, "mediaType": registry.MediaTypeManifest, "config": config, "layers": []any{pushed, pushed}})
	d := registry.Descriptor{MediaType: registry.MediaTypeManifest, Digest: digest.Of(digest.SHA256, raw), Size: int64(len(raw))}
	if err := r.PushManifest(ctx, "demo", d, raw); err != nil {
		t.Fatal(err)
	}
	if err := r.Tag(ctx, "demo", tag, d); err != nil {
		t.Fatal(err)
	}
	found, err := registry.AttachedTo(ctx, r, "demo", image, registry.SuffixSignatures)
	if err != nil || len(found) != 2 {
		t.Fatalf("%d layers, %v", len(found), err)
	}
	m, err := legacy.ParseLayer(legacy.Certificate, found[1])
	if err != nil {
		t.Fatal(err)
	}
	bundle, err := m.Bundle()
	if err != nil {
		t.Fatal(err)
	}
	_, err = w.verifier.Image(bundle, m.Payload(), image)
	expect(t, err, "")
}

func push(t *testing.T, sink registry.Sink, mediaType string, b []byte) map[string]any {
	t.Helper()
	d := registry.Descriptor{MediaType: mediaType, Digest: digest.Of(digest.SHA256, b), Size: int64(len(b))}
	if err := sink.PushBlob(t.Context(), "demo", d, func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(b)), nil }); err != nil {
		t.Fatal(err)
	}
	return map[string]any{"mediaType": mediaType, "digest": d.Digest.String(), "size": d.Size}
}
