package signoff

import (
	"os"
	"reflect"
	"testing"

	"github.com/waybill-release/waybill/pkg/testing/checkschema"
)

// TestSchemaSignoff: the schema has exactly the keys that are read, and the defaults of
// the code.
func TestSchemaSignoff(t *testing.T) {
	raw, err := os.ReadFile("../../../cmd/waybill/schema/signoff.json")
	if err != nil {
		t.Fatal(err)
	}
	s := checkschema.Load(t, raw)
	s.Matches(reflect.TypeFor[recordFile]())
	s.Defaults(nil)
}

// TestSchemaRegistry: the schema has exactly the keys that are read, and the defaults of
// the code.
func TestSchemaRegistry(t *testing.T) {
	raw, err := os.ReadFile("../../../cmd/waybill/schema/registry.json")
	if err != nil {
		t.Fatal(err)
	}
	s := checkschema.Load(t, raw)
	s.Matches(reflect.TypeFor[registryFile]())
	s.Defaults(map[string]any{"gates[].offTasks": registered{}.OffTasks})
}
