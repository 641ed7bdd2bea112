package caller

import (
	"os"
	"reflect"
	"testing"

	"github.com/waybill-release/waybill/pkg/testing/checkschema"
)

// TestSchemaCallers: the schema has exactly the keys that are read, and the defaults of
// the code.
func TestSchemaCallers(t *testing.T) {
	raw, err := os.ReadFile("../../../cmd/waybill/schema/callers.json")
	if err != nil {
		t.Fatal(err)
	}
	s := checkschema.Load(t, raw)
	s.Matches(reflect.TypeFor[wire]())
	s.Defaults(nil)
}
