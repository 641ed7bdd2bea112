package verify

import (
	"bytes"
	"encoding/base64"

	"github.com/waybill-release/waybill/pkg/tool/strictjson"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// binary lists the keys of a bundle whose values are bytes, written as base64,
// in both spellings that the library accepts. The library also accepts line
// ends in them, unused bits, and both alphabets mixed; two texts would then be
// one bundle.
func binary(key string) bool {
	switch key {
	case "rawBytes", "keyId", "signature", "digest", "payload", "sig", "signedTimestamp",
		"signedEntryTimestamp", "canonicalizedBody", "rootHash", "hashes",
		"raw_bytes", "key_id", "signed_timestamp", "signed_entry_timestamp", "canonicalized_body", "root_hash":
		return true
	}
	return false
}

// checkText requires that every value of bytes has the one canonical spelling
// of its alphabet. raw must be JSON; that is not checked here.
func checkText(raw []byte) error { return checkBytes(strictjson.NewScanner(raw), "") }

// checkBytes checks the value under a key, or an element of a list there.
func checkBytes(s *strictjson.Scanner[[]byte], key string) error {
	switch s.Peek() {
	case '{':
		s.Open('{')
		for first := true; s.Next(first, '}'); first = false {
			if err := checkBytes(s, string(s.Key())); err != nil {
				return err
			}
		}
	case '[':
		s.Open('[')
		for first := true; s.Next(first, ']'); first = false {
			if err := checkBytes(s, key); err != nil {
				return err
			}
		}
	case '"':
		if text := s.Text(); binary(key) && !canonical(text) {
			return verdict.Refuse(verdict.Encoding, "bundle", "%q is not canonical base64", key)
		}
	default:
		s.Skip()
	}
	return nil
}

// canonical reports whether text is padded base64 of one alphabet that is the
// encoding of its decoded bytes.
func canonical(text []byte) bool {
	if bytes.IndexByte(text, '\r') >= 0 || bytes.IndexByte(text, '\n') >= 0 {
		return false
	}
	encoding := base64.StdEncoding
	if bytes.IndexByte(text, '-') >= 0 || bytes.IndexByte(text, '_') >= 0 {
		encoding = base64.URLEncoding
	}
	encoding = encoding.Strict()
	// In pieces, because the decoded bytes are not needed. Padding ends the
	// last.
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
