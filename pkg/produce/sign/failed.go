package sign

import "fmt"

// Failure is one order that was not signed, by its index.
type Failure struct {
	Order int
	Err   error
}

// FailedError reports every order that failed. Orders that are neither done
// nor listed were not tried.
type FailedError struct {
	Done, All int
	Failures  []Failure // by index; at least one
}

// Error says how many are done, and why the first failed.
func (e *FailedError) Error() string {
	text := fmt.Sprintf("signing, with %d of %d done: %v", e.Done, e.All, e.Failures[0].Err)
	if more := len(e.Failures) - 1; more > 0 {
		text += fmt.Sprintf(" (and %d more)", more)
	}
	return text
}

// Unwrap returns why each failed.
func (e *FailedError) Unwrap() []error {
	list := make([]error, len(e.Failures))
	for i, f := range e.Failures {
		list[i] = f.Err
	}
	return list
}

// sharedError is a failure that would affect every other order, too.
type sharedError struct{ err error }

// Error is that of the cause.
func (e *sharedError) Error() string { return e.err.Error() }

// Unwrap returns the cause.
func (e *sharedError) Unwrap() error { return e.err }
