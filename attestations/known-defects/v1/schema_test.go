package knowndefects

import (
	"os"
	"reflect"
	"testing"

	"github.com/waybill-release/waybill/pkg/testing/checkschema"
)

// TestSchemaDefects: the schema has exactly the keys that are read, and the defaults of
// the code.
func TestSchemaDefects(t *testing.T) {
	raw, err := os.ReadFile("../../../cmd/waybill/schema/defects.json")
	if err != nil {
		t.Fatal(err)
	}
	s := checkschema.Load(t, raw)
	s.Matches(reflect.TypeFor[file]())
	s.Defaults(nil)
}
