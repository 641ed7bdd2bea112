package config

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/waybill-release/waybill/pkg/govern/feature/known"
)

// rule is a schema, as far as ours uses the language. A keyword that is not here
// fails the test, so that the schema says nothing that is not held.
type rule struct {
	Schema, ID         string          // which say nothing of a value
	Title, Description string          //
	Ref                string          `json:"$ref"`
	Defs               map[string]rule `json:"$defs"`
	Type               string          `json:"type"`
	Const              any             `json:"const"`
	Enum               []any           `json:"enum"`
	Pattern            string          `json:"pattern"`
	MinLength          int             `json:"minLength"`
	MaxLength          int             `json:"maxLength"`
	MinItems           int             `json:"minItems"`
	MaxItems           int             `json:"maxItems"`
	UniqueItems        bool            `json:"uniqueItems"`
	Items              *rule           `json:"items"`
	Required           []string        `json:"required"`
	Properties         map[string]rule `json:"properties"`
	MinProperties      int             `json:"minProperties"`
	PropertyNames      *rule           `json:"propertyNames"`
	// AdditionalProperties is false, or a rule for them.
	AdditionalProperties json.RawMessage `json:"additionalProperties"`
}

func readSchema(t *testing.T) rule {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(strings.NewReplacer(`"$schema"`, `"schema"`, `"$id"`, `"id"`).Replace(string(Schema()))))
	d.DisallowUnknownFields()
	var r rule
	if err := d.Decode(&r); err != nil {
		t.Fatal(err)
	}
	return r
}

// judge is why a value does not follow the rule of a schema.
func (root rule) judge(r rule, value any) error {
	if name, is := strings.CutPrefix(r.Ref, "#/$defs/"); is {
		if err := root.judge(root.Defs[name], value); err != nil {
			return err
		}
	}
	_, isText := value.(string)
	list, isList := value.([]any)
	object, isObject := value.(map[string]any)
	text := fmt.Sprint(value)
	switch {
	case r.Const != nil && value != r.Const, r.Enum != nil && !slices.Contains(r.Enum, value),
		r.Type == "string" && !isText, r.Type == "array" && !isList, r.Type == "object" && !isObject,
		r.Pattern != "" && !regexp.MustCompile(r.Pattern).MatchString(text),
		len(text) < r.MinLength, r.MaxLength > 0 && len(text) > r.MaxLength,
		isList && (len(list) < r.MinItems || r.MaxItems > 0 && len(list) > r.MaxItems):
		return fmt.Errorf("%q does not follow %+v", text, r)
	}
	for i, v := range list {
		if r.UniqueItems && slices.ContainsFunc(list[:i], func(o any) bool { return reflect.DeepEqual(o, v) }) {
			return fmt.Errorf("%v is there twice", v)
		}
		if r.Items == nil { // it is said where the rule refers to
			continue
		}
		if err := root.judge(*r.Items, v); err != nil {
			return err
		}
	}
	return root.inside(r, object)
}

