package strictjson_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/waybill-release/waybill/pkg/tool/strictjson"
)

func ExampleScanner() {
	s := strictjson.NewScanner(`["bin/a", "bin/\u0062"]`)
	s.Open('[')
	for first := true; s.Next(first, ']'); first = false {
		fmt.Println(s.Text())
	}
	s.End()
	fmt.Println(s.Err())
	// Output:
	// bin/a
	// bin/b
	// <nil>
}

// tree pulls a value as encoding/json would make it.
func tree[T strictjson.Text](s *strictjson.Scanner[T], data string) any {
	switch s.Peek() {
	case '{':
		object := map[string]any{}
		s.Open('{')
		for first := true; s.Next(first, '}'); first = false {
			from := s.Offset()
			key := string(s.Key())
			if _, twice := object[key]; twice {
				s.FailAt(from, strictjson.CodeDupKey, "key %q appears twice", key)
			}
			object[key] = tree(s, data)
		}
		return object
	case '[':
		list := []any{}
		s.Open('[')
		for s.Next(len(list) == 0, ']') {
			list = append(list, tree(s, data))
		}
		return list
	case '"':
		return string(s.Text())
	case 't', 'f':
		return s.Bool()
	}
	from := s.Offset()
	s.Skip()
	var v any
	_ = json.Unmarshal([]byte(data[from:s.Offset()]), &v) // compared below
	return v
}

// assertPulled: what is pulled, of text or of bytes, is what encoding/json
// reads, and is refused where and why Check refuses it.
func assertPulled(t *testing.T, doc []byte) {
	t.Helper()
	ofText, ofBytes := strictjson.NewScanner(string(doc)), strictjson.NewScanner(doc)
	text, bytes := tree(ofText, string(doc)), tree(ofBytes, string(doc))
	ofText.End()
	ofBytes.End()
	var want, fromText, fromBytes *strictjson.Error
	errors.As(strictjson.Check(doc), &want)
	errors.As(ofText.Err(), &fromText)
	errors.As(ofBytes.Err(), &fromBytes)
	if !reflect.DeepEqual(fromText, fromBytes) || (want == nil) != (fromText == nil) {
		t.Fatalf("%q: of text %v, of bytes %v, Check says %v", doc, fromText, fromBytes, want)
	}
	if want != nil {
		if fromText.Code != want.Code || fromText.Offset != want.Offset {
			t.Errorf("%q: %v, Check says %v", doc, fromText, want)
		}
		if before := ofText.Offset(); ofText.Text() != "" || ofText.Key() != "" || ofText.Bool() || ofText.Next(true, '}') || ofText.Take("") || ofText.Offset() != before {
			t.Errorf("%q: reads on after %v", doc, want)
		}
		return
	}
	var theirs any
	if err := json.Unmarshal(doc, &theirs); errors.As(err, new(*json.UnmarshalTypeError)) {
		return // a number beyond float64
	}
	if !reflect.DeepEqual(text, theirs) || !reflect.DeepEqual(bytes, theirs) {
		t.Errorf("%q: %v and %v, encoding/json says %v", doc, text, bytes, theirs)
	}
}

func TestScanner(t *testing.T) {
	for _, doc := range []string{
		sample, ``, ` `, `null`, `tru`, `truefalse`, `[1,]`, `[,1]`, `[1 2]`, `{"a"}`, `{"a":}`, `{"a":1,}`, `{,}`, `{a:1}`, `[}`, `{]`, `"a`, `"\`, `"\x"`,
		`"\u12"`, `"\ud83dx"`, `"\ud83d\n"`, `"\ude00"`, `"\u0000"`, `"\"\\\/\b\f\n\r\t\u00e9\uD83D\uDE00é"`, "\"\x1f\"", "\"\xff\"", "\xef\xbb\xbf{}", "{}\x00",
		`{} x`, `[01]`, `[-]`, `[1.]`, `[1e]`, `[1e400]`, `[1e-400]`, `[9223372036854775808]`, `{"a":1,"\u0061":2}`, `[{"a":{}},[[]]]`, strings.Repeat("[", 65),
	} {
		assertPulled(t, []byte(doc))
	}
	for i := range len(sample) {
		assertPulled(t, []byte(sample[:i]))
		for _, step := range []byte{1, 0x20, 0x80, 0xff} {
			bumped := []byte(sample)
			bumped[i] += step
			assertPulled(t, bumped)
		}
	}
}

func TestScannerLimits(t *testing.T) {
	for _, row := range []struct {
		doc   string
		limit strictjson.Limit
		code  string
	}{
		{`[[1]]`, strictjson.MaxDepth(2), ""}, {`[[1]]`, strictjson.MaxDepth(1), strictjson.CodeDepth},
		{`[[1]]`, strictjson.MaxSize(5), ""}, {`[[1]]`, strictjson.MaxSize(4), strictjson.CodeSize},
		{`[[1]]`, strictjson.MaxValues(3), ""}, {`[[1]]`, strictjson.MaxValues(2), strictjson.CodeValues},
	} {
		s := strictjson.NewScanner(row.doc, row.limit)
		tree(s, row.doc)
		assertCode(t, s.Err(), row.code)
	}
}

func FuzzScanner(f *testing.F) {
	f.Add([]byte(sample))
	f.Add([]byte(`{"a":[1,{"b":"\ud83d\ude00","\u0062":null}],"c":-1.5e+3}`))
	f.Fuzz(assertPulled)
}
