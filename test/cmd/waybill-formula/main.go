// Command waybill-formula writes the Homebrew formula of a release of Waybill.
// It reads the verified sums of the release, so that the formula names the bytes
// that the gate accepted:
//
//	waybill verify release v0.1.0 --profile .github/profile.yaml --only files --print-sums |
//		waybill-formula v0.1.0 > waybill.rb
package main

import (
	"bufio"
	_ "embed"
	"fmt"
	"io"
	"os"
	"strings"
	"text/template"

	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/version"
)

//go:embed waybill.rb.tmpl
var formula string

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: waybill-formula VERSION < SHA256SUMS > waybill.rb")
		os.Exit(2)
	}
	if err := write(os.Stdout, os.Stdin, os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "waybill-formula:", err)
		os.Exit(1)
	}
}

// write writes the formula of a version. Each archive that it names must be
// among the sums.
func write(w io.Writer, sums io.Reader, tag string) error {
	v, err := version.Parse(tag)
	if err != nil {
		return err
	}
	listed := map[string]string{}
	lines := bufio.NewScanner(sums)
	for lines.Scan() {
		sum, name, _ := strings.Cut(lines.Text(), "  ")
		if _, err := digest.Parse("sha256:" + sum); err != nil || listed[name] != "" {
			return fmt.Errorf("reading sums: %q is not a sum, or the second of its file", lines.Text())
		}
		listed[name] = sum
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("reading sums: %w", err)
	}
	of := func(platform string) (string, error) {
		name := "waybill-" + v.String() + "-" + platform + ".tar.gz"
		if listed[name] == "" {
			return "", fmt.Errorf("the sums do not list %s", name)
		}
		return listed[name], nil
	}
	t, err := template.New("formula").Funcs(template.FuncMap{"sha256": of}).Parse(formula)
	if err != nil {
		return err
	}
	return t.Execute(w, struct {
		Tag, Number         string
		Systems, Processors map[string]string // as Go calls them, and as Homebrew does
	}{
		Tag: v.String(), Number: strings.TrimPrefix(v.String(), "v"),
		Systems: map[string]string{"darwin": "macos", "linux": "linux"}, Processors: map[string]string{"amd64": "intel", "arm64": "arm"},
	})
}
