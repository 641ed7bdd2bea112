package seal

import (
	"errors"
	"fmt"
	"slices"

	"github.com/waybill-release/waybill/pkg/produce/sign"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// unsignedError reports what could not be signed, by the names of the
// artifacts.
type unsignedError struct {
	*sign.FailedError
	name func(int) string
}

// Unwrap returns what the signer said.
func (e *unsignedError) Unwrap() error { return e.FailedError }

// naming gives the failures of a signer their names.
func naming(err error, name func(i int) string) error {
	var failed *sign.FailedError
	if !errors.As(err, &failed) {
		return err
	}
	return &unsignedError{failed, name}
}

// endsAll reports whether an error is of more than single artifacts.
func endsAll(err error) bool {
	var failed *unsignedError
	return !errors.As(err, &failed) || failed.Done+len(failed.Failures) < failed.All
}

// ofWhoSigns reports whether a finding is of the identity that signs, and not
// of the artifact that happened to be the first.
func ofWhoSigns(f verdict.Finding) bool {
	return slices.Contains([]verdict.Code{verdict.Usage, verdict.TokenRefused, verdict.SignedAsElse}, f.Code)
}

// failures makes a finding of each artifact that could not be signed. An error
// of anything else stays what it is.
func failures(req Request, err error) error {
	parts := []error{err}
	if joined, several := err.(interface{ Unwrap() []error }); several { // of errors.Join: one level only
		parts = joined.Unwrap()
	}
	var findings []verdict.Finding
	for _, part := range parts {
		var failed *unsignedError
		if !errors.As(part, &failed) {
			return err
		}
		for _, f := range failed.Failures {
			finding := verdict.FindingOf(failed.name(f.Order), f.Err)
			if name := failed.name(f.Order); finding.Subject != name && !ofWhoSigns(finding) {
				finding.Message, finding.Subject = fmt.Sprintf("%s: %s", finding.Subject, finding.Message), name
			}
			findings = append(findings, finding)
		}
		if left := failed.All - failed.Done - len(failed.Failures); left > 0 {
			last := &findings[len(findings)-1]
			if ofWhoSigns(*last) {
				last.Message += fmt.Sprintf(" (so %d were not signed)", left+1)
				continue
			}
			last.Message += fmt.Sprintf(" (so %d more were not tried)", left)
		}
	}
	return all(req, findings)
}
