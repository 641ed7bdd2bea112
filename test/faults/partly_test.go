package faults_test

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/waybill-release/waybill/pkg/pipeline"
	"github.com/waybill-release/waybill/pkg/value/verdict"
	"github.com/waybill-release/waybill/test/faults"
)

// TestSomeAreNotSigned: a log that refuses some entries keeps no other file
// from being signed; each that failed is told by its name, with the reason and
// the next act, and the next run signs just those.
func TestSomeAreNotSigned(t *testing.T) {
	t.Parallel()
	n := newNight(t)
	state := n.unsigned()
	n.rekor.Spoil(faults.Fault{Method: "POST", Skip: 3, Times: 2, Do: faults.Status(400)})
	r := n.sign(state, "--output", "json")
	want(t, r, 1, "the signing service refused the request: ", "sign: signed 9, reused 3")
	var done pipeline.Done
	if err := json.Unmarshal([]byte(r.Stdout), &done); err != nil || len(done.Failures) != 2 {
		t.Fatalf("%v: %s", err, r.Stdout)
	}
	var names []string
	for _, f := range done.Failures {
		if names = append(names, f.Subject); f.Code != verdict.ServiceRefused || f.Fix == "" {
			t.Errorf("%+v", f)
		}
	}
	slices.Sort(names)
	if len(slices.Compact(names)) != 2 {
		t.Errorf("they are told as %q", names)
	}
	n.rekor.Heal()
	want(t, n.sign(state), 0, "signed 2 files and 0 image manifests; 12 had a signature", "finished from an earlier run: 2")
}
