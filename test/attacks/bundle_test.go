package attacks

import (
	"bytes"
	"crypto/x509"
	"encoding/asn1"
	"encoding/pem"
	"math/big"
	"strings"
	"testing"

	bundlepb "github.com/sigstore/protobuf-specs/gen/pb-go/bundle/v1"
	commonpb "github.com/sigstore/protobuf-specs/gen/pb-go/common/v1"
	dssepb "github.com/sigstore/protobuf-specs/gen/pb-go/dsse"
	"github.com/sigstore/sigstore-go/pkg/sign"
	"google.golang.org/protobuf/proto"

	"github.com/waybill-release/waybill/pkg/document/intoto"
	"github.com/waybill-release/waybill/pkg/judge/policy"
	"github.com/waybill-release/waybill/pkg/judge/trust"
	"github.com/waybill-release/waybill/pkg/judge/verify"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
	"github.com/waybill-release/waybill/test/lab"
)

// The artifact that bundles here are about, and what is said of it.
const (
	artifactName = "bin/linux/amd64/lantern"
	artifact     = "the bytes of an artifact\n"
	kind         = "https://example.test/predicate/v1"
)

func statement() []byte { return statementOf(intoto.TypeV1, kind, artifactName, "{}") }

func statementOf(statementType, predicateType, name, predicate string) []byte {
	sum := digest.Of(digest.SHA256, []byte(artifact)).Hex()
	return []byte(`{"_type":"` + statementType + `","subject":[{"name":"` + name + `","digest":{"sha256":"` + sum + `"}}],` +
		`"predicateType":"` + predicateType + `","predicate":` + predicate + `}`)
}

func blob() sign.Content { return blobOf([]byte(artifact)) }

func blobOf(body []byte) sign.Content { return &sign.PlainData{Data: body} }

func envelope(payload []byte) sign.Content {
	return &sign.DSSEData{Data: payload, PayloadType: intoto.PayloadType}
}

// judgeBlob asks whether the release role signed exactly the artifact.
func (w *world) judgeBlob(raw []byte) error {
	set := digest.SetOf([]byte(artifact))
	e, err := w.verifier.Blob(raw, set)
	if err != nil {
		return err
	}
	_, err = w.profile.Policy.Judge(e, policy.Ask{Role: policy.Release, Kind: "blob", Subject: artifactName, Bytes: set})
	return err
}

// judgeAttestation asks whether the release role said kind of the artifact.
func (w *world) judgeAttestation(raw []byte) error {
	e, err := w.verifier.Attestation(raw)
	if err != nil {
		return err
	}
	_, err = w.profile.Policy.Judge(e, policy.Ask{
		Role: policy.Release, Kind: kind, Subject: artifactName, Bytes: digest.SetOf([]byte(artifact)),
	})
	return err
}

