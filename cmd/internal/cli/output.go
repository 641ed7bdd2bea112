package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/waybill-release/waybill/cmd/internal/exit"
	"github.com/waybill-release/waybill/cmd/internal/ui"
	"github.com/waybill-release/waybill/pkg/report/render"
	"github.com/waybill-release/waybill/pkg/tool/slice"
	"github.com/waybill-release/waybill/pkg/value/verdict"
	"github.com/waybill-release/waybill/pkg/value/version"
)

// Output says where a verdict is written: formats for stdout or for files.
type Output struct {
	Formats []string
	// Verbose prints every finding, and no text shortened.
	Verbose bool
	// Quiet prints the headline alone, and nothing to stderr that is no error.
	Quiet bool
	// Color is always or never; otherwise a terminal gets colors.
	Color string
	// Report is the view of the SLSA levels to print, if any: see [Output.AddReport].
	Report string
	// Saved is for a verdict that was read from a file.
	Saved bool

	begun    bool             // a verdict was written, or an attempt was made
	printed  bool             // and to stdout
	each     []*Output        // one for each version
	audience verdict.Audience // of the command that the flags were added to
}

// TableOutput prints a table to stdout. It is for commands that have no --output.
func TableOutput() *Output { return &Output{Formats: []string{string(render.Table)}} }

// AddFlags adds --output to a command. Call it after the command has its RunE and
// Args: it wraps both, so that wrong formats are refused before any work is done,
// and a run that fails before there is a verdict writes one, too. A reader of the
// file never mistakes an earlier verdict for this one.
func (o *Output) AddFlags(cmd *cobra.Command) {
	cmd.Flags().StringArrayVarP(&o.Formats, "output", "o", []string{string(render.Table)},
		"print the verdict as FORMAT, or write it to a file with FORMAT=FILE; repeats ("+strings.Join(render.Formats(), ", ")+")")
	cmd.Flags().BoolVar(&o.Verbose, "verbose", false, "print every finding and proof, without shortening any text")
	cmd.Flags().BoolVar(&o.Quiet, Quiet, false, "print only the headline of the verdict, and no progress; files of --output are complete")
	cmd.Flags().StringVar(&o.Color, "color", "auto", "color the table: always, never, or auto, which is on a terminal unless NO_COLOR is set or TERM is dumb")
	run, want := cmd.RunE, cmd.Args
	cmd.RunE = func(c *cobra.Command, args []string) error {
		o.audience = exit.AudienceOf(c.CommandPath())
		err := o.Check()
		if err == nil {
			err = run(c, args)
		}
		o.ended(c, args, err)
		var judged *verdict.NotAcceptedError
		onScreen := o.begun && o.Prints(render.Table) && ui.Width(c.OutOrStdout()) > 0
		if errors.As(err, &judged) && (onScreen || o.Quiet && o.isPrinted()) {
			return exit.Reported(err) // the verdict says it
		}
		return err
	}
	cmd.Args = func(c *cobra.Command, args []string) error {
		if err := o.overwrites(c, args); err != nil {
			return err
		}
		err := want(c, args)
		o.misused(c, args, err)
		return err
	}
	cmd.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		o.Formats = outputs(os.Args[1:]) // parsing stopped at the fault, perhaps before --output
		o.misused(c, nil, err)
		return err
	})
}

// overwrites refuses to write a verdict over a file that the command reads or makes.
func (o *Output) overwrites(c *cobra.Command, args []string) error {
	named := slices.Clone(args)
	c.Flags().Visit(func(f *pflag.Flag) { named = append(named, f.Value.String()) })
	for _, f := range o.Formats {
		_, path, toFile := strings.Cut(f, "=")
		if toFile && slices.ContainsFunc(named, func(name string) bool { return filepath.Clean(name) == filepath.Clean(path) }) {
			return verdict.Refuse(verdict.Usage, "--output", "%q is a file that the command reads or makes; name another file", f)
		}
	}
	return nil
}

// Quiet is the name of the flag that prints the headline alone.
const Quiet = "quiet"

