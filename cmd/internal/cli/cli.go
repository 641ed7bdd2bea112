// Package cli holds the options and flags that commands share, and release
// verification as waybill and k8s-verify-release both run it.
package cli

import (
	"fmt"
	"net/http"
	"path"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/waybill-release/waybill/pkg/backend/transport"
	"github.com/waybill-release/waybill/pkg/value/verdict"
	"github.com/waybill-release/waybill/pkg/value/version"
)

// Moment is the time of judgement: now, unless --now names another.
type Moment struct{ now string }

// AddFlags adds --now.
func (m *Moment) AddFlags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&m.now, "now", "", "judge as of this time (RFC 3339) instead of now")
}

// Time returns the time of judgement. Call it once for the whole run.
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
	if err != nil && (strings.HasPrefix(args[0], "ci/") || strings.HasPrefix(args[0], "k8s-")) {
		return version.Version{}, verdict.Refuse(verdict.Usage, "VERSION", "%q is a marker of builds between two releases: it is unsigned, and moves with every build", args[0]).
			Advise("name a version, or a channel such as stable-1.31")
	}
	if err != nil {
		return version.Version{}, verdict.Wrap(verdict.Usage, "VERSION", err)
	}
	return v, nil
}

// Versions parses version arguments. A version that is given twice is refused.
func Versions(args []string) (list []version.Version, err error) {
	for i, text := range args {
		v, err := Version(args[i:])
		if err != nil {
			return nil, err
		}
		if slices.Contains(list, v) {
			return nil, verdict.Refuse(verdict.Usage, "VERSION", "%s is given twice", text)
		}
		list = append(list, v)
	}
	return list, nil
}

// Transport makes the HTTP transport of a run.
func Transport(offline bool) http.RoundTripper {
	return transport.New(transport.Config{UserAgent: "waybill/" + BuildVersion(), Offline: offline})
}

// Our release.yaml sets these when it builds, by the linker's -X.
var builtVersion, builtCommit string

// About is what --version prints: version, commit and Go version.
func About() string {
	from := builtCommit
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if from == "" && s.Key == "vcs.revision" {
				from = s.Value
			}
		}
	}
	if from == "" {
		from = "unknown"
	}
	return fmt.Sprintf("%s (commit %s, %s)", BuildVersion(), from, runtime.Version())
}

// program is the name and the version of this program.
func program() string {
	info, _ := debug.ReadBuildInfo()
	if info == nil {
		return ""
	}
	return path.Base(info.Path) + " " + BuildVersion()
}

// BuildVersion is the version of this program, as the release or the Go
// toolchain recorded it.
func BuildVersion() string {
	if builtVersion != "" {
		return builtVersion
	}
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" {
		return "(devel)"
	}
	return info.Main.Version
}
