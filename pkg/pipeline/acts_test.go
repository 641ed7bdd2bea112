package pipeline

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/waybill-release/waybill/pkg/backend/tracing/span"
	"github.com/waybill-release/waybill/pkg/gate/profile"
	"github.com/waybill-release/waybill/pkg/pipeline/doctor"
	"github.com/waybill-release/waybill/pkg/release/manifest"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// TestActs: whatever reads the list finds what it needs in each act.
func TestActs(t *testing.T) {
	names := map[string]bool{}
	for _, a := range append(allActs(), stageAct(), releaseAct()) {
		t.Run(a.name, func(t *testing.T) {
			if names[a.name] && a.span != span.Gate {
				t.Error("two acts have the name: a journal would not say which it was")
			}
			names[a.name] = true
			if a.signs.role != "" && (a.signs.token == "" || a.signs.orders == nil) {
				t.Error("it signs, and does not say as whom or what")
			}
			if a.journaled == journalWorkspace && len(a.needs) == 0 {
				t.Error("nothing finds its workspace")
			}
			if a.run != "" && a.signs.role == "" {
				t.Error("a manifest lists runs that signed")
			}
			if strings.Contains(a.name, ": ") {
				t.Error("that is how a journal writes a step")
			}
		})
	}
	for journal, run := range map[string]string{
		"build": manifest.RunBuild, "sign": manifest.RunSign, "seal": manifest.RunSeal, "seal from file:///dist": manifest.RunSeal,
		"amend": manifest.RunAmend, "withdraw": manifest.RunWithdraw, "sbom": "", "release": "", "release: gate": "", "promote to staging": "",
	} {
		if got := actNamed(journal).run; got != run {
			t.Errorf("%q in a journal is a run of kind %q, want %q", journal, got, run)
		}
	}
}

// TestPlacesOf: what a purpose reads and writes is what its acts read and write.
func TestPlacesOf(t *testing.T) {
	for purpose, want := range map[doctor.Purpose][]placeUse{
		doctor.Build: nil, doctor.Stage: {{profile.Staging, true}}, doctor.Verify: {{profile.Release, false}},
		doctor.Release: {{profile.Staging, false}, {profile.Release, true}},
	} {
		if got := placesOf(actsFor(purpose)); !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", purpose, got, want)
		}
	}
}

// TestSteps: steps hand facts on, what they need is found once, what they say is
// told and noted, and what fails is told with the name of its step, unless it is
// a decision.
func TestSteps(t *testing.T) {
	failed := errors.New("no")
	for _, row := range []struct {
		what, want string
		last       act
	}{
		{"all is done", "", act{name: "last"}},
		{"a step fails", "last: no", act{name: "last", do: func(_ context.Context, _ tools, in facts) (facts, error) { return in, failed }}},
		{"a decision", "no", act{name: "last", span: span.Gate, do: func(_ context.Context, _ tools, in facts) (facts, error) { return in, failed }}},
		{"a need is not found", "last: no", act{name: "last", needs: []need{func(_ context.Context, _ *job, in facts) (facts, error) { return facts{}, failed }}}},
	} {
		t.Run(row.what, func(t *testing.T) {
			told, found := "", 0
			j := &job{account: &account{}, Config: Config{
				RunState: RunState{State: t.TempDir()}, World: World{Clock: time.Now},
				Report: func(_ context.Context, format string, args ...any) { told += fmt.Sprintf(format, args...) + "\n" },
			}}
			manifest := func(_ context.Context, _ *job, in facts) (facts, error) {
				if in.accepted.IsZero() {
					found++
					in.accepted = digest.Of(digest.SHA256, []byte("manifest"))
				}
				return in, nil
			}
			first := act{name: "first", needs: []need{manifest}, do: func(_ context.Context, _ tools, in facts) (facts, error) {
				in.lines, in.verdict = []string{"it was done"}, verdict.New("it", time.Now())
				return in, nil
			}}
			if row.last.do == nil {
				row.last.do = func(_ context.Context, _ tools, in facts) (facts, error) { return in, nil }
			}
			row.last.needs = append([]need{manifest}, row.last.needs...)
			out, err := runner{j}.perform(t.Context(), act{name: "all", journaled: journalIfPresent, steps: []act{first, row.last}}, facts{})
			if fmt.Sprint(err) != row.want && (err != nil || row.want != "") {
				t.Errorf("%v, want %q", err, row.want)
			}
			if found != 1 || out.accepted.IsZero() || told != "— first\nit was done\n— last\n" || len(out.verdict.Notes) != 1 {
				t.Errorf("found %d times, %+v, told %q", found, out, told)
			}
		})
	}
}
