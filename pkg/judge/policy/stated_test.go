package policy

import "testing"

// TestStatedLogs: a trust root without logs cannot lower what a policy states.
func TestStatedLogs(t *testing.T) {
	for text, stated := range map[string]bool{"": false, "thresholds: {times: 1}\n": false, "thresholds: {logs: 1}\n": true, "thresholds: {scts: 1}\n": true} {
		if p := overlapping(t, text); p.Verification().Stated != stated {
			t.Errorf("%q: stated %v", text, !stated)
		}
	}
}
