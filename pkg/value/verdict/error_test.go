package verdict_test

import (
	"errors"
	"fmt"
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
