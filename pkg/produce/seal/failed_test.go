package seal

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/waybill-release/waybill/pkg/produce/sign"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// TestFailures: a token that cannot be used is said of the token, whichever
// file was the first; what is wrong with one file is said of that file.
func TestFailures(t *testing.T) {
	req := Request{Clock: time.Now}
	name := func(int) string { return "bin/lantern" }
	for _, c := range []struct {
		err           error
		subject, says string
	}{
		{verdict.Refuse(verdict.TokenRefused, "identity token", "it expired"), "identity token", "(not signed: 10)"},
		{verdict.Refuse(verdict.SignedAsElse, "release", "another"), "release", "(not signed: 10)"},
		{verdict.Refuse(verdict.SignatureBad, "certificate", "of another key"), "bin/lantern", "certificate: of another key (not tried: 9)"},
		{verdict.Refuse(verdict.NotBound, "bin/lantern", "other bytes"), "bin/lantern", "other bytes (not tried: 9)"},
	} {
		failed := &sign.FailedError{All: 10, Failures: []sign.Failure{{Err: c.err}}}
		var no *verdict.NotAcceptedError
		if err := failures(req, naming(failed, name)); !errors.As(err, &no) {
			t.Fatalf("%v", err)
		}
		if f := no.Verdict.Findings[0]; f.Subject != c.subject || !strings.HasSuffix(f.Message, c.says) {
			t.Errorf("%q: %q, want %q: %q", f.Subject, f.Message, c.subject, c.says)
		}
	}
}
