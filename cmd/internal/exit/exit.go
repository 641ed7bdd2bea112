// Package exit runs a command and turns its outcome into the exit status of the
// process. Every help text prints the table of these statuses.
package exit

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/waybill-release/waybill/cmd/internal/ui"
	"github.com/waybill-release/waybill/pkg/backend/transport"
	"github.com/waybill-release/waybill/pkg/report/render"
	"github.com/waybill-release/waybill/pkg/tool/redact"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// heading begins the part of every help text that explains the exit status.
const heading = "EXIT STATUS"

// Accepted is what status 0 means for a command that verifies.
const Accepted = "accepted, with at least one check performed"

// Table is the part of every help text that explains the exit status. Only the
// meaning of success differs: each command says what it has done then.
func Table(success string) string {
	return heading + "\n  0  " + strings.ReplaceAll(success, "\n", "\n     ") + `
  1  refused: a check failed; every finding is listed
  2  wrong use, or a malformed policy, profile or configuration
  3  unavailable: a required service or place did not answer; nothing was decided
  4  a bug in this program`
}

// Above puts a paragraph into a help text, above the exit status.
func Above(help, paragraph string) string {
	return strings.Replace(help, heading, paragraph+"\n\n"+heading, 1)
}

// Run executes a command tree until it ends or is interrupted, and returns
// the exit status. A panic is a bug in this program and never looks like success.
func Run(root *cobra.Command) (code int) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	defer func() {
		if p := recover(); p != nil {
			fmt.Fprintf(os.Stderr, "%s: this is a bug, please report it: %v\n%s", root.Name(), p, debug.Stack())
			code = verdict.ExitCode(verdict.Internal)
		}
	}()
	started := false
	root.PersistentPreRunE = func(*cobra.Command, []string) error {
		started = true
		_, err := transport.Patience() // report a bad timeout once, not with each request
		return err
	}
	demandContent(root)
	root.SilenceErrors, root.SilenceUsage = true, true
	failed, err := root.ExecuteContextC(ctx)
	if err == nil {
		return 0
	}
	if !started {
		err = verdict.Wrap(verdict.Usage, failed.CommandPath(), err)
	}
	return Report(os.Stderr, failed.CommandPath(), err)
}

// AudienceOf is who reads the answers of a command, named by its path. The
// commands that check what somebody else released answer consumers; all others
// answer those who make releases.
func AudienceOf(command string) verdict.Audience {
	for _, checks := range []string{"k8s-verify-release", "waybill verify", "waybill inspect", "waybill kit", "waybill rebuild"} {
		if command == checks || strings.HasPrefix(command, checks+" ") {
			return verdict.Consumer
		}
	}
	return verdict.Producer
}

// reported is an error that was printed already.
type reported struct{ error }

// Unwrap returns the error that was printed.
func (r reported) Unwrap() error { return r.error }

// Reported marks an error that was printed in another form: [Report] does not
// print it again, and returns its exit status.
func Reported(err error) error { return reported{err} }

// Report prints why a command failed and what to do next, and returns the
// exit status. A verdict that was printed already is not printed again.
func Report(w io.Writer, command string, err error) int {
	var printed reported
	if errors.As(err, &printed) {
		w = io.Discard
	}
	if errors.Is(err, context.Canceled) {
		fmt.Fprintf(w, "%s: interrupted; nothing was decided. Run it again to continue.\n", command)
		return verdict.ExitCode(verdict.Unavailable)
	}
	if judged, is := errors.AsType[*verdict.NotAcceptedError](err); is {
		fmt.Fprintln(w, render.Fold(fmt.Sprintf("%s: %s", command, render.Safe(judged.Verdict.Headline())), ui.Width(w)))
		return verdict.ExitCode(judged.Outcome())
	}
	f := verdict.FindingOf("", err).For(AudienceOf(command))
	message := redact.Secrets(err.Error())
	if !strings.Contains(message, string(f.Code)) {
		message = string(f.Code) + " " + message
	}
	if before, after, twice := strings.Cut(message, string(f.Code)+" "); twice { // causes repeat it
		message = before + string(f.Code) + " " + strings.ReplaceAll(after, ": "+string(f.Code)+" ", ": ")
	}
	if f.Want != "" || f.Got != "" { // printed on lines of their own below
		message = strings.Replace(message, fmt.Sprintf(": want %s, got %s", f.Want, f.Got), "", 1)
	}
	first, rest, _ := strings.Cut(message, "\n")
	width := ui.Width(w)
	line := func(format string, args ...any) {
		fmt.Fprintln(w, render.Fold(fmt.Sprintf(format, args...), width))
	}
	line("%s: %s: %s", command, f.Code.Outcome(), render.Safe(first))
	for more := range strings.Lines(rest) {
		line("  %s", render.Safe(strings.TrimSpace(more)))
	}
	if f.Want != "" || f.Got != "" {
		line("  want %s", render.Safe(f.Want))
		line("  got  %s", render.Safe(f.Got))
	}
	line("  → %s", render.Safe(strings.Replace(f.Fix, "the command's --help", command+" --help", 1)))
	return verdict.ExitCode(f.Code.Outcome())
}

// Faults of a flag that would otherwise silently change what is checked.
var (
	errEmpty = errors.New("given, but empty; is a variable unset?")
	errTwice = errors.New("given twice; give it once")
)

// given is the value of a flag. An empty value is refused, and so is a second one
// where only one can count: an unset variable never removes a check.
type given struct {
	pflag.Value
	repeats bool // the value is a list
	before  bool // the flag was given already
}

// Set sets one value.
func (g *given) Set(s string) error {
	switch {
	case s == "":
		return errEmpty
	case g.before && !g.repeats:
		return errTwice
	}
	g.before = true
	return g.Value.Set(s)
}

// demandContent guards every flag of a command and of all below it.
func demandContent(cmd *cobra.Command) {
	guard := func(f *pflag.Flag) {
		_, repeats := f.Value.(pflag.SliceValue)
		if f.DefValue == "[]" || f.DefValue == "0s" {
			f.DefValue = "" // help prints no empty default
		}
		f.Value = &given{Value: f.Value, repeats: repeats}
	}
	cmd.PersistentFlags().VisitAll(guard)
	cmd.LocalNonPersistentFlags().VisitAll(guard)
	for _, below := range cmd.Commands() {
		demandContent(below)
	}
}
