package pipeline

import (
	"strings"
	"testing"

	"github.com/waybill-release/waybill/pkg/value/verdict"
	"github.com/waybill-release/waybill/pkg/value/version"
)

// TestNext: wherever a release stands, and at whichever step a run ended, one
// command is next, and it is the right one.
func TestNext(t *testing.T) {
	v, err := version.Parse("v0.1.0")
	if err != nil {
		t.Fatal(err)
	}
	p := &job{Config: Config{Version: v, RunState: RunState{State: "state"}, World: World{Typed: Typed{Profile: "p.yaml"}}}}
	typed := Typed{Args: []string{"waybill", "release", "v0.1.0", "--confirm", "--identity-token", "verifier=v.token"}}
	done, none, down := manifestStage{Stage: Stage{Done: 1, Of: 1}}, manifestStage{Stage: Stage{Of: 1}}, manifestStage{Stage: Stage{Of: 1, Down: true}}
	const again = "waybill release v0.1.0 --confirm --identity-token verifier=v.token"
	const release = "waybill release v0.1.0 --profile p.yaml --state state --confirm"
	rows := []struct {
		what   string
		status Status
		stands releaseState
		next   string
	}{
		{"nothing was begun", Status{Public: NotPublic}, releaseState{staged: none, released: none}, "waybill doctor"},
		{"it was built", Status{Public: NotPublic}, releaseState{begun: true, staged: none, released: none}, "waybill stage"},
		{"it was sealed", Status{Public: NotPublic}, releaseState{begun: true, sealed: true, staged: none, released: none}, "waybill promote v0.1.0 --profile p.yaml --state state --to staging --confirm"},
		{"it is staged", Status{Public: NotPublic}, releaseState{begun: true, sealed: true, staged: done, released: none}, release},
		{"it is staged, and made elsewhere", Status{Public: NotPublic}, releaseState{staged: done, released: none}, release},
		{"killed before the gate decided", Status{Public: NotPublic, Broken: "release: gate"}, releaseState{typed: typed, sealed: true, staged: done, released: none}, again},
		{"killed in the middle of the copying", Status{Public: NotPublic, Broken: "release: promote"}, releaseState{typed: typed, sealed: true, staged: done, released: none}, again},
		{"killed before it was verified", Status{Public: IsPublic, Broken: "release: verify"}, releaseState{typed: typed, sealed: true, staged: done, released: done}, again},
		{"killed before it was recorded", Status{Public: IsPublic, Broken: "release: record"}, releaseState{typed: typed, sealed: true, staged: done, released: done}, again},
		{"killed before the markers moved", Status{Public: IsPublic, Broken: "release: markers"}, releaseState{typed: typed, sealed: true, staged: done, released: done, behind: true}, again},
		{"the log was away", Status{Public: IsPublic, Broken: "release: record", Failed: verdict.PlaceDown}, releaseState{typed: typed, staged: done, released: done}, again},
		{"the wrong token recorded", Status{Public: IsPublic, Broken: "release: record", Failed: verdict.SignedAsElse}, releaseState{typed: typed, staged: done, released: done}, "k8s-verify-release"},
		{"a marker that is none", Status{Public: IsPublic, Broken: "release: markers", Failed: verdict.FileConflict}, releaseState{typed: typed, staged: done, released: done, behind: true}, release},
		{"public, a marker behind", Status{Public: IsPublic}, releaseState{staged: done, released: done, behind: true}, release},
		{"public, a marker behind, staging gone", Status{Public: IsPublic}, releaseState{staged: none, released: done, behind: true}, "k8s-verify-release"},
		{"public", Status{Public: IsPublic}, releaseState{staged: done, released: done}, "k8s-verify-release v0.1.0 --profile p.yaml"},
		{"a run is at work", Status{Public: NotPublic, Busy: true}, releaseState{staged: done, released: none}, "waybill status"},
		{"the place is away", Status{Public: Unknown}, releaseState{staged: done, released: down}, "waybill status"},
		{"withdrawn", Status{Public: Revoked}, releaseState{staged: done, released: done, behind: true}, "k8s-verify-release"},
		{"another run's is public", Status{Public: IsPublic}, releaseState{other: true, staged: done, released: done}, "k8s-verify-release"},
		{"a revision is staged", Status{Public: IsPublic}, releaseState{sealed: true, staged: done, released: none}, release},
	}
	for _, r := range rows {
		t.Run(r.what, func(t *testing.T) {
			s := r.status
			s.advise(p, r.stands)
			if !strings.HasPrefix(s.Next, r.next) || s.Why == "" || s.Safe == "" {
				t.Errorf("next %q, want %q; %s", s.Next, r.next, s.Why)
			}
			if s.Failed != "" && r.next != again && !strings.Contains(s.Why, string(s.Failed)) {
				t.Errorf("it does not say that the last run failed: %s", s.Why)
			}
		})
	}
}
