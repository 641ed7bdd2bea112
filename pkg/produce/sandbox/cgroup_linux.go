//go:build amd64 || arm64

package sandbox

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// group is the control groups of a step: of version 2 if it has the
// controller and we may use it, else of version 1. The zero value and nil
// limit nothing.
type group struct {
	dirs    map[string]string // by controller
	limits  Limits
	reasons map[string]string // why a controller is not used
}

// controller is how one limit is written, in either version.
type controller struct {
	name    string
	files   [2]string // the file of version 2, and of version 1
	value   func(Limits) [2]string
	counter [2]string // "file key" that counts how often the limit was hit
}

func controllers() []controller {
	same := func(n int64) [2]string { return [2]string{strconv.FormatInt(n, 10), strconv.FormatInt(n, 10)} }
	return []controller{
		{"memory", [2]string{"memory.max", "memory.limit_in_bytes"}, func(l Limits) [2]string { return same(l.Memory) },
			[2]string{"memory.events oom_kill", "memory.oom_control oom_kill"}},
		{"pids", [2]string{"pids.max", "pids.max"}, func(l Limits) [2]string { return same(l.Processes + runnerThreads) },
			[2]string{"pids.events max", "pids.events max"}},
		{"cpu", [2]string{"cpu.max", "cpu.cfs_quota_us"}, func(l Limits) [2]string {
			if l.CPUs == 0 {
				return [2]string{"max 100000", "-1"}
			}
			return [2]string{fmt.Sprintf("%d 100000", l.CPUs*100000), strconv.FormatInt(l.CPUs*100000, 10)}
		}, [2]string{}},
	}
}

// groups is where control groups are mounted.
const groups = "/sys/fs/cgroup"

// runnerThreads is how many processes of a group the runner itself uses.
const runnerThreads = 32

// newGroup creates the groups of a step and moves its runner into them,
// before it has started anything. Unavailable controllers are recorded, not
// refused: limits of the machine depend on its administrator.
func newGroup(limits Limits, pid int) *group {
	g := &group{dirs: map[string]string{}, limits: limits, reasons: map[string]string{}}
	name := fmt.Sprintf("waybill-%d-%d", os.Getpid(), pid)
	for _, c := range controllers() {
		g.reasons[c.name] = "no control group with this controller is writable for this account"
		for version := range 2 {
			parent, err := parentGroup(c.name, version)
			if err == nil {
				sweep(parent)
				err = g.join(c, version, filepath.Join(parent, name), pid)
			}
			if err == nil {
				delete(g.reasons, c.name)
				break
			}
		}
	}
	return g
}

// sweep removes the groups whose launchers were killed. The launcher of a group
// without processes may be about to read from it which limit was hit.
func sweep(parent string) {
	left, err := filepath.Glob(filepath.Join(parent, "waybill-*"))
	if err != nil {
		return
	}
	for _, dir := range left {
		launcher, _, _ := strings.Cut(strings.TrimPrefix(filepath.Base(dir), "waybill-"), "-")
		if _, err := os.Stat("/proc/" + launcher); os.IsNotExist(err) {
			_ = os.Remove(dir) // another process may have removed it
		}
	}
}

func (g *group) join(c controller, version int, dir string, pid int) error {
	if err := os.Mkdir(dir, 0o755); err != nil && !os.IsExist(err) {
		return err
	}
	for _, w := range [][2]string{{c.files[version], c.value(g.limits)[version]}, {"cgroup.procs", strconv.Itoa(pid)}} {
		if err := os.WriteFile(filepath.Join(dir, w[0]), []byte(w[1]), 0); err != nil {
			return errors.Join(err, os.Remove(dir))
		}
	}
	g.dirs[c.name] = dir
	return nil
}

// parentGroup is our own group of a controller, in a hierarchy of a version.
func parentGroup(name string, version int) (string, error) {
	raw, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(raw)) {
		part := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(part) != 3 {
			continue
		}
		if version == 0 && part[0] == "0" {
			return unified(name, part[2])
		}
		if version == 1 && slices.Contains(strings.Split(part[1], ","), name) {
			return filepath.Join(groups, name, part[2]), nil
		}
	}
	return "", errors.New("no such hierarchy")
}

// unified finds a group of version 2 that delegates the controller.
func unified(name, own string) (string, error) {
	for _, top := range []string{groups, groups + "/unified"} {
		for _, dir := range []string{filepath.Join(top, own), filepath.Join(top, filepath.Dir(own))} {
			raw, err := os.ReadFile(filepath.Join(dir, "cgroup.subtree_control"))
			if err == nil && slices.Contains(strings.Fields(string(raw)), name) {
				return dir, nil
			}
		}
	}
	return "", errors.New("no group delegates this controller")
}

func (g *group) has(name string) bool { return g != nil && g.dirs[name] != "" }

// tell adds to a report what limits the whole process tree, and how.
func (g *group) tell(r *Report) {
	for _, c := range controllers() {
		if g.has(c.name) {
			r.How = append(r.How, c.name+": control group")
		}
	}
	if g.has("memory") {
		r.have(MemoryLimited)
	} else {
		r.lack(MemoryLimited, g.reasons["memory"]+"; each process has its own limit")
		r.How = append(r.How, "memory: a limit for each process")
	}
	if !g.has("pids") {
		r.How = append(r.How, "processes: a limit of the account in its namespace")
	}
}

// exceeded says which limit was hit, if the kernel counted one.
func (g *group) exceeded() error {
	if g == nil {
		return nil
	}
	for _, c := range controllers() {
		for _, counter := range c.counter {
			file, key, _ := strings.Cut(counter, " ")
			if g.has(c.name) && count(filepath.Join(g.dirs[c.name], file), key) > 0 {
				most := map[string]string{
					"memory": fmt.Sprintf("%d bytes", g.limits.Memory), "pids": strconv.FormatInt(g.limits.Processes, 10),
				}
				return exceeded(strings.ReplaceAll(c.name, "pids", "processes"), most[c.name])
			}
		}
	}
	return nil
}

func count(file, key string) int {
	raw, err := os.ReadFile(file)
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(raw)) {
		if word := strings.Fields(line); len(word) == 2 && word[0] == key {
			n, err := strconv.Atoi(word[1])
			if err == nil {
				return n
			}
		}
	}
	return 0
}

// end says which limit was hit and removes the groups. All of their processes
// have ended; the kernel may need a moment to notice.
func (g *group) end() error {
	if g == nil {
		return nil
	}
	over := g.exceeded()
	for _, dir := range g.dirs {
		for range 100 {
			if err := os.Remove(dir); !errors.Is(err, unix.EBUSY) {
				break
			}
			time.Sleep(time.Millisecond)
		}
	}
	return over
}
