package watching

import (
	"testing"

	"github.com/waybill-release/waybill/test/lab"
)

// TestExplained: a bundle explains its entry and others over the same bytes, and nothing
// else does.
func TestExplained(t *testing.T) {
	w := newWorld(t)
	w.release(t, "a", "first")
	w.pass(t)
	w.sign(t, lab.RoleRelease, "first") // signed again: another entry, the same bytes
	w.pass(t)
	w.sign(t, lab.RoleVerifier, "not of this policy")
	w.pass(t)
	w.sign(t, lab.RoleBuilder, "other bytes")
	w.pass(t, "LOG_UNEXPLAINED")
	w.sign(t, lab.RoleRelease, "second")
	v := w.pass(t, "LOG_UNEXPLAINED", "LOG_UNEXPLAINED") // the first stays
	w.Explained.Handled = []string{v.Findings[0].Subject}
	w.pass(t, "LOG_UNEXPLAINED")
	w.release(t, "b", "second") // late evidence
	w.pass(t)
}
