package strictjson_test

import (
	"strings"
	"testing"

	"github.com/waybill-release/waybill/pkg/tool/strictjson"
)

// Each test is one way to make two correct readers see different documents.
// Every row that is refused stands beside one that passes.

func TestB01DuplicateKeys(t *testing.T) {
	run(t, []row{
		{"once", `{"subject":[]}`, ""},
		{"twice", `{"subject":[],"subject":[]}`, strictjson.CodeDupKey},
		{"twice with the same value", `{"logIndex":1,"logIndex":1}`, strictjson.CodeDupKey},
		{"apart", `{"subject":[],"logIndex":1,"subject":[]}`, strictjson.CodeDupKey},
		{"one escaped", `{"subject":[],"\u0073ubject":[]}`, strictjson.CodeDupKey},
		{"escaped alone", `{"\u0073ubject":[]}`, ""},
		{"in an element", `{"subject":[{"name":"a","name":"b"}]}`, strictjson.CodeDupKey},
		{"in two elements", `{"subject":[{"name":"a"},{"name":"b"}]}`, ""},
		{"in a map", `{"map":{"a":{},"a":{}}}`, strictjson.CodeDupKey},
		{"in any", `{"any":[{"a":1,"b":{"c":1,"c":1}}]}`, strictjson.CodeDupKey},
		{"in a raw message", `{"raw":{"a":{"b":1,"b":1}}}`, strictjson.CodeDupKey},
		{"in a type with its own reader", `{"time":{"a":1,"a":1}}`, strictjson.CodeDupKey},
		{"of an embedded struct", `{"kind":"a","kind":"a"}`, strictjson.CodeDupKey},
		{"empty key", `{"any":{"":1,"":1}}`, strictjson.CodeDupKey},
		{"numbers that name one key", `{"ints":{"1":"a","01":"b"}}`, strictjson.CodeNumber},
		{"numbers that name two keys", `{"ints":{"1":"a","-1":"b"}}`, ""},
		{"letter case in a map is no duplicate", `{"any":{"a":1,"A":1}}`, ""},
	})
	// Small and large objects are remembered differently.
	for _, n := range []int{15, 16, 17, 18, 1000} {
		var b strings.Builder
		for i := range n {
			b.WriteString(`"` + strings.Repeat("k", i+1) + `":0,`)
		}
		for i := range n {
			doc := `{` + b.String() + `"` + strings.Repeat("k", i+1) + `":0}`
			assertCode(t, strictjson.Check([]byte(doc)), strictjson.CodeDupKey)
			if n > 100 {
				break
			}
		}
		assertCode(t, strictjson.Check([]byte(`{`+b.String()+`"":0}`)), "")
	}
}

func TestB02DuplicateArrayKeyMergesElements(t *testing.T) {
	run(t, []row{
		{"merged", `{"subject":[{"name":"a","digest":{"sha256":"x"}}],"subject":[{"name":"b"}]}`, strictjson.CodeDupKey},
		{"one array", `{"subject":[{"name":"a","digest":{"sha256":"x"}},{"name":"b"}]}`, ""},
	})
}

func TestB03CaseFoldedKey(t *testing.T) {
	run(t, []row{
		{"exact", `{"subject":[{"name":"a"}],"kind":""}`, ""},
		{"upper case", `{"SUBJECT":[]}`, strictjson.CodeUnknownField},
		{"capitalised", `{"Subject":[]}`, strictjson.CodeUnknownField},
		{"beside the exact one", `{"subject":[],"SUBJECT":[]}`, strictjson.CodeUnknownField},
		{"in an element", `{"subject":[{"Name":"a"}]}`, strictjson.CodeUnknownField},
		{"behind a pointer", `{"next":{"KIND":"a"}}`, strictjson.CodeUnknownField},
		{"in a map of pointers", `{"map":{"k":{"Kind":"a"}}}`, strictjson.CodeUnknownField},
		{"of an embedded struct", `{"Kind":"a"}`, strictjson.CodeUnknownField},
		{"Go name of a tagged field", `{"Index":1}`, strictjson.CodeUnknownField},
		{"name of the embedded struct", `{"inner":{"kind":"a"}}`, strictjson.CodeUnknownField},
		{"skipped field", `{"Skipped":"a"}`, strictjson.CodeUnknownField},
		{"dash of the skipped field", `{"-":"a"}`, strictjson.CodeUnknownField},
		{"map keys are free", `{"any":{"Subject":1,"SUBJECT":2}}`, ""},
	})
}

func TestB04UnicodeFoldedKey(t *testing.T) {
	run(t, []row{
		{"exact", `{"subject":[],"kind":""}`, ""},
		{"long s", `{"` + "\u017f" + `ubject":[]}`, strictjson.CodeUnknownField},
		{"long s beside the exact one", `{"subject":[],"` + "\u017f" + `ubject":[]}`, strictjson.CodeUnknownField},
		{"kelvin sign", `{"` + "\u212a" + `ind":"a"}`, strictjson.CodeUnknownField},
		{"kelvin sign escaped", `{"\u212aind":"a"}`, strictjson.CodeUnknownField},
	})
}

