package plan_test

import (
	"strings"
	"testing"

	"github.com/waybill-release/waybill/pkg/release/plan"
)

// TestProvenanceForOlderReaders: each step's provenance once more, in the legacy
// form; it is listed, and nothing rests on it.
func TestProvenanceForOlderReaders(t *testing.T) {
	was, err := expand(t, full)
	if err != nil {
		t.Fatal(err)
	}
	is, err := expand(t, change(t, full, "sboms:", "provenance: [v1, v0.2]\nsboms:"))
	if err != nil {
		t.Fatal(err)
	}
	d := plan.Compare(was, is)
	if len(d.Added) != len(is.Steps) || len(d.Lost) != 0 || len(d.Changed) != 1 || d.Changed[0].Field != "provenanceV02" {
		t.Errorf("asking for it changes %+v", d)
	}
	for _, s := range is.Steps {
		a, ok := is.Find(plan.ProvenanceV02Name(s.Instance))
		if !ok || a.Class != plan.ProvenanceV02 || a.Step != s.Instance || a.MediaType != plan.MediaBundle || a.IsBuilt() || a.Evidence != nil || a.Of != "" {
			t.Errorf("step %s: %+v", s.Instance, a)
		}
	}
	for _, a := range is.Artifacts {
		for _, e := range a.Evidence {
			if of, _ := is.Find(e.Name); of.Class == plan.ProvenanceV02 {
				t.Errorf("%s has %s for evidence", a.Name, e.Name)
			}
		}
	}
	if plan.ProvenanceV02Name("a") == plan.ProvenanceName("v0.2") || strings.Contains(plan.ProvenanceName("v0.2"), "v0.2/") {
		t.Error("a step can take the name")
	}
	if same, err := expand(t, change(t, full, "sboms:", "provenance: [v1]\nsboms:")); err != nil || same.Digest() != was.Digest() {
		t.Errorf("what is so anyway, said: %v", err)
	}
	for with, says := range map[string]string{
		"[v0.2]": "v1 is required", "[]": "empty", "[v1, v2]": "want v1 or v0.2", "[v1, v1]": "twice", "v1": "a list",
	} {
		_, err := expand(t, change(t, full, "sboms:", "provenance: "+with+"\nsboms:"))
		refused(t, err, says)
	}
}