func (root rule) inside(r rule, object map[string]any) error {
	for _, name := range r.Required {
		if _, there := object[name]; !there {
			return fmt.Errorf("there is no %s", name)
		}
	}
	if len(object) < r.MinProperties {
		return fmt.Errorf("%v is too few", object)
	}
	for name, v := range object {
		one, listed := r.Properties[name]
		if !listed && (string(r.AdditionalProperties) == "false" || len(r.AdditionalProperties) > 0 && json.Unmarshal(r.AdditionalProperties, &one) != nil) {
			return fmt.Errorf("%s is no key", name)
		}
		if r.PropertyNames != nil {
			if err := root.judge(*r.PropertyNames, name); err != nil {
				return err
			}
		}
		if err := root.judge(one, v); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// accepts judges a document as an editor does.
func (root rule) accepts(text string) error {
	var value any
	if err := yaml.Unmarshal([]byte(text), &value); err != nil {
		return err
	}
	return root.judge(root, value)
}

const whole = `apiVersion: waybill/v1
kind: Features
site: ./features
profile: profile.yaml
identity: reconciler-0
every: 5m
reporters:
- {identity: promoter, every: 24h}
- {identity: gate, every: 1m30s, namespace: waybill}
window: 72.5h
desired:
  RequireProvenance: {state: "On", scope: [registry.example.test:5000/prod, registry.example.test/eu]}
  waybill/TraceAnnotations: {state: "Off"}
dynamic: [StatusPage]
public: [registry.example.test/prod/lantern]
releases: [v0.1.0, v0.2.0-rc.1]
`

// TestSchemaAgrees: what is read, the schema accepts; and each row changes one
// thing, which neither takes.
func TestSchemaAgrees(t *testing.T) {
	root := readSchema(t)
	least := "apiVersion: waybill/v1\nkind: Features\nsite: gs://gate/features\nprofile: /etc/profile.yaml\nidentity: reconciler-0\nreporters: [{identity: promoter, every: 24h}]\n"
	for _, text := range []string{whole, least} {
		if _, err := ParseConfig([]byte(text), ".", known.Registry()); err != nil {
			t.Fatal(err)
		}
		if err := root.accepts(text); err != nil {
			t.Errorf("the schema refuses\n%s%v", text, err)
		}
	}
	for from, to := range map[string]string{
		"kind: Features":        "kind: GateService",
		"every: 5m":             "evry: 5m",
		"site: ./features\n":    "",
		"reconciler-0":          "Reconciler/0",
		"every: 24h":            "every: often",
		"identity: promoter, ":  "",
		"{identity: promoter, ": "{identity: promoter, window: 1h, ",
		"namespace: waybill":    "namespace: Waybill",
		"RequireProvenance:":    "require-provenance:",
		`state: "On", `:         "",
		`state: "Off"`:          `state: "TurningOff"`,
		"test/eu]":              "test/Eu]",
		"lantern]":              "lantern@sha256]",
		"dynamic: [StatusPage]": "dynamic: []",
		"[StatusPage]":          "[StatusPage, StatusPage]",
		"v0.2.0-rc.1":           "v0.1.0",
		"releases: [v0.1.0, ":   "releases: [\"0.1\", ",
		"window: 72.5h":         "window: 72.5",
		"\npublic: [":           "\npublic: {is: ",
	} {
		text := strings.Replace(whole, from, to, 1)
		if text == whole {
			t.Fatalf("%q does not stand in the file", from)
		}
		if err := root.accepts(text); err == nil {
			t.Errorf("%q in place of %q: the schema accepts it", to, from)
		}
		if _, err := ParseConfig([]byte(text), ".", known.Registry()); err == nil {
			t.Errorf("%q in place of %q: the parser accepts it", to, from)
		}
	}
}

// TestSchemaNamesEveryKey: a key in the schema or in the parser alone is a lie
// in the other.
func TestSchemaNamesEveryKey(t *testing.T) {
	root := readSchema(t)
	var desired rule
	if err := json.Unmarshal(root.Properties["desired"].AdditionalProperties, &desired); err != nil {
		t.Fatal(err)
	}
	for _, one := range []struct {
		rule rule
		read reflect.Type
	}{
		{root, reflect.TypeFor[wire]()},
		{*root.Properties["reporters"].Items, reflect.TypeFor[reporter]()},
		{desired, reflect.TypeFor[wanted]()},
	} {
		var keys []string
		for _, f := range reflect.VisibleFields(one.read) {
			keys = append(keys, f.Tag.Get("yaml"))
		}
		slices.Sort(keys)
		if said := slices.Sorted(maps.Keys(one.rule.Properties)); !slices.Equal(said, keys) || string(one.rule.AdditionalProperties) != "false" {
			t.Errorf("of %s the schema knows %v, the parser %v", one.read.Name(), said, keys)
		}
	}
}
