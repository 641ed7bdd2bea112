package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/waybill-release/waybill/cmd/internal/cli"
	"github.com/waybill-release/waybill/cmd/internal/exit"
	"github.com/waybill-release/waybill/cmd/internal/ui"
	"github.com/waybill-release/waybill/pkg/backend/registry"
	"github.com/waybill-release/waybill/pkg/backend/store"
	"github.com/waybill-release/waybill/pkg/backend/store/cloud"
	"github.com/waybill-release/waybill/pkg/gate/mirror"
	"github.com/waybill-release/waybill/pkg/gate/profile"
	"github.com/waybill-release/waybill/pkg/release/promotionplan"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

type mirrors struct {
	project
	output   cli.Output
	audit    mirror.Audit
	shard    string
	requests int64
	repair   string
}

func verifyMirrorsCommand() *cobra.Command {
	o := &mirrors{}
	cmd := &cobra.Command{
		Use:     "mirrors PLAN",
		Short:   "Compare mirrors with the reference: bytes, tags and evidence",
		Long:    help("verify_mirrors") + exit.Table("every mirror holds all that the reference holds"),
		Example: `  waybill verify mirrors plan.json --profile profile.yaml --record answers --repair repair`,
		Args:    cobra.ExactArgs(1),
		RunE:    o.run,
	}
	f := cmd.Flags()
	f.StringVar(&o.profile, "profile", "profile.yaml", "profile that names the policy, which says whose evidence counts, and the trust root")
	f.StringVar(&o.audit.Record, "record", "", "directory for the answers; what it answers already is not asked again")
	f.Int64Var(&o.requests, "requests", 10_000_000, "send at most so many requests; 0 judges what --record has")
	f.BoolVar(&o.audit.Manifests, "manifests", false, "do not read the layers of images")
	f.StringVar(&o.shard, "shard", "0/1", "i/n: compare part i (from 0) of n parts; a run without it and with --requests 0 combines the answers of all")
	f.StringVar(&o.repair, "repair", "", "new directory for plans of what the mirrors lack, for waybill promote apply")
	addMetricsFlag(cmd)
	o.output.AddFlags(cmd)
	return cmd
}

func (o *mirrors) run(cmd *cobra.Command, args []string) error {
	if there, _ := os.ReadDir(o.repair); len(there) > 0 { // of no directory, none
		return verdict.Refuse(verdict.Usage, "--repair", "%q is not empty: a plan of an earlier run would look like one of this run", o.repair).
			Advise("name a new directory, or remove what is in this one")
	}
	gcPercent(35) // the record of a whole registry is in memory
	plan, err := readPlan(args[0])
	if err != nil {
		return err
	}
	o.audit.Plan = plan
	by, err := o.gate(cmd.Context())
	if err == nil {
		o.audit.Judge, err = by.One(profile.Release, time.Now())
	}
	if err == nil {
		o.audit.Shard, err = promotionplan.ParseShard(o.shard)
	}
	if err != nil {
		return err
	}
	limited := &mirror.Limited{Next: cli.Transport(false)}
	limited.Left.Store(o.requests)
	progress := ui.NewProgress(cli.Notes(cmd))
	o.audit.Markers, o.audit.Progress = by.Profile().Markers, progress.Count("comparing", "artifacts")
	o.audit.Images = func(at string) (*registry.Remote, error) { return registry.OpenRemote(at, limited) }
	o.audit.Files = func(at string) (store.Place, error) { return cloud.OpenPlace(at, limited) }
	report, err := o.audit.Run(cmd.Context())
	progress.Ended("")
	if err == nil && report.IsEmpty() && o.audit.Shard.Of > 1 { // a whole plan without a mirror decides nothing
		fmt.Fprintf(cli.Notes(cmd), "shard %s has nothing of the plan\n", o.audit.Shard)
		return nil
	}
	if err == nil && o.repair != "" {
		err = os.MkdirAll(o.repair, 0o755)
		for name, plan := range report.Repairs() {
			fmt.Fprintf(cli.Notes(cmd), "%s: %s\n", filepath.Join(o.repair, name), plan.Extent())
			err = errors.Join(err, cli.WriteFile(filepath.Join(o.repair, name), plan.JSON()))
		}
	}
	if err != nil {
		return err
	}
	return answer(cmd, &o.output, report.Verdict(time.Now()), nil)
}
