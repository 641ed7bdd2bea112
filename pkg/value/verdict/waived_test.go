package verdict_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// exception is a waiver in which everything is said.
func exception() verdict.Waiver {
	return verdict.Waiver{
		Kind: verdict.ByException, ID: "sha256:aa", Reason: "the scanner was down", By: "policy@example.test",
		Expires: noon().Add(time.Hour), Evidence: digest.Of(digest.SHA256, []byte("bundle")),
	}
}

// lacking is a release of two artifacts, of which b has findings.
func lacking(codes ...verdict.Code) *verdict.Verdict {
	v := verdict.New("q", noon())
	v.Counts, v.Proofs = verdict.Counts{Verified: 1, Required: 2}, proofs()
	for _, c := range codes {
		v.Add(verdict.Find(c, "b", "m"))
	}
	return v
}

func TestSetAside(t *testing.T) {
	both := []string{"a", "b"}
	all := func(verdict.Finding) bool { return true }
	only := func(c verdict.Code) func(verdict.Finding) bool {
		return func(f verdict.Finding) bool { return f.Code == c }
	}
	rows := []struct {
		name      string
		v         *verdict.Verdict
		artifacts []string
		which     func(verdict.Finding) bool
		change    func(*verdict.Waiver)
		want      verdict.Outcome
		excepted  int
	}{
		{"nothing is set aside", lacking(verdict.NoSBOM), both, only(verdict.Unsigned), nil, verdict.Refused, 0},
		{"the only finding", lacking(verdict.NoSBOM), both, all, nil, verdict.Accepted, 1},
		{"both findings of one artifact", lacking(verdict.NoSBOM, verdict.Unsigned), both, all, nil, verdict.Accepted, 1},
		{"one of two findings", lacking(verdict.NoSBOM, verdict.Unsigned), both, only(verdict.NoSBOM), nil, verdict.Refused, 0},
		{"a subject that is no artifact", lacking(verdict.NoSBOM), []string{"a"}, all, nil, verdict.Refused, 0},
		{"no artifacts at all", lacking(verdict.NoSBOM), nil, all, nil, verdict.Refused, 0},
		{"a waiver of no kind", lacking(verdict.NoSBOM), both, all, func(w *verdict.Waiver) { w.Kind = "" }, verdict.Refused, 0},
		{"a waiver without a name", lacking(verdict.NoSBOM), both, all, func(w *verdict.Waiver) { w.ID = "" }, verdict.Refused, 0},
		{"a waiver without a reason", lacking(verdict.NoSBOM), both, all, func(w *verdict.Waiver) { w.Reason = "" }, verdict.Refused, 0},
		{"a waiver by nobody", lacking(verdict.NoSBOM), both, all, func(w *verdict.Waiver) { w.By = "" }, verdict.Refused, 0},
		{"a place that did not answer", lacking(verdict.PlaceDown), both, all, nil, verdict.Unavailable, 0},
		{"what could not be read", lacking(verdict.ConfigParse), both, all, nil, verdict.Malformed, 0},
		{"a bug in us", lacking(verdict.InternalBug), both, all, nil, verdict.Internal, 0},
		{"a code that nobody knows", lacking("NEVER_HEARD_OF"), both, all, nil, verdict.Internal, 0},
	}
	for _, r := range rows {
		t.Run(r.name, func(t *testing.T) {
			before := len(r.v.Findings)
			r.v.SetAside(r.artifacts, func(f verdict.Finding) (verdict.Waiver, bool) {
				w := exception()
				if r.change != nil {
					r.change(&w)
				}
				return w, r.which(f)
			})
			if got := r.v.Outcome(); got != r.want || r.v.Counts.Excepted != r.excepted {
				t.Errorf("%s, %s, want %s with %d excepted", got, r.v.Counts, r.want, r.excepted)
			}
			if len(r.v.Findings)+len(r.v.Waived) != before {
				t.Errorf("%d findings became %d and %d waived", before, len(r.v.Findings), len(r.v.Waived))
			}
			if r.v.Complete() {
				t.Error("called complete")
			}
		})
	}
}

// TestSetAsideMatchesCounts: what is set aside is no longer missing.
func TestSetAsideMatchesCounts(t *testing.T) {
	v := lacking(verdict.Missing, verdict.Extra, verdict.PlanMissing)
	v.SetAside([]string{"b"}, func(f verdict.Finding) (verdict.Waiver, bool) { return exception(), f.Code == verdict.Missing })
	if v.Counts.Missing != 1 || v.Counts.Extra != 1 {
		t.Errorf("%s, want missing=1 extra=1", v.Counts)
	}
}

