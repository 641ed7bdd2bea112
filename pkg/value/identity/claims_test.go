package identity

import (
	"maps"
	"reflect"
	"strings"
	"testing"
)

// TestClaimsAll: every field is listed, under the name that it has in JSON, and
// an empty one is not.
func TestClaimsAll(t *testing.T) {
	if got := maps.Collect(Claims{}.All()); len(got) != 0 {
		t.Errorf("no claims are %v", got)
	}
	var c Claims
	fields := reflect.ValueOf(&c).Elem()
	for i := range fields.NumField() {
		fields.Field(i).SetString(fields.Type().Field(i).Name)
	}
	got := maps.Collect(c.All())
	for i := range fields.NumField() {
		f := fields.Type().Field(i)
		if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); got[name] != f.Name {
			t.Errorf("%s is %q, want %q", name, got[name], f.Name)
		}
	}
	for range c.All() {
		break // stopping early is allowed
	}
}
