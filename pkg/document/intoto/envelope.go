package intoto

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/waybill-release/waybill/pkg/tool/strictjson"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// The limits of one envelope, and of a file with several.
const (
	maxEnvelope   = 64 << 20
	MaxSignatures = 64
	maxLines      = 1024
)

// Envelope is a parsed DSSE envelope. No signature was verified; the verifier
// decides how many there may be.
type Envelope struct {
	PayloadType string
	Payload     []byte
	Signatures  []Signature
	raw         []byte
}

// Signature is one signature of an envelope. The key id is an unsigned hint.
type Signature struct {
	KeyID string
	Sig   []byte
}

type wireEnvelope struct {
	PayloadType string          `json:"payloadType"`
	Payload     string          `json:"payload"`
	Signatures  json.RawMessage `json:"signatures"`
}

type wireSignature struct {
	KeyID string `json:"keyid"`
	Sig   string `json:"sig"`
}

// ParseEnvelope parses a DSSE envelope. It ignores unknown fields, as the
// specification requires. Base64 uses either the standard or the URL alphabet,
// is padded, and has exactly one valid spelling.
func ParseEnvelope(raw []byte) (Envelope, error) {
	var wire wireEnvelope
	if len(raw) > maxEnvelope {
		return Envelope{}, verdict.Refuse(verdict.Limit, "envelope", "%d bytes, the limit is %d", len(raw), maxEnvelope)
	}
	if err := strictjson.UnmarshalOpen(raw, &wire, strictjson.MaxSize(maxEnvelope)); err != nil {
		return Envelope{}, verdict.Wrap(verdict.BundleParse, "envelope", err)
	}
	if wire.PayloadType == "" || wire.Payload == "" {
		return Envelope{}, verdict.Refuse(verdict.BundleParse, "envelope", "the payload or its type is missing")
	}
	payload, err := decodeBase64(wire.Payload)
	if err != nil {
		return Envelope{}, verdict.Wrap(verdict.BundleParse, "envelope", fmt.Errorf("reading payload: %w", err))
	}
	signatures, err := parseSignatures(wire.Signatures)
	if err != nil {
		return Envelope{}, err
	}
	return Envelope{
		PayloadType: wire.PayloadType, Payload: payload, Signatures: signatures, raw: slices.Clone(raw),
	}, nil
}

func parseSignatures(raw json.RawMessage) ([]Signature, error) {
	if elements(raw, 0) > MaxSignatures {
		return nil, verdict.Refuse(verdict.Limit, "envelope", "more than %d signatures", MaxSignatures)
	}
	if len(raw) == 0 {
		return nil, verdict.Refuse(verdict.BundleParse, "envelope", "the list of signatures is missing")
	}
	var list []wireSignature
	if err := strictjson.UnmarshalOpen(raw, &list); err != nil {
		return nil, verdict.Wrap(verdict.BundleParse, "envelope", err)
	}
	out := make([]Signature, 0, len(list))
	for i, s := range list {
		sig, err := decodeBase64(s.Sig)
		if err != nil || len(sig) == 0 {
			return nil, verdict.Refuse(verdict.BundleParse, "envelope", "signature %d is empty or not base64", i)
		}
		out = append(out, Signature{KeyID: s.KeyID, Sig: sig})
	}
	return out, nil
}

// decodeBase64 accepts both alphabets of RFC 4648, but not mixed. The decoders
// of the standard library skip line ends, which are in no alphabet.
func decodeBase64(text string) ([]byte, error) {
	if strings.ContainsAny(text, "\r\n") {
		return nil, fmt.Errorf("base64 with line ends")
	}
	if strings.ContainsAny(text, "-_") {
		return base64.URLEncoding.Strict().DecodeString(text)
	}
	return base64.StdEncoding.Strict().DecodeString(text)
}

// Raw is the envelope as it was read.
func (e Envelope) Raw() []byte { return slices.Clone(e.raw) }

// PAE is what a signature of the envelope covers: the pre-authentication
// encoding of payload type and payload.
func (e Envelope) PAE() []byte {
	head := fmt.Sprintf("DSSEv1 %d %s %d ", len(e.PayloadType), e.PayloadType, len(e.Payload))
	return append([]byte(head), e.Payload...)
}

// Statement parses the payload as a statement of any author.
func (e Envelope) Statement() (Statement, error) {
	if e.PayloadType != PayloadType {
		return Statement{}, verdict.Refuse(verdict.MaterialKind, "envelope", "payload type %q is not a statement", short(e.PayloadType))
	}
	return ParseOpen(e.Payload)
}

// Lines splits a file with one JSON document on each line, such as
// .intoto.jsonl. The caller decides whether a line is an envelope or a Sigstore
// bundle. Empty lines are refused, except for one line end after the last.
func Lines(raw []byte) (lines [][]byte, err error) {
	if len(raw) > maxEnvelope {
		return nil, verdict.Refuse(verdict.Limit, "attestations", "%d bytes, the limit is %d", len(raw), maxEnvelope)
	}
	text := bytes.TrimSuffix(raw, []byte("\n"))
	if n := bytes.Count(text, []byte("\n")) + 1; n > maxLines {
		return nil, verdict.Refuse(verdict.Limit, "attestations", "%d lines, the limit is %d", n, maxLines)
	}
	for line := range bytes.SplitSeq(text, []byte("\n")) {
		if len(bytes.TrimSpace(line)) == 0 {
			return nil, verdict.Refuse(verdict.BundleParse, "attestations", "line %d is empty", len(lines)+1)
		}
		lines = append(lines, slices.Clone(line))
	}
	return lines, nil
}
