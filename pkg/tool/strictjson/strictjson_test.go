package strictjson_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/waybill-release/waybill/pkg/tool/strictjson"
	"github.com/waybill-release/waybill/pkg/value/digest"
)

// statement has one field of every kind that the scanner treats differently.
type statement struct {
	Subject []subject         `json:"subject"`
	Index   int64             `json:"logIndex"`
	Small   uint8             `json:"small"`
	Float   float64           `json:"float"`
	Single  float32           `json:"single"`
	Any     any               `json:"any"`
	Map     map[string]*inner `json:"map"`
	Ints    map[int]string    `json:"ints"`
	Raw     json.RawMessage   `json:"raw"`
	Number  json.Number       `json:"number"`
	Time    time.Time         `json:"time"`
	Pair    [2]int            `json:"pair"`
	Next    *statement        `json:"next"`
	Quoted  int64             `json:"quoted,string"`
	Bytes   []byte            `json:"bytes"`
	Skipped string            `json:"-"`
	inner
}

type subject struct {
	Name   string            `json:"name"`
	Digest map[string]string `json:"digest"`
	Sum    digest.Digest     `json:"sum,omitzero"`
}

type inner struct {
	Kind string `json:"kind"`
}

// row is a document and the code it is refused with, "" for a twin that passes.
type row struct{ name, doc, code string }

func run(t *testing.T, rows []row) {
	t.Helper()
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			var s statement
			assertCode(t, strictjson.Unmarshal([]byte(row.doc), &s), row.code)
			if row.code != "" && !reflect.DeepEqual(s, statement{}) {
				t.Errorf("a refused document left %+v", s)
			}
		})
	}
}

func assertCode(t *testing.T, err error, code string) *strictjson.Error {
	t.Helper()
	if code == "" {
		if err != nil {
			t.Fatalf("the good twin is refused: %v", err)
		}
		return nil
	}
	var e *strictjson.Error
	if !errors.As(err, &e) || e.Code != code {
		t.Fatalf("got %v, want %s", err, code)
	}
	return e
}

func TestUnmarshalFillsTheTarget(t *testing.T) {
	sum := digest.Of(digest.SHA256, nil)
	doc := fmt.Sprintf(`{"subject":[{"name":"a\u00e9\ud83d\ude00","digest":{"sha256":"x"},"sum":%q}],"logIndex":-9223372036854775808,
		"small":255,"float":1.5e3,"single":16777216,"any":{"n":9007199254740992,"l":[null,true,false]},"map":{"k":{"kind":"m"},"n":null},
		"ints":{"-1":"x"},"raw":{"a":[1, 2]},"number":1.10,"time":"2026-01-02T03:04:05Z","pair":[1,2],"next":{"kind":"n"},
		"quoted":"7","bytes":"aGk=","kind":"s"}`, sum)
	var got, want statement
	if err := strictjson.Unmarshal([]byte(doc), &got); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(doc), &want); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, want) || got.Subject[0].Sum != sum || got.Kind != "s" {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// What was in the target before has no influence on the result.
func TestUnmarshalReplaces(t *testing.T) {
	m := map[string]int{"old": 1}
	if err := strictjson.Unmarshal([]byte(`{"new":2}`), &m); err != nil || !reflect.DeepEqual(m, map[string]int{"new": 2}) {
		t.Errorf("got %v, %v", m, err)
	}
	if err := strictjson.Unmarshal([]byte(`{"bad":"x"}`), &m); err == nil || !reflect.DeepEqual(m, map[string]int{"new": 2}) {
		t.Errorf("a refused document left %v, %v", m, err)
	}
}

func TestUnmarshalPanicsOnMisuse(t *testing.T) {
	for name, misuse := range map[string]func(){
		"value":       func() { _ = strictjson.Unmarshal([]byte(`{}`), statement{}) },
		"nil":         func() { _ = strictjson.Unmarshal([]byte(`{}`), nil) },
		"nil pointer": func() { _ = strictjson.UnmarshalOpen([]byte(`{}`), (*statement)(nil)) },
		"depth":       func() { strictjson.MaxDepth(0) },
		"size":        func() { strictjson.MaxSize(0) },
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if recover() == nil {
					t.Error("want a panic")
				}
			}()
			misuse()
		})
	}
}

func TestUnmarshalOpen(t *testing.T) {
	for _, row := range []row{
		{"unknown field", `{"kind":"a","new":1}`, ""},
		{"unknown field deep down", `{"subject":[{"new":{"newer":1}}]}`, ""},
		{"known field in other letters", `{"KIND":"a"}`, strictjson.CodeUnknownField},
		{"field folded by Unicode", `{"\u017fubject":[]}`, strictjson.CodeUnknownField},
		{"duplicate unknown field", `{"new":1,"new":1}`, strictjson.CodeDupKey},
		{"duplicate inside unknown field", `{"new":{"a":1,"a":1}}`, strictjson.CodeDupKey},
		{"same key at two depths", `{"new":{"new":1}}`, ""},
		{"large integer in unknown field", `{"new":9223372036854775808}`, strictjson.CodeNumber},
		{"largest integer in unknown field", `{"new":9223372036854775807}`, ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			var s statement
			assertCode(t, strictjson.UnmarshalOpen([]byte(row.doc), &s), row.code)
		})
	}
}

