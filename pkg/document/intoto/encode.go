package intoto

import (
	"encoding/json"
	"fmt"

	"github.com/waybill-release/waybill/pkg/value/digest"
)

// encode writes a statement as json.Marshal would, in one pass, for lists of
// very many subjects.
func encode(kind, predicateType string, subjects []Subject, predicate any) ([]byte, error) {
	said, err := json.Marshal(predicate)
	if err != nil {
		return nil, fmt.Errorf("encoding predicate %s: %w", predicateType, err)
	}
	raw := append(make([]byte, 0, len(said)+160*(len(subjects)+2)), `{"_type":`...)
	raw, next := append(appendText(raw, kind), `,"subject":[`...), "{"
	for _, s := range subjects {
		raw, next = append(raw, next...), ",{"
		if s.Name != "" {
			raw = append(appendText(append(raw, `"name":`...), s.Name), ',')
		}
		raw = append(raw, `"digest":{`...)
		between := `"`
		for _, d := range []digest.Digest{s.Digests.SHA256, s.Digests.SHA512} {
			if !d.IsZero() {
				raw = append(append(append(raw, between...), d.Algorithm().String()...), `":"`...)
				raw, between = append(d.AppendHex(raw), '"'), `,"`
			}
		}
		raw = append(raw, "}}"...)
	}
	raw = appendText(append(raw, `],"predicateType":`...), predicateType)
	return append(append(append(raw, `,"predicate":`...), said...), '}'), nil
}

// appendText writes a JSON string.
func appendText(raw []byte, text string) []byte {
	for i := range len(text) {
		switch c := text[i]; {
		case c < ' ', c > '~', c == '"', c == '\\', c == '<', c == '>', c == '&':
			quoted, _ := json.Marshal(text) // text has no error
			return append(raw, quoted...)
		}
	}
	return append(append(append(raw, '"'), text...), '"')
}
