package stories

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/waybill-release/waybill/test/scene"
)

// alone verifies what was downloaded where there is no network at all, not
// even loopback: the same bytes, root and time give the same verdict.
func alone(t *testing.T, d *desk) {
	judge := func(apart bool, args ...string) (int, string) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), filepath.Join(bin, "k8s-verify-release"), append([]string{
			scene.Version, "--profile", "profile.yaml", "--now", "2126-01-01T00:00:00Z", "--output", "json",
		}, args...)...)
		cmd.Dir, cmd.Env = d.Dir, append(os.Environ(), "XDG_CACHE_HOME="+d.Path("cache"))
		if apart {
			cmd.SysProcAttr = &syscall.SysProcAttr{
				Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNET,
				UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
				GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
			}
		}
		var out, said bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &said
		err := cmd.Run()
		if os.Getenv("CI") == "" && isRefused(err) {
			t.Skipf("this machine gives no network namespaces: %v", err)
		}
		if cmd.ProcessState == nil {
			t.Fatal(err)
		}
		return cmd.ProcessState.ExitCode(), out.String()
	}
	local := []string{"--offline", "--files", "got", "--only", "files"}
	apart, there := judge(true, local...)
	here, same := judge(false, local...)
	if apart != 0 || here != 0 || there != same {
		t.Errorf("apart %d, here %d:\n%s\n%s", apart, here, there, same)
	}
	// The twins: what must be asked for is unavailable, with a network that is
	// not there and with one that is not dialled.
	if code, out := judge(true, "--only", "files"); code != 3 {
		t.Errorf("a bucket that cannot be reached: %d\n%s", code, out)
	}
	if code, out := judge(false, "--offline", "--only", "files"); code != 3 {
		t.Errorf("a bucket that is not dialled: %d\n%s", code, out)
	}
	if code, out := judge(false, "--only", "files"); code != 0 {
		t.Errorf("the bucket: %d\n%s", code, out)
	}
}
