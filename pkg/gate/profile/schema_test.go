package profile

import (
	"os"
	"reflect"
	"testing"

	"github.com/waybill-release/waybill/pkg/testing/checkschema"
)

// TestSchemaProfile: the schema has exactly the keys that are read, and the defaults of
// the code.
func TestSchemaProfile(t *testing.T) {
	raw, err := os.ReadFile("../../../cmd/waybill/schema/profile.json")
	if err != nil {
		t.Fatal(err)
	}
	s := checkschema.Load(t, raw)
	s.Matches(reflect.TypeFor[file]())
	s.Defaults(map[string]any{"modules.proxy": modules{}.address()})
}
