package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/waybill-release/waybill/cmd/internal/cli"
	"github.com/waybill-release/waybill/pkg/backend/store/cloud"
	"github.com/waybill-release/waybill/pkg/release/promotionplan"
	"github.com/waybill-release/waybill/pkg/sbom/planned"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

func sbomImagesCommand() *cobra.Command {
	o, shard, merge, output := &described{version: "NOASSERTION"}, "", false, cli.TableOutput()
	cmd := newCommand("sbom_images", cobra.ExactArgs(1), func(cmd *cobra.Command, args []string) error {
		in, err := o.input()
		if err != nil {
			return err
		}
		plan, err := readPlan(args[0])
		if err != nil {
			return err
		}
		part, err := promotionplan.ParseShard(shard)
		switch {
		case err != nil:
			return err
		case o.to == "":
			return verdict.Refuse(verdict.Usage, "--to", "required: the directory or bucket for the SBOMs")
		case merge && part.Of > 1:
			return verdict.Refuse(verdict.Usage, "--merge", "checks the SBOMs of all shards").Advise("leave out --shard or --merge")
		case len(plan.Edges) == 0:
			return verdict.Refuse(verdict.Usage, args[0], "not a plan of images").Advise("name a plan that waybill promote plan made from lists of images")
		case part.IsEmpty(plan):
			fmt.Fprintf(cli.Notes(cmd), "shard %s has no image of the plan\n", part)
			return nil
		}
		rt := cli.Transport(false)
		i := planned.Images{Plan: plan, Shard: part}
		i.Place, err = cloud.OpenPlace(o.to, rt)
		if err == nil && !merge {
			i.Make = func(ctx context.Context, e promotionplan.Edge) ([]byte, error) {
				in := in
				if len(e.Tags) > 0 {
					in.Version = e.Tags[0]
				}
				made, err := o.describe(ctx, in, plan.Routes[e.Route].Source+"/"+e.Image+"@"+e.Digest.String(), rt)
				if err != nil {
					return nil, err
				}
				return made.Encode()
			}
			i.To, err = openWriter(o.to, rt)
		}
		if err != nil {
			return verdict.Wrap(verdict.Usage, "--to", err)
		}
		return answer(cmd, output, i.Run(cmd.Context(), time.Now()), nil)
	})
	f := cmd.Flags()
	f.StringVar(&o.supplier, "supplier", "", "who supplies the images and makes the SBOMs, as NAME (ADDRESS)")
	f.StringVar(&o.namespace, "namespace", "", "base address of the document namespaces, ending in a slash; name and digests are appended (default: a generated one)")
	f.StringVar(&o.to, "to", "", "directory, which must exist, or bucket for the SBOMs; those that it has are not made again (required)")
	f.StringVar(&shard, "shard", "0/1", "i/n: describe part i (from 0) of n parts; the digest of an image determines its part")
	f.BoolVar(&merge, "merge", false, "make no SBOM; check that the place has the SBOMs of all shards, and nothing else")
	output.AddFlags(cmd)
	return cmd
}
