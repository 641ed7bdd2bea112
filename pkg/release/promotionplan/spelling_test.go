package promotionplan

import (
	"bytes"
	"testing"

	"github.com/waybill-release/waybill/pkg/release/promoterfile"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// TestSpellingsOfADestination: two images that want one tag of one place are in
// conflict, whichever way the manifests spell the place; and a saved plan in
// which somebody spelled it in another way is not the plan.
func TestSpellingsOfADestination(t *testing.T) {
	for _, row := range []struct {
		a, b     string
		conflict bool
	}{
		{"us.example.test/prod", "us.example.test:443/prod", true},
		{"us.example.test/prod", "US.example.test/prod", true},
		{"docker.io/prod", "index.docker.io/prod", true},
		{"us.example.test/prod", "us.example.test:5000/prod", false},
	} {
		a := project(t, "a", "staging.example.test/a", "demo", []string{row.a}, []string{one, `"v1"`})
		b := project(t, "b", "staging.example.test/b", "demo", []string{row.b}, []string{two, `"v1"`})
		_, err := Make([]promoterfile.Manifest{a, b})
		if (err != nil) != row.conflict || err != nil && verdict.FindingOf("", err).Code != verdict.TagConflict {
			t.Errorf("%s and %s: %v, want a conflict: %t", row.a, row.b, err, row.conflict)
		}
	}
	a := project(t, "a", "staging.example.test/a", "demo", []string{"us.example.test/prod"}, []string{one, `"v1"`})
	p, err := Make([]promoterfile.Manifest{a})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Parse(p.JSON()); err != nil {
		t.Error(err)
	}
	for _, other := range []string{"us.example.test:443/prod", "US.example.test/prod", "us.example.test./prod", "us.example.test//prod", "https://us.example.test/prod"} {
		for _, old := range []string{"us.example.test/prod", "staging.example.test/a"} {
			_, err := Parse(bytes.Replace(p.JSON(), []byte(`"`+old+`"`), []byte(`"`+other+`"`), 1))
			if err == nil || verdict.FindingOf("", err).Code != verdict.ConfigParse {
				t.Errorf("%s in place of %s: %v", other, old, err)
			}
		}
	}
}
