package policy

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// TestSchemaNamesEveryKey compares the published schema with what the loader
// reads, part by part: a key in one of them only is a lie in the other.
func TestSchemaNamesEveryKey(t *testing.T) {
	var root map[string]any
	if err := json.Unmarshal(Schema(), &root); err != nil {
		t.Fatal(err)
	}
	for path, read := range map[string]any{
		"":                                  file{},
		"trustRoot":                         fileTrustRoot{},
		"$defs/signers/items":               signer{},
		"builders/items":                    fileBuilder{},
		"sources/items":                     fileVerifier{},
		"inputs/items":                      fileInput{},
		"declares/items":                    fileDeclaration{},
		"source":                            fileSource{},
		"build":                             fileBuild{},
		"build/properties/parameters/items": fileParameter{},
		"require/items":                     fileRequire{},
		"late/items":                        fileLate{},
		"signoff":                           fileSignoff{},
		"summaries/items":                   fileSummary{},
		"summaries/items/properties/policy": filePinned{},
		"defects":                           fileDefects{},
		"rules/items":                       fileRule{},
	} {
		node := root
		for i, step := range strings.Split(path, "/") {
			if path == "" {
				break
			}
			if i == 0 && step != "$defs" {
				node = node["properties"].(map[string]any)
			}
			node = node[step].(map[string]any)
		}
		said := slices.Sorted(maps.Keys(node["properties"].(map[string]any)))
		if want := keysOf(reflect.TypeOf(read)); !slices.Equal(said, want) {
			t.Errorf("%q: the schema knows %v, the loader %v", path, said, want)
		}
		if node["additionalProperties"] != false {
			t.Errorf("%q is not closed", path)
		}
	}
}

func keysOf(t reflect.Type) []string {
	var keys []string
	for i := range t.NumField() {
		keys = append(keys, t.Field(i).Tag.Get("yaml"))
	}
	slices.Sort(keys)
	return keys
}
