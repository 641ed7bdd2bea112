// Package sandbox runs one build step where it can reach nothing that it was
// not given, and says which walls it really stood behind.
//
// The launcher is the process that calls [Run]: it holds tokens and signers.
// The runner is another process of the same program, under another account: it
// makes the walls from inside, starts the step, and holds nothing. A program
// that uses this package therefore asks first thing in main whether it is one:
//
//	if code, ok := sandbox.Serve(); ok {
//		os.Exit(code)
//	}
//
// [Examine] says which mode this machine offers, [Run] runs a step in it:
//
//	mode := sandbox.Examine(ctx).Mode
//	err := sandbox.Prepare(scratch)        // src, out, home and tmp
//	at := sandbox.Seen(mode, scratch)      // where the step sees them
//	report, err := sandbox.Run(ctx, mode, sandbox.Step{
//		Scratch: scratch,
//		Command: []string{"go", "build", "-o", at.Out, "."},
//		Env:     []string{"PATH=/usr/bin:/bin", "HOME=" + at.Home},
//		Log:     log,
//	})
//	outputs, err := sandbox.Collect(ctx, filepath.Join(scratch, "out"), sandbox.OutputLimits{})
//
// In every mode a step has exactly the environment that it is given, no
// standard input, no terminal, and no open file of ours; set-user-ID programs
// give it nothing where the kernel can promise that; and it ends with its
// context and with the process that runs it.
//
// [Isolated] holds every [Guarantee] that is not a limit of the machine; each
// is found by looking, in the process that becomes the step. [Contained] holds
// the same but for the account: the kernel gave no second one. [Unisolated]
// holds none: a step reads and writes what our account can, reaches the
// network, and what leaves its process group outlives it.
//
// What no mode hides: the clock, the kernel's version, the number of
// processors, how busy the machine is, and the system's programs in /usr, unless
// the step has a Root of its own.
package sandbox

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"time"
)

// Mode is how a step is kept apart. The zero value is no mode.
type Mode string

// The modes there are.
const (
	// Isolated: behind every wall, under an account of its own.
	Isolated Mode = "isolated"
	// Contained: behind every wall, under the account of the launcher. Who
	// grants levels treats it as unisolated.
	Contained Mode = "contained"
	// Unisolated: an ordinary process with a clean environment.
	Unisolated Mode = "unisolated"
)

// walled reports whether a step has a root of its own.
func (m Mode) walled() bool { return m == Isolated || m == Contained }

// Step is one command to run.
type Step struct {
	// Scratch is a directory of this step alone, absolute, as [Prepare] made
	// it. The step may read src, and write out, home and tmp.
	Scratch string
	// Source, if it is given, is a directory that the step sees in place of
	// src: absolute, read-only, and one for any number of steps. Where this
	// process's mask closed it, it is opened for reading. Behind walls only: an
	// ordinary process could change the source of the next step.
	Source string
	// Root, if it is given, is an unpacked root file system: absolute, and
	// readable by every account. All programs, libraries and files of /etc come
	// from it and none from this machine; /dev, /proc, /tmp, /build, accounts
	// and host names are ours, its /root, /home, /run and /sys are left out.
	// Links in it lead to nothing outside. Behind walls only.
	Root string
	// Command is the program and its arguments, started in src. A program
	// without a slash is looked for in the PATH of Env, where the step is.
	Command []string
	// Env is the whole environment, "NAME=value". With a Network behind walls,
	// the variables that name the proxy are added; nothing else ever is.
	Env []string
	// Log takes standard output and standard error, made harmless by
	// [NewLog]. Default: only the end is kept, for the error.
	Log io.Writer
	// Mounts are more that the step may read: tools and inputs, one at a
	// place, at any depth; below another mount the place must be there. The
	// system's own programs, in /usr and what belongs to it, are there unless
	// there is a Root.
	Mounts []Mount
	// Network lists the hosts, "name:port", that the step may reach, through
	// a proxy. Default: no network, not even loopback.
	Network []string
	Limits  Limits
	// Secrets are texts that never reach the log. A step behind walls cannot
	// have them; one without could.
	Secrets []string
}

