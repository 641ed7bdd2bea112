// Package sandbox runs one build step isolated from everything that it was
// not given, and reports which guarantees really held.
//
// The launcher is the process that calls [Run]: it has tokens and signers.
// The runner is another process of the same program, under another account:
// it sets up the isolation from inside, starts the step, and has no secrets.
// Therefore a program that uses this package must first check in main whether
// it is a runner:
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
// give it no privileges if the kernel supports that; and it ends with its
// context and with the process that runs it.
//
// [Isolated] has every [Guarantee] except limits that need the machine's
// administrator; each is checked in the process that becomes the step.
// [Contained] has the same except the separate account, which the kernel did
// not permit. [Unisolated] has none: a step reads and writes what our account
// can, reaches the network, and processes that leave its process group
// outlive it.
//
// No mode hides the clock, the kernel's version, the number of processors,
// the load of the machine, and the system's programs in /usr, unless the step
// has its own Root.
//
// Other projects should not import this package: it changes without notice.
package sandbox

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"time"

	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// Mode is how a step is isolated. The zero value is no mode.
type Mode string

// The modes.
const (
	// Isolated: all guarantees, under a separate account.
	Isolated Mode = "isolated"
	// Contained: all guarantees but OwnAccount: the step has the launcher's
	// account. It counts as unisolated for SLSA levels.
	Contained Mode = "contained"
	// Unisolated: an ordinary process with a clean environment.
	Unisolated Mode = "unisolated"
)

// hasRoot reports whether a step has its own root file system.
func (m Mode) hasRoot() bool { return m == Isolated || m == Contained }

// Step is one command to run.
type Step struct {
	// Scratch is a directory of this step only, absolute, as made by
	// [Prepare]. The step may read src, and write out, home and tmp.
	Scratch string
	// Source, if set, is a directory that the step sees in place of src:
	// absolute, read-only, and possibly shared by several steps. If this
	// process's umask closed it, it is made readable. Not for Unisolated: an
	// ordinary process could change the source of the next step.
	Source string
	// Root, if set, is an unpacked root file system: absolute, and readable
	// by every account. All programs, libraries and files of /etc come from
	// it and none from this machine; /dev, /proc, /tmp, /build, accounts and
	// host names are ours, and its /root, /home, /run and /sys are left out.
	// Links in it cannot lead outside. Not for Unisolated.
	Root string
	// Command is the program and its arguments, started in src. A program
	// without a slash is looked up in the PATH of Env, as the step sees it.
	Command []string
	// Env is the complete environment, "NAME=value". For an isolated step
	// with a Network, the variables that name the proxy are added.
	Env []string
	// Log receives standard output and standard error, made harmless by
	// [NewLog]. Default: only the end is kept, for the error.
	Log io.Writer
	// Mounts are additional paths that the step may read: tools and inputs,
	// one at each target, at any depth; below another mount the target must
	// exist. Without a Root, the system's programs, in /usr and related
	// directories, are always mounted.
	Mounts []Mount
	// Network lists the hosts, "name:port", that the step may reach, through
	// a proxy. Default: no network, not even loopback.
	Network []string
	Limits  Limits
	// Secrets are texts that are redacted from the log. An isolated step
	// cannot get them; an unisolated one could.
	Secrets []string
}

// Mount shows a file or directory of this machine to a step, read-only.
type Mount struct {
	Source string // absolute, on this machine
	Target string // absolute, as the step sees it
}

// Limits are the limits of a step; zero means the default.
type Limits struct {
	Memory    int64 // bytes; default three quarters of the machine's
	Processes int64 // processes and threads; default 4096
	Disk      int64 // bytes in Scratch; default half of what is free
	CPUs      int64 // processors' worth of time; default unlimited
	Time      time.Duration
}

// Places are the directories of a step, as the step sees them.
type Places struct{ Source, Out, Home, Temp string }

// Seen says where a step of a mode sees its directories. For isolated steps
// they are the same on every machine, so no path of this machine gets into an
// output.
func Seen(mode Mode, scratch string) Places {
	if mode.hasRoot() {
		return Places{Source: "/build/src", Out: "/build/out", Home: "/build/home", Temp: "/tmp"}
	}
	at := func(name string) string { return filepath.Join(scratch, name) }
	return Places{Source: at("src"), Out: at("out"), Home: at("home"), Temp: at("tmp")}
}

// StepError reports a step that failed.
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
	if verdict.FindingOf("", e.Err).Code == verdict.StepLimit {
		return string(verdict.StepLimit)
	}
	return "STEP_FAILED"
}

// exceeded reports a step that exceeded a limit: of memory, processes, disk or
// time.
func exceeded(limit, most string) error {
	return verdict.Coded(verdict.StepLimit, "the step exceeded its limit of %s, %s", limit, most)
}

// ModeError reports a mode that this machine does not offer.
type ModeError struct {
	Mode   Mode
	Reason string
}

// Error names the mode and the reason.
func (e *ModeError) Error() string {
	return fmt.Sprintf("running a step %.40q: %s", string(e.Mode), e.Reason)
}

// Code is the reason code of the refusal.
func (e *ModeError) Code() string { return "NOT_ISOLATED" }

// Examine sets up the isolation without a step and reports which guarantees
// held.
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
	report := noGuarantees(strings.Join(reasons, "; "))
	report.Mode = Unisolated
	return report
}

// Run runs the step in the given mode, waits until it and all its processes
// have ended, and reports which guarantees held. It never changes the mode:
// if a guarantee is not available, the step is not started and the error is a
// [*ModeError]. Any other failure is a [*StepError].
func Run(ctx context.Context, mode Mode, s Step) (Report, error) {
	if len(s.Command) == 0 || !filepath.IsAbs(s.Scratch) {
		return Report{}, errors.New("running a step: no command or no absolute directory")
	}
	if mode != Unisolated && !mode.hasRoot() {
		return Report{}, &ModeError{Mode: mode, Reason: "unknown mode"}
	}
	if mode == Unisolated && (s.Source != "" || s.Root != "") {
		return Report{}, &ModeError{Mode: mode, Reason: "Source and Root require an isolated mode"}
	}
	if s.Limits.Time > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, s.Limits.Time, exceeded("time", s.Limits.Time.String()))
		defer cancel()
	}
	log := NewLog(s.Log, s.Secrets)
	run := isolated
	if mode == Unisolated {
		run = unisolated
	}
	report, err := run(ctx, mode, s, log)
	log.flush()
	if _, is := errors.AsType[*ModeError](err); err == nil || is {
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
