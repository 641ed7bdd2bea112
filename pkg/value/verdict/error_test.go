package verdict_test

import (
	"errors"
	"fmt"
	"io/fs"
	"testing"

	"github.com/waybill-release/waybill/pkg/value/verdict"
)

type coded struct{ code string }

func (e coded) Error() string { return "a refusal of the world" }
func (e coded) Code() string  { return e.code }

type down struct{ really bool }

func (e down) Error() string     { return "no answer" }
func (e down) Unavailable() bool { return e.really }

func TestFindingOf(t *testing.T) {
	rows := []struct {
		name    string
		err     error
		code    verdict.Code
		subject string
		outcome verdict.Outcome
	}{
		{"a refusal keeps its subject", verdict.Refuse(verdict.Tampered, "own", "m"), verdict.Tampered, "own", verdict.Refused},
		{"a refusal without a subject gets one", verdict.Refuse(verdict.Tampered, "", "m"), verdict.Tampered, "given", verdict.Refused},
		{"wrapped", fmt.Errorf("reading: %w", verdict.Refuse(verdict.Limit, "own", "m")), verdict.Limit, "own", verdict.Refused},
		{"coded", fmt.Errorf("listing: %w", coded{"FILE_TYPE"}), verdict.FileType, "given", verdict.Refused},
		{"coded with a code of no row", coded{"FANTASY"}, "FANTASY", "given", verdict.Internal},
		{"unavailable", fmt.Errorf("opening: %w", down{true}), verdict.PlaceDown, "given", verdict.Unavailable},
		{"not unavailable after all", down{false}, verdict.InternalBug, "given", verdict.Internal},
		{"an error of nobody", errors.New("oops"), verdict.InternalBug, "given", verdict.Internal},
	}
	for _, r := range rows {
		t.Run(r.name, func(t *testing.T) {
			f := verdict.FindingOf("given", r.err)
			if f.Code != r.code || f.Subject != r.subject {
				t.Errorf("finding %s about %q, want %s about %q", f.Code, f.Subject, r.code, r.subject)
			}
			if got := verdict.OutcomeOf(r.err); got != r.outcome {
				t.Errorf("outcome %s, want %s", got, r.outcome)
			}
			if f.Message == "" {
				t.Error("the message is lost")
			}
		})
	}
}

func TestNoErrorProvesNothing(t *testing.T) {
	if got := verdict.OutcomeOf(nil); got != verdict.Undecided {
		t.Errorf("outcome of no error is %s, want undecided", got)
	}
}

func TestOutcomeOfAVerdict(t *testing.T) {
	v := verdict.New("q", noon())
	v.Add(verdict.Find(verdict.PlaceDown, "p", "m"))
	if got := verdict.OutcomeOf(fmt.Errorf("gate: %w", v.Err())); got != verdict.Unavailable {
		t.Errorf("outcome %s, want unavailable", got)
	}
}

func TestErrorText(t *testing.T) {
	cause := errors.New("end of file")
	wrapped := verdict.Wrap(verdict.BundleParse, "a.json", cause)
	if got := wrapped.Error(); got != "BUNDLE_PARSE a.json: end of file" {
		t.Errorf("got %q", got)
	}
	if !errors.Is(wrapped, cause) || wrapped.Outcome() != verdict.Refused {
		t.Error("the cause or the outcome is lost")
	}
	differs := &verdict.Error{Finding: verdict.Find(verdict.Version, "m", "another version").Differ("v1.0.0", "v2.0.0")}
	if got := differs.Error(); got != "VERSION m: another version: want v1.0.0, got v2.0.0" {
		t.Errorf("got %q", got)
	}
}

func TestInFile(t *testing.T) {
	for _, row := range []struct{ subject, path, want string }{
		{"callers", "conf/callers.yaml", "CONFIG conf/callers.yaml: bad"},
		{"known defects", "d.yaml", "CONFIG d.yaml: bad"},
		{"release.yaml", "src/release.yaml", "CONFIG src/release.yaml: bad"},
		{"roles.release[0]", "policy.yaml", "CONFIG policy.yaml: roles.release[0]: bad"},
	} {
		err := verdict.InFile(row.path, verdict.Refuse(verdict.ConfigParse, row.subject, "bad"))
		if err.Error() != row.want || verdict.OutcomeOf(err) != verdict.Malformed {
			t.Errorf("%v, want %s", err, row.want)
		}
	}
	if err := verdict.InFile("a", nil); err != nil {
		t.Error(err)
	}
}

type advised struct{ down }

func (advised) NextAct() string { return "leave out --offline" }

// TestNextAct: the cause of an unavailable place names the act, and an audience
// gets its own act only where the cause names none.
func TestNextAct(t *testing.T) {
	f := verdict.FindingOf("place", fmt.Errorf("opening: %w", advised{down{true}}))
	if f.Code != verdict.PlaceDown || f.Fix != "leave out --offline" || f.For(verdict.Consumer).Fix != f.Fix {
		t.Errorf("%s → %s", f.Code, f.Fix)
	}
	if f := verdict.FindingOf("file", &fs.PathError{Op: "open", Path: "a", Err: fs.ErrPermission}); f.Code != verdict.PlaceDown || f.Fix == f.Code.Fix() {
		t.Errorf("%s → %s", f.Code, f.Fix)
	}
	v := verdict.New("q", noon())
	v.Add(verdict.Find(verdict.Unsigned, "a", "m"))
	if own, theirs := v.Findings[0].Fix, v.For(verdict.Consumer).Findings[0].Fix; own == theirs || v.Findings[0].Fix != own {
		t.Errorf("%q and %q, want two acts and an unchanged verdict", own, theirs)
	}
}
