package verify

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/sha256"
	"crypto/x509"
	"encoding/asn1"
	network "encoding/binary"
	"encoding/hex"
	"math"
	"slices"
	"time"

	"github.com/sigstore/sigstore-go/pkg/root"
)

// promises counts the distinct certificate logs that promised to log a
// certificate, as in RFC 6962. It counts only promises in the usual encoding,
// with keys of the usual kind: if the count is too low, the library decides,
// which supports every form but parses every certificate again.
func promises(chains [][]*x509.Certificate, logs map[string]*root.TransparencyLog) int {
	leaf := chains[0][0]
	before, plain := unpromised(leaf.RawTBSCertificate)
	if !plain {
		return 0
	}
	by := map[*root.TransparencyLog]bool{}
	for _, p := range promisesIn(leaf) {
		log := logs[hex.EncodeToString(p.log)]
		if log == nil || by[log] || !inWindow(log, time.UnixMilli(p.at)) {
			continue
		}
		by[log] = slices.ContainsFunc(chains, func(chain []*x509.Certificate) bool {
			return len(chain) > 1 && p.holds(log, before, chain[1])
		})
	}
	count := 0
	for _, promised := range by {
		if promised {
			count++
		}
	}
	return count
}

// promise is a signed certificate timestamp (RFC 6962, section 3.2).
type promise struct {
	log        []byte
	at         int64 // in milliseconds
	extensions []byte
	signature  []byte
}

// The bytes that identify the structures of RFC 6962.
const (
	sctV1        = 0
	sctTimestamp = 0
	sctPrecert   = 1
	tlsSHA256    = 4
	tlsECDSA     = 3
)

// promisesIn parses the list in a certificate; nil if its encoding is unusual.
func promisesIn(leaf *x509.Certificate) (all []promise) {
	var list []byte
	if rest, err := asn1.Unmarshal(extension(leaf, oidSCTs), &list); err != nil || len(rest) > 0 {
		return nil
	}
	list, rest, ok := counted(list)
	if !ok || len(rest) > 0 {
		return nil
	}
	for len(list) > 0 {
		var one []byte
		if one, list, ok = counted(list); !ok {
			return nil
		}
		p, ok := readPromise(one)
		if !ok {
			return nil
		}
		all = append(all, p)
	}
	return all
}

// counted splits off a field with a length prefix of two bytes.
func counted(text []byte) (first, rest []byte, ok bool) {
	if len(text) < 2 {
		return nil, nil, false
	}
	n := int(network.BigEndian.Uint16(text))
	if text = text[2:]; len(text) < n {
		return nil, nil, false
	}
	return text[:n], text[n:], true
}

// readPromise parses a promise of version 1, signed as logs sign.
func readPromise(text []byte) (p promise, ok bool) {
	const fixed = 1 + sha256.Size + 8
	if len(text) < fixed || text[0] != sctV1 {
		return promise{}, false
	}
	at := network.BigEndian.Uint64(text[1+sha256.Size:])
	p.log, p.at = text[1:1+sha256.Size], int64(at) //nolint:gosec // looked at next
	if at > math.MaxInt64 {
		return promise{}, false
	}
	if p.extensions, text, ok = counted(text[fixed:]); !ok || len(text) < 2 || text[0] != tlsSHA256 || text[1] != tlsECDSA {
		return promise{}, false
	}
	p.signature, text, ok = counted(text[2:])
	return p, ok && len(text) == 0
}

// holds reports whether a log signed the promise for the certificate, as it was
// before the promises were inserted, and for the key of its issuer.
func (p promise) holds(log *root.TransparencyLog, before []byte, issuer *x509.Certificate) bool {
	key, ok := log.PublicKey.(*ecdsa.PublicKey)
	if !ok || key.Curve != elliptic.P256() || len(before) >= 1<<24 {
		return false
	}
	by := sha256.Sum256(issuer.RawSubjectPublicKeyInfo)
	text := make([]byte, 0, 64+len(before)+len(p.extensions))
	text = append(text, sctV1, sctTimestamp)
	text = network.BigEndian.AppendUint64(text, uint64(p.at)) //nolint:gosec // it was read as one
	text = network.BigEndian.AppendUint16(text, sctPrecert)
	text = append(text, by[:]...)
	text = append(text, byte(len(before)>>16), byte(len(before)>>8), byte(len(before))) //nolint:gosec // no more than three bytes count
	text = append(text, before...)
	text = network.BigEndian.AppendUint16(text, uint16(len(p.extensions))) //nolint:gosec // two bytes counted them
	sum := sha256.Sum256(append(text, p.extensions...))
	return ecdsa.VerifyASN1(key, sum[:], p.signature)
}

// unpromised is the signed part of a certificate without the list of promises,
// which is what the logs saw. Every other byte is unchanged.
func unpromised(tbs []byte) ([]byte, bool) {
	whole, rest, ok := element(tbs, asn1.ClassUniversal, asn1.TagSequence)
	if !ok || len(rest) > 0 {
		return nil, false
	}
	var last asn1.RawValue
	fields := whole.Bytes
	for rest := fields; len(rest) > 0; {
		var err error
		if rest, err = asn1.Unmarshal(rest, &last); err != nil {
			return nil, false
		}
	}
	const tagExtensions = 3
	outer, rest, ok := element(last.FullBytes, asn1.ClassContextSpecific, tagExtensions)
	if !ok || len(rest) > 0 {
		return nil, false
	}
	list, rest, ok := element(outer.Bytes, asn1.ClassUniversal, asn1.TagSequence)
	if !ok || len(rest) > 0 {
		return nil, false
	}
	id, err := asn1.Marshal(oidSCTs)
	if err != nil {
		return nil, false
	}
	kept := make([]byte, 0, len(tbs))
	found := 0
	for rest := list.Bytes; len(rest) > 0; {
		var one asn1.RawValue
		if one, rest, ok = element(rest, asn1.ClassUniversal, asn1.TagSequence); !ok {
			return nil, false
		}
		if bytes.HasPrefix(one.Bytes, id) {
			found++
			continue
		}
		kept = append(kept, one.FullBytes...)
	}
	if found != 1 || len(kept) == 0 {
		return nil, false
	}
	list.Bytes, list.FullBytes = kept, nil
	if outer.Bytes, err = asn1.Marshal(list); err != nil {
		return nil, false
	}
	outer.FullBytes = nil
	extensions, err := asn1.Marshal(outer)
	if err != nil {
		return nil, false
	}
	whole.Bytes, whole.FullBytes = slices.Concat(fields[:len(fields)-len(last.FullBytes)], extensions), nil
	before, err := asn1.Marshal(whole)
	return before, err == nil
}

// element splits off a constructed DER element.
func element(der []byte, class, tag int) (first asn1.RawValue, rest []byte, ok bool) {
	rest, err := asn1.Unmarshal(der, &first)
	return first, rest, err == nil && first.Class == class && first.Tag == tag && first.IsCompound
}

// inWindow reports whether the trust root trusts a log's key at a time; a
// missing end of its window means no end.
func inWindow(log *root.TransparencyLog, at time.Time) bool {
	return (log.ValidityPeriodStart.IsZero() || !at.Before(log.ValidityPeriodStart)) &&
		(log.ValidityPeriodEnd.IsZero() || !at.After(log.ValidityPeriodEnd))
}
