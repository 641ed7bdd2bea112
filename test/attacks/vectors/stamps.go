package main

import (
	"bytes"
	"crypto"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"math/big"
	"time"

	"github.com/digitorus/timestamp"
	bundlepb "github.com/sigstore/protobuf-specs/gen/pb-go/bundle/v1"
	commonpb "github.com/sigstore/protobuf-specs/gen/pb-go/common/v1"

	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// stamper is a timestamp authority of the attacker's own.
type stamper struct {
	root, leaf *x509.Certificate
	key        crypto.Signer // of leaf
	// in is the certificate that stands first in the token, before the one that
	// signed it; nil where there is but one.
	in *x509.Certificate
}

// stamps are times of other parties, and times that a log's key was made to
// sign.
func stamps() []question {
	own := func(name string) func(*maker, *bundlepb.Bundle, map[string]any) {
		return func(s *maker, _ *bundlepb.Bundle, root map[string]any) {
			by := s.stampers[name]
			leaf := by.leaf
			if by.in != nil {
				leaf = by.in
			}
			root["timestampAuthorities"] = []any{party([][]byte{leaf.Raw, by.root.Raw})}
		}
	}
	stamped := func(name string) func(*maker, *bundlepb.Bundle) {
		return func(s *maker, b *bundlepb.Bundle) {
			token := s.stampers[name].stamp(b.GetMessageSignature().Signature, time.Now())
			b.VerificationMaterial.TimestampVerificationData = &bundlepb.TimestampVerificationData{
				Rfc3161Timestamps: []*commonpb.RFC3161SignedTimestamp{{SignedTimestamp: token}},
			}
		}
	}
	promised := func(d time.Duration, keep bool) func(*maker, *bundlepb.Bundle) {
		return func(s *maker, b *bundlepb.Bundle) {
			e, at := b.VerificationMaterial.TlogEntries[0], time.Now().Add(d)
			promise, err := s.lab.SignPromise(e.CanonicalizedBody, at, e.LogIndex)
			if err != nil {
				panic("vectors: " + err.Error())
			}
			e.IntegratedTime, e.InclusionPromise.SignedEntryTimestamp = at.Unix(), promise
			if !keep {
				b.VerificationMaterial.TimestampVerificationData = nil
			}
		}
	}
	const passes = "timestamp-of-an-own-authority"
	return []question{
		{vector: vector{passes, "a timestamp authority of one's own, which the trust root names", blob, stamped("genuine"), nil, ""}, root: own("genuine")},
		{vector: vector{"timestamp-by-another-certificate", "D04: signed by a certificate that is not for timestamps, behind one that is and did not sign", blob, stamped("borrowed"), nil, verdict.TSACert},
			root: own("borrowed"), beside: passes},
		{vector: vector{"timestamp-after-its-certificate", "D06: the time lies after the life of the authority's certificate", blob, stamped("expired"), nil, verdict.TSAWindow},
			root: own("expired"), beside: passes},
		{vector: vector{"timestamp-of-a-stranger", "D07: the authority is not in the trust root, and its certificate is in the token", blob, stamped("genuine"), nil, verdict.TSAUntrusted}, beside: passes},
		{vector: vector{"promised-within-the-certificates-life", "the log signed a time a minute later", blobInOldLog, promised(time.Minute, false), nil, ""}},
		{vector: vector{"promised-in-the-future", "D02: the log signed a time after the certificate's life", blobInOldLog, promised(time.Hour, false), nil, verdict.TimeCert},
			beside: "promised-within-the-certificates-life"},
		{vector: vector{"times-disagree", "D08: by the timestamp the certificate was valid, by the log's time it was not", blobInOldLog, promised(time.Hour, true), nil, verdict.TimeDisagree}},
	}
}

// secondStamps are timestamps behind one that holds. Each must hold as well, if
// its authority is known; one of an unknown authority proves nothing.
func secondStamps() []question {
	beside := func(s *maker, _ *bundlepb.Bundle, root map[string]any) {
		by := s.stampers["genuine"]
		known, _ := root["timestampAuthorities"].([]any)
		root["timestampAuthorities"] = append(known, party([][]byte{by.leaf.Raw, by.root.Raw}))
	}
	second := func(token func(*maker, *bundlepb.Bundle) []byte) func(*maker, *bundlepb.Bundle) {
		return func(s *maker, b *bundlepb.Bundle) {
			stamps := b.VerificationMaterial.TimestampVerificationData
			stamps.Rfc3161Timestamps = append(stamps.Rfc3161Timestamps, &commonpb.RFC3161SignedTimestamp{SignedTimestamp: token(s, b)})
		}
	}
	in := func(d time.Duration) func(*maker, *bundlepb.Bundle) []byte {
		return func(s *maker, b *bundlepb.Bundle) []byte {
			return s.stampers["genuine"].stamp(b.GetMessageSignature().Signature, time.Now().Add(d))
		}
	}
	junk := func(*maker, *bundlepb.Bundle) []byte { return []byte{0, 0, 0} }
	other := func(s *maker, _ *bundlepb.Bundle) []byte {
		return s.copyOf(blobAgain).VerificationMaterial.TimestampVerificationData.Rfc3161Timestamps[0].SignedTimestamp
	}
	const passes = "second-timestamp"
	return []question{
		{vector: vector{passes, "two authorities, and both times lie within the certificate's life", blob, second(in(0)), nil, ""}, root: beside},
		{vector: vector{"second-timestamp-too-late", "D08: the second of two times lies after the certificate's life", blob, second(in(time.Hour)), nil, verdict.TimeDisagree},
			root: beside, beside: passes},
		{vector: vector{"second-timestamp-too-early", "D08: the second of two times lies before the certificate's life", blob, second(in(-time.Hour / 2)), nil, verdict.TimeDisagree},
			root: beside, beside: passes},
		{vector: vector{"second-timestamp-junk", "D05: the second of two timestamps is none", blob, second(junk), nil, verdict.TimeInvalid}, root: beside, beside: passes},
		{vector: vector{"second-timestamp-of-another-signature", "D05: the second of two timestamps is of another signature", blob, second(other), nil, verdict.TSAImprint},
			root: beside, beside: passes},
		{vector: vector{"second-timestamp-of-a-stranger", "D07: the second of two authorities is not in the trust root, and its time is ignored", blob, second(in(time.Hour)), nil, ""}},
		{vector: vector{"second-timestamp-of-a-stranger-counted", "D07: two times are asked, and the second is of an authority that is not in the trust root", blob, second(in(0)), nil, verdict.TSAUntrusted},
			ask: []string{"--min-timestamps", "2"}, beside: "second-timestamp-counted"},
		{vector: vector{"second-timestamp-counted", "two times are asked, of two authorities", blob, second(in(0)), nil, ""}, root: beside, ask: []string{"--min-timestamps", "2"}},
	}
}

// forgeStampers makes the timestamp authorities.
func (s *maker) forgeStampers() error {
	uses := func(use ...asn1.ObjectIdentifier) (pkix.Extension, error) {
		value, err := asn1.Marshal(use)
		return pkix.Extension{Id: asn1.ObjectIdentifier{2, 5, 29, 37}, Critical: true, Value: value}, err
	}
	timestamps, err := uses(asn1.ObjectIdentifier{1, 3, 6, 1, 5, 5, 7, 3, 8})
	if err != nil {
		return err
	}
	code, err := uses(asn1.ObjectIdentifier{1, 3, 6, 1, 5, 5, 7, 3, 3})
	if err != nil {
		return err
	}
	root, rootKey, err := issue("timestamp root", nil, nil, authority)
	if err != nil {
		return err
	}
	of := func(use pkix.Extension, change edit) (stamper, error) {
		leaf, key, err := issue("timestamps", root, rootKey, func(c *x509.Certificate) {
			c.KeyUsage, c.ExtraExtensions = x509.KeyUsageDigitalSignature, []pkix.Extension{use}
			change(c)
		})
		return stamper{root: root, leaf: leaf, key: key}, err
	}
	genuine, err := of(timestamps, func(*x509.Certificate) {})
	if err != nil {
		return err
	}
	expired, err := of(timestamps, life(-2*time.Hour, -time.Hour))
	if err != nil {
		return err
	}
	borrowed, err := of(code, func(*x509.Certificate) {})
	borrowed.in = genuine.leaf
	s.stampers = map[string]stamper{"genuine": genuine, "expired": expired, "borrowed": borrowed}
	return err
}

// stamp is a timestamp over a signature.
func (s stamper) stamp(signature []byte, at time.Time) []byte {
	sum := sha256.Sum256(signature)
	t := timestamp.Timestamp{
		HashAlgorithm: crypto.SHA256, HashedMessage: sum[:], Time: at, SerialNumber: big.NewInt(1),
		Policy: asn1.ObjectIdentifier{1, 3, 6, 1, 4, 1, 57264, 2}, AddTSACertificate: true,
	}
	token, err := t.CreateResponseWithOpts(s.leaf, s.key, crypto.SHA256)
	if err != nil {
		panic("vectors: " + err.Error())
	}
	if s.in == nil {
		return token
	}
	// The certificates are nobody's signed content: whoever passes a token on
	// can put another one in front.
	return inside(token, 1, func(content []byte) []byte { // the token, in its response
		return inside(content, 1, func(explicit []byte) []byte { // what is signed, in the token
			return refill(explicit, func(signed []byte) []byte {
				return inside(signed, 3, func(bag []byte) []byte {
					return refill(bag, func(certificates []byte) []byte { return append(bytes.Clone(s.in.Raw), certificates...) })
				})
			})
		})
	})
}

// inside changes the element at a place of a sequence.
func inside(der []byte, place int, change func([]byte) []byte) []byte {
	var list []asn1.RawValue
	if _, err := asn1.Unmarshal(der, &list); err != nil {
		panic("vectors: " + err.Error())
	}
	list[place] = asn1.RawValue{FullBytes: change(list[place].FullBytes)}
	out, err := asn1.Marshal(list)
	if err != nil {
		panic("vectors: " + err.Error())
	}
	return out
}

// refill changes what an element holds.
func refill(der []byte, change func([]byte) []byte) []byte {
	var v asn1.RawValue
	if _, err := asn1.Unmarshal(der, &v); err != nil {
		panic("vectors: " + err.Error())
	}
	v.Bytes, v.FullBytes = change(v.Bytes), nil
	out, err := asn1.Marshal(v)
	if err != nil {
		panic("vectors: " + err.Error())
	}
	return out
}
