package declaration

import (
	"os"
	"reflect"
	"testing"

	"github.com/waybill-release/waybill/pkg/testing/checkschema"
)

// TestSchemaDeclaration: the schema has exactly the keys that are read, and the defaults of
// the code.
func TestSchemaDeclaration(t *testing.T) {
	raw, err := os.ReadFile("../../../cmd/waybill/schema/declaration.json")
	if err != nil {
		t.Fatal(err)
	}
	s := checkschema.Load(t, raw)
	s.Matches(reflect.TypeFor[file]())
	s.Defaults(nil)
}
