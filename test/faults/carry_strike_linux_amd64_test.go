package faults_test

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/waybill-release/waybill/test/faults"
)

// struck applies the plan and strikes it.
func (c *carry) struck(s faults.Strike) (struck faults.Struck, said string) {
	c.t.Helper()
	log, err := os.Create(staged.Path(c.place + ".log"))
	if err != nil {
		c.t.Fatal(err)
	}
	defer log.Close()
	args := c.args()
	cmd := exec.Command(filepath.Join(staged.Bin, args[0]), args[1:]...)
	cmd.Dir, cmd.Env = staged.Dir, append(os.Environ(), "XDG_CACHE_HOME="+staged.Path("cache"), "WAYBILL_PATIENCE=15s")
	cmd.Stdout, cmd.Stderr = log, log
	struck, err = s.Run(cmd)
	switch {
	case err != nil && os.Getenv("CI") != "":
		c.t.Fatalf("CI strikes always: %v", err)
	case err != nil:
		c.t.Skipf("nothing can be traced here: %v", err)
	}
	return struck, c.read(c.place + ".log")
}

// calls are those of a promotion that nobody strikes, of some kinds.
func calls(t *testing.T, only []string) int {
	t.Helper()
	counted, said := newCarry(t).struck(faults.Strike{Only: only})
	if counted.Code != 0 {
		t.Fatalf("it does not end well when it is watched: %d\n%s", counted.Code, said)
	}
	return len(counted.Calls)
}

// Row 40: a promotion by a plan is killed before a call that can leave a trace.
// Each tag is old, or stands over all that belongs to it; the next run leaves
// everything there once, and in the log once; nothing half written and no
// private key stays where it is remembered.
func TestLongCarryKilledAtEveryCall(t *testing.T) {
	total, killed, kinds := calls(t, nil), 0, map[string]int{}
	for _, at := range places(total, someKills) {
		t.Run(fmt.Sprint(at), func(t *testing.T) {
			c, before := newCarry(t), entries(t)
			struck, _ := c.struck(faults.Strike{At: at})
			if struck.Killed {
				killed++
				kinds[kind(struck.Calls[at-1])]++
			}
			c.sound()
			c.mended()
			once(t, before, c.made())
			c.clean()
		})
	}
	t.Logf("killed %d times before one of %d calls, by kind %v; all converged", killed, total, kinds)
	if killed == 0 {
		t.Error("it was never killed")
	}
}

// Rows 38 and 39: the disk is full, broken or not ours.
func TestLongCarryDiskFailsAtEveryCall(t *testing.T) {
	disks := disks()
	for _, errno := range slices.Sorted(maps.Keys(disks)) {
		t.Run(errno.Error(), func(t *testing.T) { c := diskFails{errno, disks[errno], map[int]int{}}; c.play(t) })
	}
}

// diskFails is a disk that answers some calls with one error.
type diskFails struct {
	with  syscall.Errno
	only  []string
	ended map[int]int
}

func (d diskFails) play(t *testing.T) {
	total := calls(t, d.only)
	for _, at := range places(total, someFailures) {
		t.Run(fmt.Sprint(at), func(t *testing.T) {
			c, before := newCarry(t), entries(t)
			struck, said := c.struck(faults.Strike{At: at, With: d.with, Only: d.only})
			public := c.sound()
			d.ended[struck.Code]++
			switch {
			case len(struck.Calls) < at: // this run had fewer of them
			case struck.Code == 0 && public == 2:
			case struck.Code != 3 || !strings.Contains(said, d.with.Error()):
				t.Errorf("%s: status %d, in %d regions, and it does not say what failed:\n%s", struck.Calls[at-1], struck.Code, public, said)
			}
			c.mended()
			once(t, before, c.made())
			c.clean()
		})
	}
	t.Logf("of %d calls to the disk some failed with %q; it ended with %v, and all converged", total, d.with, d.ended)
}

// clean demands that nothing but the journal is where promotions are
// remembered, and no private key is in it.
func (c *carry) clean() {
	c.t.Helper()
	list, err := os.ReadDir(staged.Path(c.state))
	if err != nil {
		c.t.Fatal(err)
	}
	for _, e := range list {
		raw := c.read(filepath.Join(c.state, e.Name()))
		if key := privateKey([]byte(raw)); key != "" || e.Name() != "promotions.jsonl" {
			c.t.Errorf("%s is there, with a private key: %q", e.Name(), key)
		}
	}
}
