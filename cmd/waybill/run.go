package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"k8s.io/klog/v2"

	"github.com/waybill-release/waybill/cmd/internal/cli"
	"github.com/waybill-release/waybill/cmd/internal/exit"
	"github.com/waybill-release/waybill/cmd/internal/ui"
	"github.com/waybill-release/waybill/pkg/backend/tracing/carry"
	"github.com/waybill-release/waybill/pkg/backend/tracing/span"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// logFlag names the flag for the format of stderr.
const logFlag = "log-format"

// addLogFlag adds --log-format to a command and its subcommands. [observed] applies
// it to everything that a command writes to stderr.
func addLogFlag(cmd *cobra.Command) {
	cmd.PersistentFlags().String(logFlag, "text", "format of stderr: text for people, or json for programs, with the trace ids of the run and of the action in each line")
}

// serves reports whether a command also writes its record of decisions to stderr: these
// lines must not be changed.
func serves(c *cobra.Command) bool { return nameOf(c) == "gate.serve" || nameOf(c) == "gate.proxy" }

type loggerKey struct{}

// loggerOf is the logger of the running command.
func loggerOf(ctx context.Context) *slog.Logger {
	if l, ok := ctx.Value(loggerKey{}).(*slog.Logger); ok {
		return l
	}
	return slog.New(slog.DiscardHandler)
}

// observed wraps every command of a tree: each run gets one span, whose parent may
// come from the environment, and writes stderr in the format of --log-format.
func observed(cmd *cobra.Command) *cobra.Command {
	for _, below := range cmd.Commands() {
		observed(below)
	}
	if do := cmd.RunE; do != nil {
		cmd.RunE = func(c *cobra.Command, args []string) error { return runCommand(c, args, do) }
	}
	if fit := cmd.Args; fit != nil {
		cmd.Args = func(c *cobra.Command, args []string) error { return notBegun(c, fit(c, args)) }
	}
	if !cmd.HasParent() {
		cmd.SetFlagErrorFunc(notBegun)
	}
	return cmd
}

// notBegun logs a usage error as JSON, like any other error. As text the caller
// prints it.
func notBegun(c *cobra.Command, err error) error {
	if err == nil || formatOf(c) != "json" {
		return err
	}
	return runCommand(c, nil, func(*cobra.Command, []string) error { return verdict.Wrap(verdict.Usage, c.CommandPath(), err) })
}

// runCommand runs a command as one span. Whether the span can be sent does not change
// the outcome of the command.
func runCommand(c *cobra.Command, args []string, do func(*cobra.Command, []string) error) (err error) {
	told := ui.Redacting(c.ErrOrStderr())
	least := slog.LevelInfo
	if isSet(c, cli.Quiet) {
		least = slog.LevelError
	}
	logger, err := ui.NewLogger(told, formatOf(c), least)
	if err != nil {
		return verdict.Wrap(verdict.Usage, "--"+logFlag, err)
	}
	ctx, provider, unsent := span.Setup(c.Context(), span.Config{
		Service: "waybill", Version: cli.BuildVersion(), Silent: isSet(c, "offline"), Serves: serves(c),
		Transport: func() http.RoundTripper { return cli.Transport(false) },
	})
	ctx, unread := span.FromEnviron(carry.Run(ctx))
	ctx, end := span.Start(ctx, span.Command(nameOf(c)), span.PipelineName.String(c.CommandPath()))
	bridge(ctx, logger)
	if unsent != nil {
		logger.WarnContext(ctx, "no spans are sent: "+unsent.Error())
	}
	if unread != nil {
		logger.WarnContext(ctx, "the trace in the environment is not valid, so the run starts a new one: "+unread.Error())
	}
	ctx = context.WithValue(ctx, loggerKey{}, logger)
	c.SetContext(ctx)
	began := time.Now()
	unwritable := metricsCanBeWritten(c)
	err = errors.New("the command did not finish") // stays only after a panic
	defer func() {
		end(err)
		r := span.Run{Command: nameOf(c), Outcome: span.OutcomeOf(err), Ended: time.Now(), Took: time.Since(began)}
		if unwritten := writeMetrics(c, provider.Tally(), r); unwritten != nil && unwritable == nil {
			logger.WarnContext(ctx, "the run is complete, but its metrics were not written: "+unwritten.Error())
		}
		if lost := provider.Shutdown(ctx); lost != nil {
			logger.WarnContext(ctx, "spans were lost: "+lost.Error())
		}
	}()
	return runLogged(c, logger, told, func() error {
		if unwritable != nil {
			return unwritable
		}
		return do(c, args)
	})
}

