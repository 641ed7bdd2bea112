package slsa

import (
	"maps"
	"slices"
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
		w.q.provenance, w.q.source = witness{}, witness{}
		if _, err := trust.judge(w.q); verdict.FindingOf("", err).Code != verdict.Usage {
			t.Errorf("%s: %v", why, err)
		}
	}
}
