package stories

import (
	"bytes"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/waybill-release/waybill/pkg/backend/registry"
	"github.com/waybill-release/waybill/test/scene"
)

// strangers is how many bundles of 4 MiB somebody attaches to an image. More
// are read of no image than its limit has room for, so many are enough.
const strangers = 64

// TestMemoryOfStrangers: whoever may attach something to an image does not
// decide how much memory its verification takes.
func TestMemoryOfStrangers(t *testing.T) {
	s := published(t)
	r, before := peak(t, s)
	want(t, r, 0)
	remote, err := registry.OpenRemote(s.Lab.Registry+"/release/lantern", http.DefaultTransport)
	if err != nil {
		t.Fatal(err)
	}
	image, err := remote.Resolve(t.Context(), "lantern", scene.Version)
	if err != nil {
		t.Fatal(err)
	}
	w := &workshop{remote: remote}
	for i := range strangers {
		content := bytes.Repeat([]byte{'x'}, 4<<20-1024)
		copy(content, []byte{'a' + byte(i%26), 'a' + byte(i/26%26), 'a' + byte(i/676)})
		w.attach(t, "lantern", image, content)
	}
	r, after := peak(t, s)
	want(t, r, 0, "OK ")
	t.Logf("peak %d KiB without strangers, %d KiB with %d", before, after, strangers)
	if after > before+32<<10 {
		t.Errorf("peak memory went from %d to %d KiB", before, after)
	}
}

// peak verifies the release and returns how much memory that took, in KiB. What
// the kernel says of an ended process counts what started it, too, so it is
// asked while the process runs.
func peak(t *testing.T, s *scene.Scene) (scene.Result, int64) {
	t.Helper()
	var said bytes.Buffer
	cmd := exec.CommandContext(t.Context(), filepath.Join(s.Bin, "k8s-verify-release"), scene.Version, "--profile", "profile.yaml")
	cmd.Dir, cmd.Stdout, cmd.Stderr = s.Dir, &said, &said
	cmd.Env = append(append(os.Environ(), "XDG_CACHE_HOME="+s.Path("cache")), s.Env...)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error)
	go func() { ended <- cmd.Wait() }()
	most := int64(0)
	for {
		select {
		case <-ended: // the status is looked at
			if most == 0 {
				t.Fatal("nobody said how much memory it took")
			}
			return scene.Result{Args: cmd.Args, Stdout: said.String(), Code: cmd.ProcessState.ExitCode()}, most
		case <-time.After(time.Millisecond):
		}
		most = max(most, peakOf(cmd.Process.Pid))
	}
}

// peakOf is how much memory a process has had at most, in KiB, or 0 if it has
// ended.
func peakOf(pid int) int64 { return statusOf(pid, "VmHWM") }

// statusOf is one number of the status of a process.
func statusOf(pid int, name string) (kib int64) {
	status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if _, after, is := strings.Cut(string(status), name+":"); is {
		_, _ = fmt.Sscan(after, &kib)
	}
	return kib
}
