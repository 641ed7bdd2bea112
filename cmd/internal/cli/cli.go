// Package cli holds what the commands share: options, their flags, and the
// one constructor of release verification that waybill and k8s-verify-release
// both use.
package cli

import (
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/waybill-release/waybill/pkg/render"
	"github.com/waybill-release/waybill/pkg/transport"
	"github.com/waybill-release/waybill/pkg/verdict"
	"github.com/waybill-release/waybill/pkg/version"
)

// Output is where a verdict goes: formats to stdout or into files.
type Output struct{ Formats []string }

// TableOutput prints a table to stdout.
func TableOutput() *Output { return &Output{Formats: []string{string(render.Table)}} }

// AddFlags adds --output.
func (o *Output) AddFlags(cmd *cobra.Command) {
	cmd.Flags().StringArrayVarP(&o.Formats, "output", "o", []string{string(render.Table)},
		"print the verdict as FORMAT, or write it to a file with FORMAT=FILE; repeats ("+strings.Join(render.Formats(), ", ")+")")
}

// Check refuses an unknown format before any work is done.
func (o *Output) Check() error {
	for _, f := range o.Formats {
		format, _, _ := strings.Cut(f, "=")
		if err := render.Write(io.Discard, render.Format(format), verdict.Verdict{}); err != nil {
			return err
		}
	}
	return nil
}

// Write prints a verdict in every form asked, also when it refuses. Files are
// written whole or not at all.
func (o *Output) Write(stdout io.Writer, v verdict.Verdict) error {
	for _, f := range o.Formats {
		format, path, toFile := strings.Cut(f, "=")
		if !toFile {
			if err := render.Write(stdout, render.Format(format), v); err != nil {
				return err
			}
			continue
		}
		if err := writeFile(path, render.Format(format), v); err != nil {
			return err
		}
	}
	return nil
}

func writeFile(path string, format render.Format, v verdict.Verdict) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".verdict-*")
	if err != nil {
		return verdict.Wrap(verdict.Usage, path, err)
	}
	err = errors.Join(render.Write(f, format, v), f.Chmod(0o644), f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		_ = os.Remove(f.Name())
		return verdict.Wrap(verdict.Usage, path, err)
	}
	return nil
}

// Moment is the time of judgement: now, unless --now names another.
type Moment struct{ now string }

// AddFlags adds --now.
func (m *Moment) AddFlags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&m.now, "now", "", "judge as of this time (RFC 3339) instead of the clock's")
}

// Time reads it, once for the whole run.
func (m *Moment) Time() (time.Time, error) {
	if m.now == "" {
		return time.Now(), nil
	}
	t, err := time.Parse(time.RFC3339, m.now)
	if err != nil {
		return time.Time{}, verdict.Wrap(verdict.Usage, "--now", err)
	}
	return t, nil
}

// Version parses the version argument of a command.
func Version(args []string) (version.Version, error) {
	v, err := version.Parse(args[0])
	if err != nil {
		return version.Version{}, verdict.Wrap(verdict.Usage, "VERSION", err)
	}
	return v, nil
}

// Transport makes the one transport of a run.
func Transport(offline bool) http.RoundTripper {
	return transport.New(transport.Config{UserAgent: "waybill/" + BuildVersion(), Offline: offline})
}

// BuildVersion is the version of this program, as the Go toolchain recorded it.
func BuildVersion() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" {
		return "(devel)"
	}
	return info.Main.Version
}
