package roots

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/waybill-release/waybill/pkg/judge/trust"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/test/lab"
)

// A lab's trust goes from its repository into a file, and is marked as what it
// is all the way.
func TestLab(t *testing.T) {
	l, c := lab.New(t), newClient(t, time.Now())
	got := c.must("init", "--tuf", l.TUF, "--root", c.file("root.json", l.TUFRoot))
	want := digest.Of(digest.SHA256, l.TrustedRoot)
	for _, says := range []string{want.String(), l.TUF, trust.LabMark} {
		if !strings.Contains(got, says) {
			t.Errorf("init does not say %q:\n%s", says, got)
		}
	}
	c.must("update")
	var shown struct {
		Digest      string
		InsecureLab bool
		Authorities []trust.Authority
	}
	if err := json.Unmarshal([]byte(c.must("show", "--output", "json")), &shown); err != nil {
		t.Fatal(err)
	}
	if shown.Digest != want.String() || !shown.InsecureLab || len(shown.Authorities) < 4 {
		t.Errorf("shown %+v", shown)
	}
	exported := filepath.Join(c.dir, "trusted_root.json")
	if said := c.must("export", "--output", exported); !strings.HasPrefix(said, want.String()+" ") {
		t.Errorf("export says %q", said)
	}
	raw, err := os.ReadFile(exported)
	if err != nil || string(raw) != string(l.TrustedRoot) || c.must("export") != string(l.TrustedRoot) {
		t.Errorf("exported %d bytes of %d, %v", len(raw), len(l.TrustedRoot), err)
	}
	if said := c.must("export", "--trusted-root", exported, "--output", exported+".copy"); said != want.String()+"\n" { // a file has no age
		t.Errorf("export of a file says %q", said)
	}
	if got := c.must("show", "--trusted-root", exported); !strings.Contains(got, trust.LabMark) || strings.Contains(got, "current on") {
		t.Errorf("the file is shown as\n%s", got)
	}
	if got := c.must("show", "--offline"); strings.Contains(got, trust.LabMark) {
		t.Errorf("the embedded copy is shown as\n%s", got)
	}
}

// A lab that starts again on its directory publishes the next version, and a
// client of the first follows. Where its port was taken meanwhile, it is tried
// again with another lab.
func TestLabStartsAgain(t *testing.T) {
	for range 5 {
		dir, c := t.TempDir(), newClient(t, time.Now())
		first := lab.NewWith(t, lab.Options{Dir: dir})
		c.must("init", "--tuf", first.TUF, "--root", c.file("root.json", first.TUFRoot))
		if err := first.Close(); err != nil {
			t.Fatal(err)
		}
		second := lab.NewWith(t, lab.Options{Dir: dir})
		if second.TUF != first.TUF {
			continue
		}
		if got := c.must("update"); !strings.Contains(got, "timestamp 2") {
			t.Errorf("after the second start:\n%s", got)
		}
		return
	}
	t.Fatal("no lab could start again on its port")
}
