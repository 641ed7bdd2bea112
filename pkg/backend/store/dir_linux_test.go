package store_test

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/waybill-release/waybill/pkg/backend/store"
)

// noProc is set where this program runs without /proc.
const noProc = "WAYBILL_TEST_NO_PROC"

// reading calls a function at each read.
type reading struct {
	io.Reader
	each func()
}

func (r reading) Read(p []byte) (int, error) {
	r.each()
	return r.Reader.Read(p)
}

// TestUnfinished: a writer that is killed while it writes leaves no name, for a
// file has none before it is whole. Where files have a name from the start (twin),
// it has the prefix of unfinished files. Both end alike.
func TestUnfinished(t *testing.T) {
	defer syscall.Umask(syscall.Umask(0o027))
	for name, row := range map[string]struct {
		before, during string // what is at the name
		opts           store.PutOptions
		want           error
	}{
		"a new file":                      {opts: store.PutOptions{IfAbsent: true}},
		"perhaps a new file":              {},
		"an old file":                     {before: "old"},
		"a file of somebody else":         {during: "other"},
		"a file of somebody else is kept": {during: "other", opts: store.PutOptions{IfAbsent: true}, want: store.ErrExists},
	} {
		for _, first := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, named first %t", name, first), func(t *testing.T) {
				dir := t.TempDir()
				_, w := openDir(t, dir)
				if first {
					store.NameFirst(w)
				} else if os.Getenv(noProc) == "" {
					needUnnamed(t, dir)
				}
				final := filepath.Join(dir, "a", "b", "file")
				if row.before != "" {
					write(t, final, row.before)
				}
				reads := 0
				body := reading{strings.NewReader(strings.Repeat("new", 1<<18)), func() {
					if reads++; reads == 2 && row.during != "" {
						write(t, final, row.during)
					}
					if got, want := unfinished(t, dir), first || os.Getenv(noProc) != ""; (got == 1) != want || got > 1 {
						t.Errorf("read %d: %d unfinished files have a name, want one: %t", reads, got, want)
					}
				}}
				err := w.Put(t.Context(), "a/b/file", 3<<18, body, row.opts)
				if !errors.Is(err, row.want) || row.want == nil && err != nil {
					t.Fatalf("%v, want %v", err, row.want)
				}
				if reads < 3 || unfinished(t, dir) != 0 {
					t.Errorf("%d reads; %d unfinished files have a name", reads, unfinished(t, dir))
				}
				raw, err := os.ReadFile(final)
				if want := map[bool]string{true: strings.Repeat("new", 1<<18), false: row.during}[row.want == nil]; err != nil || string(raw) != want {
					t.Errorf("%.20q, %v, want %.20q", raw, err, want)
				}
				info, err := os.Stat(final)
				if err != nil || row.want == nil && info.Mode() != 0o640 || info.Sys().(*syscall.Stat_t).Nlink != 1 {
					t.Errorf("%v, %v", info, err)
				}
			})
		}
	}
}

// unfinished counts the names of unfinished files.
func unfinished(t *testing.T, dir string) (count int) {
	t.Helper()
	place, _ := openDir(t, dir)
	objects, err := place.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range objects {
		if store.IsStaging(o.Name) {
			count++
		}
	}
	return count
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o600)); err != nil {
		t.Fatal(err)
	}
}

// needUnnamed skips a test where the file system has no files without a name.
func needUnnamed(t *testing.T, dir string) {
	t.Helper()
	fd, err := unix.Open(dir, unix.O_TMPFILE|unix.O_WRONLY|unix.O_CLOEXEC, 0o600)
	switch {
	case err == nil:
		_ = unix.Close(fd)
	case os.Getenv("CI") != "":
		t.Fatalf("CI has files without a name: %v", err)
	default:
		t.Skipf("no files without a name here: %v", err)
	}
}

// TestWithoutProc: without /proc, an unnamed file could never be given a name, so
// each has one before anything is written.
func TestWithoutProc(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	const refused = 77
	script := fmt.Sprintf("mount -t tmpfs none /proc || exit %d\nexec \"$0\" -test.run '^(TestUnfinished|TestDirectoryConformance)$' -test.v", refused)
	cmd := exec.CommandContext(t.Context(), "sh", "-c", script, self)
	cmd.Env = append(os.Environ(), noProc+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
	}
	out, err := cmd.CombinedOutput()
	denied := errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.ENOSYS) || err != nil && cmd.ProcessState.ExitCode() == refused
	if denied && os.Getenv("CI") == "" {
		t.Skipf("/proc cannot be hidden on this machine: %v\n%s", err, out)
	}
	if err != nil || !strings.Contains(string(out), "--- PASS: TestUnfinished") {
		t.Fatalf("%v\n%s", err, out)
	}
}
