// Package attestations_test holds the pages, schemas and examples under this
// directory against the code that reads and writes what they describe.
package attestations_test

import (
	"encoding/json"
	"os"
	"path"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	channelindex "github.com/waybill-release/waybill/attestations/channel/v1"
	exception "github.com/waybill-release/waybill/attestations/exception/v1"
	featuretransition "github.com/waybill-release/waybill/attestations/feature-transition/v1"
	knowndefects "github.com/waybill-release/waybill/attestations/known-defects/v1"
	signedpolicy "github.com/waybill-release/waybill/attestations/policy/v1"
	releasemanifest "github.com/waybill-release/waybill/attestations/release-manifest/v1"
	releasesignoff "github.com/waybill-release/waybill/attestations/release-signoff/v1"
	sbomlist "github.com/waybill-release/waybill/attestations/sbom-list/v1"
	"github.com/waybill-release/waybill/pkg/document/buildrecord"
	"github.com/waybill-release/waybill/pkg/document/provenance"
	"github.com/waybill-release/waybill/pkg/document/rebuildrecord"
	"github.com/waybill-release/waybill/pkg/govern/signoff"
	"github.com/waybill-release/waybill/pkg/judge/declaration"
	"github.com/waybill-release/waybill/pkg/release/plan"
	"github.com/waybill-release/waybill/pkg/value/digest"
)

// home is what every URI of ours begins with; the rest is a directory here.
const home = "https://github.com/waybill-release/waybill/attestations/"

func read(t testing.TB, name string) string {
	t.Helper()
	raw, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// TestEveryURIHasItsPage follows each URI that we sign to the page that says
// what it means, down to the heading that its fragment names.
func TestEveryURIHasItsPage(t *testing.T) {
	for _, uri := range []string{
		releasemanifest.PredicateType, releasemanifest.PageType, releasemanifest.FormerPages, releasemanifest.RunTraces, signedpolicy.PredicateType, exception.PredicateType, knowndefects.PredicateType, channelindex.PredicateType, exception.PredicateType + "#waived", releasesignoff.PredicateType, featuretransition.PredicateType, declaration.PredicateType, rebuildrecord.PredicateType, sbomlist.PredicateType, signoff.Checker, provenance.BuildType, provenance.BuilderIsolated, provenance.BuilderUnisolated, buildrecord.BuildType,
	} {
		dir, fragment, _ := strings.Cut(strings.TrimPrefix(uri, home), "#")
		page := read(t, path.Join(dir, "README.md"))
		if !strings.Contains(page, uri) {
			t.Errorf("%s/README.md does not name %s", dir, uri)
		}
		if fragment != "" && !strings.Contains(page, "\n## "+fragment+"\n") {
			t.Errorf("%s/README.md has no heading %q", dir, fragment)
		}
	}
}

// field is one field of a struct as JSON sees it.
type field struct {
	name     string
	required bool
	kind     reflect.Type
}

// fields lists the JSON fields of a struct.
func fields(t reflect.Type) []field {
	var list []field
	for i := range t.NumField() {
		f := t.Field(i)
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		list = append(list, field{name: name, required: options == "", kind: f.Type})
	}
	return list
}

// structs lists every struct that t leads to, t included.
func structs(t reflect.Type) []reflect.Type {
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Map:
		return structs(t.Elem())
	case reflect.Struct:
		if t == reflect.TypeFor[time.Time]() || t == reflect.TypeFor[digest.Digest]() {
			return nil
		}
		list := []reflect.Type{t}
		for _, f := range fields(t) {
			list = append(list, structs(f.kind)...)
		}
		return list
	}
	return nil
}

