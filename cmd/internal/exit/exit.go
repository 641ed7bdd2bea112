// Package exit runs a command and turns how it ended into the process exit
// status: one table, printed in every help text.
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

	"github.com/waybill-release/waybill/pkg/backend/transport"
	"github.com/waybill-release/waybill/pkg/report/render"
	"github.com/waybill-release/waybill/pkg/tool/redact"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// Table is the part of every help text that explains the exit status.
const Table = `EXIT STATUS
  0  accepted, and at least one thing was really verified
  1  refused: something is wrong with what was looked at
  2  wrong use, or a malformed policy, profile or configuration
  3  unavailable: the world did not answer, nothing was decided
  4  a bug in this program`

// Run executes a command tree until it ends or is interrupted, and returns
// the exit status. A panic is a bug of ours and never looks like success.
func Run(root *cobra.Command) (code int) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // who asks a second time does not wait
	defer func() {
		if p := recover(); p != nil {
			fmt.Fprintf(os.Stderr, "%s: this is a bug, please report it: %v\n%s", root.Name(), p, debug.Stack())
			code = verdict.ExitCode(verdict.Internal)
		}
	}()
	started := false
	root.PersistentPreRunE = func(*cobra.Command, []string) error {
		started = true
		_, err := transport.Patience() // else each request would say so
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
	for _, checks := range []string{"k8s-verify-release", "waybill verify", "waybill inspect"} {
		if command == checks || strings.HasPrefix(command, checks+" ") {
			return verdict.Consumer
		}
	}
	return verdict.Producer
}

// said is an error that whoever returns it has told already.
type said struct{ error }

// Unwrap is what was told.
func (s said) Unwrap() error { return s.error }

// Said marks an error that was told in another form: [Report] prints nothing of
// it, and returns its exit status.
func Said(err error) error { return said{err} }

// Report prints why a command failed and what to do next, and returns the
// exit status. A verdict that was printed already is not printed again.
func Report(w io.Writer, command string, err error) int {
	var told said
	if errors.As(err, &told) {
		w = io.Discard
	}
	if errors.Is(err, context.Canceled) {
		fmt.Fprintf(w, "%s: interrupted; nothing was decided. Run it again to go on.\n", command)
		return verdict.ExitCode(verdict.Unavailable)
	}
	var judged *verdict.NotAcceptedError
	if errors.As(err, &judged) {
		fmt.Fprintf(w, "%s: %s\n", command, render.Safe(judged.Verdict.Headline()))
		return verdict.ExitCode(judged.Outcome())
	}
	f := verdict.FindingOf("", err).For(AudienceOf(command))
	message := redact.Secrets(err.Error())
	if !strings.Contains(message, string(f.Code)) {
		message = string(f.Code) + " " + message
	}
	if f.Want != "" || f.Got != "" { // they have lines of their own
		message = strings.Replace(message, fmt.Sprintf(": want %s, got %s", f.Want, f.Got), "", 1)
	}
	first, rest, _ := strings.Cut(message, "\n")
	fmt.Fprintf(w, "%s: %s: %s\n", command, f.Code.Outcome(), render.Safe(first))
	for line := range strings.Lines(rest) {
		fmt.Fprintf(w, "  %s\n", render.Safe(strings.TrimSpace(line)))
	}
	if f.Want != "" || f.Got != "" {
		fmt.Fprintf(w, "  want %s\n  got  %s\n", render.Safe(f.Want), render.Safe(f.Got))
	}
	fmt.Fprintf(w, "  → %s\n", render.Safe(strings.Replace(f.Fix, "the command's --help", command+" --help", 1)))
	return verdict.ExitCode(f.Code.Outcome())
}
