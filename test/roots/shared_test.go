//go:build unix

package roots

import (
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"

	"github.com/waybill-release/waybill/pkg/judge/trust"
	"github.com/waybill-release/waybill/pkg/testing/faketuf"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// Several processes share one cache, while the repository goes on.
func TestProcessesShareACache(t *testing.T) {
	r, c := faketuf.New(t, now), newClient(t, now)
	r.Publish(map[string][]byte{"trusted_root.json": trust.Embedded().Raw()})
	c.initialise(r)
	for range 3 {
		r.Publish(nil)
		var group sync.WaitGroup
		for range 4 {
			group.Go(func() {
				if code, stdout, stderr := c.trust("update"); code != 0 {
					t.Errorf("update ended with %d\n%s%s", code, stdout, stderr)
				}
				if code, stdout, stderr := c.trust("show"); code != 0 {
					t.Errorf("show ended with %d\n%s%s", code, stdout, stderr)
				}
			})
		}
		group.Wait()
	}
	left, err := os.ReadDir(c.cache)
	if err != nil || len(left) != 4 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// Whoever may not write a cache may read it, and cannot refresh it.
func TestReadOnlyCache(t *testing.T) {
	r, c := faketuf.New(t, now), newClient(t, now)
	r.Publish(map[string][]byte{"trusted_root.json": trust.Embedded().Raw()})
	c.initialise(r)
	if os.Getuid() == 0 {
		// The owner of everything may write anything: be nobody.
		for dir := c.cache; dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
			info, err := os.Stat(dir)
			if err != nil {
				t.Fatal(err)
			}
			if info.Mode().Perm()&0o005 != 0o005 {
				if err := os.Chmod(dir, 0o755); err != nil {
					t.Fatal(err)
				}
			}
		}
		c.as = func(cmd *exec.Cmd) {
			cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534, NoSetGroups: true}}
		}
	}
	for name := range map[string]bool{"source.json": true, "state.json": true, "floor.json": true, "lock": true} {
		if err := os.Chmod(filepath.Join(c.cache, name), 0o444); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(c.cache, 0o555); err != nil {
		t.Fatal(err)
	}
	c.must("show")
	r.Publish(nil)
	c.refuses(verdict.TrustDown, "update")
	c.must("show")
	if err := os.Chmod(c.cache, 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Join(c.cache, "lock"), 0o666); err != nil {
		t.Fatal(err)
	}
	c.must("update")
}
