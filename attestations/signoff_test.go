package attestations_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	releasesignoff "github.com/waybill-release/waybill/attestations/release-signoff/v1"
	"github.com/waybill-release/waybill/pkg/document/intoto"
)

// TestSignoffSummary: what other engines read says no more than the sign-off.
func TestSignoffSummary(t *testing.T) {
	for file, want := range map[string][]string{
		"accept-full":    {"WAYBILL_RELEASE_SIGNOFF_V1_37"},
		"accept-minimal": {"WAYBILL_RELEASE_SIGNOFF_V1_37", "WAYBILL_RELEASE_SIGNOFF_V1_37_WITHOUT_EXCEPTIONS", "WAYBILL_RELEASE_SIGNOFF_V1_37_COMPLETE"},
	} {
		s, err := intoto.ParseOpen([]byte(read(t, "release-signoff/v1/testdata/"+file+".json")))
		if err != nil {
			t.Fatal(err)
		}
		x, err := releasesignoff.Parse(s)
		if err != nil {
			t.Fatal(err)
		}
		short, err := releasesignoff.SVR(x.Release, x.Predicate)
		if err != nil {
			t.Fatal(err)
		}
		var said struct {
			Verifier struct {
				ID       string
				Policies []struct{ Digest map[string]string }
			}
			TimeCreated string
			Properties  []string
		}
		if err := json.Unmarshal(short.Predicate(), &said); err != nil {
			t.Fatal(err)
		}
		if short.PredicateType() != releasesignoff.SVRType || !short.Names("release.yaml", x.Release) || said.Verifier.ID != x.Checker.ID ||
			said.TimeCreated != "2026-02-10T12:00:00Z" || !slices.Equal(said.Properties, want) ||
			len(said.Verifier.Policies) != 1 || said.Verifier.Policies[0].Digest["sha256"] != x.Template.Digest.Hex() {
			t.Errorf("%s: %s", file, short.Raw())
		}
	}
	page := read(t, "release-signoff/v1/README.md")
	for _, name := range []string{releasesignoff.Name, releasesignoff.Summary, releasesignoff.SVRType} {
		if !strings.Contains(page, name) {
			t.Errorf("the page does not name %s", name)
		}
	}
	if _, err := releasesignoff.SVR(intoto.Subject{}.Digests, releasesignoff.Predicate{}); err == nil {
		t.Error("the zero sign-off has a summary")
	}
}