// Mount shows a file or directory of this machine to a step, read-only.
type Mount struct {
	Source string // absolute, on this machine
	Target string // absolute, as the step sees it
}

// Limits bound a step; each zero is a default.
type Limits struct {
	Memory    int64 // bytes; default three quarters of the machine's
	Processes int64 // processes and threads; default 4096
	Disk      int64 // bytes in Scratch; default half of what is free
	CPUs      int64 // processors' worth of time; default no bound
	Time      time.Duration
}

// Places are the directories of a step, as the step sees them.
type Places struct{ Source, Out, Home, Temp string }

// Seen says where a step of a mode sees its directories. Behind walls they are
// the same on every machine, so that no path of ours gets into an output.
func Seen(mode Mode, scratch string) Places {
	if mode.walled() {
		return Places{Source: "/build/src", Out: "/build/out", Home: "/build/home", Temp: "/tmp"}
	}
	at := func(name string) string { return filepath.Join(scratch, name) }
	return Places{Source: at("src"), Out: at("out"), Home: at("home"), Temp: at("tmp")}
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
func (e *StepError) Code() string {
	var limit *LimitError
	if errors.As(e.Err, &limit) {
		return limit.Code()
	}
	return "STEP_FAILED"
}

// LimitError reports a step that went over one of its limits.
type LimitError struct {
	Limit string // memory, processes, disk or time
	Most  string // what was allowed
}

// Error names the limit.
func (e *LimitError) Error() string {
	return fmt.Sprintf("it went over its limit of %s, %s", e.Limit, e.Most)
}

// Code is the reason code of the refusal.
func (e *LimitError) Code() string { return "STEP_LIMIT" }

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

// Examine builds the walls around nothing and reports which of them stood.
func Examine(ctx context.Context) Report {
	var reasons []string
	for _, mode := range []Mode{Isolated, Contained} {
		report, err := probe(ctx, mode)
		if err == nil {
			if len(reasons) > 0 {
				report.lack(OwnAccount, strings.Join(reasons, "; "))
			}
			return report
		}
		reasons = append(reasons, err.Error())
	}
	report := nothingHad(strings.Join(reasons, "; "))
	report.Mode = Unisolated
	return report
}

// Run runs the step in the given mode, waits for its end and for that of all
// it started, and reports which walls it stood behind. It never changes the
// mode: where a wall cannot be had, a step is not started and the error is a
// [*ModeError]. Any other failure is a [*StepError].
func Run(ctx context.Context, mode Mode, s Step) (Report, error) {
	if len(s.Command) == 0 || !filepath.IsAbs(s.Scratch) {
		return Report{}, errors.New("running a step: no command or no absolute directory")
	}
	if mode != Unisolated && !mode.walled() {
		return Report{}, &ModeError{Mode: mode, Reason: "there is no such mode"}
	}
	if mode == Unisolated && (s.Source != "" || s.Root != "") {
		return Report{}, &ModeError{Mode: mode, Reason: "a source that steps share and a root of its own are for steps behind walls"}
	}
	if s.Limits.Time > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, s.Limits.Time, &LimitError{Limit: "time", Most: s.Limits.Time.String()})
		defer cancel()
	}
	log := NewLog(s.Log, s.Secrets)
	run := walled
	if mode == Unisolated {
		run = bare
	}
	report, err := run(ctx, mode, s, log)
	log.flush()
	var unfit *ModeError
	if err == nil || errors.As(err, &unfit) {
		return report, err
	}
	failed := &StepError{Command: s.Command, ExitCode: -1, Err: err, Tail: log.Tail()}
	var exit interface{ ExitCode() int }
	if errors.As(err, &exit) {
		failed.ExitCode = exit.ExitCode()
	}
	if cause := context.Cause(ctx); cause != nil {
		failed.Err, failed.ExitCode = cause, -1
	}
	return report, failed
}
