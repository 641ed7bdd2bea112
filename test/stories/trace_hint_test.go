package stories

import (
	"fmt"
	"strings"
	"testing"

	"github.com/waybill-release/waybill/pkg/lineage"
	"github.com/waybill-release/waybill/test/scene"
)

// hinted: nothing is marked verified that a verifier would refuse by the same
// policy: of a signer whose time is over, of a builder whom somebody else speaks
// for, and of a source that the policy does not take.
func hinted(t *testing.T, w week) {
	text := string(w.read(t, "policy.yaml"))
	profile := string(w.read(t, "profile.yaml"))
	until := func(role, day string) []string {
		_, subject := w.Lab.Identity(role)
		who := fmt.Sprintf("subject: %q, type: email", subject)
		return []string{who, who + ", until: " + fmt.Sprintf("%q", day)}
	}
	_, one := w.Lab.Identity("builder")
	_, other := w.Lab.Identity("builder-unisolated")
	asks := func(policy string, marks lineage.Mark, by, why string) {
		t.Helper()
		w.write(t, "hints.yaml", []byte(policy))
		w.write(t, "hints-profile.yaml", []byte(strings.Replace(profile, "policy: policy.yaml", "policy: hints.yaml", 1)))
		l := w.finds(t, nil, "oci/lantern", scene.Version, "--profile", "hints-profile.yaml")
		seen := 0
		for _, r := range l.Runs {
			for _, a := range r.Acts {
				if a.By != by {
					continue
				}
				if seen++; a.Mark != marks || !strings.Contains(a.Why, why) {
					t.Errorf("%s of %s is %s: %q, want %s: %q", a.Kind, by, a.Mark, a.Why, marks, why)
				}
			}
		}
		if seen == 0 {
			t.Errorf("nothing by %s was found: %+v", by, l.Runs)
		}
	}
	_, releases := w.Lab.Identity("release")
	for by, role := range map[string]string{one: "builder", releases: "release"} {
		for day, mark := range map[string]lineage.Mark{"2025-01-01": lineage.Hint, "2099-01-01": lineage.Verified} {
			why := map[lineage.Mark]string{lineage.Hint: "IDENTITY_WINDOW"}[mark]
			ended := until(role, day)
			asks(strings.ReplaceAll(text, ended[0], ended[1]), mark, by, why)
		}
	}
	swapped := strings.NewReplacer(one, other, other, one).Replace(text)
	asks(swapped, lineage.Hint, one, "BUILDER")
	elsewhere := strings.Replace(text, w.Repository(), w.Repository()+"-of-another", 1)
	asks(elsewhere, lineage.Hint, one, "SOURCE_REPO")
}
