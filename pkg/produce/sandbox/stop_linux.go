//go:build amd64 || arm64

package sandbox

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/waybill-release/waybill/pkg/tool/slice"
)

// Limits of stopping a step.
const (
	stopTries = 400
	stopPause = 5 * time.Millisecond
)

// stopped is the stopped processes of a step. The zero value has none.
type stopped struct {
	all []int       // all processes of the step, however they were stopped
	fds map[int]int // those that we stopped, by process
}

// stop stops the processes below a runner, and reports whether all are
// stopped. New or resumed processes are found in the next pass.
func (s *stopped) stop(runner int) bool {
	s.fds = map[int]int{}
	for still, tries := 0, 0; tries < stopTries; tries++ {
		var ok, busy bool
		if s.all, ok = Below(runner); !ok {
			return false
		}
		for _, pid := range s.all {
			_, sent := s.fds[pid]
			switch states := states(pid); {
			case strings.Trim(states, "TtZXx") == "":
			case sent && strings.Trim(states, "TtZXxD") == "":
				// inside the kernel, and stops before leaving it
			default:
				busy = true
				s.signal(pid)
			}
		}
		if still++; busy {
			still = 0
		}
		if still == 2 {
			return true
		}
		time.Sleep(stopPause)
	}
	return false
}

// signal stops one process. The descriptor identifies this process, not a
// later one with the same number.
func (s *stopped) signal(pid int) {
	fd, had := s.fds[pid]
	if !had {
		before, _ := ParentOf(pid)
		var err error
		if fd, err = unix.PidfdOpen(pid, 0); err != nil {
			return // ended, or too many open files: found in the next pass
		}
		if after, _ := ParentOf(pid); after != before || before == 0 {
			_ = unix.Close(fd) // another process now
			return
		}
		s.fds[pid] = fd
	}
	_ = unix.PidfdSendSignal(fd, unix.SIGSTOP, nil, 0) // it may have ended
}

// resume resumes the processes that were stopped.
func (s *stopped) resume() {
	for _, fd := range s.fds {
		_ = unix.PidfdSendSignal(fd, unix.SIGCONT, nil, 0) // it may have ended
		_ = unix.Close(fd)
	}
	s.fds = nil
}

// Below lists the descendants of a process: in its namespace, orphans become
// its children.
func Below(runner int) (list []int, ok bool) {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil, false
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return nil, false
	}
	children := map[int][]int{}
	for _, name := range names {
		if pid, err := strconv.Atoi(name); err == nil {
			parent, _ := ParentOf(pid)
			children[parent] = append(children[parent], pid)
		}
	}
	list = children[runner]
	for i := 0; i < len(list); i++ {
		list = append(list, children[list[i]]...)
	}
	return list, true
}

// ParentOf is the parent of a process and its state; 0 if it has ended.
func ParentOf(pid int) (parent int, state string) { return stat(fmt.Sprintf("/proc/%d/stat", pid)) }

func stat(path string) (parent int, state string) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return 0, ""
	}
	text := string(raw)
	words := strings.Fields(text[strings.LastIndexByte(text, ')')+1:]) // the name of the process may contain anything
	if len(words) < 2 {
		return 0, ""
	}
	parent, err = strconv.Atoi(words[1])
	if err != nil {
		return 0, ""
	}
	return parent, words[0]
}

// states are the states of all threads of a process, a letter each.
func states(pid int) string {
	var all strings.Builder
	for _, dir := range threads(pid) {
		_, state := stat(dir + "/stat")
		all.WriteString(state)
	}
	return all.String()
}

// threads are the directories of the threads of a process.
func threads(pid int) (dirs []string) {
	dir, err := os.Open(fmt.Sprintf("/proc/%d/task", pid))
	if err != nil {
		return nil // it has ended
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(-1) // ended threads have no files
	return slice.Map(names, func(name string) string { return dir.Name() + "/" + name })
}
