package gate

import (
	"os"
	"reflect"
	"testing"

	"github.com/waybill-release/waybill/pkg/testing/checkschema"
)

// TestSchemaRevocations: the schema has exactly the keys that are read, and the defaults of
// the code.
func TestSchemaRevocations(t *testing.T) {
	raw, err := os.ReadFile("../../cmd/waybill/schema/revocations.json")
	if err != nil {
		t.Fatal(err)
	}
	s := checkschema.Load(t, raw)
	s.Matches(reflect.TypeFor[revocationsFile]())
	s.Defaults(nil)
}
