package verify

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"io"
	"slices"
	"strings"

	protobundle "github.com/sigstore/protobuf-specs/gen/pb-go/bundle/v1"
	protodsse "github.com/sigstore/protobuf-specs/gen/pb-go/dsse"
)

// The payload of an attestation may be almost all of its bundle. It is one
// string of plain base64, which needs no counting, unescaping or comparison: it
// is decoded once, directly from the file, and the rest of the bundle is parsed
// with a placeholder in its place.

// large is the number of characters from which on a payload is replaced.
const large = 16 << 10

// standIn is the placeholder, as base64 and decoded.
const (
	standIn = "YSB3YXliaWxsIHN0YW5kcyBoZXJl"
	stands  = "a waybill stands here"
)

// readLarge parses the form of a bundle with a large payload. If it returns
// false because something is unusual, [readForm] decides.
func readLarge(raw []byte, least int) (*protobundle.Bundle, bool) {
	small, text, is := withoutPayload(raw, least)
	if !is {
		return nil, false
	}
	form, err := readForm(small)
	// No other member of a bundle is called payload, no key occurs twice, and
	// unknown ones are refused: if the placeholder is the payload, so was the
	// text.
	if err != nil || string(form.GetDsseEnvelope().GetPayload()) != stands {
		return nil, false
	}
	payload := make([]byte, base64.StdEncoding.DecodedLen(len(text)))
	n, err := base64.StdEncoding.Strict().Decode(payload, text)
	if err != nil {
		return nil, false
	}
	form.GetDsseEnvelope().Payload = payload[:n]
	return form, true
}

// withoutPayload replaces the first string under the key "payload" with the
// placeholder, if it has at least so many characters and only those that the
// decoder would not skip. A quote within a string is escaped, so text between
// two quotes ends at least a key; parsing the rest shows whether it is the
// whole key.
func withoutPayload(raw []byte, least int) (small, text []byte, is bool) {
	const key = `"payload"`
	at := bytes.Index(raw, []byte(key))
	if at < 0 {
		return nil, nil, false
	}
	rest, found := bytes.CutPrefix(bytes.TrimLeft(raw[at+len(key):], " \t\r\n"), []byte(":"))
	rest, quoted := bytes.CutPrefix(bytes.TrimLeft(rest, " \t\r\n"), []byte(`"`))
	end := bytes.IndexByte(rest, '"')
	if !found || !quoted || end < least {
		return nil, nil, false
	}
	text, rest = rest[:end], rest[end:]
	if bytes.IndexByte(text, '\n') >= 0 || bytes.IndexByte(text, '\r') >= 0 {
		return nil, nil, false
	}
	head := raw[:len(raw)-len(rest)-len(text)]
	return slices.Concat(head, []byte(standIn), rest), text, true
}

// pae is what the signature of an envelope covers: DSSE's encoding, with the
// payload last and not copied.
func pae(e *protodsse.Envelope) io.Reader {
	head := fmt.Sprintf("DSSEv1 %d %s %d ", len(e.GetPayloadType()), e.GetPayloadType(), len(e.GetPayload()))
	return inTurn{strings.NewReader(head), bytes.NewReader(e.GetPayload())}
}

// inTurn reads one reader after the other. Unlike io.MultiReader, copying from
// it allocates no buffer of 32 KiB for each signature.
type inTurn struct {
	head    *strings.Reader
	payload *bytes.Reader
}

// Read implements [io.Reader].
func (t inTurn) Read(p []byte) (int, error) {
	if t.head.Len() > 0 {
		return t.head.Read(p)
	}
	return t.payload.Read(p)
}

// WriteTo implements [io.WriterTo].
func (t inTurn) WriteTo(w io.Writer) (int64, error) {
	n, err := t.head.WriteTo(w)
	if err != nil {
		return n, err
	}
	m, err := t.payload.WriteTo(w)
	return n + m, err
}