// TestExceptedIsDerivedFromWhatIsShown: a count that no waiver stands behind
// accepts nothing, and nothing is accepted of which all is excepted.
func TestExceptedIsDerivedFromWhatIsShown(t *testing.T) {
	waived := func(v *verdict.Verdict) *verdict.Verdict {
		v.SetAside([]string{"b"}, func(verdict.Finding) (verdict.Waiver, bool) { return exception(), true })
		return v
	}
	rows := []struct {
		name   string
		change func(*verdict.Verdict)
		want   verdict.Outcome
	}{
		{"one proven, one excepted", func(*verdict.Verdict) {}, verdict.Accepted},
		{"a count without a waiver", func(v *verdict.Verdict) { v.Waived = nil }, verdict.Undecided},
		{"more counted than shown", func(v *verdict.Verdict) { v.Counts.Excepted, v.Counts.Required = 2, 3 }, verdict.Undecided},
		{"a waiver that is not counted", func(v *verdict.Verdict) { v.Counts.Excepted = 0 }, verdict.Undecided},
		{"less than nothing counted", func(v *verdict.Verdict) { v.Counts.Excepted = -1 }, verdict.Undecided},
		{"nothing proven, all excepted", func(v *verdict.Verdict) { v.Counts.Verified, v.Counts.Required = 0, 1 }, verdict.Undecided},
		{"a waiver emptied afterwards", func(v *verdict.Verdict) { v.Waived[0].Reason = "" }, verdict.Refused},
		{"a waiver of what was not reached", func(v *verdict.Verdict) { v.Waived[0].Finding.Code = verdict.PlaceDown }, verdict.Unavailable},
		{"another finding of the same artifact", func(v *verdict.Verdict) { v.Add(verdict.Find(verdict.Tampered, "b", "m")) }, verdict.Refused},
	}
	for _, r := range rows {
		t.Run(r.name, func(t *testing.T) {
			v := waived(lacking(verdict.NoSBOM))
			r.change(v)
			if got := v.Outcome(); got != r.want {
				t.Errorf("%s, want %s", got, r.want)
			}
		})
	}
}

func TestWarningsAccept(t *testing.T) {
	v := verdict.New("q", noon())
	v.Counts, v.Proofs = verdict.Counts{Verified: 1, Required: 1}, proofs()
	v.Warn(verdict.Find(verdict.Extra, "b", "m"))
	if v.Outcome() != verdict.Accepted || v.Complete() || len(v.Findings) != 0 || v.Counts.Extra != 0 {
		t.Errorf("%s, complete %t, %s", v.Outcome(), v.Complete(), v.Counts)
	}
	v.Warn(verdict.Find(verdict.InternalBug, "b", "m"))
	if v.Outcome() != verdict.Internal || len(v.Warnings) != 1 {
		t.Errorf("a bug in us became a warning: %s", v.Outcome())
	}
}

func TestHeadlineSaysWhatWasSetAside(t *testing.T) {
	set := func(kind string, codes ...verdict.Code) *verdict.Verdict {
		v := lacking(codes...)
		v.SetAside([]string{"b"}, func(f verdict.Finding) (verdict.Waiver, bool) {
			w := exception()
			w.Kind = kind
			return w, f.Code != verdict.Tampered
		})
		return v
	}
	warned := lacking()
	warned.Counts.Verified = 2
	warned.Warn(verdict.Find(verdict.Extra, "c", "m"), verdict.Find(verdict.Extra, "d", "m"))
	everything := set(verdict.ByException, verdict.NoSBOM)
	everything.Warn(warned.Warnings[0])
	everything.Scope.Left = []string{"sha512"}
	many := set(verdict.ByDefect, verdict.Unsigned, verdict.NoSBOM, verdict.NoProvenance, verdict.Level)
	rows := []struct {
		v    *verdict.Verdict
		want string
	}{
		{set(verdict.ByException, verdict.NoSBOM), "OK q, with 1 exception: 1 of 2 objects verified"},
		{set(verdict.ByDefect, verdict.Unsigned), "OK q, with 1 accepted defect: 1 of 2 objects verified"},
		{set(verdict.ByException, verdict.NoSBOM, verdict.Unsigned), "OK q, with 2 exceptions: 1 of 2 objects verified"},
		{many, "OK q, with 4 accepted defects: 1 of 2 objects verified"},
		{warned, "OK q, with 2 warnings: 2 of 2 objects verified"},
		{everything, "OK q, with 1 exception and 1 warning, in part: 1 of 2 objects verified"},
		{set(verdict.ByException, verdict.NoSBOM, verdict.Tampered), "REFUSED q (1 set aside): 1 file altered: b"},
	}
	for _, r := range rows {
		if got := r.v.Headline(); got != r.want {
			t.Errorf("headline %q, want %q", got, r.want)
		}
	}
}

func TestJSONOfWaivers(t *testing.T) {
	v := lacking(verdict.NoSBOM)
	v.Findings[0].Known = &verdict.Known{ID: "d", Explanation: "e", Source: "https://s.example.test/"}
	v.SetAside([]string{"b"}, func(verdict.Finding) (verdict.Waiver, bool) { return exception(), true })
	v.Warn(verdict.Find(verdict.Extra, "c", "m"))
	raw, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`"excepted":1`, `"warnings":[{"code":"EXTRA"`, `"waived":[{"finding":{"code":"NO_SBOM"`,
		`"known":{"id":"d","explanation":"e","source":"https://s.example.test/"}`,
		`"kind":"exception","id":"sha256:aa","reason":"the scanner was down","by":"policy@example.test","expires":"`,
	} {
		if !strings.Contains(string(raw), want) {
			t.Errorf("no %s in %s", want, raw)
		}
	}
	raw, err = json.Marshal(lacking(verdict.NoSBOM))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"excepted", "warnings", "waived", "known"} {
		if strings.Contains(string(raw), `"`+name+`"`) {
			t.Errorf("%s is written where there is none: %s", name, raw)
		}
	}
}
