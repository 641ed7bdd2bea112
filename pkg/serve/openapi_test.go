package serve_test

import (
	"encoding/json"
	"maps"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/waybill-release/waybill/pkg/serve/api"
	"github.com/waybill-release/waybill/pkg/serve/caller"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// schema is the part of JSON Schema that the document uses of a type.
type schema struct {
	Properties map[string]*schema
	Required   []string
	Items      *schema
	Enum       []string
	Const      string
}

// TestDocsOpenAPI: the document describes each address that callers reach, and
// of what is asked and answered each field.
func TestDocsOpenAPI(t *testing.T) {
	raw, err := os.ReadFile("openapi.json")
	if err != nil {
		t.Fatal(err)
	}
	var doc struct {
		Paths      map[string]map[string]any
		Components struct{ Schemas map[string]*schema }
	}
	if err := json.Unmarshal(raw, &doc); err != nil {
		t.Fatal(err)
	}
	source, err := os.ReadFile("http.go")
	if err != nil {
		t.Fatal(err)
	}
	routes := map[string]bool{}
	for _, m := range regexp.MustCompile(`HandleFunc\("([A-Z]+) (/v1/[^"]*)"`).FindAllStringSubmatch(string(source), -1) {
		routes[m[2]+" "+strings.ToLower(m[1])] = true
	}
	for path, verbs := range doc.Paths {
		for verb := range verbs {
			if !routes[path+" "+verb] {
				t.Errorf("%s %s is described, and is not there", verb, path)
			}
			delete(routes, path+" "+verb)
		}
	}
	if len(routes) > 0 {
		t.Errorf("nothing is said of %v", slices.Sorted(maps.Keys(routes)))
	}
	all := doc.Components.Schemas
	for name, of := range map[string]any{"Request": api.Request{}, "Question": api.Question{}, "Answer": api.Answer{}, "Audit": api.Audit{}, "Problem": api.Problem{}} {
		fields(t, name, all[name], reflect.TypeOf(of))
	}
	fields(t, "Decision", all["Answer"].Properties["decisions"].Items, reflect.TypeFor[api.Decision]())
	fields(t, "Head", all["Audit"].Properties["head"], reflect.TypeFor[api.Head]())
	asked := []string{string(api.Verify), string(api.Promote), string(api.Override)}
	if got := all["Question"].Properties["verb"].Enum; !slices.Equal(got, asked) || len(asked)+3 != len(caller.Verbs()) { // audit is an address of its own, and pull and push are of a registry
		t.Errorf("the verbs are %q", got)
	}
	for name, want := range map[string]string{"Request": api.SchemaRequest, "Answer": api.SchemaAnswer, "Audit": api.SchemaAudit, "Problem": api.SchemaAnswer} {
		if got := all[name].Properties["schema"].Const; got != want {
			t.Errorf("%s has the schema %q, want %q", name, got, want)
		}
	}
	for _, o := range []verdict.Outcome{verdict.Undecided, verdict.Accepted, verdict.Refused, verdict.Malformed, verdict.Unavailable, verdict.Internal} {
		if !slices.Contains(all["Outcome"].Enum, o.String()) {
			t.Errorf("nothing is said of the outcome %s", o)
		}
	}
}

// fields holds a schema against the fields of a type: the same names, and those
// are required that are always there.
func fields(t *testing.T, name string, s *schema, of reflect.Type) {
	t.Helper()
	if s == nil {
		t.Errorf("%s is not described", name)
		return
	}
	want := map[string]bool{}
	for i := range of.NumField() {
		tag, how, _ := strings.Cut(of.Field(i).Tag.Get("json"), ",")
		want[tag] = !strings.HasPrefix(how, "omit")
	}
	if got, wanted := slices.Sorted(maps.Keys(s.Properties)), slices.Sorted(maps.Keys(want)); !slices.Equal(got, wanted) {
		t.Errorf("%s is described with %q, and has %q", name, got, wanted)
	}
	for tag, always := range want {
		if slices.Contains(s.Required, tag) && !always {
			t.Errorf("%s: %s is required, and may be left out", name, tag)
		}
	}
}
