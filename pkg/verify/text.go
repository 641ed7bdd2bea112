package verify

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"slices"

	"github.com/waybill-release/waybill/pkg/verdict"
)

// binary are the keys of a bundle whose values are bytes, written as base64.
// The library's reader takes line ends within them, bits that mean nothing, and
// both alphabets in one; two texts would then be one bundle.
func binary(key string) bool {
	switch key {
	case "rawBytes", "keyId", "signature", "digest", "payload", "sig", "signedTimestamp",
		"signedEntryTimestamp", "canonicalizedBody", "rootHash", "hashes":
		return true
	}
	return false
}

// checkText demands that every value of bytes is written in the one way of its
// alphabet. raw is JSON, which is not asked again here.
func checkText(raw []byte) error {
	key := ""
	for i := 0; i < len(raw); i++ {
		if raw[i] != '"' {
			continue
		}
		start := i
		for i++; i < len(raw) && raw[i] != '"'; i++ {
			if raw[i] == '\\' {
				i++
			}
		}
		text := raw[start+1 : min(i, len(raw))]
		if isKey(raw[min(i+1, len(raw)):]) {
			key = string(text)
			continue
		}
		if binary(key) && !canonical(text) {
			return verdict.Refuse(verdict.Encoding, "bundle", "%q is not base64 in its one form", key)
		}
	}
	return nil
}

// isKey reports whether a colon comes next.
func isKey(rest []byte) bool {
	for _, c := range rest {
		switch c {
		case ' ', '\t', '\r', '\n':
		default:
			return c == ':'
		}
	}
	return false
}

// canonical reports whether text is padded base64 of one alphabet that encodes
// to itself. Some writers escape what JSON need not.
func canonical(text []byte) bool {
	if bytes.IndexByte(text, '\\') >= 0 {
		var s string
		if err := json.Unmarshal(slices.Concat([]byte{'"'}, text, []byte{'"'}), &s); err != nil {
			return false
		}
		text = []byte(s)
	}
	if bytes.IndexByte(text, '\r') >= 0 || bytes.IndexByte(text, '\n') >= 0 {
		return false
	}
	encoding := base64.StdEncoding
	if bytes.IndexByte(text, '-') >= 0 || bytes.IndexByte(text, '_') >= 0 {
		encoding = base64.URLEncoding
	}
	encoding = encoding.Strict()
	// In pieces, as nobody wants what is decoded. Padding ends the last.
	var piece [3 << 10]byte
	for len(text) > 4<<10 {
		if n, err := encoding.Decode(piece[:], text[:4<<10]); err != nil || n < len(piece) {
			return false
		}
		text = text[4<<10:]
	}
	_, err := encoding.Decode(piece[:], text)
	return err == nil
}