func TestPagesNameEveryField(t *testing.T) {
	for dir, kind := range map[string]reflect.Type{
		"release-manifest/v1":   reflect.TypeFor[releasemanifest.Predicate](),
		"build-step/v1":         reflect.TypeFor[provenance.Predicate](),
		"policy/v1":             reflect.TypeFor[signedpolicy.Predicate](),
		"exception/v1":          reflect.TypeFor[exception.Predicate](),
		"known-defects/v1":      reflect.TypeFor[knowndefects.Predicate](),
		"channel/v1":            reflect.TypeFor[channelindex.Predicate](),
		"release-signoff/v1":    reflect.TypeFor[releasesignoff.Predicate](),
		"feature-transition/v1": reflect.TypeFor[featuretransition.Predicate](),
		"declaration/v1":        reflect.TypeFor[declaration.Predicate](),
		"rebuild/v1":            reflect.TypeFor[rebuildrecord.Predicate](),
		"sbom-list/v1":          reflect.TypeFor[sbomlist.Predicate](),
	} {
		page := read(t, dir+"/README.md")
		all := structs(kind)
		if dir == "release-manifest/v1" { // what stands in an extension
			all = append(all, reflect.TypeFor[releasemanifest.RunTrace]())
		}
		for _, s := range all {
			for _, f := range fields(s) {
				if !strings.Contains(page, "`"+f.name+"`") {
					t.Errorf("%s/README.md does not say what `%s` of %s means", dir, f.name, s.Name())
				}
			}
		}
	}
}

func TestManifestPageNamesEveryClass(t *testing.T) {
	page := read(t, "release-manifest/v1/README.md")
	for _, class := range []plan.Class{
		plan.Binary, plan.Archive, plan.Other, plan.Image, plan.ImageChild, plan.SBOM, plan.Provenance, plan.ProvenanceV02, plan.Signature, plan.ConfigFile, plan.Sums, plan.Checksum,
	} {
		if !strings.Contains(page, "`"+string(class)+"`") {
			t.Errorf("the page does not say what class `%s` is", class)
		}
	}
	if !strings.Contains(page, "`"+releasemanifest.Name+"`") {
		t.Error("the page does not name the manifest's own bundle")
	}
}

// TestSchemasMatchTheStructs walks struct and schema side by side.
func TestSchemasMatchTheStructs(t *testing.T) {
	for dir, kind := range map[string]reflect.Type{
		"release-manifest/v1":   reflect.TypeFor[releasemanifest.Predicate](),
		"build-step/v1":         reflect.TypeFor[provenance.ExternalParameters](),
		"policy/v1":             reflect.TypeFor[signedpolicy.Predicate](),
		"exception/v1":          reflect.TypeFor[exception.Predicate](),
		"known-defects/v1":      reflect.TypeFor[knowndefects.Predicate](),
		"channel/v1":            reflect.TypeFor[channelindex.Predicate](),
		"release-signoff/v1":    reflect.TypeFor[releasesignoff.Predicate](),
		"feature-transition/v1": reflect.TypeFor[featuretransition.Predicate](),
		"declaration/v1":        reflect.TypeFor[declaration.Predicate](),
		"rebuild/v1":            reflect.TypeFor[rebuildrecord.Predicate](),
		"sbom-list/v1":          reflect.TypeFor[sbomlist.Predicate](),
	} {
		s := loadSchema(t, dir)
		if want := home + dir + "/schema.json"; s.root["$id"] != want {
			t.Errorf("%s: $id is %v, want %s", dir, s.root["$id"], want)
		}
		s.match(t, dir, s.root, kind)
	}
}

// match demands that an object of the schema has the fields of a struct, and
// demands those that the struct always writes.
func (s schema) match(t *testing.T, at string, node map[string]any, kind reflect.Type) {
	t.Helper()
	if node["additionalProperties"] != false {
		t.Errorf("%s: additionalProperties is not false", at)
	}
	properties, _ := node["properties"].(map[string]any)
	var required []string
	for _, f := range fields(kind) {
		property, ok := properties[f.name].(map[string]any)
		if !ok {
			t.Errorf("%s: the schema lacks %q", at, f.name)
			continue
		}
		delete(properties, f.name)
		if f.required {
			required = append(required, f.name)
		}
		s.matchValue(t, at+"."+f.name, s.resolve(property), f.kind)
	}
	for name := range properties {
		t.Errorf("%s: the struct lacks %q", at, name)
	}
	if got := texts(node["required"]); !slices.Equal(got, required) {
		t.Errorf("%s: required are %q, want %q", at, got, required)
	}
}