// TestBlobBundles changes one thing in a genuine bundle that signs a blob.
func TestBlobBundles(t *testing.T) {
	w := theWorld(t)
	a := w.author(t, lab.RoleRelease)
	a.sign(t, blob()) // the only entry of a log would have an empty proof
	genuine := a.sign(t, blob())
	accepted(t, w.judgeBlob(encode(t, genuine)))
	again := a.sign(t, blob())
	byAnother := w.author(t, lab.RoleRelease).sign(t, blob())
	ofAnother := a.sign(t, &sign.PlainData{Data: []byte("another artifact")})
	for _, twin := range []*bundlepb.Bundle{again, byAnother} {
		accepted(t, w.judgeBlob(encode(t, twin)))
	}
	hint := func(change func(*commonpb.HashOutput)) func(*bundlepb.Bundle) {
		return func(b *bundlepb.Bundle) { change(b.GetMessageSignature().MessageDigest) }
	}
	rows := []struct {
		name   string
		change func(b *bundlepb.Bundle)
		code   verdict.Code
	}{
		{"A01 the log entry of another artifact", func(b *bundlepb.Bundle) {
			b.VerificationMaterial.TlogEntries = ofAnother.VerificationMaterial.TlogEntries
		}, verdict.LogEntryUnbound},
		{"A02 the log entry of another certificate", func(b *bundlepb.Bundle) {
			b.VerificationMaterial.TlogEntries = byAnother.VerificationMaterial.TlogEntries
		}, verdict.LogSigMismatch},
		{"A03 the log entry of another signature", func(b *bundlepb.Bundle) {
			b.VerificationMaterial.TlogEntries = again.VerificationMaterial.TlogEntries
		}, verdict.LogSigMismatch},
		{"A04 the other signature of the same key", func(b *bundlepb.Bundle) {
			b.GetMessageSignature().Signature = malleate(t, b.GetMessageSignature().Signature)
		}, verdict.LogSigMismatch},
		{"another signature by the same author", func(b *bundlepb.Bundle) {
			b.GetMessageSignature().Signature = again.GetMessageSignature().Signature
		}, verdict.LogSigMismatch},
		{"A02 another certificate of the same role", func(b *bundlepb.Bundle) {
			b.VerificationMaterial.Content = byAnother.VerificationMaterial.Content
		}, verdict.LogKeyMismatch},
		{"A11 the digest hint of another artifact", func(b *bundlepb.Bundle) {
			b.GetMessageSignature().MessageDigest = ofAnother.GetMessageSignature().MessageDigest
		}, verdict.DigestHint},
		{"A11 a digest hint of another algorithm's name", hint(func(h *commonpb.HashOutput) { h.Algorithm = commonpb.HashAlgorithm_SHA2_512 }), verdict.DigestHint},
		{"A11 a digest hint of no algorithm", hint(func(h *commonpb.HashOutput) { h.Algorithm = 0 }), verdict.DigestHint},
		{"A11 a digest hint cut short", hint(func(h *commonpb.HashOutput) { h.Digest = h.Digest[:16] }), verdict.DigestHint},
		{"A11 an empty digest hint", hint(func(h *commonpb.HashOutput) { h.Digest = nil }), verdict.DigestHint},
		{"A11 no digest hint", func(b *bundlepb.Bundle) { b.GetMessageSignature().MessageDigest = nil }, verdict.BundleParse},
		{"wrong artifact", func(b *bundlepb.Bundle) { proto.Reset(b); proto.Merge(b, ofAnother) }, verdict.NotBound},
		{"no log entry", func(b *bundlepb.Bundle) { b.VerificationMaterial.TlogEntries = nil }, verdict.LogMissing},
		{"the log entry twice", func(b *bundlepb.Bundle) {
			b.VerificationMaterial.TlogEntries = append(b.VerificationMaterial.TlogEntries, b.VerificationMaterial.TlogEntries...)
		}, verdict.Threshold},
		{"two log entries", func(b *bundlepb.Bundle) {
			b.VerificationMaterial.TlogEntries = append(b.VerificationMaterial.TlogEntries, again.VerificationMaterial.TlogEntries...)
		}, verdict.Threshold},
		{"a changed proof", func(b *bundlepb.Bundle) {
			b.VerificationMaterial.TlogEntries[0].InclusionProof.Hashes[0][0] ^= 1
		}, verdict.LogProof},
		{"another place in the log", func(b *bundlepb.Bundle) { b.VerificationMaterial.TlogEntries[0].LogIndex++ }, verdict.LogProof},
		{"the checkpoint of another entry", func(b *bundlepb.Bundle) {
			b.VerificationMaterial.TlogEntries[0].InclusionProof.Checkpoint = again.VerificationMaterial.TlogEntries[0].InclusionProof.Checkpoint
		}, verdict.LogProof},
		{"a checkpoint that nobody signed", func(b *bundlepb.Bundle) {
			c := b.VerificationMaterial.TlogEntries[0].InclusionProof.Checkpoint
			c.Envelope, _, _ = strings.Cut(c.Envelope, "\u2014")
		}, verdict.CheckpointSig},
		{"an entry of another log", func(b *bundlepb.Bundle) {
			b.VerificationMaterial.TlogEntries[0].LogId.KeyId[0] ^= 1
		}, verdict.LogUnknown},
		{"an entry that is none", func(b *bundlepb.Bundle) {
			b.VerificationMaterial.TlogEntries[0].CanonicalizedBody = []byte("{}")
		}, verdict.BundleParse},
		{"too many timestamps", func(b *bundlepb.Bundle) {
			stamps := b.VerificationMaterial.TimestampVerificationData
			for range 32 {
				stamps.Rfc3161Timestamps = append(stamps.Rfc3161Timestamps, stamps.Rfc3161Timestamps[0])
			}
		}, verdict.Limit},
		{"a log entry without its proof", func(b *bundlepb.Bundle) {
			b.VerificationMaterial.TlogEntries[0].InclusionProof = nil
		}, verdict.BundleLacks},
		{"no timestamp", func(b *bundlepb.Bundle) { b.VerificationMaterial.TimestampVerificationData = nil }, verdict.TimeMissing},
		{"the timestamp of another signature", func(b *bundlepb.Bundle) {
			b.VerificationMaterial.TimestampVerificationData = again.VerificationMaterial.TimestampVerificationData
		}, verdict.TSAImprint},
		{"D05 the timestamp of another signature behind its own", func(b *bundlepb.Bundle) {
			stamps := b.VerificationMaterial.TimestampVerificationData
			stamps.Rfc3161Timestamps = append(stamps.Rfc3161Timestamps, again.VerificationMaterial.TimestampVerificationData.Rfc3161Timestamps...)
		}, verdict.TSAImprint},
		{"D05 no timestamp behind its own", func(b *bundlepb.Bundle) {
			stamps := b.VerificationMaterial.TimestampVerificationData
			stamps.Rfc3161Timestamps = append(stamps.Rfc3161Timestamps, &commonpb.RFC3161SignedTimestamp{SignedTimestamp: []byte{0, 0, 0}})
		}, verdict.TimeInvalid},
		{"no signature", func(b *bundlepb.Bundle) { b.GetMessageSignature().Signature = nil }, verdict.LogSigMismatch},
		{"nothing that is signed", func(b *bundlepb.Bundle) { b.Content = nil }, verdict.BundleParse},
	}
	for _, r := range rows {
		t.Run(r.name, func(t *testing.T) {
			changed := proto.Clone(genuine).(*bundlepb.Bundle)
			r.change(changed)
			refused(t, w.judgeBlob(encode(t, changed)), r.code)
		})
	}
}

