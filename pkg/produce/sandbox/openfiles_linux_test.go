//go:build amd64 || arm64

package sandbox

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// hidePart is how much a step of these tests writes to each file.
const hidePart = 8 << 20

// hide writes files without names, keeps each in the way that HOW says, and
// stays until its input ends.
func hide() error {
	n, err := strconv.Atoi(os.Getenv("PARTS"))
	if err != nil {
		return err
	}
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_DGRAM, 0)
	if err != nil {
		return err
	}
	for i := range n {
		name := filepath.Join(os.Getenv("DIR"), strconv.Itoa(i))
		fd, err := written(name)
		if err != nil {
			return err
		}
		switch os.Getenv("HOW") {
		case "linked":
			err = os.Link(name, name+"-again")
		case "mapped":
			_, err = unix.Mmap(fd, 0, hidePart, unix.PROT_READ, unix.MAP_SHARED)
			err = errors.Join(err, unix.Close(fd), unix.Unlink(name))
		case "sent":
			err = errors.Join(unix.Sendmsg(pair[0], []byte("x"), unix.UnixRights(fd), nil, 0), unix.Close(fd), unix.Unlink(name))
		case "memory":
			err = errors.Join(unix.Close(fd), unix.Unlink(name))
			if fd, err := unix.MemfdCreate("x", 0); err != nil || unix.Fallocate(fd, 0, 0, hidePart) != nil {
				return errors.New("no file in memory")
			}
		default:
			err = unix.Unlink(name)
		}
		if err != nil {
			return err
		}
	}
	fmt.Println("held")
	if os.Getenv("STAY") != "" {
		time.Sleep(10 * time.Second) // it is stopped long before
	}
	_, err = io.Copy(os.Stdout, os.Stdin)
	return err
}

func written(name string) (int, error) {
	fd, err := unix.Open(name, unix.O_RDWR|unix.O_CREAT|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return -1, err
	}
	_, err = unix.Write(fd, make([]byte, hidePart))
	return fd, err
}

// TestDiskHeld: a step that holds more than it may in files without a name is
// ended, wherever it holds them.
func TestDiskHeld(t *testing.T) {
	inBothModes(t, func(t *testing.T, mode Mode) {
		for _, how := range []string{"open", "mapped", "sent"} {
			s, log := step(t, mode, "hide", "HOW="+how, "PARTS=24", "DIR=/build/home", "STAY=1")
			s.Limits.Disk = 64 << 20
			err := run(t, mode, s)
			var failed *StepError
			if !errors.As(err, &failed) || failed.Code() != "STEP_LIMIT" {
				t.Errorf("%s: %v\n%s", how, err, log)
			}
		}
	})
}

// TestDiskOfOthers: of a disk that lost much more, a step is charged what it
// has; it goes on if that is within the limit and nothing is hidden.
func TestDiskOfOthers(t *testing.T) {
	for name, row := range map[string]struct {
		how   string
		parts int
		over  bool
	}{
		"nothing":                      {"open", 0, false},
		"open files, within the limit": {"open", 3, false},
		"open files":                   {"open", 5, true},
		"mapped files, within":         {"mapped", 3, false},
		"mapped files":                 {"mapped", 5, true},
		"files in messages":            {"sent", 1, true},
		"files of two names":           {"linked", 3, false},
		"more of these":                {"linked", 5, true},
		"files in memory":              {"memory", 5, false},
	} {
		t.Run(name, func(t *testing.T) {
			s, _ := step(t, Unisolated, "hide")
			s.Limits.Disk = 4*hidePart + hidePart/2
			cmd := exec.Command(s.Command[0])
			cmd.Env = []string{"SANDBOX_ACT=hide", "HOW=" + row.how, "PARTS=" + strconv.Itoa(row.parts), "DIR=" + filepath.Join(s.Scratch, "home")}
			in, out := must(cmd.StdinPipe())(t), bufio.NewReader(must(cmd.StdoutPipe())(t))
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			defer func() {
				if err := errors.Join(in.Close(), cmd.Wait()); err != nil {
					t.Error(err)
				}
			}()
			if line, err := out.ReadString('\n'); line != "held\n" {
				t.Fatal(line, err)
			}
			d := must(newDisk(s, os.Getpid()))(t)
			d.bytes += 1 << 30 // of others
			before := d.bytes
			err := d.check()
			if (err != nil && verdict.FindingOf("", err).Code == verdict.StepLimit) != row.over || (err != nil) != row.over {
				t.Errorf("%v, want a refusal: %v", err, row.over)
			}
			if moved := before - d.bytes; (moved > 0) == row.over {
				t.Errorf("%d bytes were taken for those of others", moved)
			}
			if _, err := io.WriteString(in, "on\n"); err != nil {
				t.Fatal(err)
			}
			if line, err := out.ReadString('\n'); line != "on\n" { // it goes on
				t.Error(line, err)
			}
		})
	}
}

func must[T any](v T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}
