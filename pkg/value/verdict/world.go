package verdict

import "fmt"

// UnavailableError says that the world did not answer. Every package that
// reaches out returns it, so that no cause can pass for a refusal or for
// "nothing there".
type UnavailableError struct {
	Place string // which part of the world
	Op    string // what was attempted
	Err   error  // why there is no answer
}

// Error names the act, the place and the cause.
func (e *UnavailableError) Error() string {
	return fmt.Sprintf("%s at %q: %v", e.Op, e.Place, e.Err)
}

// Unwrap returns the cause.
func (e *UnavailableError) Unwrap() error { return e.Err }

// Unavailable reports that the world did not answer.
func (e *UnavailableError) Unavailable() bool { return true }

// Code is the reason code, whatever the cause says of itself.
func (e *UnavailableError) Code() string { return string(PlaceDown) }

// UsageError reports words that name nothing that could be asked; asking again
// will not help.
type UsageError struct{ Err error }

// Error is what is wrong with the words.
func (e *UsageError) Error() string { return e.Err.Error() }

// Unwrap returns the fault.
func (e *UsageError) Unwrap() error { return e.Err }

// Code is the reason code.
func (e *UsageError) Code() string { return string(Usage) }