// TestBundleMaterial changes what a bundle is verified with, and what it says
// of itself.
func TestBundleMaterial(t *testing.T) {
	w := theWorld(t)
	f, a := w.forger(t), w.author(t, lab.RoleRelease)
	genuine := a.sign(t, blob())
	accepted(t, w.judgeBlob(encode(t, genuine)))
	bare := author{lab: w.Lab, pair: newPair(t)}.sign(t, blob())
	public := must[string](t)(a.pair.GetPublicKeyPem())
	weak := f.weak(t, f.email("release@lab.invalid"))
	root := blocks(t, w.Lab.Dir()+"/state/fulcio.pem")[1]
	withCertificate := func(der []byte) func(*bundlepb.Bundle) {
		return func(b *bundlepb.Bundle) {
			b.VerificationMaterial.Content = &bundlepb.VerificationMaterial_Certificate{Certificate: &commonpb.X509Certificate{RawBytes: der}}
		}
	}
	withChain := func(ders ...[]byte) func(*bundlepb.Bundle) {
		return func(b *bundlepb.Bundle) {
			chain := &commonpb.X509CertificateChain{}
			for _, der := range ders {
				chain.Certificates = append(chain.Certificates, &commonpb.X509Certificate{RawBytes: der})
			}
			b.VerificationMaterial.Content = &bundlepb.VerificationMaterial_X509CertificateChain{X509CertificateChain: chain}
		}
	}
	mediaType := func(text string) func(*bundlepb.Bundle) { return func(b *bundlepb.Bundle) { b.MediaType = text } }
	rows := []struct {
		name   string
		change func(b *bundlepb.Bundle)
		code   verdict.Code
	}{
		{"A05 a public key in PEM as the certificate", withCertificate([]byte(public)), verdict.CertParse},
		{"A05 a public key in DER as the certificate", withCertificate(pemBytes(t, public)), verdict.CertParse},
		{"A06 signed with a bare key", func(b *bundlepb.Bundle) { proto.Reset(b); proto.Merge(b, bare) }, verdict.MaterialKind},
		{"A06 a bare key named beside a genuine signature", func(b *bundlepb.Bundle) {
			b.VerificationMaterial.Content = bare.VerificationMaterial.Content
		}, verdict.MaterialKind},
		{"A07 an empty certificate", withCertificate(nil), verdict.CertParse},
		{"A07 an empty chain", withChain(), verdict.CertMissing},
		{"A07 an empty chain in a version that has chains", func(b *bundlepb.Bundle) {
			b.MediaType = "application/vnd.dev.sigstore.bundle+json;version=0.2"
			withChain()(b)
		}, verdict.CertMissing},
		{"C19 a certificate too large", withCertificate(bytes.Repeat(a.der, 100)), verdict.CertLimit},
		{"C19 a key too small", withCertificate(weak), verdict.CertLimit},
		{"the certificate with a byte behind it", withCertificate(append(bytes.Clone(a.der), 0)), verdict.CertParse},
		{"A08 a chain in a version without chains", withChain(a.der, root), verdict.BundleParse},
		{"a chain of the certificate alone", withChain(a.der), verdict.BundleParse},
		{"no material", func(b *bundlepb.Bundle) { b.VerificationMaterial = nil }, verdict.BundleParse},
		{"A09 version 0.1", mediaType("application/vnd.dev.sigstore.bundle+json;version=0.1"), verdict.BundleLacks},
		{"A09 version 0.1 without its proof", func(b *bundlepb.Bundle) {
			b.MediaType, b.VerificationMaterial.TlogEntries[0].InclusionProof = "application/vnd.dev.sigstore.bundle+json;version=0.1", nil
		}, verdict.BundleLacks},
		{"A09 version 0.2 without its proof", func(b *bundlepb.Bundle) {
			b.MediaType, b.VerificationMaterial.TlogEntries[0].InclusionProof = "application/vnd.dev.sigstore.bundle+json;version=0.2", nil
		}, verdict.BundleLacks},
		{"A10 version 0.4", mediaType("application/vnd.dev.sigstore.bundle.v0.4+json"), verdict.BundleVersion},
		{"A10 version 9.9", mediaType("application/vnd.dev.sigstore.bundle.v9.9+json"), verdict.BundleVersion},
		{"A10 no version", mediaType("application/vnd.dev.sigstore.bundle+json"), verdict.BundleVersion},
		{"A10 no media type", mediaType(""), verdict.BundleVersion},
		{"A10 another media type", mediaType("application/json"), verdict.BundleVersion},
	}
	for _, r := range rows {
		t.Run(r.name, func(t *testing.T) {
			changed := proto.Clone(genuine).(*bundlepb.Bundle)
			r.change(changed)
			refused(t, w.judgeBlob(encode(t, changed)), r.code)
		})
	}
}