// runLogged runs a command with its stderr sent to the logger. Text is written as it
// is, because it may redraw a line of a terminal; for JSON each line becomes a line
// of the log, and so does the reason of a failure.
func runLogged(c *cobra.Command, logger *slog.Logger, told io.Writer, do func() error) error {
	flush := func() {}
	switch {
	case serves(c):
	case formatOf(c) == "text":
		c.SetErr(told)
		return do()
	default:
		lines := ui.NewLines(func(line string) { logger.InfoContext(c.Context(), line) })
		c.SetErr(lines)
		flush = lines.Flush
	}
	err := do()
	flush()
	if err == nil || formatOf(c) == "text" {
		return err
	}
	var text strings.Builder
	code := exit.Report(&text, c.CommandPath(), err)
	if text.Len() == 0 { // it was printed already
		return err
	}
	first, rest, _ := strings.Cut(strings.TrimSpace(text.String()), "\n")
	attrs := []any{slog.Int("exit", code)}
	if f := verdict.FindingOf("", err); code == verdict.ExitCode(f.Code.Outcome()) {
		attrs = append(attrs, slog.String("code", string(f.Code)))
	}
	if rest != "" {
		attrs = append(attrs, slog.String("detail", rest))
	}
	logger.ErrorContext(c.Context(), first, attrs...)
	return exit.Reported(err)
}

// formatOf is the format of stderr: text, unless --log-format says otherwise. The answer
// of --check is for people.
func formatOf(c *cobra.Command) string {
	if f := c.Flags().Lookup(logFlag); f != nil && (f.Changed || !isSet(c, "check")) {
		return f.Value.String()
	}
	return "text"
}

// isSet reports whether a command has a flag, and it is true.
func isSet(c *cobra.Command, name string) bool {
	f := c.Flags().Lookup(name)
	return f != nil && f.Value.String() == "true"
}

// nameOf is the name of a command without the program, joined by dots.
func nameOf(c *cobra.Command) string {
	words := strings.Fields(c.CommandPath())
	return strings.Join(slices.Delete(words, 0, 1), ".")
}

// bridge sends the logs of libraries to our logger: the standard log package, klog
// (used for the lists of certificate logs), and OpenTelemetry with its logr.
// Docker's credential files log by logrus, in a function that we never call.
func bridge(ctx context.Context, logger *slog.Logger) {
	slog.SetDefault(logger) // also redirects the standard log package
	klog.SetSlogLogger(logger)
	span.Bridge(ctx, logger, logr.FromSlogHandler(logger.Handler()))
}

// metricsFlag names the flag for the file with the metrics of a run.
const metricsFlag = "metrics-file"

// addMetricsFlag adds --metrics-file to a command. [observed] writes the file.
func addMetricsFlag(cmd *cobra.Command) {
	cmd.Flags().String(metricsFlag, "", "file for the metrics of the run in the Prometheus text format, written when it ends, also after a failure")
}

// metricsFile is the file for the metrics; empty for none.
func metricsFile(c *cobra.Command) string {
	if f := c.Flags().Lookup(metricsFlag); f != nil {
		return f.Value.String()
	}
	return ""
}

// metricsCanBeWritten checks before a run that its metrics can be written after it.
func metricsCanBeWritten(c *cobra.Command) error {
	path := metricsFile(c)
	if path == "" {
		return nil
	}
	dir := filepath.Dir(path)
	switch info, err := os.Stat(dir); {
	case errors.Is(err, fs.ErrNotExist), err == nil && !info.IsDir():
		return verdict.Refuse(verdict.Usage, "--"+metricsFlag, "there is no directory %q to write it to; create it first", dir)
	case err != nil:
		return verdict.Wrap(verdict.Usage, "--"+metricsFlag, err)
	}
	return nil
}

// writeMetrics writes the metrics file, whole or not at all.
func writeMetrics(c *cobra.Command, t *span.Tally, r span.Run) error {
	path := metricsFile(c)
	if path == "" {
		return nil
	}
	var text bytes.Buffer
	if err := t.WriteMetrics(&text, r); err != nil {
		return err
	}
	return cli.WriteFile(path, text.Bytes())
}
