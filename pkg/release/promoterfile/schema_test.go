package promoterfile

import (
	"os"
	"reflect"
	"slices"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/waybill-release/waybill/pkg/testing/checkschema"
)

// TestSchemaPromoter: the schema has exactly the keys that are read, node by
// node, and the defaults of the code.
func TestSchemaPromoter(t *testing.T) {
	raw, err := os.ReadFile("../../../cmd/waybill/schema/promoter.json")
	if err != nil {
		t.Fatal(err)
	}
	s := checkschema.Load(t, raw)
	s.Matches(reflect.TypeFor[struct {
		Registries []registryEntry  `yaml:"registries"`
		Provenance Policy           `yaml:"provenance"`
		ImagesPath string           `yaml:"imagesPath"`
		Images     []imageEntry     `yaml:"images"`
		Filestores []filestoreEntry `yaml:"filestores"`
		Files      []fileEntry      `yaml:"files"`
	}]())
	for part, of := range map[string]reflect.Type{"images": reflect.TypeFor[where](), "files": reflect.TypeFor[filestores]()} {
		for i := range of.NumField() {
			f := of.Field(i)
			if key := f.Tag.Get("yaml"); f.Type == reflect.TypeFor[yaml.Node]() && !slices.Contains(s.Keys(""), key) {
				t.Errorf("the schema of %s lacks %s", part, key)
			}
		}
	}
	s.Defaults(map[string]any{
		"registries[].src": registryEntry{}.Source, "filestores[].src": filestoreEntry{}.Source,
		"provenance.mode": ModeOff, "provenance.insecureAcceptUnsigned": Policy{}.InsecureAcceptUnsigned,
	})
	if (&Policy{}).Demands() {
		t.Error("a section without a mode is not off")
	}
}
