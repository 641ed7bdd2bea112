package cli

import (
	"context"
	"errors"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/waybill-release/waybill/pkg/render"
	"github.com/waybill-release/waybill/pkg/verdict"
)

// Output is where a verdict goes: formats to stdout or into files.
type Output struct {
	Formats []string

	begun bool // a verdict was written, or it was tried
}

// TableOutput prints a table to stdout.
func TableOutput() *Output { return &Output{Formats: []string{string(render.Table)}} }

// AddFlags adds --output to a command that is complete otherwise, and sees to
// it that a run that ends before there is a verdict has one too: whoever reads
// a verdict never reads that of an earlier run.
func (o *Output) AddFlags(cmd *cobra.Command) {
	cmd.Flags().StringArrayVarP(&o.Formats, "output", "o", []string{string(render.Table)},
		"print the verdict as FORMAT, or write it to a file with FORMAT=FILE; repeats ("+strings.Join(render.Formats(), ", ")+")")
	run, want := cmd.RunE, cmd.Args
	cmd.RunE = func(c *cobra.Command, args []string) error {
		err := run(c, args)
		o.ended(c, args, err)
		return err
	}
	cmd.Args = func(c *cobra.Command, args []string) error {
		err := want(c, args)
		o.misused(c, args, err)
		return err
	}
	cmd.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		o.Formats = outputs(os.Args[1:]) // parsing ended at the fault, perhaps before them
		o.misused(c, nil, err)
		return err
	})
}

// outputs reads the values of --output from a command line that is wrong
// elsewhere.
func outputs(args []string) (formats []string) {
	for i, arg := range args {
		value, joined := strings.CutPrefix(arg, "--output=")
		switch {
		case arg == "--":
			return formats
		case joined:
			formats = append(formats, value)
		case (arg == "-o" || arg == "--output") && i+1 < len(args):
			formats = append(formats, args[i+1])
		}
	}
	return formats
}

// misused writes the verdict of a command line that is wrong.
func (o *Output) misused(c *cobra.Command, args []string, err error) {
	if err != nil {
		o.ended(c, args, verdict.Wrap(verdict.Usage, c.CommandPath(), err))
	}
}

// ended writes the verdict of a run that came to none, where it is not for the
// eyes only: those read the error. That it cannot be written changes nothing
// about how the run ended.
func (o *Output) ended(c *cobra.Command, args []string, err error) {
	if err == nil || o.begun || errors.Is(err, context.Canceled) {
		return
	}
	v := verdict.New(strings.Join(append([]string{c.CommandPath()}, args...), " "), time.Now())
	v.AddError(c.CommandPath(), err)
	var judged *verdict.NotAcceptedError
	if errors.As(err, &judged) {
		v = &judged.Verdict
	}
	kept := Output{Formats: slices.DeleteFunc(slices.Clone(o.Formats), func(f string) bool {
		return f == string(render.Table) || check(f) != nil
	})}
	_ = kept.Write(c.OutOrStdout(), *v)
}

// Check refuses an unknown format, and a file that will not be written, before
// any work is done.
func (o *Output) Check() error {
	for _, f := range o.Formats {
		if err := check(f); err != nil {
			return err
		}
	}
	return nil
}

func check(f string) error {
	format, path, toFile := strings.Cut(f, "=")
	if err := render.Write(io.Discard, render.Format(format), verdict.Verdict{}); err != nil {
		return err
	}
	if !toFile {
		return nil
	}
	if path == "" {
		return verdict.Refuse(verdict.Usage, "--output", "%q names no file; is a variable unset?", f)
	}
	_, err := direct(path)
	return err
}

// Write prints a verdict in every form asked, also when it refuses. Files are
// written whole or not at all.
func (o *Output) Write(stdout io.Writer, v verdict.Verdict) error {
	o.begun = true
	var failed []error
	for _, f := range o.Formats {
		format, path, toFile := strings.Cut(f, "=")
		if toFile {
			failed = append(failed, writeFile(path, render.Format(format), v))
			continue
		}
		failed = append(failed, render.Write(stdout, render.Format(format), v))
	}
	return errors.Join(failed...)
}
