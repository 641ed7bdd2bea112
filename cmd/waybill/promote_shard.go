package main

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/waybill-release/waybill/cmd/internal/cli"
	"github.com/waybill-release/waybill/pkg/backend/lease"
	"github.com/waybill-release/waybill/pkg/pipeline"
	"github.com/waybill-release/waybill/pkg/release/promotionplan"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// Limits of a lease: a shorter one expires during a slow request, and a longer one
// blocks other runs for too long after a crash.
const (
	minTerm = time.Second
	maxTerm = time.Hour
)

// sharing are the options for several workers on one plan.
type sharing struct {
	shard string
	with  pipeline.Shared
}

func (o *sharing) addFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&o.shard, "shard", "0/1", "i/n: promote part i (from 0) of n parts; the digest of an image determines its part")
	f.StringVar(&o.with.Results, "results", "", "directory or bucket for the results of the shard, for waybill promote merge")
	addLeaseFlags(cmd, &o.with.Exclusion, "the same shard")
}

// addLeaseFlags adds the flags of a lease, which excludes other runs of the same
// work.
func addLeaseFlags(cmd *cobra.Command, with *pipeline.Exclusion, same string) {
	f := cmd.Flags()
	f.StringVar(&with.Lease, "lease", "", "directory, bucket or kubernetes://NAMESPACE for a lease during the run, which excludes another run of "+same)
	f.DurationVar(&with.Term, "lease-term", lease.Term, "how long the lease lasts without renewal, such as after a crash")
}

// checkLease refuses a term without a lease, and one that is too short or too long.
func checkLease(cmd *cobra.Command, with pipeline.Exclusion) error {
	switch {
	case with.Lease == "":
		return cli.Unused(cmd, "the flag needs --lease", "lease-term")
	case with.Term < minTerm || with.Term > maxTerm:
		return verdict.Refuse(verdict.Usage, "--lease-term", "%s: want from %s to %s", with.Term, minTerm, maxTerm)
	}
	return nil
}

// parse reads the flags, which only apply to plans of images.
func (o *sharing) parse(plan promotionplan.Plan) (promotionplan.Shard, pipeline.Shared, error) {
	s, err := promotionplan.ParseShard(o.shard)
	switch {
	case err != nil:
		return promotionplan.Shard{}, pipeline.Shared{}, err
	case (s.Of > 1 || o.with.Results != "" || o.with.Lease != "") && (plan.Release != nil || len(plan.Files) > 0):
		return promotionplan.Shard{}, pipeline.Shared{}, verdict.Refuse(verdict.Usage, "PLAN", "not a plan of images; only those are promoted in shards, with results and a lease").
			Advise("leave out --shard, --results and --lease")
	}
	return s, o.with, nil
}
