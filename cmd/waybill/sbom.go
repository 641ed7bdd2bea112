package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/waybill-release/waybill/cmd/internal/cli"
	"github.com/waybill-release/waybill/cmd/internal/exit"
	"github.com/waybill-release/waybill/pkg/pipeline"
	"github.com/waybill-release/waybill/pkg/registry"
	"github.com/waybill-release/waybill/pkg/render"
	"github.com/waybill-release/waybill/pkg/sbom"
	"github.com/waybill-release/waybill/pkg/spdx"
	"github.com/waybill-release/waybill/pkg/verdict"
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

Nothing is asked of any network but the registry of an image. Licences are what
a package declares or a file is the text of, else NOASSERTION. Other ecosystems'
packages are named as seen, not catalogued; what could not be examined is named
with the reason, and with --complete it is a refusal.

The time is SOURCE_DATE_EPOCH if that is set: then the same input gives the same
bytes.

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
	f.StringVar(&o.namespace, "namespace", "", "address under which the document is known, ending in a slash; one is made if none is given")
	f.StringVar(&o.platform, "platform", "", "describe the image of this platform alone, such as linux/amd64")
	f.StringVar(&o.image, "image", "", "which image of a layout, by its reference name or digest, if there are several")
	f.StringVarP(&o.output, "output", "o", "json", "json, tag-value, or table for people")
	f.StringVar(&o.to, "to", "", "write the document to this file instead of standard output")
	f.StringVar(&o.modules, "modules", "", "module cache, as go env GOMODCACHE names it: declare the licences that files of Go modules are the text of")
	f.BoolVar(&o.packages, "packages-only", false, "of a directory list packages, and neither hash nor list files; quick, and never complete")
	f.BoolVar(&o.complete, "complete", false, "refuse if any part could not be examined")
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
	for _, part := range made.Incomplete {
		fmt.Fprintf(cmd.ErrOrStderr(), "not examined: %s\n", render.Safe(part))
	}
	if o.complete && len(made.Incomplete) > 0 {
		return verdict.Refuse(verdict.SBOMIncomplete, made.Draft.Name, "parts that could not be examined: %d, the first: %s", len(made.Incomplete), made.Incomplete[0])
	}
	return o.write(cmd, made)
}

// input is the frame of the document. SOURCE_DATE_EPOCH is a convention of
// reproducible builds.
func (o *described) input() (sbom.Input, error) {
	at := time.Now().UTC()
	if epoch := os.Getenv("SOURCE_DATE_EPOCH"); epoch != "" {
		seconds, err := strconv.ParseInt(epoch, 10, 64)
		if err != nil || seconds < 0 {
			return sbom.Input{}, verdict.Refuse(verdict.Usage, "SOURCE_DATE_EPOCH", "%q: want seconds since 1970", epoch)
		}
		at = time.Unix(seconds, 0).UTC()
	}
	in := sbom.Input{Name: o.name, Version: o.version, Created: at, Namespace: o.namespace}
	if in.Namespace == "" {
		in.Namespace = fmt.Sprintf("https://spdx.org/spdxdocs/waybill/%d/", at.Unix())
	}
	return in, nil
}

// describe finds out what the argument is. A file or directory of the name
// comes before an image.
func (o *described) describe(ctx context.Context, in sbom.Input, arg string) (sbom.Made, error) {
	info, err := os.Stat(arg)
	if errors.Is(err, fs.ErrNotExist) && strings.Contains(arg, "/") && strings.ContainsAny(arg, ":@") {
		return o.describeImage(ctx, in, arg)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return sbom.Made{}, verdict.Refuse(verdict.Usage, arg, "there is no such file or directory, and it names no image")
	}
	if err != nil {
		return sbom.Made{}, verdict.Wrap(verdict.PlaceDown, arg, err)
	}
	absolute, err := filepath.Abs(arg)
	if err != nil {
		return sbom.Made{}, verdict.Wrap(verdict.PlaceDown, arg, err)
	}
	if in.Name == "" {
		in.Name = filepath.Base(absolute)
	}
	if o.packages && !info.IsDir() {
		return sbom.Made{}, verdict.Refuse(verdict.Usage, "--packages-only", "%s is no directory", arg)
	}
	if !info.IsDir() {
		return describeFile(ctx, in, arg, info.Size())
	}
	dir := os.DirFS(arg)
	if _, err := fs.Stat(dir, "oci-layout"); err == nil {
		content, err := sbom.LayoutImage(ctx, dir, o.image)
		if err != nil {
			return sbom.Made{}, err
		}
		return o.image1(ctx, in, content)
	}
	if o.packages {
		return sbom.Packages(in, in.Name, dir)
	}
	return sbom.Directory(in, in.Name, dir, nil)
}

func describeFile(ctx context.Context, in sbom.Input, path string, size int64) (sbom.Made, error) {
	f, err := os.Open(path)
	if err != nil {
		return sbom.Made{}, verdict.Wrap(verdict.PlaceDown, path, err)
	}
	defer f.Close()
	return sbom.Describe(ctx, in, in.Name, sbom.Content{ReaderAt: f, Size: size}, nil)
}

func (o *described) describeImage(ctx context.Context, in sbom.Input, reference string) (sbom.Made, error) {
	content, name, err := imageContent(ctx, reference)
	if err != nil {
		return sbom.Made{}, err
	}
	if in.Name == "" {
		in.Name = name
	}
	return o.image1(ctx, in, content)
}

// imageContent reads what a registry serves.
func imageContent(ctx context.Context, reference string) (sbom.ImageContent, string, error) {
	image, err := cli.Image(reference, cli.Transport(false))
	if err != nil {
		return sbom.ImageContent{}, "", err
	}
	at, err := image.Source.Resolve(ctx, image.Repository, image.Reference())
	if err != nil {
		return sbom.ImageContent{}, "", err
	}
	node, err := registry.Graph(ctx, image.Source, image.Repository, at)
	if err != nil {
		return sbom.ImageContent{}, "", err
	}
	content, err := sbom.FromRegistry(ctx, image.Source, image.Repository, node)
	return content, image.Repository, err
}

func (o *described) image1(ctx context.Context, in sbom.Input, content sbom.ImageContent) (sbom.Made, error) {
	if o.platform != "" {
		var err error
		if content, err = content.Only(o.platform); err != nil {
			return sbom.Made{}, err
		}
	}
	return sbom.Image(ctx, in, in.Name, content)
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
	if err := os.WriteFile(o.to, raw, 0o644); err != nil {
		return verdict.Wrap(verdict.PlaceDown, o.to, err)
	}
	return nil
}

func packageTable(cmd *cobra.Command, s sbom.Summary) error {
	w := cmd.OutOrStdout()
	what := "sha256:none, a directory"
	if !s.Digest.IsZero() {
		what = s.Digest.String()
	}
	fmt.Fprintf(w, "%s %s: %d packages, %d files\n\n", render.Safe(s.Name), what, len(s.Packages), s.Files)
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
