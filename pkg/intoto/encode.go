package intoto

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"unicode/utf8"

	"github.com/waybill-release/waybill/pkg/strictjson"
)

// encode writes a statement, byte for byte as encoding/json would; a hundred
// thousand subjects cost little more than their hash.
func encode(kind, predicateType string, subjects []Subject, predicate any) (raw, said []byte, err error) {
	if said, err = json.Marshal(predicate); err != nil {
		return nil, nil, fmt.Errorf("encoding predicate %s: %w", predicateType, err)
	}
	const perSubject = 128
	raw = make([]byte, 0, len(said)+len(subjects)*perSubject+256)
	raw = appendText(append(raw, `{"_type":`...), kind)
	raw = append(raw, `,"subject":[`...)
	for i, s := range subjects {
		if i > 0 {
			raw = append(raw, ',')
		}
		raw = append(raw, '{')
		if s.Name != "" {
			raw = append(appendText(append(raw, `"name":`...), s.Name), ',')
		}
		raw = append(raw, `"digest":{`...)
		if !s.Digests.SHA256.IsZero() {
			raw = append(hex.AppendEncode(append(raw, `"sha256":"`...), s.Digests.SHA256.Bytes()), '"')
		}
		if !s.Digests.SHA512.IsZero() {
			if !s.Digests.SHA256.IsZero() {
				raw = append(raw, ',')
			}
			raw = append(hex.AppendEncode(append(raw, `"sha512":"`...), s.Digests.SHA512.Bytes()), '"')
		}
		raw = append(raw, "}}"...)
	}
	raw = appendText(append(raw, `],"predicateType":`...), predicateType)
	raw = append(append(append(raw, `,"predicate":`...), said...), '}')
	return raw, said, nil
}

// appendText writes a string as JSON.
func appendText(raw []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c >= utf8.RuneSelf || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&' || c == 0x7f {
			quoted, err := json.Marshal(s)
			if err != nil {
				panic("intoto: a string that is no JSON: " + err.Error())
			}
			return append(raw, quoted...)
		}
	}
	return append(append(append(raw, '"'), s...), '"')
}

// many is from how many subjects on a statement that was just written is not
// read again.
const many = 64

// made is the statement that [Parse] reads from what encode wrote. One of many
// subjects is held to the same rules without being read; if it breaks one, it
// is read, to say which.
func made(raw, said []byte, predicateType string, subjects []Subject) (Statement, error) {
	if len(subjects) < many || len(subjects) > MaxSubjects || len(raw) > strictjson.DefaultSize ||
		strictjson.Check(said) != nil || checkPredicate(predicateType, said) != nil || !utf8.ValidString(predicateType) {
		return Parse(raw)
	}
	for _, s := range subjects {
		if s.Digests.SHA256.IsZero() || !utf8.ValidString(s.Name) {
			return Parse(raw)
		}
	}
	if !distinct(subjects) {
		return Parse(raw)
	}
	return Statement{
		raw: raw, kind: TypeV1, predicateType: predicateType,
		subjects: slices.Clone(subjects), predicate: said, names: &names{},
	}, nil
}
