package slsa

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

func declarations() (list []Declaration) {
	for _, id := range slices.Sorted(maps.Keys(declarable())) {
		list = append(list, Declaration{Requirement: id, By: "the policy of the tests", Reason: "mirrored", Until: declaredUntil(), UpTo: 4, Evidence: digest.Of(digest.SHA256, []byte(id))})
	}
	return list
}

// declare changes one declaration.
func declare(id string, change func(*Declaration)) func(*world) {
	return func(w *world) {
		w.declared = func(list []Declaration) {
			for i := range list {
				if list[i].Requirement == id {
					change(&list[i])
				}
			}
		}
	}
}

func declaredUntil() time.Time { return time.Date(2027, 6, 30, 0, 0, 0, 0, time.UTC) }

func TestDeclarationsAreShownAsClaims(t *testing.T) {
	r, err := everything().judge(t)
	if err != nil {
		t.Fatal(err)
	}
	for id := range declarable() {
		a := r.answer(V01, id)
		if a.State != Declared || a.DeclaredBy != "the policy of the tests" || a.Until != "2027-06-30T00:00:00Z" || len(a.Evidence) != 1 {
			t.Errorf("%+v", a)
		}
		if want := `declared by "the policy of the tests" until 2027-06-30T00:00:00Z: "mirrored" (counts up to v0.1=4)`; a.Why != want {
			t.Errorf("%s: %s", id, a.Why)
		}
	}
	w := everything()
	trust := Trust{}
	for why, d := range map[string]Declaration{
		"what a tool can see": {Requirement: "build.hermetic", By: "x", Until: declaredUntil(), UpTo: 4, Evidence: digest.Of(digest.SHA256, nil)},
		"by nobody":           {Requirement: "common.access", Until: declaredUntil(), UpTo: 4, Evidence: digest.Of(digest.SHA256, nil)},
		"without evidence":    {Requirement: "common.access", By: "x", Until: declaredUntil(), UpTo: 4},
		"without end":         {Requirement: "common.access", By: "x", UpTo: 4, Evidence: digest.Of(digest.SHA256, nil)},
		"without effect":      {Requirement: "common.access", By: "x", Until: declaredUntil(), UpTo: 3, Evidence: digest.Of(digest.SHA256, nil)},
	} {
		w.q.Name, w.q.Bytes, w.q.Declared = "a", artifact(), []Declaration{d}
		w.q.provenance, w.q.sources = witness{}, nil
		if _, err := trust.judge(w.q); verdict.FindingOf("", err).Code != verdict.Usage {
			t.Errorf("%s: %v", why, err)
		}
	}
}

// TestSignedDeclarations: a signed declaration names the repository or the builder
// that it is about. The first that counts is shown.
func TestSignedDeclarations(t *testing.T) {
	about := "git+https://example.test/lantern"
	for _, row := range []struct {
		name, id string
		change   func(*Declaration)
		why      string
	}{
		{"about the source", "source.retained", func(d *Declaration) { d.About, d.Signer = about, "mirror@example.test" },
			`declared by "the policy of the tests" until 2027-06-30T00:00:00Z, signed by "mirror@example.test": "mirrored" (counts up to v0.1=4)`},
		{"about another source", "source.retained", func(d *Declaration) { d.About = about + "-fork" },
			`missing: a declaration about the repository "git+https://example.test/lantern", which the provenance names; that of "the policy of the tests" is about "git+https://example.test/lantern-fork"`},
		{"about the builder", "common.access", func(d *Declaration) { d.About = builderID }, `declared by "the policy of the tests" until 2027-06-30T00:00:00Z: "mirrored" (counts up to v0.1=4)`},
		{"about the source, where the builder is meant", "common.access", func(d *Declaration) { d.About = about },
			`missing: a declaration about the builder "` + builderID + `", which the provenance names; that of "the policy of the tests" is about "git+https://example.test/lantern"`},
		{"one that does not count", "source.retained", func(d *Declaration) { d.Lacks = "a reason" }, "missing: a reason"},
	} {
		w := everything()
		declare(row.id, row.change)(&w)
		r, err := w.judge(t)
		if a := r.answer(V01, row.id); err != nil || a.Why != row.why || (a.State == Declared) != strings.HasPrefix(row.why, "declared") {
			t.Errorf("%s: %s: %s, want %s; %v", row.name, a.State, a.Why, row.why, err)
		}
	}
	for provenanceOf, state := range map[string]State{"builder": Declared, "stranger": NotShown} {
		w := everything()
		w.builder = provenanceOf
		declare("source.retained", func(d *Declaration) { d.About = about })(&w)
		if r, err := w.judge(t); err != nil || r.answer(V01, "source.retained").State != state {
			t.Errorf("provenance by %s: %+v, %v", provenanceOf, r.answer(V01, "source.retained"), err)
		}
	}
	w := everything()
	w.q.Declared = []Declaration{{Requirement: "source.retained", By: "another", Until: declaredUntil(), UpTo: 4, Evidence: digest.Of(digest.SHA256, nil)}}
	w.declared = func(list []Declaration) {
		list[slices.IndexFunc(list, func(d Declaration) bool { return d.Requirement == "source.retained" })].Lacks = "x"
	}
	if r, err := w.judge(t); err != nil || r.answer(V01, "source.retained").DeclaredBy != "another" {
		t.Errorf("beside one that does not count: %+v, %v", r.answer(V01, "source.retained"), err)
	}
}

