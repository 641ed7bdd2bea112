package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/waybill-release/waybill/cmd/internal/cli"
	"github.com/waybill-release/waybill/cmd/internal/exit"
	"github.com/waybill-release/waybill/pkg/document/spdx"
	"github.com/waybill-release/waybill/pkg/judge/sbomcheck"
	"github.com/waybill-release/waybill/pkg/pipeline"
	"github.com/waybill-release/waybill/pkg/report/render"
	"github.com/waybill-release/waybill/pkg/sbom"
	"github.com/waybill-release/waybill/pkg/tool/plural"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

func sbomCommand() *cobra.Command {
	cmd := stageVerb(cobra.Command{
		Use:   "sbom VERSION",
		Short: "Write the SBOM of every artifact, and of the release",
		Long: `Write an SPDX 2.3 document for every binary, archive and image that the build
made, and one for the release that links them all. An artifact that can not be
described does not keep the others from it; the stage fails with the list.

Its commands work without a release: they describe anything, and judge and
compare any SPDX document.`,
		Example: `  waybill sbom v0.1.0 --profile profile.yaml
  waybill sbom generate ./lantern.tar.gz
  waybill sbom validate lantern.spdx.json`,
	}, func(ctx context.Context, p *pipeline.Pipeline) error { return p.SBOM(ctx) })
	cmd.AddCommand(sbomGenerateCommand(), sbomValidateCommand(), sbomDiffCommand(), sbomCheckCommand())
	return cmd
}

// described are the options of what is described.
type described struct {
	name, version, namespace string
	platform, image          string
	output, to               string
	modules                  string
	complete, packages       bool
}

func sbomGenerateCommand() *cobra.Command {
	o := &described{}
	cmd := &cobra.Command{
		Use:   "generate FILE|DIRECTORY|IMAGE",
		Short: "Describe a program, an archive, a directory, a source tree or an image",
		Long: `Write an SPDX 2.3 document of whatever the argument names:

  a Go program     main module, every dependency with version and checksum,
                   replacements, toolchain, build settings, revision
  an archive       tar, tar.gz, tar.zst, tar.bz2, zip, and archives in them:
                   every file, programs, source trees, packages of apk and dpkg
  a directory      the same; the modules of go.mod, go.sum, go.work and vendor
  an image         HOST/PATH:TAG or @sha256:…, an OCI layout, or a file that
                   Docker or another tool saved: packages and programs, each
                   with the layer that brought it, and the base image

An archive that programs unpack in different ways is refused (ARCHIVE_AMBIGUOUS,
ARCHIVE_HIDDEN, ARCHIVE_TWICE); one inside of an archive is named as not examined.

Nothing is asked of any network but the registry of an image. Licences are what
a package declares or a file is the text of, else NOASSERTION.

What could not be examined the SBOM names with the reason, and packages of other
ecosystems as seen, not catalogued. Complete is an SBOM that names neither: with
--complete anything else is refused (SBOM_INCOMPLETE), as waybill sbom check and
policies that ask for sbom: complete refuse it.

The time is SOURCE_DATE_EPOCH if that is set: then the same input and flags give
the same bytes. The namespace follows from all that the document says: no two that
differ have one, whatever they differ in.

` + exit.Table,
		Example: `  waybill sbom generate ./lantern > lantern.spdx.json
  waybill sbom generate lantern-v0.1.0.tar.gz --output table
  waybill sbom generate ./lantern --modules "$(go env GOMODCACHE)" --output table
  SOURCE_DATE_EPOCH=1714557600 waybill sbom generate ./source --name lantern --version v0.1.0 --output tag-value
  waybill sbom generate registry.example.test/lantern:v0.1.0 --platform linux/amd64 --complete`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return o.generate(cmd, args[0]) },
	}
	f := cmd.Flags()
	f.StringVar(&o.name, "name", "", "name of what is described; the last element of the argument if not given")
	f.StringVar(&o.version, "version", "NOASSERTION", "version of what is described")
	f.StringVar(&o.namespace, "namespace", "", "address under which the document is known, ending in a slash; name and digests are added; one is made if none is given")
	f.StringVar(&o.platform, "platform", "", "describe the image of this platform alone, such as linux/amd64")
	f.StringVar(&o.image, "image", "", "which image of a layout or file, by its reference name or digest, if there are several")
	f.StringVarP(&o.output, "output", "o", "json", "json, tag-value, or table for people")
	f.StringVar(&o.to, "to", "", "write the document to this file instead of standard output")
	f.StringVar(&o.modules, "modules", "", "module cache, as go env GOMODCACHE names it: declare the licences that files of Go modules are the text of")
	f.BoolVar(&o.packages, "packages-only", false, "of a directory list packages, and neither hash nor list files; quick, and never complete")
	f.BoolVar(&o.complete, "complete", false, "refuse if the SBOM leaves any part out: not examined, or seen and not catalogued")
	return cmd
}