// TestAttestationBundles does the same with a signed statement.
func TestAttestationBundles(t *testing.T) {
	w := theWorld(t)
	a := w.author(t, lab.RoleRelease)
	genuine := a.sign(t, envelope(statement()))
	accepted(t, w.judgeAttestation(encode(t, genuine)))
	again := a.sign(t, envelope(statement()))
	plain := a.sign(t, &sign.DSSEData{Data: statement(), PayloadType: "application/json"})
	junk := &dssepb.Signature{Sig: []byte("junk")}
	dsse := func(change func(*dssepb.Envelope)) func(*bundlepb.Bundle) {
		return func(b *bundlepb.Bundle) { change(b.GetDsseEnvelope()) }
	}
	rows := []struct {
		name   string
		change func(b *bundlepb.Bundle)
		codes  []verdict.Code
	}{
		{"A03 the log entry of another signature", func(b *bundlepb.Bundle) {
			b.VerificationMaterial.TlogEntries = again.VerificationMaterial.TlogEntries
		}, []verdict.Code{verdict.LogSigMismatch}},
		{"A04 the other signature of the same key", dsse(func(e *dssepb.Envelope) {
			e.Signatures[0].Sig = malleate(t, e.Signatures[0].Sig)
		}), []verdict.Code{verdict.LogSigMismatch}},
		{"A13 no signature", dsse(func(e *dssepb.Envelope) { e.Signatures = nil }), []verdict.Code{verdict.SigCount}},
		{"A14 a good signature and junk", dsse(func(e *dssepb.Envelope) { e.Signatures = append(e.Signatures, junk) }), []verdict.Code{verdict.SigCount}},
		{"A14 junk and a good signature", dsse(func(e *dssepb.Envelope) {
			e.Signatures = []*dssepb.Signature{junk, e.Signatures[0]}
		}), []verdict.Code{verdict.SigCount}},
		{"A14 the same signature twice", dsse(func(e *dssepb.Envelope) {
			e.Signatures = []*dssepb.Signature{e.Signatures[0], e.Signatures[0]}
		}), []verdict.Code{verdict.SigCount}},
		{"A16 another key id changes nothing", dsse(func(e *dssepb.Envelope) { e.Signatures[0].Keyid = "the release key" }), nil},
		{"A17 another payload type", dsse(func(e *dssepb.Envelope) { e.PayloadType = "application/json" }), []verdict.Code{verdict.PayloadType}},
		{"A17 signed as another payload type", func(b *bundlepb.Bundle) { proto.Reset(b); proto.Merge(b, plain) }, []verdict.Code{verdict.PayloadType}},
		{"A17 signed as another payload type, and relabelled", func(b *bundlepb.Bundle) {
			proto.Reset(b)
			proto.Merge(b, plain)
			b.GetDsseEnvelope().PayloadType = intoto.PayloadType
		}, []verdict.Code{verdict.LogEntryUnbound}},
		{"another payload of the same meaning", dsse(func(e *dssepb.Envelope) { e.Payload = append(e.Payload, '\n') }), []verdict.Code{verdict.LogEntryUnbound}},
	}
	for _, r := range rows {
		t.Run(r.name, func(t *testing.T) {
			changed := proto.Clone(genuine).(*bundlepb.Bundle)
			r.change(changed)
			refused(t, w.judgeAttestation(encode(t, changed)), r.codes...)
		})
	}
}

