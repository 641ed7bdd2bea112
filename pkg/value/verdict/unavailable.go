package verdict

import "fmt"

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

// Code is the reason code, whatever code the cause has.
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
