package main

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/waybill-release/waybill/cmd/internal/cli"
	"github.com/waybill-release/waybill/pkg/backend/lease"
	"github.com/waybill-release/waybill/pkg/pipeline"
	"github.com/waybill-release/waybill/pkg/pipeline/promote"
	"github.com/waybill-release/waybill/pkg/release/promotionplan"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// The shortest and the longest lease: one that a slow request outlasts is none,
// and one that lasts a day keeps everybody out for a day.
const (
	minTerm = time.Second
	maxTerm = time.Hour
)

// sharing are the options of several workers on one plan.
type sharing struct {
	shard string
	with  pipeline.Shared
}

func (o *sharing) addFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&o.shard, "shard", "0/1", "i/n: promote the part i, from 0, of n parts, by digest; an image falls to one of them")
	f.StringVar(&o.with.Results, "results", "", "directory or bucket to write the results of the shard into, for waybill promote merge")
	addLeaseFlags(cmd, &o.with.Exclusion, "the same shard")
}

// addLeaseFlags lets a command hold a lease, which keeps another run of the same
// thing out.
func addLeaseFlags(cmd *cobra.Command, with *pipeline.Exclusion, same string) {
	f := cmd.Flags()
	f.StringVar(&with.Lease, "lease", "", "directory or bucket that holds a lease while this runs: another run of "+same+" is kept out")
	f.DurationVar(&with.Term, "lease-term", lease.Term, "how long the lease lasts when it is not renewed, as after a crash")
}

// checkLease refuses a term without a lease, and one that keeps nobody out, or
// everybody for long.
func checkLease(cmd *cobra.Command, with pipeline.Exclusion) error {
	switch {
	case with.Lease == "":
		return cli.Unused(cmd, "it is how long the lease of --lease lasts", "lease-term")
	case with.Term < minTerm || with.Term > maxTerm:
		return verdict.Refuse(verdict.Usage, "--lease-term", "%s: want from %s to %s", with.Term, minTerm, maxTerm)
	}
	return nil
}

// parse reads what was given, which is for images.
func (o *sharing) parse(plan promotionplan.Plan) (promote.Shard, pipeline.Shared, error) {
	s, err := promote.ParseShard(o.shard)
	switch {
	case err != nil:
		return promote.Shard{}, pipeline.Shared{}, err
	case (s.Of > 1 || o.with.Results != "" || o.with.Lease != "") && (plan.Release != nil || len(plan.Files) > 0):
		return promote.Shard{}, pipeline.Shared{}, verdict.Refuse(verdict.Usage, "PLAN", "it is not one of images, which alone are promoted in shards, with results and a lease").
			Advise("leave --shard, --results and --lease out")
	}
	return s, o.with, nil
}
