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

// Unwrap returns the signer's error.
func (e *unsignedError) Unwrap() error { return e.FailedError }

// naming adds names to the failures of a signer.
func naming(err error, name func(i int) string) error {
	var failed *sign.FailedError
	if !errors.As(err, &failed) {
		return err
	}
	return &unsignedError{failed, name}
}

// endsAll reports whether an error affects more than single artifacts.
func endsAll(err error) bool {
	var failed *unsignedError
	return !errors.As(err, &failed) || failed.Done+len(failed.Failures) < failed.All
}

// ofWhoSigns reports whether a finding is about the signing identity, not
// about the artifact that happened to be first.
func ofWhoSigns(f verdict.Finding) bool {
	return slices.Contains([]verdict.Code{verdict.Usage, verdict.TokenRefused, verdict.SignedAsElse}, f.Code)
}

// failures makes a finding of each artifact that could not be signed. Any
// other error is returned unchanged.
func failures(req Request, err error) error {
	parts := []error{err}
	if joined, several := err.(interface{ Unwrap() []error }); several { // from errors.Join: one level only
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
				last.Message += fmt.Sprintf(" (not signed: %d)", left+1)
				continue
			}
			last.Message += fmt.Sprintf(" (not tried: %d)", left)
		}
	}
	return findingsError(req, findings)
}