func (s schema) matchValue(t *testing.T, at string, node map[string]any, kind reflect.Type) {
	t.Helper()
	want := ""
	switch {
	case kind == reflect.TypeFor[time.Time]():
		if node["format"] != "date-time" {
			t.Errorf("%s: a time without format date-time", at)
		}
		want = "string"
	case kind == reflect.TypeFor[digest.Digest]():
		want = "string"
	case kind.Kind() == reflect.Pointer:
		s.matchValue(t, at, node, kind.Elem())
		return
	case kind.Kind() == reflect.Struct:
		s.match(t, at, clone(node), kind)
		want = "object"
	case kind.Kind() == reflect.Slice:
		items, _ := node["items"].(map[string]any)
		s.matchValue(t, at+"[]", s.resolve(items), kind.Elem())
		want = "array"
	case kind.Kind() == reflect.Map:
		if node["additionalProperties"] == false || node["additionalProperties"] == nil {
			t.Errorf("%s: a map that the schema closes", at)
		}
		want = "object"
	case kind.Kind() == reflect.String:
		want = "string"
	case kind.Kind() == reflect.Bool:
		want = "boolean"
	default:
		want = "integer"
	}
	if node["type"] != want && (node["enum"] == nil || want != "string") {
		t.Errorf("%s: type %v, want %s", at, node["type"], want)
	}
}

// TestExamplesOfThePages reads every JSON block of the pages: a whole statement
// is one of the examples, byte for byte.
func TestExamplesOfThePages(t *testing.T) {
	for dir, example := range map[string]string{
		"release-manifest/v1": "accept-minimal", "policy/v1": "accept-full", "exception/v1": "accept-full", "known-defects/v1": "accept-full", "channel/v1": "accept-full", "release-signoff/v1": "accept-full", "feature-transition/v1": "accept-full", "declaration/v1": "accept-full", "rebuild/v1": "accept-full", "sbom-list/v1": "accept-full",
	} {
		if !strings.Contains(read(t, dir+"/README.md"), "```json\n"+read(t, dir+"/testdata/"+example+".json")+"```\n") {
			t.Errorf("the example of %s/README.md is not testdata/%s.json", dir, example)
		}
	}
	for _, dir := range []string{"release-manifest/v1", "build-step/v1", "builder/v1"} {
		for i, block := range strings.Split(read(t, dir+"/README.md"), "```json\n")[1:] {
			text, _, closed := strings.Cut(block, "```\n")
			if !closed || !json.Valid([]byte(text)) {
				t.Errorf("%s: example %d is no JSON", dir, i+1)
			}
		}
	}
}

// TestBuildStepExample reads the example of the build type's page as the
// external parameters that it shows.
func TestBuildStepExample(t *testing.T) {
	_, rest, _ := strings.Cut(read(t, "build-step/v1/README.md"), "```json\n")
	text, _, _ := strings.Cut(rest, "```\n")
	s := loadSchema(t, "build-step/v1")
	var example map[string]any
	if err := json.Unmarshal([]byte(text), &example); err != nil {
		t.Fatal(err)
	}
	if faults := s.faults(s.root, "$", example); len(faults) > 0 {
		t.Errorf("the example does not fit its schema: %q", faults)
	}
	example["flags"] = "-race"
	if faults := s.faults(s.root, "$", example); len(faults) == 0 {
		t.Error("the schema takes an unknown parameter")
	}
}