// TestKindsAreNotInterchangeable: a blob signature is no attestation, not even
// over the bytes of a statement or of its encoding (A18, A19).
func TestKindsAreNotInterchangeable(t *testing.T) {
	w := theWorld(t)
	a := w.author(t, lab.RoleRelease)
	attestation, signature := a.sign(t, envelope(statement())), a.sign(t, blob())
	accepted(t, w.judgeAttestation(encode(t, attestation)))
	accepted(t, w.judgeBlob(encode(t, signature)))
	refused(t, w.judgeBlob(encode(t, attestation)), verdict.MaterialKind)
	refused(t, w.judgeAttestation(encode(t, signature)), verdict.MaterialKind)
	over := a.sign(t, &sign.PlainData{Data: statement()})
	refused(t, w.judgeAttestation(encode(t, over)), verdict.MaterialKind)

	// The signature over the encoding is the very one that an envelope would
	// carry, and the log keeps only its digest: no verifier can tell (A19).
	// That is why the seal never signs such a file as it is.
	encoded := envelope(statement()).PreAuthEncoding()
	confused := proto.Clone(attestation).(*bundlepb.Bundle)
	other := a.sign(t, &sign.PlainData{Data: encoded})
	confused.VerificationMaterial = other.VerificationMaterial
	confused.GetDsseEnvelope().Signatures[0].Sig = other.GetMessageSignature().Signature
	accepted(t, w.judgeAttestation(encode(t, confused)))
}

// TestOtherWorlds: nothing that another lab's authorities say counts here.
func TestOtherWorlds(t *testing.T) {
	w, there := theWorld(t), lab.New(t)
	refused(t, w.judgeBlob(encode(t, authorIn(t, there, lab.RoleRelease).sign(t, blob()))), verdict.LogUnknown)
	elsewhere := must[trust.Root](t)(trust.Parse(there.TrustedRoot))
	v := must[*verify.Verifier](t)(verify.New(elsewhere))
	genuine := encode(t, w.author(t, lab.RoleRelease).sign(t, blob()))
	accepted(t, w.judgeBlob(genuine))
	_, err := v.Blob(genuine, digest.SetOf([]byte(artifact)))
	refused(t, err, verdict.LogUnknown)
	_, err = verify.New(trust.Root{})
	refused(t, err, verdict.TrustRootParse)
}

// TestBundleForm refuses what is no bundle before anything in it is believed.
func TestBundleForm(t *testing.T) {
	w := theWorld(t)
	genuine := encode(t, w.author(t, lab.RoleRelease).sign(t, blob()))
	accepted(t, w.judgeBlob(genuine))
	accepted(t, w.judgeBlob(append(bytes.Clone(genuine), bytes.Repeat([]byte(" "), 1<<10)...)))
	text := string(genuine)
	rows := []struct {
		name string
		raw  string
		code verdict.Code
	}{
		{"nothing", "", verdict.BundleParse},
		{"an empty object", "{}", verdict.BundleVersion},
		{"half of it", text[:len(text)/2], verdict.BundleParse},
		{"a second bundle behind it", text + text, verdict.BundleParse},
		{"a key twice", `{"mediaType":"x",` + text[1:], verdict.BundleParse},
		{"an unknown key", `{"trusted":true,` + text[1:], verdict.BundleParse},
		{"too large", text + strings.Repeat(" ", verify.MaxBundle), verdict.Limit},
	}
	for _, r := range rows {
		t.Run(r.name, func(t *testing.T) { refused(t, w.judgeBlob([]byte(r.raw)), r.code) })
	}
}

func pemBytes(t testing.TB, text string) []byte {
	t.Helper()
	block, _ := pem.Decode([]byte(text))
	if _, err := x509.ParsePKIXPublicKey(block.Bytes); err != nil {
		t.Fatal(err)
	}
	return block.Bytes
}

// malleate turns an ECDSA signature into the other one that holds as well.
func malleate(t testing.TB, signature []byte) []byte {
	t.Helper()
	var rs struct{ R, S *big.Int }
	if _, err := asn1.Unmarshal(signature, &rs); err != nil {
		t.Fatal(err)
	}
	n, _ := new(big.Int).SetString("ffffffff00000000ffffffffffffffffbce6faada7179e84f3b9cac2fc632551", 16)
	rs.S.Sub(n, rs.S)
	return must[[]byte](t)(asn1.Marshal(rs))
}