func TestTypeErrors(t *testing.T) {
	run(t, []row{
		{"string for a number", `{"logIndex":"1"}`, strictjson.CodeType},
		{"number for a string", `{"kind":1}`, strictjson.CodeType},
		{"array for an object", `[]`, strictjson.CodeType},
		{"array too short", `{"pair":[1]}`, strictjson.CodeType},
		{"array too long", `{"pair":[1,2,3]}`, strictjson.CodeType},
		{"array complete", `{"pair":[1,2]}`, ""},
		{"bad base64", `{"bytes":"!"}`, strictjson.CodeType},
		{"good base64", `{"bytes":"aGk="}`, ""},
		{"word where a quoted number belongs", `{"quoted":"x"}`, strictjson.CodeType},
		{"bare number where a quoted one belongs", `{"quoted":7}`, strictjson.CodeType},
		{"null leaves the zero value", `{"subject":null,"logIndex":null,"kind":null}`, ""},
	})
	var s subject
	err := strictjson.Unmarshal([]byte(`{"sum":"SHA256:00"}`), &s)
	assertCode(t, err, strictjson.CodeType)
	var form *digest.FormError
	if !errors.As(err, &form) {
		t.Errorf("the cause is lost: %v", err)
	}
}

func TestSyntaxErrors(t *testing.T) {
	for _, doc := range []string{
		"", " ", "{", "[", "}", "]", "{]", "[}", `{"a"}`, `{"a":}`, `{"a":1,}`, `{,}`, `[1,]`, `[,1]`, `[1 2]`, `{"a":1 "b":2}`, `{a:1}`,
		`{'a':1}`, `{1:1}`, `"a`, "\"a\nb\"", "\"\x1f\"", `"\x"`, `"\u12"`, `"\u12g4"`, `"\`, "nul", "True", "NaN", "Infinity",
		"+1", "-", "01", "1.", ".5", "1e", "1e+", "0x1", "1_0", "// c\n1", "/* c */ 1", `{"a":1;}`, "\v1", "\u00a01",
	} {
		if json.Valid([]byte(doc)) {
			t.Errorf("%q is valid", doc)
		}
		var v any
		err := strictjson.Unmarshal([]byte(doc), &v)
		var e *strictjson.Error
		if !errors.As(err, &e) || e.Code != strictjson.CodeSyntax && e.Code != strictjson.CodeTrailing {
			t.Errorf("%q: got %v", doc, err)
		}
	}
}

func TestErrorNamesThePlace(t *testing.T) {
	for _, row := range []struct {
		doc, path string
		offset    int64
		message   string
	}{
		{`{"subject":[{},{"name":"a","name":"b"}]}`, `subject[1]`, 27, `reading JSON subject[1] at byte 27: key "name" appears twice (JSON_DUP_KEY)`},
		{`{"subject":[{"digest":{"x":1e999}}]}`, `subject[0].digest.x`, 27, `reading JSON subject[0].digest.x at byte 27: number "1e999" is too large (JSON_NUMBER)`},
		{`{"map":{"a b":{"KIND":1}}}`, `map["a b"]`, 15, `reading JSON map["a b"] at byte 15: unknown field "KIND", did you mean "kind" (JSON_UNKNOWN_FIELD)`},
		{`{"next":{"logIndex":1.0}}`, `next.logIndex`, 20, `reading JSON next.logIndex at byte 20: number "1.0" is not an integer of 64 bits (JSON_NUMBER)`},
		{`{"kind":"\ud800"}`, `kind`, 9, `reading JSON kind at byte 9: half of a surrogate pair (ENCODING)`},
		{`{} x`, ``, 3, `reading JSON at byte 3: something follows the end of the value (JSON_TRAILING)`},
	} {
		var s statement
		var e *strictjson.Error
		if err := strictjson.Unmarshal([]byte(row.doc), &s); !errors.As(err, &e) {
			t.Errorf("%s: %v", row.doc, err)
			continue
		}
		if e.Path != row.path || e.Offset != row.offset || e.Error() != row.message {
			t.Errorf("%s:\n got %d %q %s\nwant %d %q %s", row.doc, e.Offset, e.Path, e, row.offset, row.path, row.message)
		}
	}
}

// Attackers choose keys, values and what types quote back (B15).
func TestErrorsQuoteAndTruncate(t *testing.T) {
	long := strings.Repeat("x", 1<<16)
	for name, doc := range map[string]string{
		"control characters in a key":    `{"\u001b[2J\r\n":1}`,
		"control characters in the path": `{"map":{"\u001b[2J\r\n":{"no":1}}}`,
		"control characters in the text": "{\"kind\":\"\x1b[2J\"}",
		"C1 control":                     "{\"\u009b2J\":1}",
		"bidi override":                  "{\"\u202ekind\":1}",
		"long key":                       `{"` + long + `":1}`,
		"long path":                      `{"map":{"` + long + `":{"no":1}}}`,
		"long number":                    `{"logIndex":` + strings.Repeat("1", 1<<16) + `}`,
		"long path of many keys":         strings.Repeat(`{"any":`, 63) + `1e999` + strings.Repeat(`}`, 63),
		"foreign text in a type's words": `{"time":"\r\n\u001b` + long + `"}`,
		"stray byte":                     "{\"a\":\x01}",
	} {
		var s statement
		err := strictjson.Unmarshal([]byte(doc), &s)
		if err == nil {
			t.Errorf("%s: accepted", name)
			continue
		}
		if msg := err.Error(); len(msg) > 1000 || strings.ContainsAny(msg, "\x1b\r\n\u009b\u202e\x01") {
			t.Errorf("%s: %d bytes, %.300q", name, len(msg), msg)
		}
	}
}
