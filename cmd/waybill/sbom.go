package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/waybill-release/waybill/cmd/internal/cli"
	"github.com/waybill-release/waybill/pkg/document/spdx"
	"github.com/waybill-release/waybill/pkg/judge/sbomcheck"
	"github.com/waybill-release/waybill/pkg/report/render"
	"github.com/waybill-release/waybill/pkg/sbom"
	"github.com/waybill-release/waybill/pkg/tool/plural"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

func sbomCommand() *cobra.Command {
	o := &project{}
	cmd := newCommand("sbom", cobra.ExactArgs(1), func(c *cobra.Command, args []string) error {
		p, ctx, err := o.open(c, args)
		if err != nil {
			return err
		}
		return answer(c, cli.TableOutput(), nil, p.SBOM(ctx))
	})
	o.addFlags(cmd)
	o.addSourceFlags(cmd)
	o.addTokenFlags(cmd)
	cmd.AddCommand(sbomGenerateCommand(), sbomValidateCommand(), sbomDiffCommand(), sbomCheckCommand(), sbomFetchCommand(), sbomImagesCommand())
	return cmd
}

// described are the options of sbom generate.
type described struct {
	name, version, namespace string
	supplier                 string
	platform, image          string
	output, to               string
	modules                  string
	complete, packages       bool
}

func sbomGenerateCommand() *cobra.Command {
	o := &described{}
	cmd := newCommand("sbom_generate", cobra.ExactArgs(1), func(cmd *cobra.Command, args []string) error { return o.generate(cmd, args[0]) })
	f := cmd.Flags()
	f.StringVar(&o.name, "name", "", "name of the described artifact (default: the last element of the argument)")
	f.StringVar(&o.version, "version", "NOASSERTION", "version of the described artifact")
	f.StringVar(&o.supplier, "supplier", "", "who supplies the artifact and makes the SBOM, as NAME (ADDRESS), such as \"Example (https://example.org)\"")
	f.StringVar(&o.namespace, "namespace", "", "base address of the document namespace, ending in a slash; name and digests are appended (default: a generated one)")
	f.StringVar(&o.platform, "platform", "", "describe only the image of this platform, such as linux/amd64")
	f.StringVar(&o.image, "image", "", "image in a layout or file with several, by reference name or digest")
	cli.AddFormat(cmd, &o.output, "json, tag-value, or table for people", "json", "tag-value", "table")
	f.StringVar(&o.to, "to", "", "write the document to this file instead of standard output")
	f.StringVar(&o.modules, "modules", "", "Go module cache (go env GOMODCACHE), to find the licences of Go modules by their licence files")
	f.BoolVar(&o.packages, "packages-only", false, "for a directory, list only packages: files are neither hashed nor listed; fast, and never complete")
	f.BoolVar(&o.complete, "complete", false, "refuse an SBOM with parts that were not examined, or seen but not catalogued")
	return cmd
}

func (o *described) generate(cmd *cobra.Command, arg string) error {
	in, err := o.input()
	if err != nil {
		return err
	}
	if dir := filepath.Dir(o.to); o.to != "" {
		if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
			return verdict.Refuse(verdict.Usage, o.to, "there is no directory %q to write it to; create it first", dir)
		}
	}
	made, err := o.describe(cmd.Context(), in, arg, cli.Transport(false))
	if err != nil {
		return err
	}
	left := sbomcheck.Unexamined(made.Draft.Relationships)
	for _, part := range left {
		fmt.Fprintln(cmd.ErrOrStderr(), render.Safe(part))
	}
	if o.complete && len(left) > 0 {
		return verdict.Refuse(verdict.SBOMIncomplete, made.Draft.Name, "parts that the SBOM does not cover: %d, the first: %s", len(left), left[0])
	}
	return o.write(cmd, made)
}

// lastSecond is the last second that an SPDX document can express.
const lastSecond = 253402300799

