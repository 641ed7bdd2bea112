// Package sandbox runs one build step.
//
// [Probe] says which mode this machine offers, [Run] runs a step in it:
//
//	mode, why := sandbox.Probe()
//	err := sandbox.Run(ctx, mode, sandbox.Step{
//		Dir:     src,
//		Command: []string{"go", "build", "./..."},
//		Env:     []string{"PATH=/usr/bin:/bin", "HOME=" + scratch},
//		Log:     log,
//	})
//
// In both modes a step has exactly the environment that it is given, no
// standard input, no terminal, and no open file of ours; set-user-ID programs
// give it nothing where the kernel can promise that; and it ends with its
// context and with the process that runs it.
//
// [Isolated], on Linux, adds namespaces of its own (user, mount, process,
// network, IPC, host name). These hold:
//
//   - There is no network, not even loopback: nothing can be dialled, nothing
//     of the host listens within reach, abstract sockets included.
//   - The step sees and signals no process of the host, and has no capability
//     over anything outside its namespaces.
//   - When the command ends, every process that it left behind has ended.
//
// These do not hold yet, and whoever grants a build level must know it:
//
//   - The file system is not hidden. A step reads and writes whatever the
//     account that runs it can, and reaches sockets that have a name there.
//     Keep credentials of the control plane under another account.
//   - /proc is the host's. The kernel keeps the step from looking into foreign
//     processes, but not from counting them.
//   - There is no limit on memory, processes or disk, and no filter of system
//     calls. Time is limited by the context.
//   - Host name, clock and kernel are visible.
//
// [Unisolated] promises none of the three points above: a step reaches the
// network, and a process that leaves its process group outlives the step.
package sandbox

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// Mode is how a step is kept apart. The zero value is no mode.
type Mode string

// The modes there are.
const (
	// Isolated: namespaces of its own, as the package comment says.
	Isolated Mode = "isolated"
	// Unisolated: an ordinary process with a clean environment.
	Unisolated Mode = "unisolated"
)

// Step is one command to run.
type Step struct {
	// Dir is the working directory.
	Dir string
	// Command is the program and its arguments. A program without a slash
	// is looked for in the PATH of Env, never in that of this process.
	Command []string
	// Env is the whole environment, "NAME=value". Nothing is added.
	Env []string
	// Log takes standard output and standard error as they come. Default:
	// only the end is kept, for the error.
	Log io.Writer
}

// StepError reports a step that did not succeed.
type StepError struct {
	Command  []string
	ExitCode int    // -1 if a signal or the context ended it
	Tail     string // the last lines of the log
	Err      error
}

// Error names the command, how it ended and the end of its log.
func (e *StepError) Error() string {
	text := fmt.Sprintf("running %q: %v", e.Command, e.Err)
	if e.Tail != "" {
		text += ":\n\t" + strings.ReplaceAll(strings.TrimRight(e.Tail, "\n"), "\n", "\n\t")
	}
	return text
}

// Unwrap returns how the command ended.
func (e *StepError) Unwrap() error { return e.Err }

// Code is the reason code of the refusal.
func (e *StepError) Code() string { return "STEP_FAILED" }

// ModeError reports a mode that this machine does not offer.
type ModeError struct {
	Mode   Mode
	Reason string
}

// Error names the mode and what is in the way.
func (e *ModeError) Error() string {
	return fmt.Sprintf("running a step %.40q: %s", string(e.Mode), e.Reason)
}

// Code is the reason code of the refusal.
func (e *ModeError) Code() string { return "NOT_ISOLATED" }

// Probe returns the better of the modes that work here. The reason says why it
// is not [Isolated]; it is empty if it is.
func Probe() (mode Mode, reason string) {
	if err := probe(); err != nil {
		return Unisolated, err.Error()
	}
	return Isolated, ""
}

// Run runs the step in the given mode and waits for its end. It never changes
// the mode: where isolation cannot be had, an isolated step is a [*ModeError].
// Any other failure is a [*StepError].
func Run(ctx context.Context, mode Mode, s Step) error {
	if len(s.Command) == 0 || s.Dir == "" {
		return errors.New("running a step: no command or no directory")
	}
	switch mode {
	case Unisolated:
	case Isolated:
		if err := probe(); err != nil {
			return &ModeError{Mode: mode, Reason: err.Error()}
		}
	default:
		return &ModeError{Mode: mode, Reason: "there is no such mode"}
	}
	log := &tail{next: s.Log}
	failed := &StepError{Command: s.Command, ExitCode: -1}
	cmd, err := command(ctx, s, log)
	if err == nil {
		err = start(cmd, mode)
	}
	if err == nil {
		return nil
	}
	failed.Err, failed.Tail = err, log.String()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		failed.ExitCode = exit.ExitCode()
	}
	if cause := context.Cause(ctx); cause != nil {
		failed.Err, failed.ExitCode = cause, -1
	}
	return failed
}

// command prepares the process, without what a mode adds.
func command(ctx context.Context, s Step, log io.Writer) (*exec.Cmd, error) {
	program, err := find(s)
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, program, s.Command[1:]...)
	cmd.Args[0] = s.Command[0]
	cmd.Dir = s.Dir
	cmd.Env = append([]string{}, s.Env...) // nil would mean: ours
	cmd.Stdout, cmd.Stderr = log, log
	cmd.WaitDelay = 5 * time.Second // for left-over processes that hold the log
	return cmd, nil
}

// find looks for the program as the step itself would.
func find(s Step) (string, error) {
	name := s.Command[0]
	if strings.ContainsRune(name, os.PathSeparator) {
		if !filepath.IsAbs(name) {
			name = filepath.Join(s.Dir, name)
		}
		return name, nil
	}
	for _, variable := range s.Env {
		list, ok := strings.CutPrefix(variable, "PATH=")
		if !ok {
			continue
		}
		for _, dir := range filepath.SplitList(list) {
			candidate := filepath.Join(dir, name)
			info, err := os.Stat(candidate)
			if filepath.IsAbs(dir) && err == nil && info.Mode().IsRegular() && info.Mode().Perm()&0o111 != 0 {
				return candidate, nil
			}
		}
	}
	return "", fmt.Errorf("no program %q in the step's PATH", name)
}

// tail passes a log on and keeps its end.
type tail struct {
	next io.Writer // may be nil
	kept []byte
}

// maxTail is how much of a log an error repeats.
const maxTail = 4 << 10

// Write implements [io.Writer]. It has one caller at a time: both streams of a
// command share one pipe.
func (t *tail) Write(p []byte) (int, error) {
	t.kept = append(t.kept, p...)
	if len(t.kept) > 4*maxTail {
		t.kept = append([]byte{}, t.kept[len(t.kept)-maxTail:]...)
	}
	if t.next == nil {
		return len(p), nil
	}
	return t.next.Write(p)
}

// String returns the last lines.
func (t *tail) String() string {
	text := string(t.kept)
	if len(text) > maxTail {
		text = text[len(text)-maxTail:]
		if _, rest, found := strings.Cut(text, "\n"); found {
			text = rest
		}
	}
	return strings.ToValidUTF8(text, "\uFFFD")
}
