package strictjson_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
	"testing"

	"github.com/waybill-release/waybill/pkg/tool/strictjson"
)

const sample = `{"subject":[{"name":"a\u00e9\ud83d\ude00","digest":{"sha256":"00"}},{}],"logIndex":-12,"float":1.5e-3,
	"any":{"l":[null,true,false,"\\"],"n":0},"map":{"k":{"kind":""}},"raw":[{"a":1}],"pair":[1,2],"quoted":"7","kind":"é"}`

// Every prefix is refused; a document with one byte changed is refused, or
// means the same here as to encoding/json.
func TestMangled(t *testing.T) {
	if err := strictjson.Unmarshal([]byte(sample), new(statement)); err != nil {
		t.Fatalf("the good twin: %v", err)
	}
	for i := range len(sample) {
		if err := strictjson.Unmarshal([]byte(sample[:i]), new(statement)); err == nil {
			t.Errorf("prefix of %d bytes accepted", i)
		}
		for _, step := range []byte{1, 0x20, 0x80, 0xff} {
			bumped := []byte(sample)
			bumped[i] += step
			assertOracle(t, bumped)
		}
	}
}

func FuzzUnmarshal(f *testing.F) {
	for _, doc := range []string{
		sample, "", "null", `{"a":1,"a":2}`, `{"KIND":1}`, `[1e400,9007199254740993]`, `"\ud800"`, "\xef\xbb\xbf{}", `{} {}`, "[[[[[[[[1]]]]]]]]",
		`{"any":{"a":{"b":1,"b":1}}}`, `{"raw":{"\u0061":1,"a":1}}`, `{"next":{"next":{}}}`, `{"ints":{"1":"","01":""}}`, `{"number":-0.0}`,
	} {
		f.Add([]byte(doc))
	}
	f.Fuzz(assertOracle)
}

// assertOracle compares with encoding/json: what is accepted here must have no
// duplicate key and the same value there; what is refused here as no JSON must
// be refused there.
func assertOracle(t *testing.T, doc []byte) {
	for _, target := range []reflect.Type{reflect.TypeFor[any](), reflect.TypeFor[statement]()} {
		for _, unmarshal := range []func([]byte, any, ...strictjson.Limit) error{strictjson.Unmarshal, strictjson.UnmarshalOpen} {
			ours, theirs := reflect.New(target), reflect.New(target)
			err := unmarshal(doc, ours.Interface())
			var e *strictjson.Error
			if err != nil {
				if !errors.As(err, &e) || len(err.Error()) > 1500 || !reflect.DeepEqual(ours.Elem().Interface(), theirs.Elem().Interface()) {
					t.Errorf("%q: %v left %v", doc, err, ours.Elem())
				}
				if (e.Code == strictjson.CodeSyntax || e.Code == strictjson.CodeTrailing) && json.Valid(doc) {
					t.Errorf("%q is JSON: %v", doc, err)
				}
				continue
			}
			if err := json.Unmarshal(doc, theirs.Interface()); err != nil {
				t.Errorf("%q: accepted, encoding/json says %v", doc, err)
			}
			if !reflect.DeepEqual(ours.Elem().Interface(), theirs.Elem().Interface()) {
				t.Errorf("%q: %v, encoding/json says %v", doc, ours.Elem(), theirs.Elem())
			}
			if err := duplicates(doc); err != nil {
				t.Errorf("%q: accepted with %v", doc, err)
			}
			if err := strictjson.Check(doc); err != nil {
				t.Errorf("%q: accepted, but not by Check: %v", doc, err)
			}
		}
	}
}

// duplicates looks for equal keys by other means than the package: with the
// tokens of encoding/json.
func duplicates(doc []byte) error {
	dec := json.NewDecoder(bytes.NewReader(doc))
	dec.UseNumber()
	type frame struct {
		keys    map[string]bool // nil in an array
		wantKey bool
	}
	stack := []frame{{}}
	for {
		token, err := dec.Token()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		top := &stack[len(stack)-1]
		if key, text := token.(string); text && top.wantKey {
			if top.keys[key] {
				return fmt.Errorf("duplicate key %q", key)
			}
			top.keys[key] = true
			top.wantKey = false
			continue
		}
		switch token {
		case json.Delim('{'):
			stack = append(stack, frame{keys: map[string]bool{}, wantKey: true})
			continue
		case json.Delim('['):
			stack = append(stack, frame{})
			continue
		case json.Delim('}'), json.Delim(']'):
			stack = stack[:len(stack)-1]
		}
		top = &stack[len(stack)-1]
		top.wantKey = top.keys != nil
	}
}

func BenchmarkUnmarshal(b *testing.B) {
	doc := []byte(`[` + strings.Repeat(sample+",", 1000) + sample + `]`)
	for name, unmarshal := range map[string]func([]byte, any) error{
		"strict":        func(d []byte, v any) error { return strictjson.Unmarshal(d, v) },
		"check":         func(d []byte, _ any) error { return strictjson.Check(d) },
		"encoding-json": json.Unmarshal,
	} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(doc)))
			for b.Loop() {
				var v []statement
				if err := unmarshal(doc, &v); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
