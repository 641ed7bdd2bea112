package stories

import (
	"fmt"
	"strings"
	"testing"

	knowndefects "github.com/waybill-release/waybill/attestations/known-defects/v1"
	"github.com/waybill-release/waybill/pkg/document/intoto"
	"github.com/waybill-release/waybill/pkg/report/lineage"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/trace"
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
	unowned(t, w, releases)
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

// unowned attaches two statements by the release identity: of a kind that no
// role owns, and of one that is another role's. Neither is verified.
func unowned(t *testing.T, w week, by string) {
	t.Helper()
	for kind, why := range map[string]string{
		"https://example.test/anything/v1": "PREDICATE_TYPE", knowndefects.PredicateType: "IDENTITY_ROLE", intoto.SPDXDocument: "",
	} {
		s, err := intoto.New(kind, []intoto.Subject{{Name: "oci/lantern", Digests: digest.Set{SHA256: w.image.Digest}}}, fields{"a": "b"})
		if err != nil {
			t.Fatal(err)
		}
		w.refer(t, "old/lantern", w.signs(t, "release", s), kind, trace.IDs{})
		l := w.finds(t, nil, w.Lab.Registry+"/old/lantern/lantern@"+w.image.Digest.String(), "--policy", "policy.yaml", "--trusted-root", "trusted_root.json")
		seen := 0
		for _, a := range l.Runs {
			for _, a := range a.Acts {
				if a.Name != kind {
					continue
				}
				if seen++; (a.Mark == lineage.Verified) != (why == "") || !strings.Contains(a.Why, why) || a.By != by {
					t.Errorf("a statement %s by %s is %s: %q, want %q", kind, a.By, a.Mark, a.Why, why)
				}
			}
		}
		if seen != 1 {
			t.Errorf("%d statements %s were found", seen, kind)
		}
	}
}