func TestB05InvalidUTF8(t *testing.T) {
	run(t, []row{
		{"two bytes", "{\"kind\":\"\u00ff\"}", ""},
		{"byte ff in a value", "{\"kind\":\"\xff\"}", strictjson.CodeEncoding},
		{"byte ff in a key", "{\"kind\xff\":1}", strictjson.CodeEncoding},
		{"overlong slash", "{\"kind\":\"\xc0\xaf\"}", strictjson.CodeEncoding},
		{"truncated rune", "{\"kind\":\"\xe2\x82\"}", strictjson.CodeEncoding},
		{"raw surrogate", "{\"kind\":\"\xed\xa0\x80\"}", strictjson.CodeEncoding},
		{"beyond Unicode", "{\"kind\":\"\xf4\x90\x80\x80\"}", strictjson.CodeEncoding},
		{"in a raw message", "{\"raw\":[\"\xff\"]}", strictjson.CodeEncoding},
		{"written replacement character", "{\"kind\":\"\uFFFD\\ufffd\"}", ""},
		{"pair", `{"kind":"\ud83d\ude00\uD83D\uDE00"}`, ""},
		{"high alone", `{"kind":"\ud83d"}`, strictjson.CodeEncoding},
		{"high before text", `{"kind":"\ud83dx"}`, strictjson.CodeEncoding},
		{"high before another escape", `{"kind":"\ud83d\n"}`, strictjson.CodeEncoding},
		{"high twice", `{"kind":"\ud83d\ud83d\ude00"}`, strictjson.CodeEncoding},
		{"low alone", `{"kind":"\ude00"}`, strictjson.CodeEncoding},
		{"swapped", `{"kind":"\ude00\ud83d"}`, strictjson.CodeEncoding},
		{"half in a key", `{"any":{"\ud800":1}}`, strictjson.CodeEncoding},
		{"half in a raw message", `{"raw":"\udfff"}`, strictjson.CodeEncoding},
		{"escaped backslash before u", `{"kind":"\\ud83d"}`, ""},
	})
}

func TestB06TrailingData(t *testing.T) {
	run(t, []row{
		{"white space", " \t\r\n{} \t\r\n", ""},
		{"second document", `{}{}`, strictjson.CodeTrailing},
		{"second document on its own line", "{}\n{}", strictjson.CodeTrailing},
		{"garbage", `{}x`, strictjson.CodeTrailing},
		{"closing brace", `{}}`, strictjson.CodeTrailing},
		{"comma", `{},`, strictjson.CodeTrailing},
		{"comment", "{}// x", strictjson.CodeTrailing},
		{"form feed", "{}\f", strictjson.CodeTrailing},
	})
}

func TestB07DepthBomb(t *testing.T) {
	nest := func(open, shut string, n int) []byte {
		return []byte(strings.Repeat(open, n) + "1" + strings.Repeat(shut, n))
	}
	assertCode(t, strictjson.Check(nest("[", "]", 64)), "")
	assertCode(t, strictjson.Check(nest("[", "]", 65)), strictjson.CodeDepth)
	assertCode(t, strictjson.Check(nest(`{"a":`, "}", 64)), "")
	assertCode(t, strictjson.Check(nest(`{"a":`, "}", 65)), strictjson.CodeDepth)
	assertCode(t, strictjson.Check(nest(`[{"a":`, "}]", 32)), "")
	assertCode(t, strictjson.Check(nest(`[{"a":`, "}]", 33)), strictjson.CodeDepth)
	assertCode(t, strictjson.Check([]byte(strings.Repeat("[", 1e6))), strictjson.CodeDepth)
	assertCode(t, strictjson.Check(nest("[", "]", 3), strictjson.MaxDepth(3)), "")
	assertCode(t, strictjson.Check(nest("[", "]", 4), strictjson.MaxDepth(3)), strictjson.CodeDepth)
	var v any
	assertCode(t, strictjson.Unmarshal(nest("[", "]", 65), &v), strictjson.CodeDepth)
	// Many values side by side are no depth.
	assertCode(t, strictjson.Check([]byte(`[`+strings.Repeat(`[],{},`, 1000)+`1]`)), "")
	assertCode(t, strictjson.Check([]byte(`"12345678"`), strictjson.MaxSize(10)), "")
	assertCode(t, strictjson.Check([]byte(`"123456789"`), strictjson.MaxSize(10)), strictjson.CodeSize)
}

