package intoto

import (
	"encoding/json"
	"fmt"
	"sync"

	"github.com/waybill-release/waybill/pkg/tool/strictjson"
)

// encode writes a statement, byte for byte as encoding/json would, in one pass
// over the subjects. It reports whether all texts are plain, and whether the
// subjects certainly follow the rules: each has a SHA-256, and their names are
// in ascending order.
func encode(kind, predicateType string, subjects []Subject, predicate any) (raw, said []byte, plain bool, err error) {
	if said, err = json.Marshal(predicate); err != nil {
		return nil, nil, false, fmt.Errorf("encoding predicate %s: %w", predicateType, err)
	}
	const perSubject = 128
	raw = make([]byte, 0, len(said)+len(subjects)*perSubject+256)
	raw = appendText(append(raw, `{"_type":`...), kind)
	raw = append(raw, `,"subject":[`...)
	plain = isPlain(predicateType)
	last := ""
	for i := range subjects {
		s := &subjects[i]
		if i > 0 {
			raw = append(raw, ',')
			plain = plain && last < s.Name
		}
		last = s.Name
		switch {
		case s.Name == "":
			raw = append(raw, `{"digest":{`...)
		case isPlain(s.Name):
			raw = append(append(append(raw, `{"name":"`...), s.Name...), `","digest":{`...)
		default:
			plain = false
			raw = append(appendText(append(raw, `{"name":`...), s.Name), `,"digest":{`...)
		}
		if !s.Digests.SHA256.IsZero() {
			raw = append(s.Digests.SHA256.AppendHex(append(raw, `"sha256":"`...)), '"')
		} else {
			plain = false
		}
		if !s.Digests.SHA512.IsZero() {
			if !s.Digests.SHA256.IsZero() {
				raw = append(raw, ',')
			}
			raw = append(s.Digests.SHA512.AppendHex(append(raw, `"sha512":"`...)), '"')
		}
		raw = append(raw, "}}"...)
	}
	raw = appendText(append(raw, `],"predicateType":`...), predicateType)
	raw = append(append(append(raw, `,"predicate":`...), said...), '}')
	return raw, said, plain, nil
}

// isPlain reports whether encoding/json writes a text unchanged.
func isPlain(s string) bool {
	var found byte
	for i := range len(s) {
		found |= escaped[s[i]]
	}
	return found == 0
}

// escaped has a 1 for each byte that encoding/json may not write unchanged:
// control characters, quotes, backslashes, HTML characters, and bytes beyond
// ASCII.
const escaped = "" +
	"\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01" +
	"\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01" +
	"\x00\x00\x01\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00" +
	"\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x01\x00\x01\x00" +
	"\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00" +
	"\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00" +
	"\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00" +
	"\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x01" +
	"\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01" +
	"\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01" +
	"\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01" +
	"\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01" +
	"\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01" +
	"\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01" +
	"\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01" +
	"\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01"

// appendText writes a string as JSON.
func appendText(raw []byte, s string) []byte {
	if isPlain(s) {
		return append(append(append(raw, '"'), s...), '"')
	}
	quoted, err := json.Marshal(s)
	if err != nil {
		panic("intoto: a string that is no JSON: " + err.Error())
	}
	return append(raw, quoted...)
}

// many is the number of subjects from which on a statement that was just
// written is not parsed again.
const many = 64

// made returns the statement that [Parse] would return for what encode wrote as
// plain. With many subjects, the rules are checked without parsing; if one is
// broken, the statement is parsed to report which.
func made(raw, said []byte, predicateType string, subjects int) (Statement, error) {
	if subjects < many || subjects > maxSubjects || len(raw) > strictjson.DefaultSize ||
		strictjson.Check(said, strictjson.MaxDepth(strictjson.DefaultDepth-1)) != nil || checkPredicate(predicateType, said) != nil {
		return Parse(raw)
	}
	return Statement{
		raw: raw, kind: TypeV1, predicateType: predicateType, predicate: raw[len(raw)-1-len(said) : len(raw)-1],
		written: &written{}, names: &names{},
	}, nil
}

// written are the subjects of a statement that was just written. They are
// parsed from its bytes only when they are needed, which is rare.
type written struct {
	once     sync.Once
	subjects []Subject
}

func (w *written) read(raw []byte) []Subject {
	w.once.Do(func() {
		s, is := plainStatement(raw)
		if !is {
			panic("intoto: a statement that was written as plain is not")
		}
		w.subjects = s.subjects
	})
	return w.subjects
}