func (o *described) generate(cmd *cobra.Command, arg string) error {
	switch o.output {
	case "json", "tag-value", "table":
	default:
		return verdict.Refuse(verdict.Usage, "--output", "%q: want json, tag-value or table", o.output)
	}
	in, err := o.input()
	if err != nil {
		return err
	}
	if dir := filepath.Dir(o.to); o.to != "" {
		if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
			return verdict.Refuse(verdict.Usage, o.to, "there is no directory %q to write it to", dir)
		}
	}
	made, err := o.describe(cmd.Context(), in, arg)
	if err != nil {
		return err
	}
	if o.modules != "" {
		if _, err := os.Stat(o.modules); err != nil {
			return verdict.Wrap(verdict.Usage, "--modules", err)
		}
		sbom.Licences(&made.Draft, os.DirFS(o.modules))
	}
	if made.Draft, err = made.Draft.Distinct(); err != nil {
		return err
	}
	left := sbomcheck.Unexamined(made.Draft.Relationships)
	for _, part := range left {
		fmt.Fprintln(cmd.ErrOrStderr(), render.Safe(part))
	}
	if o.complete && len(left) > 0 {
		return verdict.Refuse(verdict.SBOMIncomplete, made.Draft.Name, "parts that the SBOM leaves out: %d, the first: %s", len(left), left[0])
	}
	return o.write(cmd, made)
}

// lastSecond is the last that a document can write.
const lastSecond = 253402300799

// input is the frame of the document. SOURCE_DATE_EPOCH is a convention of
// reproducible builds.
func (o *described) input() (sbom.Input, error) {
	at := time.Now().UTC()
	if epoch := os.Getenv("SOURCE_DATE_EPOCH"); epoch != "" {
		seconds, err := strconv.ParseInt(epoch, 10, 64)
		if err != nil || seconds < 0 || seconds > lastSecond {
			f := verdict.Find(verdict.Usage, "SOURCE_DATE_EPOCH", "%.100q: want seconds since 1970, up to %d, the last of the year 9999", epoch, int64(lastSecond))
			f.Fix = "export SOURCE_DATE_EPOCH=$(git log -1 --format=%ct), or unset it"
			return sbom.Input{}, &verdict.Error{Finding: f}
		}
		at = time.Unix(seconds, 0).UTC()
	}
	in := sbom.Input{Name: o.name, Version: o.version, Created: at, Namespace: o.namespace}
	if in.Namespace != "" && !sbom.IsNamespace(in.Namespace) {
		f := verdict.Find(verdict.Usage, "--namespace", "%.200q: want an absolute URI without user, query and fragment that ends in a slash", in.Namespace)
		f.Fix = "write it as in --namespace https://example.org/sboms/"
		return in, &verdict.Error{Finding: f}
	}
	if in.Namespace == "" {
		in.Namespace = fmt.Sprintf("https://spdx.org/spdxdocs/waybill/%d/", at.Unix())
	}
	return in, nil
}

// describe makes the document of whatever the argument is.
func (o *described) describe(ctx context.Context, in sbom.Input, arg string) (sbom.Made, error) {
	t, err := openThing(ctx, arg, o.image)
	if err != nil {
		return sbom.Made{}, err
	}
	defer t.close()
	if in.Name == "" {
		in.Name = t.name
	}
	switch {
	case o.packages && t.dir == nil:
		return sbom.Made{}, verdict.Refuse(verdict.Usage, "--packages-only", "%s is no directory", arg)
	case o.packages:
		return sbom.Packages(in, in.Name, t.dir)
	case t.image != nil && (t.content == nil || o.platform != "" || o.image != ""):
		content := *t.image
		if content.Repository == "" {
			content.Repository = o.name // if nothing says where it is known, whoever asks may
		}
		if o.platform != "" {
			if content, err = content.Only(o.platform); err != nil {
				return sbom.Made{}, err
			}
		}
		return sbom.Image(ctx, in, in.Name, content)
	case o.platform != "":
		return sbom.Made{}, verdict.Refuse(verdict.Usage, "--platform", "%s is no image", arg)
	case t.dir != nil:
		return sbom.Directory(in, in.Name, t.dir, nil)
	}
	return sbom.Describe(ctx, in, in.Name, *t.content, nil)
}

func (o *described) write(cmd *cobra.Command, made sbom.Made) error {
	var raw []byte
	var err error
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
	if s == "" {
		return "-"
	}
	return s
}
