package manifest_test

import (
	"reflect"
	"slices"
	"testing"

	"github.com/waybill-release/waybill/pkg/release/manifest"
	"github.com/waybill-release/waybill/pkg/value/trace"
)

func lifeIDs() trace.IDs {
	return trace.IDs{Trace: trace.ID{1}, Span: trace.SpanID{2}, Initial: trace.ID{3}}
}

// TestRunsRoundTrip: what is known of each run comes back, of a manifest and of
// the root of one on pages that has former pages, too.
func TestRunsRoundTrip(t *testing.T) {
	m := manifest.By(lantern(t), manifest.RunOf(manifest.RunSign, "run-2", lifeIDs(), "waybill sign"))
	m.Former = []string{manifest.PageName(set("page").SHA256)}
	whole, err := manifest.ReadManifest(statement(t, m), nil)
	if err != nil || !reflect.DeepEqual(whole.Runs, m.Runs) {
		t.Errorf("%+v, %v, want %+v", whole.Runs, err, m.Runs)
	}
	root, err := m.SealPages(2, func(manifest.Page, []byte) error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	r, err := manifest.ParseRoot(root)
	if err != nil || !reflect.DeepEqual(r.Head().Runs, m.Runs) || !slices.Equal(r.Head().Former, m.Former) {
		t.Errorf("the root has %+v and %q, %v", r.Head().Runs, r.Head().Former, err)
	}
}

// TestRunsOfAnotherForm: a trace that is none of W3C's is kept as it is, for it
// was signed, and leads nowhere.
func TestRunsOfAnotherForm(t *testing.T) {
	got, err := manifest.ReadManifest(statement(t, lantern(t)), nil)
	if err != nil || got.Runs[0].TraceID != "00" || !manifest.IDsOf(got.Runs[0]).IsZero() || !manifest.OriginOf(got).IsZero() {
		t.Errorf("%+v, %v", got.Runs, err)
	}
}

// TestRunOfShowsNoArgument: what was typed can hold a token, so only words are
// kept of it.
func TestRunOfShowsNoArgument(t *testing.T) {
	for typed, want := range map[string]string{
		"waybill stage":                       "waybill stage",
		"waybill promote apply":               "waybill promote apply",
		"waybill stage v1.2.3":                "",
		"waybill seal --identity-token=a=b":   "",
		"/home/somebody/bin/waybill seal":     "",
		"waybill seal\nwaybill seal":          "",
		"":                                    "",
		"waybill one two three four or so on": "",
	} {
		if got := manifest.CommandOf(manifest.RunOf(manifest.RunSeal, "run", lifeIDs(), typed)); got != want {
			t.Errorf("%q is kept as %q, want %q", typed, got, want)
		}
	}
}

// TestByLeavesTheOther: a revision has one more run, and the manifest that it
// is made from has not.
func TestByLeavesTheOther(t *testing.T) {
	before := lantern(t)
	before.Runs = slices.Grow(before.Runs, 4)
	a, b := manifest.By(before, manifest.Run{Kind: manifest.RunAmend, ID: "a"}), manifest.By(before, manifest.Run{Kind: manifest.RunAmend, ID: "b"})
	if len(before.Runs) != 1 || a.Runs[1].ID != "a" || b.Runs[1].ID != "b" {
		t.Errorf("%v, %v, %v", before.Runs, a.Runs, b.Runs)
	}
}
