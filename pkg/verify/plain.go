package verify

import (
	"bytes"
	"encoding/base64"
	"strconv"
	"unicode/utf8"

	protobundle "github.com/sigstore/protobuf-specs/gen/pb-go/bundle/v1"
	protocommon "github.com/sigstore/protobuf-specs/gen/pb-go/common/v1"
	protodsse "github.com/sigstore/protobuf-specs/gen/pb-go/dsse"
	protorekor "github.com/sigstore/protobuf-specs/gen/pb-go/rekor/v1"

	"github.com/waybill-release/waybill/pkg/strictjson"
)

// Almost all bundles are written plainly: every key once and as it is called,
// bytes in base64 in its one form, whole numbers in digits, and hardly an
// escape. Such a bundle is read in one pass, in which whatever is not plain
// ends the reading, and nothing of it is used. It is then for the readers that
// know every form, and say what is wrong: one for whether the JSON means the
// same to everybody, one for the bundle, one for its base64.

// readPlain reads the form of a bundle that is written plainly. It answers yes
// or nothing: whatever is not as expected here is for the other readers.
func readPlain(raw []byte) (*protobundle.Bundle, bool) {
	p := &plainReader{rest: raw}
	form := &protobundle.Bundle{}
	p.object(func(key string) bool { return p.ofBundle(form, key) })
	p.space()
	return form, !p.odd && len(p.rest) == 0
}

// plainReader reads what is left of a bundle.
type plainReader struct {
	rest []byte
	odd  bool // something is not plain
}

// maxPlain is how many elements a plain list has at most.
const maxPlain = 64

func (p *plainReader) space() {
	for len(p.rest) > 0 && (p.rest[0] == ' ' || p.rest[0] == '\n' || p.rest[0] == '\r' || p.rest[0] == '\t') {
		p.rest = p.rest[1:]
	}
}

// is steps over a character if it comes next.
func (p *plainReader) is(c byte) bool {
	p.space()
	if p.odd || len(p.rest) == 0 || p.rest[0] != c {
		return false
	}
	p.rest = p.rest[1:]
	return true
}

// must demands that a character comes next.
func (p *plainReader) must(c byte) {
	if !p.is(c) {
		p.odd = true
	}
}

// object reads an object whose members a reader takes: each key once, and none
// that it does not know.
func (p *plainReader) object(member func(key string) bool) {
	var seen [16]string
	n := 0
	p.must('{')
	for !p.odd && !p.is('}') {
		if n > 0 {
			p.must(',')
		}
		key := string(p.quoted())
		p.must(':')
		for _, other := range seen[:n] {
			p.odd = p.odd || key == other
		}
		if p.odd || n == len(seen) || !member(key) {
			p.odd = true
			return
		}
		seen[n] = key
		n++
	}
}

// list reads the elements of a list.
func (p *plainReader) list(element func()) {
	p.must('[')
	for n := 0; !p.odd && !p.is(']'); n++ {
		if n > 0 {
			p.must(',')
		}
		if n == maxPlain {
			p.odd = true
			return
		}
		element()
	}
}

// quoted reads a string with nothing to unescape.
func (p *plainReader) quoted() []byte {
	p.must('"')
	n := strictjson.Plain(p.rest)
	if p.odd || n == len(p.rest) || p.rest[n] != '"' {
		p.odd = true
		return nil
	}
	text := p.rest[:n]
	p.rest = p.rest[n+1:]
	return text
}

func (p *plainReader) text(to *string) bool {
	text := p.quoted()
	*to, p.odd = string(text), p.odd || !utf8.Valid(text)
	return true
}

// note reads text of several lines, the ends of which are all that is escaped.
func (p *plainReader) note(to *string) bool {
	p.must('"')
	out := make([]byte, 0, 512)
	for !p.odd {
		n := strictjson.Plain(p.rest)
		out = append(out, p.rest[:n]...)
		switch p.rest = p.rest[n:]; {
		case bytes.HasPrefix(p.rest, []byte(`"`)):
			p.rest = p.rest[1:]
			*to, p.odd = string(out), !utf8.Valid(out)
			return true
		case bytes.HasPrefix(p.rest, []byte(`\n`)):
			p.rest = p.rest[2:]
			out = append(out, '\n')
		default:
			p.odd = true
		}
	}
	return true
}

// bytes reads bytes, of which there are some, in the one form of base64.
func (p *plainReader) bytes(to *[]byte) bool {
	text := p.quoted()
	if p.odd || len(text) == 0 {
		p.odd = true
		return true
	}
	out := make([]byte, base64.StdEncoding.DecodedLen(len(text)))
	n, err := base64.StdEncoding.Strict().Decode(out, text)
	*to, p.odd = out[:n:n], err != nil
	return true
}

// number reads a whole number, which may be quoted.
func (p *plainReader) number(to *int64) bool {
	var text []byte
	if p.space(); len(p.rest) > 0 && p.rest[0] == '"' {
		text = p.quoted()
	} else {
		n := 0
		for n < len(p.rest) && p.rest[n] >= '0' && p.rest[n] <= '9' {
			n++
		}
		text, p.rest = p.rest[:n], p.rest[n:]
	}
	value, err := strconv.ParseUint(string(text), 10, 63)
	*to = int64(value)
	p.odd = p.odd || err != nil || strconv.FormatUint(value, 10) != string(text)
	return true
}

// one reads an object with one member at most, which is bytes.
func (p *plainReader) one(name string, to *[]byte) {
	p.object(func(key string) bool { return key == name && p.bytes(to) })
}

