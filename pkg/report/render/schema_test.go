package render_test

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/waybill-release/waybill/pkg/report/render"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

type node struct {
	Ref        string          `json:"$ref"`
	Properties map[string]node `json:"properties"`
	Required   []string        `json:"required"`
	Items      *node           `json:"items"`
	Defs       map[string]node `json:"$defs"`
}

// TestSchemaNamesEveryField: the schema has exactly the fields of the verdict,
// and requires exactly those that are always there.
func TestSchemaNamesEveryField(t *testing.T) {
	var root node
	if err := json.Unmarshal(render.VerdictSchema(), &root); err != nil {
		t.Fatal(err)
	}
	document := reflect.StructOf(append([]reflect.StructField{
		{Name: "Schema", Type: reflect.TypeFor[string](), Tag: `json:"schema"`},
		{Name: "Outcome", Type: reflect.TypeFor[string](), Tag: `json:"outcome"`},
		{Name: "Headline", Type: reflect.TypeFor[string](), Tag: `json:"headline"`},
	}, reflect.VisibleFields(reflect.TypeFor[verdict.Verdict]())...))
	root.match(t, root.Defs, "verdict", document)
}

func (n node) match(t *testing.T, defs map[string]node, at string, kind reflect.Type) {
	t.Helper()
	if n.Ref != "" {
		n = defs[strings.TrimPrefix(n.Ref, "#/$defs/")]
	}
	for kind.Kind() == reflect.Pointer {
		kind = kind.Elem()
	}
	if _, text := reflect.New(kind).Interface().(interface{ MarshalText() ([]byte, error) }); text {
		return
	}
	switch kind.Kind() {
	case reflect.Slice:
		if n.Items == nil {
			t.Errorf("%s is a list, and the schema says something else", at)
			return
		}
		n.Items.match(t, defs, at+"[]", kind.Elem())
	case reflect.Struct:
		var names []string
		for i := range kind.NumField() {
			name, options, _ := strings.Cut(kind.Field(i).Tag.Get("json"), ",")
			names = append(names, name)
			below, there := n.Properties[name]
			if !there {
				t.Errorf("%s.%s: the schema does not have it", at, name)
				continue
			}
			if always := options == ""; always != slices.Contains(n.Required, name) {
				t.Errorf("%s.%s is always there: %v, and the schema says otherwise", at, name, always)
			}
			below.match(t, defs, at+"."+name, kind.Field(i).Type)
		}
		for name := range n.Properties {
			if !slices.Contains(names, name) {
				t.Errorf("%s: the schema has %q, and the verdict has not", at, name)
			}
		}
	}
}
