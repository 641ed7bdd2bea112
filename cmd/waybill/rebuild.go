package main

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/waybill-release/waybill/cmd/internal/cli"
	"github.com/waybill-release/waybill/pkg/document/rebuildrecord"
	"github.com/waybill-release/waybill/pkg/pipeline"
	"github.com/waybill-release/waybill/pkg/report/render"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// rebuilding are the options of rebuild.
type rebuilding struct {
	officer
	source, id string
	output     *cli.Output
}

func rebuildCommand() *cobra.Command {
	o := &rebuilding{officer: officer{signsAs: []string{rebuildrecord.Role}}, output: cli.TableOutput()}
	cmd := newCommand("rebuild", cobra.MinimumNArgs(1), o.run)
	o.addFlags(cmd)
	cmd.Flags().StringVar(&o.source, "source", "", "repository to read the commit from, in place of the one that the provenance names")
	cmd.Flags().StringVar(&o.id, "sign", "", "sign, as the rebuilder with this id in the policy, that the bytes are the same, and write the statement beside the manifest")
	o.output.AddFlags(cmd)
	return cmd
}

func (o *rebuilding) run(c *cobra.Command, args []string) error {
	if o.confirm && o.id == "" {
		return verdict.Refuse(verdict.Usage, "--confirm", "without --sign, nothing is signed")
	}
	off, err := o.open(c)
	if err != nil {
		return err
	}
	from := &project{profile: o.profile, source: o.source}
	p, ctx, err := from.open(c, args[:1])
	if err != nil {
		return err
	}
	v, made, err := pipeline.Rebuild(ctx, p, args[1:]...)
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
	name, proof, err := off.PublishRebuilt(ctx, args[0], draft)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(c.OutOrStdout(), "%s: signed by %s at %s; read back and verified\n", name, render.Safe(proof.Identity), proof.SignedAt.Format(time.RFC3339))
	return err
}
