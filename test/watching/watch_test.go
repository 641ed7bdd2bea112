package watching

import (
	"fmt"
	"strings"
	"testing"

	"github.com/waybill-release/waybill/pkg/judge/policy"
	"github.com/waybill-release/waybill/pkg/judge/watched"
	"github.com/waybill-release/waybill/pkg/pipeline/watch"
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

// TestPatterns: identities of a policy are found by name and by pattern, and no others.
func TestPatterns(t *testing.T) {
	w := newWorld(t)
	w.sign(t, lab.RoleRelease, "text")
	body := []byte(w.Logged()[0])
	_, subject := w.Identity(lab.RoleRelease)
	name, host, _ := strings.Cut(subject, "@")
	host = strings.ReplaceAll(host, ".", `\.`)
	for with, ours := range map[string]bool{
		fmt.Sprintf("subject: %q", subject):                          true,
		fmt.Sprintf("subject: %q", "x"+subject):                      false,
		fmt.Sprintf("pattern: '%s@%s'", name, host):                  true,
		fmt.Sprintf("pattern: '%s[a-z]*@%s'", name[:2], host):        true,
		fmt.Sprintf("pattern: '(%s|other)@%s'", name, host):          true,
		fmt.Sprintf("pattern: '[q-s][a-z]*@%s'", host):               true,
		fmt.Sprintf("pattern: '%s[0-9]+@%s'", name, host):            false,
		fmt.Sprintf("pattern: '%s@%s'", strings.ToUpper(name), host): false,
	} {
		text := strings.Replace(policyText(w.Lab), fmt.Sprintf("subject: %q", subject), with, 1)
		p, err := policy.Parse([]byte(text), nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, is, err := watched.By(p, w.Gate.Verifier()).Entry(body); is != ours || err != nil {
			t.Errorf("%s: %v, %v", with, is, err)
		}
	}
}

// TestSeen: the watcher says how far it read, from the first entry to the last.
func TestSeen(t *testing.T) {
	w := newWorld(t)
	w.From = 0
	for range 3 {
		w.sign(t, lab.RoleVerifier, "text")
	}
	var all []watch.Seen
	w.Seen = func(s watch.Seen) { all = append(all, s) }
	w.pass(t)
	if len(all) != 2 || all[0].New != 0 || all[0].Next != 0 || all[1].New != 3 || all[1].Next != 3 || all[1].Size != 3 || all[1].Address != w.Logs[0] || !all[1].Grown.Equal(w.now) {
		t.Errorf("%+v", all)
	}
	w.pass(t)
	if last := all[len(all)-1]; len(all) != 3 || last.New != 0 || last.Next != 3 {
		t.Errorf("%+v", all)
	}
}
