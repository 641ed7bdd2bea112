package stories

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// inside names the program that this test binary runs, when it is started
// again in a network of its own.
const inside = "WAYBILL_STORIES_INSIDE"

// TestLongDemoDialsLoopbackOnly runs the demo where there is no network but
// loopback: whatever dialled anything else would fail.
func TestLongDemoDialsLoopbackOnly(t *testing.T) {
	demo := filepath.Join(t.TempDir(), "waybill-demo")
	build := exec.Command("go", "build", "-o", demo, "./cmd/waybill-demo")
	build.Dir, build.Env = "..", append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building the demo: %v\n%s", err, out)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self, demo, "-bin", bin, "-example", filepath.Join("..", "example"))
	cmd.Env = append(os.Environ(), inside+"=1", "TMPDIR="+t.TempDir())
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNET,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
	}
	out, err := cmd.CombinedOutput()
	if os.Getenv("CI") == "" && isRefused(err) {
		t.Skipf("this machine gives no network namespaces: %v", err)
	}
	if err != nil {
		t.Fatalf("the demo without a network: %v\n%s", err, out)
	}
}

func isRefused(err error) bool {
	return errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.ENOSYS)
}

// demoInside brings loopback up and becomes the program that it was given.
func demoInside(args []string) error {
	if err := loopbackUp(); err != nil {
		return err
	}
	return syscall.Exec(args[0], args, os.Environ())
}

// loopbackUp sets the interface flag that a new network namespace lacks.
func loopbackUp() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	var request struct {
		name  [unix.IFNAMSIZ]byte
		flags uint16
		_     [22]byte
	}
	copy(request.name[:], "lo")
	request.flags = unix.IFF_UP
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.SIOCSIFFLAGS, uintptr(unsafe.Pointer(&request))); errno != 0 {
		return errno
	}
	return nil
}
