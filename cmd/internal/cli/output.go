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

	"github.com/waybill-release/waybill/cmd/internal/exit"
	"github.com/waybill-release/waybill/cmd/internal/ui"
	"github.com/waybill-release/waybill/pkg/report/render"
	"github.com/waybill-release/waybill/pkg/value/verdict"
	"github.com/waybill-release/waybill/pkg/value/version"
)

// Output is where a verdict goes: formats to stdout or into files.
type Output struct {
	Formats []string
	// Verbose prints every finding, and every text whole.
	Verbose bool

	begun    bool             // a verdict was written, or it was tried
	each     []*Output        // one for each version
	audience verdict.Audience // of the command that the flags were added to
}

// TableOutput prints a table to stdout, with every line: who calls it has no
// flag by which the rest could be asked for.
func TableOutput() *Output {
	return &Output{Formats: []string{string(render.Table)}, Verbose: true}
}

// AddFlags adds --output to a command that is complete otherwise, and sees to
// it that a run that ends before there is a verdict has one too: whoever reads
// a verdict never reads that of an earlier run.
func (o *Output) AddFlags(cmd *cobra.Command) {
	cmd.Flags().StringArrayVarP(&o.Formats, "output", "o", []string{string(render.Table)},
		"print the verdict as FORMAT, or write it to a file with FORMAT=FILE; repeats ("+strings.Join(render.Formats(), ", ")+")")
	cmd.Flags().BoolVar(&o.Verbose, "verbose", false, "print every finding and proof, and every text whole")
	run, want := cmd.RunE, cmd.Args
	cmd.RunE = func(c *cobra.Command, args []string) error {
		o.audience = exit.AudienceOf(c.CommandPath())
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

// ended writes the verdict of a run that came to none. Of several versions,
// those before the one that failed have theirs already.
func (o *Output) ended(c *cobra.Command, args []string, err error) {
	if o.each == nil {
		o.End(c, args, err)
		return
	}
	some := slices.ContainsFunc(o.each, func(own *Output) bool { return own.begun })
	for i, own := range o.each {
		if some && err != nil {
			own.End(c, args[i:i+1], stopped(c))
		} else {
			own.End(c, args[i:i+1], err)
		}
	}
}

// End writes the verdict of what ended with err and came to none, where it is
// not for the eyes only: those read the error. That it cannot be written
// changes nothing about how it ended.
func (o *Output) End(c *cobra.Command, args []string, err error) {
	if err == nil || o.begun || errors.Is(err, context.Canceled) {
		return
	}
	v := verdict.New(strings.Join(append([]string{c.CommandPath()}, args...), " "), time.Now())
	v.AddError(c.CommandPath(), err)
	var judged *verdict.NotAcceptedError
	if errors.As(err, &judged) {
		v = &judged.Verdict
	}
	kept := Output{Verbose: o.Verbose, audience: exit.AudienceOf(c.CommandPath()), Formats: slices.DeleteFunc(slices.Clone(o.Formats), func(f string) bool {
		return f == string(render.Table) || check(f) != nil
	})}
	o.begun = true
	_ = kept.Write(c.OutOrStdout(), *v)
}

// Check refuses an unknown format, and a file that will not be written, before
// any work is done.
func (o *Output) Check() error {
	ends := map[string]string{} // by file; stdout has no name
	for _, f := range o.Formats {
		if err := check(f); err != nil {
			return err
		}
		_, path, _ := strings.Cut(f, "=")
		if other, taken := ends[path]; taken {
			return verdict.Refuse(verdict.Usage, "--output", "%q and %q end in one place, where nobody could read either; write each to a file of its own, as json=FILE", other, f)
		}
		ends[path] = f
	}
	for _, own := range o.each {
		if err := own.Check(); err != nil {
			return err
		}
	}
	return nil
}

// Each gives every version a verdict of its own. One that is written to a file
// needs "{version}" in the file's name where there are several.
func (o *Output) Each(versions []version.Version) error {
	var each []*Output
	for _, v := range versions {
		own := &Output{Verbose: o.Verbose, audience: o.audience}
		for _, f := range o.Formats {
			name := strings.ReplaceAll(f, "{version}", v.String())
			if strings.Contains(f, "=") && name == f && len(versions) > 1 {
				return verdict.Refuse(verdict.Usage, "--output", "%q: each version has a verdict of its own; put {version} into the name of the file", f)
			}
			own.Formats = append(own.Formats, name)
		}
		each = append(each, own)
	}
	o.each = each
	return o.Check()
}

// Prints reports whether a format was asked for on stdout.
func (o *Output) Prints(f render.Format) bool { return slices.Contains(o.Formats, string(f)) }

// Of is the output of one version, by its place in the list that [Output.Each]
// was told.
func (o *Output) Of(i int) *Output { return o.each[i] }

// Eyes is what is printed for people alone: of a verdict on all versions, which
// each file has too, once.
func (o *Output) Eyes() *Output {
	return &Output{Verbose: o.Verbose, audience: o.audience, Formats: slices.DeleteFunc(slices.Clone(o.Formats), func(f string) bool { return f != string(render.Table) })}
}

// stopped is the verdict on a release that was not begun, because the one
// before it failed.
func stopped(c *cobra.Command) error {
	return &verdict.UnavailableError{Place: c.CommandPath(), Op: "releasing", Err: errors.New("not begun, because an earlier version failed")}
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
// written whole or not at all. The next acts are those of the command's
// audience.
func (o *Output) Write(stdout io.Writer, v verdict.Verdict) error {
	o.begun = true
	v = v.For(o.audience)
	var failed []error
	for _, f := range o.Formats {
		format, path, toFile := strings.Cut(f, "=")
		if toFile {
			failed = append(failed, writeFile(path, func(w io.Writer) error {
				return render.Printer{Verbose: o.Verbose}.Print(w, render.Format(format), v)
			}))
			continue
		}
		p := render.Printer{Verbose: o.Verbose, Width: ui.Width(stdout)}
		failed = append(failed, p.Print(stdout, render.Format(format), v))
	}
	return errors.Join(failed...)
}
