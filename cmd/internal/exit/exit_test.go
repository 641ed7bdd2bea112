package exit_test

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/waybill-release/waybill/cmd/internal/exit"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// TestReportSaysACodeOnce: causes that carry the same code do not repeat it; another code
// stays.
func TestReportSaysACodeOnce(t *testing.T) {
	inner := verdict.Refuse(verdict.ConfigParse, "policy.yaml", "bad")
	for name, row := range map[string]struct {
		err  error
		want string
	}{
		"alone":    {inner, "waybill x: malformed: CONFIG policy.yaml: bad\n"},
		"wrapped":  {verdict.Wrap(verdict.ConfigParse, "profile.yaml", inner), "waybill x: malformed: CONFIG profile.yaml: policy.yaml: bad\n"},
		"in text":  {verdict.Wrap(verdict.ConfigParse, "profile.yaml", fmt.Errorf("reading: %w", inner)), "waybill x: malformed: CONFIG profile.yaml: reading: policy.yaml: bad\n"},
		"another":  {verdict.Wrap(verdict.PolicySig, "policy.yaml", inner), "waybill x: refused: POLICY_SIG policy.yaml: CONFIG policy.yaml: bad\n"},
		"no code":  {fmt.Errorf("reading: %w", errors.Join(inner)), "waybill x: malformed: reading: CONFIG policy.yaml: bad\n"},
		"a longer": {verdict.Refuse(verdict.Usage, "--x", "USAGE_OF is unknown"), "waybill x: malformed: USAGE --x: USAGE_OF is unknown\n"},
	} {
		var said bytes.Buffer
		exit.Report(&said, "waybill x", row.err)
		if !strings.HasPrefix(said.String(), row.want) {
			t.Errorf("%s: %q, want %q", name, said.String(), row.want)
		}
	}
}