// input is the name, version, time and namespace of the document. SOURCE_DATE_EPOCH
// is a convention of reproducible builds.
func (o *described) input() (sbom.Input, error) {
	at := time.Now().UTC()
	if epoch := os.Getenv("SOURCE_DATE_EPOCH"); epoch != "" {
		seconds, err := strconv.ParseInt(epoch, 10, 64)
		if err != nil || seconds < 0 || seconds > lastSecond {
			return sbom.Input{}, verdict.Refuse(verdict.Usage, "SOURCE_DATE_EPOCH", "%.100q: want seconds since 1970, at most %d, the end of the year 9999", epoch, int64(lastSecond)).
				Advise("export SOURCE_DATE_EPOCH=$(git log -1 --format=%ct), or unset it")
		}
		at = time.Unix(seconds, 0).UTC()
	}
	in := sbom.Input{Name: o.name, Version: o.version, Created: at, Namespace: o.namespace, Supplier: o.supplier, Tool: cli.BuildVersion()}
	if in.Namespace != "" && !sbom.IsNamespace(in.Namespace) {
		return in, verdict.Refuse(verdict.Usage, "--namespace", "%.200q: want an absolute URI without user, query and fragment that ends in a slash", in.Namespace).
			Advise("write it as in --namespace https://example.org/sboms/")
	}
	in.Namespace = cmp.Or(in.Namespace, fmt.Sprintf("https://spdx.org/spdxdocs/waybill/%d/", at.Unix()))
	return in, nil
}

// describe makes the document, with the licences of modules.
func (o *described) describe(ctx context.Context, in sbom.Input, arg string, rt http.RoundTripper) (sbom.Made, error) {
	made, err := o.read(ctx, in, arg, rt)
	if err == nil && o.modules != "" {
		if _, gone := os.Stat(o.modules); gone != nil {
			return sbom.Made{}, verdict.Wrap(verdict.Usage, "--modules", gone)
		}
		(&sbom.Licences{Modules: os.DirFS(o.modules)}).Declare(&made.Draft)
	}
	if err == nil {
		made.Draft, err = made.Draft.Distinct()
	}
	return made, err
}

// read makes the document, by the kind of the argument.
func (o *described) read(ctx context.Context, in sbom.Input, arg string, rt http.RoundTripper) (sbom.Made, error) {
	t, err := openTarget(ctx, arg, o.image, rt)
	if err != nil {
		return sbom.Made{}, err
	}
	defer t.close()
	in.Name = cmp.Or(in.Name, t.name)
	switch {
	case o.packages && t.dir == nil:
		return sbom.Made{}, verdict.Refuse(verdict.Usage, "--packages-only", "the flag is for a directory, and %s is none", arg)
	case o.packages:
		return sbom.Packages(in, in.Name, t.dir)
	case t.image != nil && (t.content == nil || o.platform != "" || o.image != ""):
		content := *t.image
		content.Repository = cmp.Or(content.Repository, o.name) // without a repository in the layout, the caller may name one
		if o.platform != "" {
			if content, err = content.Only(o.platform); err != nil {
				return sbom.Made{}, err
			}
		}
		return sbom.Image(ctx, in, in.Name, content)
	case o.platform != "":
		return sbom.Made{}, verdict.Refuse(verdict.Usage, "--platform", "the flag is for an image, and %s is none", arg)
	case t.dir != nil:
		return sbom.Directory(in, in.Name, t.dir, nil)
	}
	return sbom.Describe(ctx, in, in.Name, *t.content, nil)
}

func (o *described) write(cmd *cobra.Command, made sbom.Made) (err error) {
	var raw []byte
	switch o.output {
	case "table":
		return packageTable(cmd, sbom.Summarise(made))
	case "tag-value":
		raw, err = spdx.EncodeTagValue(made.Draft)
	default:
		raw, err = made.Encode()
	}
	if err != nil {
		return err
	}
	if o.to == "" {
		_, err = cmd.OutOrStdout().Write(raw)
		return err
	}
	return cli.WriteFile(o.to, raw)
}

func packageTable(cmd *cobra.Command, s sbom.Summary) error {
	w := cmd.OutOrStdout()
	what := "sha256:none, a directory"
	if !s.Digest.IsZero() {
		what = s.Digest.String()
	}
	fmt.Fprintf(w, "%s %s: %s, %s\n\n", render.Safe(s.Name), what, plural.Of(len(s.Packages), "package"), plural.Of(s.Files, "file"))
	t := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	fmt.Fprintln(t, "PACKAGE\tVERSION\tLICENCE")
	for _, p := range s.Packages {
		fmt.Fprintf(t, "%s\t%s\t%s\n", render.Safe(p.Name), render.Safe(orDash(p.Version)), render.Safe(orDash(p.Licence)))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for _, u := range s.Unknown {
		fmt.Fprintf(w, "\n%s", render.Safe(u))
	}
	if len(s.Unknown) > 0 {
		fmt.Fprintln(w)
	}
	return nil
}

func orDash(s string) string {
	return cmp.Or(s, "-")
}