// Notes is where a command writes what is not its answer: nowhere with --quiet.
func Notes(cmd *cobra.Command) io.Writer {
	if f := cmd.Flags().Lookup(Quiet); f != nil && f.Value.String() == "true" {
		return io.Discard
	}
	return cmd.ErrOrStderr()
}

// isPrinted reports whether a verdict is on stdout.
func (o *Output) isPrinted() bool {
	return o.printed || slices.ContainsFunc(o.each, (*Output).isPrinted)
}

// clash refuses flags that contradict each other.
func (o *Output) clash() error {
	whole := slices.IndexFunc(o.Formats, func(f string) bool { return f != string(render.Table) && !strings.Contains(f, "=") })
	switch {
	case !slices.Contains([]string{"", "auto", "always", "never"}, o.Color):
		return verdict.Refuse(verdict.Usage, "--color", "%q: want auto, always or never", o.Color)
	case o.Quiet && o.Verbose:
		return verdict.Refuse(verdict.Usage, "--quiet", "--verbose prints everything, and --quiet one line; leave one of the flags out")
	case o.Quiet && whole >= 0:
		return verdict.Refuse(verdict.Usage, "--quiet", "--output %[1]s prints the whole verdict, and --quiet one line; write it to a file, as %[1]s=FILE", o.Formats[whole])
	case o.Quiet && o.Report != "" && !slices.ContainsFunc(o.Formats, func(f string) bool { return strings.Contains(f, "=") }):
		return verdict.Refuse(verdict.Usage, "--quiet", "--report prints a table, and --quiet one line; write the report to a file, as --output html=FILE")
	}
	return nil
}

