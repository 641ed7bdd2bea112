// Command step is a build step that means harm. It is told by the variable ACT
// what to try, and ends with status 0 only if that worked: then it has written
// its declared output as well, so that a build would go on. What stopped it is
// the last line of its log.
package main

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"

	"github.com/waybill-release/waybill/pkg/pipeline/doctor/attack"
)

func main() {
	list := map[string]func() error{}
	for _, r := range attack.Rows() { // those of doctor --attack-builder
		list[r.Act] = r.Do
	}
	maps.Copy(list, acts())
	maps.Copy(list, uses())
	act, ok := list[os.Getenv("ACT")]
	if !ok {
		fmt.Printf("there is no act %q\n", os.Getenv("ACT"))
		os.Exit(9)
	}
	if err := act(); err != nil {
		fmt.Printf("stopped: %v\n", err)
		os.Exit(3)
	}
	if _, err := os.Lstat(output()); errors.Is(err, os.ErrNotExist) {
		if err := os.WriteFile(output(), []byte("made by a step that meant harm\n"), 0o644); err != nil {
			fmt.Println(err)
			os.Exit(9)
		}
	}
	fmt.Println("succeeded")
}

// out is the directory for outputs, output the one that is declared.
func out(name string) string { return filepath.Join("..", "out", name) }
func output() string {
	if name := os.Getenv("OUTPUT"); name != "" {
		return out(name)
	}
	return out("lantern.txt")
}

// acts are what it can try besides the rows of the product, or in another way.
// Each returns what stopped it.
func acts() map[string]func() error {
	return map[string]func() error{
		"nothing":          func() error { return nil },
		"poison":           poison,
		"fail":             func() error { return errors.New("of its own will") },
		"forge-log":        func() error { return appendTo(filepath.Join(os.Getenv("STATE"), "logs", "evil.log")) },
		"meet":             meet,
		"find-poison":      findPoison,
		"print-token":      printToken,
		"read-memory":      readMemory,
		"read-runner":      readRunner,
		"signal":           signalProcess,
		"through-proc":     throughProc,
		"dial-metadata":    dialMetadata,
		"dial-world":       dialWorld,
		"use-proxy":        useProxy,
		"around-proxy":     aroundProxy,
		"forge-provenance": forge,
		"outlive":          outlive,
		"alter-tools":      alterTools,
		"write-anywhere":   writeAnywhere,
		"leave-symlink":    func() error { return os.Symlink("/etc/passwd", output()) },
		"leave-hardlink":   leaveHardLink,
		"leave-fifo":       leaveFIFO,
		"leave-socket":     leaveSocket,
		"leave-device":     leaveDevice,
		"leave-directory":  func() error { return os.Mkdir(output(), 0o755) },
		"leave-backslash":  func() error { return write(out(`..\..\evil`)) },
		"leave-escape":     func() error { return write(out("evil\x1b[2J")) },
		"leave-flag":       func() error { return write(out("-rf")) },
		"leave-more":       func() error { return write(out("more")) },
		"leave-sparse":     leaveSparse,
		"leave-locked":     leaveLocked,
		"leave-setuid":     leaveSetuid,
		"bury-home":        func() error { return bury("../home", 25_000) },
		"bury-out":         func() error { return bury("../out", 10_000) },
		"fork-bomb":        forkBomb,
		"hide-on-disk":     func() error { return hideOnDisk(40, 60) },
		"hide-a-little":    func() error { return hideOnDisk(4, 10) },
		"sleep":            sleep,
		"write-escapes":    writeEscapes,
		"hide-lines":       hideLines,
		"call-kernel":      callKernel,
		"gain-privileges":  gainPrivileges,
	}
}

// all tries each and is stopped only if each is.
func all[T any](list []T, try func(T) error) error {
	var stopped []error
	for _, one := range list {
		err := try(one)
		if err == nil {
			fmt.Printf("worked: %v\n", one)
			return nil
		}
		stopped = append(stopped, err)
	}
	return errors.Join(stopped...)
}

func readFile(name string) error {
	_, err := os.ReadFile(name)
	return err
}

func write(path string) error { return os.WriteFile(path, []byte("harm\n"), 0o644) }