func (p *plainReader) ofBundle(b *protobundle.Bundle, key string) bool {
	switch key {
	case "mediaType":
		return p.text(&b.MediaType)
	case "verificationMaterial":
		b.VerificationMaterial = &protobundle.VerificationMaterial{}
		p.object(func(key string) bool { return p.ofMaterial(b.VerificationMaterial, key) })
		return true
	case "messageSignature":
		s := &protocommon.MessageSignature{}
		p.object(func(key string) bool { return p.ofMessage(s, key) })
		p.odd = p.odd || b.Content != nil // one of two
		b.Content = &protobundle.Bundle_MessageSignature{MessageSignature: s}
		return true
	case "dsseEnvelope":
		e := &protodsse.Envelope{}
		p.object(func(key string) bool { return p.ofEnvelope(e, key) })
		p.odd = p.odd || b.Content != nil
		b.Content = &protobundle.Bundle_DsseEnvelope{DsseEnvelope: e}
		return true
	}
	return false
}

func (p *plainReader) ofMessage(s *protocommon.MessageSignature, key string) bool {
	switch key {
	case "signature":
		return p.bytes(&s.Signature)
	case "messageDigest":
		s.MessageDigest = &protocommon.HashOutput{}
		p.object(func(key string) bool {
			if key == "digest" {
				return p.bytes(&s.MessageDigest.Digest)
			}
			value, ok := protocommon.HashAlgorithm_value[string(p.quoted())]
			s.MessageDigest.Algorithm = protocommon.HashAlgorithm(value)
			return key == "algorithm" && ok
		})
		return true
	}
	return false
}

func (p *plainReader) ofEnvelope(e *protodsse.Envelope, key string) bool {
	switch key {
	case "payload":
		return p.bytes(&e.Payload)
	case "payloadType":
		return p.text(&e.PayloadType)
	case "signatures":
		p.list(func() {
			s := &protodsse.Signature{}
			p.object(func(key string) bool {
				return key == "sig" && p.bytes(&s.Sig) || key == "keyid" && p.text(&s.Keyid)
			})
			e.Signatures = append(e.Signatures, s)
		})
		return true
	}
	return false
}

func (p *plainReader) ofMaterial(m *protobundle.VerificationMaterial, key string) bool {
	switch key {
	case "certificate":
		c := &protocommon.X509Certificate{}
		p.one("rawBytes", &c.RawBytes)
		p.odd = p.odd || m.Content != nil
		m.Content = &protobundle.VerificationMaterial_Certificate{Certificate: c}
		return true
	case "publicKey":
		k := &protocommon.PublicKeyIdentifier{}
		p.object(func(key string) bool { return key == "hint" && p.text(&k.Hint) })
		p.odd = p.odd || m.Content != nil
		m.Content = &protobundle.VerificationMaterial_PublicKey{PublicKey: k}
		return true
	case "tlogEntries":
		p.list(func() {
			e := &protorekor.TransparencyLogEntry{}
			p.object(func(key string) bool { return p.ofEntry(e, key) })
			m.TlogEntries = append(m.TlogEntries, e)
		})
		return true
	case "timestampVerificationData":
		d := &protobundle.TimestampVerificationData{}
		m.TimestampVerificationData = d
		p.object(func(key string) bool {
			p.list(func() {
				s := &protocommon.RFC3161SignedTimestamp{}
				p.one("signedTimestamp", &s.SignedTimestamp)
				d.Rfc3161Timestamps = append(d.Rfc3161Timestamps, s)
			})
			return key == "rfc3161Timestamps"
		})
		return true
	}
	return false // a chain of certificates too, which few have
}

func (p *plainReader) ofEntry(e *protorekor.TransparencyLogEntry, key string) bool {
	switch key {
	case "logIndex":
		return p.number(&e.LogIndex)
	case "integratedTime":
		return p.number(&e.IntegratedTime)
	case "canonicalizedBody":
		return p.bytes(&e.CanonicalizedBody)
	case "logId":
		e.LogId = &protocommon.LogId{}
		p.one("keyId", &e.LogId.KeyId)
		return true
	case "inclusionPromise":
		e.InclusionPromise = &protorekor.InclusionPromise{}
		p.one("signedEntryTimestamp", &e.InclusionPromise.SignedEntryTimestamp)
		return true
	case "kindVersion":
		k := &protorekor.KindVersion{}
		e.KindVersion = k
		p.object(func(key string) bool {
			return key == "kind" && p.text(&k.Kind) || key == "version" && p.text(&k.Version)
		})
		return true
	case "inclusionProof":
		e.InclusionProof = &protorekor.InclusionProof{}
		p.object(func(key string) bool { return p.ofProof(e.InclusionProof, key) })
		return true
	}
	return false
}

func (p *plainReader) ofProof(proof *protorekor.InclusionProof, key string) bool {
	switch key {
	case "logIndex":
		return p.number(&proof.LogIndex)
	case "treeSize":
		return p.number(&proof.TreeSize)
	case "rootHash":
		return p.bytes(&proof.RootHash)
	case "hashes":
		p.list(func() {
			var hash []byte
			p.bytes(&hash)
			proof.Hashes = append(proof.Hashes, hash)
		})
		return true
	case "checkpoint":
		proof.Checkpoint = &protorekor.Checkpoint{}
		p.object(func(key string) bool { return key == "envelope" && p.note(&proof.Checkpoint.Envelope) })
		return true
	}
	return false
}