func TestB08Numbers(t *testing.T) {
	run(t, []row{
		{"beyond 2^53 in an integer", `{"logIndex":9007199254740993}`, ""},
		{"largest", `{"logIndex":9223372036854775807}`, ""},
		{"too large", `{"logIndex":9223372036854775808}`, strictjson.CodeNumber},
		{"too small", `{"logIndex":-9223372036854775809}`, strictjson.CodeNumber},
		{"exponent", `{"logIndex":1e3}`, strictjson.CodeNumber},
		{"fraction", `{"logIndex":1.0}`, strictjson.CodeNumber},
		{"byte", `{"small":255}`, ""},
		{"beyond a byte", `{"small":256}`, strictjson.CodeNumber},
		{"negative where unsigned", `{"small":-1}`, strictjson.CodeNumber},
		{"2^53 in any", `{"any":[9007199254740992]}`, ""},
		{"beyond 2^53 in any", `{"any":[9007199254740993]}`, strictjson.CodeNumber},
		{"beyond 2^53 deep in any", `{"any":{"a":[-9007199254740993]}}`, strictjson.CodeNumber},
		{"largest in any, which rounds up", `{"any":9223372036854775807}`, strictjson.CodeNumber},
		{"exact in any beyond int64", `{"any":9223372036854775808}`, strictjson.CodeNumber},
		{"exact in float", `{"float":-4611686018427387904}`, ""},
		{"inexact in float", `{"float":9007199254740993}`, strictjson.CodeNumber},
		{"inexact in single float", `{"single":16777217}`, strictjson.CodeNumber},
		{"overflow of float", `{"float":1e309}`, strictjson.CodeNumber},
		{"overflow of single float", `{"single":1e39}`, strictjson.CodeNumber},
		{"underflow of float", `{"float":1e-400}`, strictjson.CodeNumber},
		{"zero in many words", `{"float":-0.00e-400,"any":0e1}`, ""},
		{"fractions round", `{"float":0.1,"single":0.1,"any":0.1}`, ""},
		{"beyond 2^53 in a raw message", `{"raw":9007199254740993}`, ""},
		{"beyond int64 in a raw message", `{"raw":9223372036854775808}`, strictjson.CodeNumber},
		{"beyond float64 in a number", `{"number":1e999}`, strictjson.CodeNumber},
		{"number keeps its text", `{"number":9007199254740993}`, ""},
	})
}

// The canonical name is the tag; the other spelling of a protobuf field is a
// stranger, together with it or alone.
func TestB09AliasOfAField(t *testing.T) {
	run(t, []row{
		{"camelCase", `{"logIndex":1}`, ""},
		{"snake_case", `{"log_index":1}`, strictjson.CodeUnknownField},
		{"both", `{"logIndex":1,"log_index":2}`, strictjson.CodeUnknownField},
	})
}

func TestB10UnknownFields(t *testing.T) {
	run(t, []row{
		{"known", `{"subject":[{"name":"a"}]}`, ""},
		{"smuggled", `{"subject":[],"extra":1}`, strictjson.CodeUnknownField},
		{"smuggled in an element", `{"subject":[{"nam":"a"}]}`, strictjson.CodeUnknownField},
		{"empty name", `{"":1}`, strictjson.CodeUnknownField},
		{"space at the end", `{"kind ":1}`, strictjson.CodeUnknownField},
		{"null", `{"extra":null}`, strictjson.CodeUnknownField},
		{"a raw message is free", `{"raw":{"extra":1}}`, ""},
	})
}

func TestB13ByteOrderMarksAndNUL(t *testing.T) {
	run(t, []row{
		{"plain", `{"kind":"a"}`, ""},
		{"UTF-8 mark", "\xef\xbb\xbf{}", strictjson.CodeEncoding},
		{"UTF-16 little endian", "\xff\xfe{\x00}\x00", strictjson.CodeEncoding},
		{"UTF-16 big endian", "\xfe\xff\x00{\x00}", strictjson.CodeEncoding},
		{"UTF-16 without mark", "{\x00}\x00", strictjson.CodeEncoding},
		{"NUL in a value", "{\"kind\":\"a\x00\"}", strictjson.CodeEncoding},
		{"NUL at the end", "{}\x00", strictjson.CodeEncoding},
		{"NUL written in a value", `{"kind":"a\u0000.txt"}`, strictjson.CodeEncoding},
		{"NUL written in a key", `{"any":{"\u0000":1}}`, strictjson.CodeEncoding},
		{"NUL written in a raw message", `{"raw":"\u0000"}`, strictjson.CodeEncoding},
		{"backslash before u0000", `{"kind":"\\u0000"}`, ""},
		{"U+0001 written", `{"kind":"\u0001"}`, ""},
	})
}

func TestTooManyValues(t *testing.T) {
	for doc, values := range map[string]int{`{}`: 1, `[{},{}]`: 3, `{"a":[1,"b"],"c":null}`: 5, `"one"`: 1} {
		assertCode(t, strictjson.Check([]byte(doc), strictjson.MaxValues(values)), "")
		if values > 1 {
			assertCode(t, strictjson.Check([]byte(doc), strictjson.MaxValues(values-1)), strictjson.CodeValues)
		}
	}
	assertCode(t, strictjson.Check([]byte(`[`+strings.Repeat(`{},`, 1<<20)+`{}]`), strictjson.MaxValues(1000)), strictjson.CodeValues)
}
