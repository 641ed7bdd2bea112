package k8slayout

import (
	"os"
	"reflect"
	"testing"

	"github.com/waybill-release/waybill/pkg/testing/checkschema"
)

// TestSchemaExpected: the schema has exactly the keys that are read, and the defaults of
// the code.
func TestSchemaExpected(t *testing.T) {
	raw, err := os.ReadFile("../../../cmd/waybill/schema/expected.json")
	if err != nil {
		t.Fatal(err)
	}
	s := checkschema.Load(t, raw)
	s.Matches(reflect.TypeFor[listFile]())
	s.Defaults(nil)
}