// AddReport adds --report, for commands whose verdicts have SLSA levels.
func (o *Output) AddReport(cmd *cobra.Command) {
	cmd.Flags().StringVar(&o.Report, "report", "", "answer every requirement of the SLSA levels, or every control of the OpenSSF Baseline, in a table, markdown or html: "+strings.Join(render.Views(), ", ")+" (kep-3027 is the levels of SLSA v0.1). The decision and the exit status stay the same")
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

// ended writes a verdict for a run that failed before it reached one. Of several
// versions, those before the one that failed have theirs already.
func (o *Output) ended(c *cobra.Command, args []string, err error) {
	if o.each == nil {
		o.End(c, args, err)
		return
	}
	if err != nil && slices.ContainsFunc(o.each, func(own *Output) bool { return own.begun }) {
		err = &verdict.UnavailableError{Place: c.CommandPath(), Op: "releasing", Err: errors.New("not started, because an earlier version failed")}
	}
	for i, own := range o.each {
		own.End(c, args[i:i+1], err)
	}
}

// End writes a verdict for a run that failed with err before it reached one, in
// every format but the table: people read the error. If it cannot be written, the
// outcome of the run stays the same.
func (o *Output) End(c *cobra.Command, args []string, err error) {
	if err == nil || o.begun || errors.Is(err, context.Canceled) {
		return
	}
	v := verdict.New(strings.Join(append([]string{c.CommandPath()}, args...), " "), time.Now())
	v.AddError(c.CommandPath(), err)
	if judged, is := errors.AsType[*verdict.NotAcceptedError](err); is {
		v = &judged.Verdict
	}
	kept := Output{Verbose: o.Verbose, audience: exit.AudienceOf(c.CommandPath()), Formats: slices.DeleteFunc(slices.Clone(o.Formats), func(f string) bool {
		return f == string(render.Table) || check(f) != nil
	})}
	o.begun = true
	_ = kept.Write(c.OutOrStdout(), *v)
}

// Check refuses an unknown format, and a file that cannot be written, before any
// work is done.
func (o *Output) Check() error {
	if err := errors.Join(render.View(o.Report).Check(), o.clash()); err != nil {
		return err
	}
	ends := map[string]string{} // by file; stdout has no name
	for _, f := range o.Formats {
		if err := check(f); err != nil {
			return err
		}
		_, path, _ := strings.Cut(f, "=")
		if other, taken := ends[path]; taken {
			return verdict.Refuse(verdict.Usage, "--output", "%q and %q would be written to the same place and be unreadable; write each to a file of its own, as json=FILE", other, f)
		}
		ends[path] = f
	}
	shows := regexp.MustCompile(`\A(table|markdown|html)(=|\z)`)
	if o.Report != "" && !slices.ContainsFunc(o.Formats, shows.MatchString) {
		return verdict.Refuse(verdict.Usage, "--report", "it would be in none of the outputs %q", o.Formats).
			Advise("add --output table, markdown=FILE or html=FILE; json has every requirement without --report")
	}
	return slice.Check(o.each, func(own *Output) error { return own.Check() })
}

// Each makes an output for each version. Where there are several, the name of a
// file needs "{version}" in it.
func (o *Output) Each(versions []version.Version) error {
	var each []*Output
	for _, v := range versions {
		own := &Output{Verbose: o.Verbose, Quiet: o.Quiet, Color: o.Color, audience: o.audience}
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

// ForVersion is the output of one version, by its index in the list given to
// [Output.Each].
func (o *Output) ForVersion(i int) *Output { return o.each[i] }

// TableOnly is the output without files and formats for programs: a verdict that
// concerns all versions is in each file, and printed once.
func (o *Output) TableOnly() *Output {
	return &Output{Verbose: o.Verbose, Quiet: o.Quiet, Color: o.Color, audience: o.audience, Formats: slices.DeleteFunc(slices.Clone(o.Formats), func(f string) bool { return f != string(render.Table) })}
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
		return verdict.Refuse(verdict.Usage, "--output", "%q names no file after the =; is a variable unset?", f)
	}
	_, err := isStream(path)
	return err
}

// Write writes a verdict in every requested format, refusals included.
// Files are written whole or not at all. The next acts are those of the command's
// audience.
func (o *Output) Write(stdout io.Writer, v verdict.Verdict) error {
	o.begun = true
	v = v.For(o.audience)
	if on, err := render.OSPS.Of(v); o.Report == string(render.OSPS) && err == nil { // for JSON; the other reports are views of what it has
		v.Levels = append(slices.DeleteFunc(slices.Clone(v.Levels), func(l verdict.Levels) bool { return l.Track == on.Track }), on)
	}
	formats := o.Formats
	if o.Quiet && !o.Prints(render.Table) {
		formats = append(slices.Clone(formats), string(render.Table))
	}
	var failed []error
	for _, f := range formats {
		format, path, toFile := strings.Cut(f, "=")
		p := render.Printer{Verbose: o.Verbose, View: render.View(o.Report), Saved: o.Saved, Program: program()}
		if toFile {
			failed = append(failed, writeFile(path, func(w io.Writer) error { return p.Print(w, render.Format(format), v) }))
			continue
		}
		o.printed = true
		p.Width, p.Color, p.Quiet = ui.Width(stdout), ui.Colored(stdout, o.Color), o.Quiet
		failed = append(failed, p.Print(stdout, render.Format(format), v))
	}
	return errors.Join(failed...)
}

// AddFormat adds the flag --output of a command without a verdict. It takes one of the
// formats, of which the first is the default.
func AddFormat(cmd *cobra.Command, to *string, usage string, formats ...string) {
	*to = formats[0]
	cmd.Flags().VarP(format{to, formats}, "output", "o", usage)
}

// format is the value of a flag that takes one of a few words.
type format struct {
	chosen *string
	all    []string
}

// Set chooses one of the words.
func (f format) Set(text string) error {
	if !slices.Contains(f.all, text) {
		return fmt.Errorf("want %s", strings.Join(f.all, " or "))
	}
	*f.chosen = text
	return nil
}

// String is the word that is chosen.
func (f format) String() string {
	if f.chosen == nil { // pflag calls this on a zero value
		return ""
	}
	return *f.chosen
}

// Type is the name of the value in the help.
func (f format) Type() string { return "string" }
