package strictjson_test

import (
	"bytes"
	"encoding/json"
	"reflect"
	"testing"
	"time"

	"github.com/waybill-release/waybill/pkg/tool/strictjson"
)

type (
	deepA   struct{ Same, OnlyA string }
	deepB   struct{ Same, OnlyB string }
	middle  struct{ *deepA }
	Twice   struct{ Inside string }
	left    struct{ Twice }
	right   struct{ Twice }
	text    string
	Exposed string
	self    struct {
		*self
		Own string
	}
)

// The fields that count are those of encoding/json, with all its rules about
// embedding, tags and ties. null fits every type, so that only keys matter,
// and no key is a field in other letters.
func TestFieldsAreThoseOfEncodingJSON(t *testing.T) {
	for _, target := range []any{
		struct{}{},
		struct {
			Plain, hidden string
			Tagged        string `json:"tagged"`
			Renamed       string `json:"plain"`
			Options       int    `json:",string,omitempty"`
			Dash          string `json:"-,"`
			Gone          string `json:"-"`
			Odd           string `json:"a\"b"`
			Word          string `json:"größe $1/2"`
		}{},
		struct {
			deepA
			deepB
		}{},
		struct {
			deepA
			deepB
			Same string
		}{},
		struct {
			middle
			deepB
		}{},
		struct {
			deepA `json:"named"`
			*deepB
		}{},
		struct {
			left
			right
		}{},
		reflect.Zero(reflect.StructOf([]reflect.StructField{ // vet objects to such a literal
			{Name: "X", Type: reflect.TypeFor[string](), Tag: `json:"pair"`},
			{Name: "Y", Type: reflect.TypeFor[string](), Tag: `json:"pair"`},
		})).Interface(),
		struct {
			Tie string
			Y   string `json:"Tie"`
		}{},
		struct {
			text
			Exposed
			time.Time `json:"time"`
		}{},
		self{},
		struct{ N *self }{},
		[]struct {
			A map[string][1]struct{ B string }
		}{},
	} {
		for _, key := range []string{
			"Plain", "hidden", "tagged", "plain", "Renamed", "Options", "-", "Dash", "Gone", "a\"b", "Odd", "größe $1/2", "Word",
			"Same", "OnlyA", "OnlyB", "deepA", "named", "deepB", "middle", "left", "right", "Twice", "Inside", "pair", "X", "Y", "Tie",
			"text", "Exposed", "time", "self", "Own", "N", "A", "B",
		} {
			name, _ := json.Marshal(key)
			doc := []byte(`{` + string(name) + `:null}`)
			if reflect.TypeOf(target).Kind() == reflect.Slice {
				doc = []byte(`[` + string(doc) + `]`)
			}
			dec := json.NewDecoder(bytes.NewReader(doc))
			dec.DisallowUnknownFields()
			known := dec.Decode(reflect.New(reflect.TypeOf(target)).Interface()) == nil
			err := strictjson.Unmarshal(doc, reflect.New(reflect.TypeOf(target)).Interface())
			if known != (err == nil) {
				t.Errorf("%T, %s: encoding/json knows it: %t, we: %v", target, doc, known, err)
			}
		}
	}
}
