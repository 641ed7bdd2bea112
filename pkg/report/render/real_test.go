package render_test

import (
	"encoding/json"
	"os"
	"testing"

	"github.com/waybill-release/waybill/pkg/report/render"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// genuine are verdicts that commands returned about releases of the lab: complete,
// of one platform at the depth of files, about a copy that was tampered with,
// and about a place that did not answer. The last was made from the first: of
// one thing less it is known that it holds.
func genuine(t *testing.T) map[string]*verdict.Verdict {
	t.Helper()
	all := map[string]*verdict.Verdict{}
	for _, name := range []string{"complete", "partial", "refused", "unavailable"} {
		raw, err := os.ReadFile("testdata/real/" + name + ".json")
		if err != nil {
			t.Fatal(err)
		}
		all[name] = &verdict.Verdict{}
		if err := json.Unmarshal(raw, all[name]); err != nil {
			t.Fatal(err)
		}
		if got := write(t, render.JSON, all[name]); got != string(raw) {
			t.Errorf("%s: read and written again it is another", name)
		}
	}
	undecided := *all["complete"]
	undecided.Counts.Verified--
	all["undecided"] = &undecided
	return all
}

// TestReal holds every form of real verdicts against what they were. With
// WAYBILL_GOLDEN=write they are written anew, to be reviewed as a diff.
func TestReal(t *testing.T) {
	for name, v := range genuine(t) {
		for _, f := range []render.Format{render.Table, render.JUnit, render.SARIF, render.Markdown, render.HTML} {
			path, got := "testdata/real/"+name+"."+string(f), write(t, f, v)
			if os.Getenv("WAYBILL_GOLDEN") == "write" {
				if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if got != string(want) {
				t.Errorf("%s: got\n%s\nwant\n%s", path, got, want)
			}
		}
	}
}
