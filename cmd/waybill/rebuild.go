package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/waybill-release/waybill/cmd/internal/cli"
	"github.com/waybill-release/waybill/pkg/document/rebuildrecord"
	"github.com/waybill-release/waybill/pkg/gate"
	"github.com/waybill-release/waybill/pkg/pipeline"
	"github.com/waybill-release/waybill/pkg/report/render"
	"github.com/waybill-release/waybill/pkg/value/verdict"
	"github.com/waybill-release/waybill/pkg/value/version"
)

// rebuilding are the options of rebuild.
type rebuilding struct {
	officer
	source, id, bundle, ldflags string
	buildInfo                   bool
	output                      *cli.Output
}

func rebuildCommand() *cobra.Command {
	o := &rebuilding{officer: officer{signsAs: []string{rebuildrecord.Role}}, output: cli.TableOutput()}
	cmd := newCommand("rebuild", cobra.MinimumNArgs(1), o.run)
	o.addFlags(cmd)
	cmd.Flags().Lookup("profile").Usage = "profile that names places, policy, trust root and signing services (default: profile.yaml here, or above up to the top of the repository)"
	cmd.Flags().StringVar(&o.source, "source", "", "repository to read the commit from, in place of the one that the provenance names")
	cmd.Flags().StringVar(&o.id, "sign", "", "sign, as the rebuilder with this id in the policy, that the bytes are the same, and write the statement beside the manifest")
	cmd.Flags().StringVar(&o.bundle, "bundle", "", "provenance of FILE, instead of FILE"+gate.BundleSuffix)
	cmd.Flags().BoolVar(&o.buildInfo, "build-info", false, "build a Go program again from its build information, which is unsigned")
	cmd.Flags().StringVar(&o.ldflags, "ldflags", "", "with --build-info: flags of the linker, which build information does not name: -s, -w, -buildid=ID, -X NAME=VALUE")
	o.output.AddFlags(cmd)
	return cmd
}

func (o *rebuilding) run(c *cobra.Command, args []string) error {
	if o.confirm && o.id == "" {
		return verdict.Refuse(verdict.Usage, "--confirm", "without --sign, nothing is signed")
	}
	word := args[0]
	_, noVersion := version.Parse(word)
	_, noFile := os.Stat(word)
	_, noBundle := os.Stat(word + gate.BundleSuffix)
	switch {
	case o.buildInfo && noVersion != nil && noFile == nil && o.bundle == "":
		return o.program(c, args)
	case noVersion != nil && noFile != nil && (o.buildInfo || filepath.IsAbs(word) || strings.HasPrefix(word, ".")):
		return verdict.Refuse(verdict.Usage, word, "no such file").Advise("check the path")
	case o.buildInfo || o.ldflags != "":
		return verdict.Refuse(verdict.Usage, "--build-info", "only for the file of a Go program, without --bundle; --ldflags requires it, since provenance names all flags")
	case noVersion != nil && noFile == nil && o.bundle == "" && errors.Is(noBundle, fs.ErrNotExist):
		return verdict.Refuse(verdict.Unsigned, word, "no provenance is beside it").
			Advise("name its provenance with --bundle; a Go program is built again without any with --build-info")
	case noVersion == nil && o.bundle != "":
		return verdict.Refuse(verdict.Usage, "--bundle", "the flag is for a file; a release names its provenance")
	}
	conf, one, ctx, err := o.find(c, word)
	if err != nil {
		return err
	}
	off, err := o.open(c)
	if err != nil {
		return err
	}
	p, err := pipeline.New(conf)
	if err != nil {
		return err
	}
	v, made, err := pipeline.Rebuild(ctx, p, one, args[1:]...)
	if err != nil {
		return err
	}
	if err := answer(c, o.output, v, nil); err != nil || o.id == "" {
		return err
	}
	draft, err := off.DraftRebuilt(made, o.id)
	if err != nil {
		return err
	}
	if !o.confirm {
		return o.finish(c, off, draft, rebuildrecord.Name(1))
	}
	name, proof, err := off.PublishRebuilt(ctx, p, draft)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(c.OutOrStdout(), "%s: signed by %s at %s; read back and verified\n", name, render.Safe(proof.Identity), proof.SignedAt.Format(time.RFC3339))
	return err
}

// find reads the profile, and finds the version to rebuild: the one that is named,
// or that of which a file or an image is a part.
func (o *rebuilding) find(c *cobra.Command, word string) (conf pipeline.Config, one *pipeline.Found, ctx context.Context, err error) {
	from := &project{profile: o.profile, source: o.source}
	from.settle(nil)
	by, err := from.gate(c.Context())
	if err == nil {
		conf, ctx, err = from.config(c, by)
	}
	if err != nil {
		return conf, nil, nil, err
	}
	o.profile = from.profile
	v, noVersion := version.Parse(word)
	_, noFile := os.Stat(word)
	switch {
	case noVersion == nil:
		conf.Version = v
		return conf, nil, ctx, nil
	case noFile == nil:
		one, err = pipeline.FindFile(ctx, by, word, cmp.Or(o.bundle, word+gate.BundleSuffix))
	case strings.Contains(word, "/"):
		var image gate.Image
		if image, err = cli.Image(word, conf.Transport); err == nil {
			one, err = pipeline.FindImage(ctx, by, image)
		}
	default:
		err = verdict.Refuse(verdict.Usage, word, "neither a version, nor a file, nor an image as HOST/PATH:TAG or HOST/PATH@sha256:…")
	}
	if err == nil {
		conf.Version = one.Version
	}
	return conf, one, ctx, err
}

// program builds a Go program again that has no provenance.
func (o *rebuilding) program(c *cobra.Command, args []string) error {
	if o.id != "" || o.source != "" || len(args) > 1 {
		return verdict.Refuse(verdict.Usage, "--build-info", "nothing is signed, and one file is built again").Advise("leave out --sign, --source and further arguments")
	}
	conf := pipeline.Config{World: pipeline.World{Clock: time.Now}, Report: reportTo((&project{}).observe(c))}
	v := pipeline.RebuildProgram(c.Context(), conf, args[0], o.ldflags)
	if cause := context.Cause(c.Context()); cause != nil {
		return cause
	}
	return answer(c, o.output, v, nil)
}
