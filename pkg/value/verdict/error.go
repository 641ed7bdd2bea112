package verdict

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/waybill-release/waybill/pkg/tool/pattern"
)

// Error is a finding as an error.
type Error struct {
	Finding Finding
	Cause   error
}

// Error prints code, subject, message and cause.
func (e *Error) Error() string {
	msg := fmt.Sprintf("%s %s: %s", e.Finding.Code, e.Finding.Subject, e.Finding.Message)
	if e.Finding.Want != "" || e.Finding.Got != "" {
		msg += fmt.Sprintf(": want %s, got %s", e.Finding.Want, e.Finding.Got)
	}
	return msg
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Cause }

// Outcome is the outcome of the finding's code.
func (e *Error) Outcome() Outcome { return e.Finding.Code.Outcome() }

// Refuse makes an error that carries a finding.
func Refuse(code Code, subject, format string, args ...any) *Error {
	return &Error{Finding: Find(code, subject, format, args...)}
}

// Advise replaces the next act of the code table.
func (e *Error) Advise(act string) *Error {
	e.Finding.Fix = act
	return e
}

// Differ adds the value that was wanted and the one that was got.
func (e *Error) Differ(want, got string) *Error {
	e.Finding = e.Finding.Differ(want, got)
	return e
}

// Wrap makes an error that carries a finding and keeps its cause.
func Wrap(code Code, subject string, cause error) *Error {
	text := strings.TrimPrefix(cause.Error(), string(code)+" ") // say the code once
	return &Error{Finding: Find(code, subject, "%s", text).because(cause), Cause: cause}
}

// FindingOf reads the finding that err carries. Errors of the packages that reach
// the world have a method Code or Unavailable; a disk that fails and a deadline
// that is exceeded are unavailability; any other error is reported as a bug in
// Waybill, never swallowed. An error with a method NextAct names the next act.
func FindingOf(subject string, err error) Finding {
	if judged, is := errors.AsType[*NotAcceptedError](err); is && len(judged.Verdict.Findings) > 0 {
		return judged.Verdict.Findings[0]
	}
	if carried, is := errors.AsType[*Error](err); is {
		f := carried.Finding
		f.Subject = cmp.Or(f.Subject, subject)
		return f
	}
	var coded interface{ Code() string }
	if errors.As(err, &coded) {
		return Find(Code(coded.Code()), subject, "%v", err).because(err)
	}
	if isDown(err) {
		return Find(PlaceDown, subject, "%v", err).because(err)
	}
	return Find(InternalBug, subject, "%v", err)
}

// AdviseOn replaces the next act of the finding that err carries, if it has one of
// these codes.
func AdviseOn(subject string, err error, act string, codes ...Code) error {
	f := FindingOf(subject, err)
	if err == nil || !slices.Contains(codes, f.Code) {
		return err
	}
	return &Error{Finding: f.Advise(act), Cause: err}
}

// kindOfFile is a subject that says what a file is instead of where it is.
var kindOfFile = pattern.Lazy(`\A[a-z]+([ -][a-z]+)*\z`)

// InFile makes a file the subject of the finding that err carries, for whoever
// wrote the file. The old subject is kept, unless it only says what kind of file
// it is. No error stays none.
func InFile(path string, err error) error {
	if err == nil {
		return nil
	}
	f := FindingOf(path, err)
	if !kindOfFile().MatchString(f.Subject) && !strings.HasSuffix(path, f.Subject) {
		f.Message = f.Subject + ": " + f.Message
	}
	f.Subject = path
	return &Error{Finding: f, Cause: err}
}

func isDown(err error) bool {
	var down interface{ Unavailable() bool }
	var late interface{ Timeout() bool }
	var disk *fs.PathError
	return errors.As(err, &down) && down.Unavailable() || errors.As(err, &late) && late.Timeout() || errors.As(err, &disk)
}

// OutcomeOf is the outcome that err amounts to. For nil it is Undecided, because
// the absence of an error proves nothing.
func OutcomeOf(err error) Outcome {
	if err == nil {
		return Undecided
	}
	if judged, is := errors.AsType[*NotAcceptedError](err); is {
		return judged.Outcome()
	}
	return FindingOf("", err).Code.Outcome()
}

// Coded makes an error with a reason code and without a subject, which the
// caller knows.
func Coded(code Code, format string, args ...any) error {
	return &codedError{fmt.Errorf(format, args...), code}
}

type codedError struct {
	error

	code Code
}

// Unwrap returns the error with its causes.
func (e *codedError) Unwrap() error { return e.error }

// Code is the reason code, for [FindingOf].
func (e *codedError) Code() string { return string(e.code) }

// UnavailableError reports that a service or place did not answer. Every package
// that uses the network or a disk returns it, so that no failure is taken for a
// refusal or for "not found".
type UnavailableError struct {
	Place string // the service or place that was asked
	Op    string // what was attempted
	Err   error  // why there is no answer
}

// Error names the act, the place and the cause.
func (e *UnavailableError) Error() string {
	return fmt.Sprintf("%s at %q: %v", e.Op, e.Place, e.Err)
}

// Unwrap returns the cause.
func (e *UnavailableError) Unwrap() error { return e.Err }

// Unavailable reports that there was no answer.
func (e *UnavailableError) Unavailable() bool { return true }

// Code is the reason code. That of the cause does not matter.
func (e *UnavailableError) Code() string { return string(PlaceDown) }

// UsageError reports an argument that names no service, place or object; retrying
// does not help.
type UsageError struct{ Err error }

// Error is what is wrong with the argument.
func (e *UsageError) Error() string { return e.Err.Error() }

// Unwrap returns the fault.
func (e *UsageError) Unwrap() error { return e.Err }

// Code is the reason code.
func (e *UsageError) Code() string { return string(Usage) }

// For returns f with the next act of an audience. An act that was chosen by the
// cause of the finding stays.
func (f Finding) For(a Audience) Finding {
	if f.Fix == f.Code.Fix() {
		f.Fix = f.Code.NextAct(a)
	}
	return f
}

// For returns v with the next acts of an audience.
func (v Verdict) For(a Audience) Verdict {
	v.Findings, v.Warnings, v.Waived = slices.Clone(v.Findings), slices.Clone(v.Warnings), slices.Clone(v.Waived)
	for i, f := range v.Findings {
		v.Findings[i] = f.For(a)
	}
	for i, f := range v.Warnings {
		v.Warnings[i] = f.For(a)
	}
	for i, w := range v.Waived {
		v.Waived[i].Finding = w.Finding.For(a)
	}
	return v
}

// checkPath is the next act if a file of this machine cannot be read or written.
const checkPath = "check that the path exists, that this user may read and write it, and that the disk works; nothing was decided"

// because gives a finding that something is missing or unavailable the next act
// of its cause: an error of the chain names one by a method NextAct, or is about
// a file of this machine.
func (f Finding) because(cause error) Finding {
	down := f.Code.Outcome() == Unavailable
	if !down && f.Code != Missing {
		return f
	}
	var knows interface{ NextAct() string }
	var file *fs.PathError
	switch {
	case errors.As(cause, &knows):
		f.Fix = knows.NextAct()
	case down && errors.As(cause, &file):
		f.Fix = checkPath
	}
	return f
}
