package main

import (
	"bytes"
	"encoding/asn1"
	"math/big"
	"slices"
	"strings"

	bundlepb "github.com/sigstore/protobuf-specs/gen/pb-go/bundle/v1"
	commonpb "github.com/sigstore/protobuf-specs/gen/pb-go/common/v1"
	dssepb "github.com/sigstore/protobuf-specs/gen/pb-go/dsse"
	"google.golang.org/protobuf/proto"

	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// vector is one bundle, made from a genuine one by one change.
type vector struct {
	name, why string
	from      string
	// change changes the bundle, text its encoding; neither leaves it alone.
	change func(s *maker, b *bundlepb.Bundle)
	text   func(raw string) string
	// code is why it must be refused; empty accepts it.
	code verdict.Code
}

// question is a vector with what is asked about it beyond the usual.
type question struct {
	vector
	// root changes the trust root; nil leaves it alone.
	root func(s *maker, b *bundlepb.Bundle, root map[string]any)
	// ask are demands beyond identity and issuer, as flags of waybill verify.
	ask []string
	// beside is the twin, where it is not the vector that the bundle is from.
	beside string
}

// vectors are all of them, the genuine ones first.
func vectors() []question {
	return slices.Concat(usual(genuine(), bindings(), proofs(), checkpoints(), materials(), envelopes(), forms(), signedAsTold()),
		windows(), authorities(), stamps(), secondStamps(), demands())
}

func usual(tables ...[]vector) (all []question) {
	for _, v := range slices.Concat(tables...) {
		all = append(all, question{vector: v})
	}
	return all
}

func genuine() []vector {
	return []vector{
		{name: "blob", from: blob, why: "a signature of the artifact, bundle version 0.3, log version 2"},
		{name: "blob-again", from: blobAgain, why: "the same author signs the same artifact again"},
		{name: "blob-rekor-v1", from: blobInOldLog, why: "the log entry has a promise, a proof and a signed time"},
		{name: "attestation", from: attestation, why: "an in-toto statement of the artifact"},
		{name: "attestation-rekor-v1", from: attestInOldLog, why: "an in-toto statement in a log that has its envelope, not its digest"},
		{name: "attestation-sha512", from: attestSHA512, why: "the statement names the artifact by SHA-512 alone"},
		{name: "blob-key", from: keyBlob, why: "signed by a long-lived key"},
		{name: "attestation-key", from: keyAttestation, why: "a statement signed by a long-lived key"},
		{name: "attestation-key-id", from: attestation, why: "nobody signs the key id of an envelope: another one changes nothing",
			change: func(_ *maker, b *bundlepb.Bundle) { b.GetDsseEnvelope().Signatures[0].Keyid = "the release key" }},
	}
}

// chained is the bundle in a version that has chains, with certificates above the
// signer's.
func chained(above func(*maker) [][]byte) func(*maker, *bundlepb.Bundle) {
	return func(s *maker, b *bundlepb.Bundle) {
		certs := &commonpb.X509CertificateChain{Certificates: []*commonpb.X509Certificate{b.VerificationMaterial.GetCertificate()}}
		for _, der := range above(s) {
			certs.Certificates = append(certs.Certificates, &commonpb.X509Certificate{RawBytes: der})
		}
		b.MediaType = "application/vnd.dev.sigstore.bundle+json;version=0.2"
		b.VerificationMaterial.Content = &bundlepb.VerificationMaterial_X509CertificateChain{X509CertificateChain: certs}
	}
}

// bindings are genuine parts of different signatures, put together.
func bindings() []vector {
	entries := func(of string) func(*maker, *bundlepb.Bundle) {
		return func(s *maker, b *bundlepb.Bundle) {
			b.VerificationMaterial.TlogEntries = s.copyOf(of).VerificationMaterial.TlogEntries
		}
	}
	whole := func(of string) func(*maker, *bundlepb.Bundle) {
		return func(s *maker, b *bundlepb.Bundle) { proto.Reset(b); proto.Merge(b, s.copyOf(of)) }
	}
	return []vector{
		{"log-entry-of-another-artifact", "A01: the log entry is genuine, but of another artifact", blob, entries(blobOfAnother), nil, verdict.LogEntryUnbound},
		{"log-entry-of-another-certificate", "A02: the log entry is of the same artifact, but of another signer's signature", blob, entries(blobByAnother), nil, verdict.LogSigMismatch},
		{"log-entry-of-another-signature", "A03: the log entry is of an earlier signature of the same author", blob, entries(blobAgain), nil, verdict.LogSigMismatch},
		{"other-signature-of-the-key", "A04: an ECDSA signature has a second form that holds as well; the log has the first", blob, func(_ *maker, b *bundlepb.Bundle) {
			b.GetMessageSignature().Signature = malleate(b.GetMessageSignature().Signature)
		}, nil, verdict.LogSigMismatch},
		{"another-certificate", "A02: the certificate of another key, of the same identity", blob, func(s *maker, b *bundlepb.Bundle) {
			b.VerificationMaterial.Content = s.copyOf(blobByAnother).VerificationMaterial.Content
		}, nil, verdict.LogKeyMismatch},
		{"digest-hint-of-another-artifact", "A11: the digest beside the signature is of another artifact", blob, func(s *maker, b *bundlepb.Bundle) {
			b.GetMessageSignature().MessageDigest = s.copyOf(blobOfAnother).GetMessageSignature().MessageDigest
		}, nil, verdict.DigestHint},
		{"digest-hint-of-another-algorithm", "A11: the digest beside the signature is named SHA-512 and has the 32 bytes of a SHA-256", blob, func(_ *maker, b *bundlepb.Bundle) {
			b.GetMessageSignature().MessageDigest.Algorithm = commonpb.HashAlgorithm_SHA2_512
		}, nil, verdict.DigestHint},
		{"digest-hint-of-no-algorithm", "A11: the digest beside the signature is of no algorithm", blob, func(_ *maker, b *bundlepb.Bundle) {
			b.GetMessageSignature().MessageDigest.Algorithm = commonpb.HashAlgorithm_HASH_ALGORITHM_UNSPECIFIED
		}, nil, verdict.DigestHint},
		{"signature-of-another-artifact", "everything holds, for another artifact", blob, whole(blobOfAnother), nil, verdict.NotBound},
		{"attestation-of-another-artifact", "everything holds, the subject is another artifact", attestation, whole(attestOfAnother), nil, verdict.NotBound},
		{"another-identity", "everything holds, another identity signed", blob, whole(blobByStranger), nil, verdict.Identity},
		{"another-world", "everything holds under another trust root", blob, whole(blobElsewhere), nil, verdict.LogUnknown},
		{"attestation-log-entry-of-another-signature", "A03: the log entry of an earlier envelope of the same payload", attestation, entries(attestAgain), nil, verdict.LogSigMismatch},
		{"attestation-rekor-v1-log-entry-of-another-artifact", "A01: the log entry is genuine, but of an envelope with another payload", attestInOldLog, entries(attestOfAnotherInOldLog), nil, verdict.LogEntryUnbound},
		{"attestation-rekor-v1-log-entry-of-another-signature", "A03: the log entry is of an earlier envelope of the same payload", attestInOldLog, entries(attestAgainInOldLog), nil, verdict.LogSigMismatch},
		{"attestation-rekor-v1-another-certificate", "A02: the certificate of another key, of the same identity", attestInOldLog, func(s *maker, b *bundlepb.Bundle) {
			b.VerificationMaterial.Content = s.copyOf(blobByAnother).VerificationMaterial.Content
		}, nil, verdict.LogKeyMismatch},
		{"key-id-of-the-key", "A16: another key signed, and the envelope's hint names the key that is asked", keyAttestation, whole(keyAttestByOther), nil, verdict.LogKeyMismatch},
		{"blob-signature-of-a-statement", "A18: a blob signature over the bytes of the statement, where an attestation is asked for", attestation, whole(blobOfStatement), nil, verdict.MaterialKind},
		{"entry-of-a-rogue-log", "D20: logged in a log of somebody else's, whose key is its own word", blob, whole(blobInRogueLog), nil, verdict.LogUnknown},
		{"two-entries-of-one-log", "D19: two entries of one log count once", blob, func(s *maker, b *bundlepb.Bundle) {
			b.VerificationMaterial.TlogEntries = append(b.VerificationMaterial.TlogEntries, s.copyOf(blobAgain).VerificationMaterial.TlogEntries...)
		}, nil, verdict.Threshold},
		{"authority-of-another-world", "C20: the certificate is of an authority that the trust root does not know", blob, whole(blobByForeigner), nil, verdict.ChainUntrusted},
		{"another-key", "everything holds, another key signed", keyBlob, whole(keyBlobByOther), nil, verdict.LogKeyMismatch},
		{"key-in-place-of-an-identity", "A06: an identity is asked for, and a bare key signed", blob, whole(keyBlob), nil, verdict.MaterialKind},
		{"identity-in-place-of-a-key", "A06: a key is asked for, and a certificate signed", keyBlob, whole(blob), nil, verdict.MaterialKind},
	}
}

// proofs are log entries and timestamps that prove nothing.
func proofs() []vector {
	of := func(b *bundlepb.Bundle) *bundlepb.VerificationMaterial { return b.VerificationMaterial }
	return []vector{
		{"no-log-entry", "there is no log entry", blob, func(_ *maker, b *bundlepb.Bundle) { of(b).TlogEntries = nil }, nil, verdict.LogMissing},
		{"log-entry-twice", "D19: one log counts once", blob, func(_ *maker, b *bundlepb.Bundle) {
			of(b).TlogEntries = append(of(b).TlogEntries, of(b).TlogEntries...)
		}, nil, verdict.Threshold},
		{"inclusion-proof-changed", "D16: one bit of the inclusion proof", blob, func(_ *maker, b *bundlepb.Bundle) {
			of(b).TlogEntries[0].InclusionProof.Hashes[0][0] ^= 1
		}, nil, verdict.LogProof},
		{"log-index-changed", "D16: another place in the log", blob, func(_ *maker, b *bundlepb.Bundle) { of(b).TlogEntries[0].LogIndex++ }, nil, verdict.LogProof},
		{"checkpoint-of-another-entry", "D15: the checkpoint is of another size of the log", blob, func(s *maker, b *bundlepb.Bundle) {
			of(b).TlogEntries[0].InclusionProof.Checkpoint = of(s.copyOf(blobAgain)).TlogEntries[0].InclusionProof.Checkpoint
		}, nil, verdict.LogProof},
		{"checkpoint-unsigned", "D12: nobody signed the checkpoint", blob, func(_ *maker, b *bundlepb.Bundle) {
			c := of(b).TlogEntries[0].InclusionProof.Checkpoint
			c.Envelope, _, _ = strings.Cut(c.Envelope, "\u2014")
		}, nil, verdict.CheckpointSig},
		{"log-unknown", "D20: the log is not in the trust root", blob, func(_ *maker, b *bundlepb.Bundle) { of(b).TlogEntries[0].LogId.KeyId[0] ^= 1 }, nil, verdict.LogUnknown},
		{"inclusion-proof-missing", "version 0.3 demands a proof", blob, func(_ *maker, b *bundlepb.Bundle) { of(b).TlogEntries[0].InclusionProof = nil }, nil, verdict.BundleLacks},
		{"rekor-v1-promise-changed", "D17: one bit of the promise; the proof beside it still holds", blobInOldLog, func(_ *maker, b *bundlepb.Bundle) {
			promise := of(b).TlogEntries[0].InclusionPromise.SignedEntryTimestamp
			promise[len(promise)-1] ^= 1
		}, nil, verdict.LogPromise},
		{"rekor-v1-time-changed", "D02: the time of the entry is covered by the promise", blobInOldLog, func(_ *maker, b *bundlepb.Bundle) {
			of(b).TlogEntries[0].IntegratedTime++
		}, nil, verdict.LogPromise},
		{"attestation-rekor-v1-time-changed", "D02: the same, of an envelope", attestInOldLog, func(_ *maker, b *bundlepb.Bundle) {
			of(b).TlogEntries[0].IntegratedTime++
		}, nil, verdict.LogPromise},
		{"no-timestamp", "D03: a log of version 2 signs no time, and there is no other", blob, func(_ *maker, b *bundlepb.Bundle) {
			of(b).TimestampVerificationData = nil
		}, nil, verdict.TimeMissing},
		{"timestamp-of-another-signature", "D05: the timestamp is genuine, but of another signature", blob, func(s *maker, b *bundlepb.Bundle) {
			of(b).TimestampVerificationData = of(s.copyOf(blobAgain)).TimestampVerificationData
		}, nil, verdict.TSAImprint},
		{"too-many-timestamps", "33 timestamps; the bound is 32", blob, func(_ *maker, b *bundlepb.Bundle) {
			stamps := of(b).TimestampVerificationData
			stamps.Rfc3161Timestamps = slices.Repeat(stamps.Rfc3161Timestamps, 33)
		}, nil, verdict.Limit},
	}
}

// materials change what the bundle is verified with.
func materials() []vector {
	with := func(content func(s *maker, der []byte) any) func(*maker, *bundlepb.Bundle) {
		return func(s *maker, b *bundlepb.Bundle) {
			switch c := content(s, b.VerificationMaterial.GetCertificate().GetRawBytes()).(type) {
			case *bundlepb.VerificationMaterial_Certificate:
				b.VerificationMaterial.Content = c
			case *bundlepb.VerificationMaterial_X509CertificateChain:
				b.VerificationMaterial.Content = c
			}
		}
	}
	mediaType := func(text string) func(*maker, *bundlepb.Bundle) {
		return func(_ *maker, b *bundlepb.Bundle) { b.MediaType = text }
	}
	return []vector{
		{"public-key-as-certificate", "A05: a public key where a certificate belongs", blob, with(func(s *maker, _ []byte) any { return certificate(s.weak) }), nil, verdict.CertParse},
		{"certificate-empty", "A07: an empty certificate", blob, with(func(*maker, []byte) any { return certificate(nil) }), nil, verdict.CertParse},
		{"certificate-with-a-byte-behind", "the certificate does not end where it ends", blob, with(func(_ *maker, der []byte) any {
			return certificate(append(bytes.Clone(der), 0))
		}), nil, verdict.CertParse},
		{"certificate-too-large", "C19: a certificate of more than 64 KiB", blob, with(func(_ *maker, der []byte) any { return certificate(bytes.Repeat(der, 100)) }), nil, verdict.CertLimit},
		{"chain-in-version-0.3", "A08: version 0.3 has one certificate, not a chain", blob, with(func(_ *maker, der []byte) any { return chain(der) }), nil, verdict.BundleParse},
		{"chain-empty", "A07: an empty chain, in a version that has chains", blob, func(_ *maker, b *bundlepb.Bundle) {
			b.MediaType, b.VerificationMaterial.Content = "application/vnd.dev.sigstore.bundle+json;version=0.2", chain()
		}, nil, verdict.CertMissing},
		{"no-material", "there is nothing to verify with", blob, func(_ *maker, b *bundlepb.Bundle) { b.VerificationMaterial = nil }, nil, verdict.BundleParse},
		{"chain-with-its-root", "A08: a chain that brings its own root along, in a version that has chains: it is ignored", blob, chained(func(s *maker) [][]byte { return s.fulcio }), nil, ""},
		{"chain-of-a-root-alone", "A08: nothing but the authority's own certificates", blob, func(s *maker, b *bundlepb.Bundle) {
			b.MediaType, b.VerificationMaterial.Content = "application/vnd.dev.sigstore.bundle+json;version=0.2", chain(s.authorities["permitting"][1])
		}, nil, verdict.CertProfile},
		{"version-0.1-without-promise", "A09: relabelled as a version in which the log promises; it did not", blob, mediaType("application/vnd.dev.sigstore.bundle+json;version=0.1"), nil, verdict.BundleLacks},
		{"version-0.1-without-proof", "A09: relabelled to do without the inclusion proof", blob, func(_ *maker, b *bundlepb.Bundle) {
			b.MediaType, b.VerificationMaterial.TlogEntries[0].InclusionProof = "application/vnd.dev.sigstore.bundle+json;version=0.1", nil
		}, nil, verdict.BundleLacks},
		{"version-0.2-without-proof", "A09: the version demands an inclusion proof", blob, func(_ *maker, b *bundlepb.Bundle) {
			b.MediaType, b.VerificationMaterial.TlogEntries[0].InclusionProof = "application/vnd.dev.sigstore.bundle+json;version=0.2", nil
		}, nil, verdict.BundleLacks},
		{"key-too-small", "C19: an ECDSA key of 224 bits", blob, with(func(s *maker, _ []byte) any { return certificate(s.small) }), nil, verdict.CertLimit},
		{"key-too-large", "C19: an RSA key of 16384 bits", blob, with(func(s *maker, _ []byte) any { return certificate(s.large) }), nil, verdict.CertLimit},
		{"version-0.4", "A10: a version that does not exist", blob, mediaType("application/vnd.dev.sigstore.bundle.v0.4+json"), nil, verdict.BundleVersion},
		{"version-missing", "A10: no media type", blob, mediaType(""), nil, verdict.BundleVersion},
	}
}

// envelopes change what was signed as a statement.
func envelopes() []vector {
	dsse := func(change func(*dssepb.Envelope)) func(*maker, *bundlepb.Bundle) {
		return func(_ *maker, b *bundlepb.Bundle) { change(b.GetDsseEnvelope()) }
	}
	junk := &dssepb.Signature{Sig: []byte("junk")}
	return []vector{
		{"envelope-unsigned", "A13: an envelope without a signature", attestation, dsse(func(e *dssepb.Envelope) { e.Signatures = nil }), nil, verdict.SigCount},
		{"envelope-good-and-junk", "A14: a good signature and one that is none", attestation, dsse(func(e *dssepb.Envelope) { e.Signatures = append(e.Signatures, junk) }), nil, verdict.SigCount},
		{"envelope-signature-twice", "A15: the same signature twice", attestation, dsse(func(e *dssepb.Envelope) { e.Signatures = slices.Repeat(e.Signatures, 2) }), nil, verdict.SigCount},
		{"envelope-of-another-type", "A17: signed as a payload that is no statement", attestation, func(s *maker, b *bundlepb.Bundle) {
			proto.Reset(b)
			proto.Merge(b, s.copyOf(attestPlain))
		}, nil, verdict.PayloadType},
		{"envelope-relabelled", "A17: the payload type was changed after signing", attestation, func(s *maker, b *bundlepb.Bundle) {
			label := b.GetDsseEnvelope().PayloadType
			proto.Reset(b)
			proto.Merge(b, s.copyOf(attestPlain))
			b.GetDsseEnvelope().PayloadType = label
		}, nil, verdict.LogEntryUnbound},
		{"payload-same-meaning", "A24: one line end more: the same statement, other bytes", attestation, dsse(func(e *dssepb.Envelope) { e.Payload = append(e.Payload, '\n') }), nil, verdict.LogEntryUnbound},
	}
}

// forms change the encoding of a bundle.
func forms() []vector {
	return []vector{
		{"json-key-twice", "B01: two media types: readers differ in which one they take", blob, nil, func(raw string) string { return `{"mediaType":"x",` + raw[1:] }, verdict.BundleParse},
		{"json-unknown-key", "B10: a field that no version has", blob, nil, func(raw string) string { return `{"trusted":true,` + raw[1:] }, verdict.BundleParse},
		{"json-key-alias", "B09: one field under both of its spellings", blob, nil, func(raw string) string { return `{"media_type":"x",` + raw[1:] }, verdict.BundleParse},
		{"json-index-fraction", "B08: an index that is no whole number", blob, nil, within(`"logIndex":"`, func(text string) string { return text + ".5" }), verdict.BundleParse},
		{"json-second-document", "B06: a second bundle behind the first", blob, nil, func(raw string) string { return raw + raw }, verdict.BundleParse},
		{"json-half", "half of a bundle", blob, nil, func(raw string) string { return raw[:len(raw)/2] }, verdict.BundleParse},
		{"base64-line-ends", "A25: line ends within the signature, which lenient readers pass over", blob, nil, within(`"signature":"`, func(text string) string { return text[:8] + strings.Repeat(`\n`, 4) + text[8:] }), verdict.Encoding},
		{"base64-spare-bits", "A25: the spare bits of the digest are not zero, so that one digest has two texts", blob, nil, within(`"digest":"`, func(text string) string {
			last := len(text) - 2 // before one character of padding
			return text[:last] + string(text[last]+1) + text[last+1:]
		}), verdict.Encoding},
		{"empty-object", "no bundle at all", blob, nil, func(string) string { return "{}" }, verdict.BundleVersion},
	}
}

// malleate turns an ECDSA P-256 signature into the other one that holds as
// well; what is no signature stays.
func malleate(signature []byte) []byte {
	var rs struct{ R, S *big.Int }
	n, _ := new(big.Int).SetString("ffffffff00000000ffffffffffffffffbce6faada7179e84f3b9cac2fc632551", 16)
	if _, err := asn1.Unmarshal(signature, &rs); err != nil {
		return signature
	}
	rs.S.Sub(n, rs.S)
	other, err := asn1.Marshal(rs)
	if err != nil {
		return signature
	}
	return other
}

// within changes the text of a value of bytes. Writers differ in the space
// behind a colon.
func within(key string, change func(string) string) func(string) string {
	return func(raw string) string {
		raw = strings.ReplaceAll(raw, `": "`, `":"`)
		start := strings.Index(raw, key) + len(key)
		end := start + strings.IndexByte(raw[start:], '"')
		return raw[:start] + change(raw[start:end]) + raw[end:]
	}
}