// TestNotImplementable: the word of a person explains why a requirement is not met.
// It never counts, and hides nothing that is met.
func TestNotImplementable(t *testing.T) {
	excuse := func(id string) Declaration {
		return Declaration{Requirement: id, By: "SIG Release", Reason: "no project can", NotImplementable: true}
	}
	for _, row := range []struct {
		id    string
		state State
		level int
	}{
		{"source.two-person", notImplementable, 3}, // not shown without it
		{"build.scripted", Met, 3},
	} {
		w := everything()
		w.source = strings.Replace(w.source, "LEVEL_4", "LEVEL_3", 1)
		w.q.Declared = append(w.q.Declared, excuse(row.id))
		r, err := w.judge(t)
		if a := r.answer(V01, row.id); err != nil || a.State != row.state || r.Level(V01) != row.level {
			t.Errorf("%s: %s: %s at level %d, %v", row.id, a.State, a.Why, r.Level(V01), err)
		}
	}
	w := everything()
	w.provenance = strings.Replace(w.provenance, `"buildType"`, `"was"`, 1)
	before, err := w.judge(t)
	if err != nil {
		t.Fatal(err)
	}
	w = everything()
	w.provenance = strings.Replace(w.provenance, `"buildType"`, `"was"`, 1)
	for _, r := range v01() {
		if _, declared := declarable()[r.id]; !declared {
			w.q.Declared = append(w.q.Declared, excuse(r.id))
		}
	}
	after, err := w.judge(t)
	if err != nil || before.Level(V01) != after.Level(V01) || before.Level(Build) != after.Level(Build) {
		t.Errorf("levels %v, were %v; %v", after.Levels, before.Levels, err)
	}
	if a := after.answer(V01, "build.scripted"); a.State.String() != "not implementable" || a.DeclaredBy != "SIG Release" || a.Why != `not implementable, says "SIG Release": "no project can" (the provenance has no build type)` {
		t.Errorf("%+v", a)
	}
	for why, d := range map[string]Declaration{
		"of another track": {Requirement: "source.level-1", By: "x", Reason: "y", NotImplementable: true},
		"by nobody":        {Requirement: "build.scripted", Reason: "y", NotImplementable: true},
		"without a reason": {Requirement: "build.scripted", By: "x", NotImplementable: true},
		"with a level":     {Requirement: "build.scripted", By: "x", Reason: "y", UpTo: 3, NotImplementable: true},
		"with an end":      {Requirement: "build.scripted", By: "x", Reason: "y", Until: declaredUntil(), NotImplementable: true},
	} {
		if d.Check() == nil {
			t.Errorf("%s is accepted", why)
		}
	}
}
