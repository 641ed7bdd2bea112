package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/waybill-release/waybill/cmd/internal/cli"
	"github.com/waybill-release/waybill/cmd/internal/exit"
	"github.com/waybill-release/waybill/pkg/backend/store"
	"github.com/waybill-release/waybill/pkg/backend/store/cloud"
	"github.com/waybill-release/waybill/pkg/gate"
	"github.com/waybill-release/waybill/pkg/gate/profile"
	"github.com/waybill-release/waybill/pkg/judge/watched"
	"github.com/waybill-release/waybill/pkg/pipeline/watch"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

func watchCommand() *cobra.Command {
	o, output, path, proof := watch.Config{}, cli.Output{}, "", ""
	cmd := &cobra.Command{
		Use:     "watch --state DIR",
		Short:   "Follow transparency logs, and report entries of your identities that no release explains",
		GroupID: "check",
		Long:    help("watch") + exit.Table("each log was read to its end, and each entry of the policy's identities is explained;\nwith --check-proof: the file proves the contradiction"),
		Example: `  waybill watch --profile profile.yaml --state watch --release v0.1.0 --releases .waybill`,
		Args:    cobra.NoArgs,
	}
	f := cmd.Flags()
	f.StringVar(&path, "profile", "profile.yaml", "profile that names the policy, the trust root and where releases are published")
	f.StringVar(&o.State, "state", "", "directory for what was read and what is not explained yet; it is created")
	f.StringArrayVar(&o.Logs, "log", nil, "address of a Rekor v2 log (default: the logs of the trust root that are valid now); repeats")
	f.Int64Var(&o.From, "from", -1, "first entry to read of a log that was not followed before (default: only new entries)")
	f.StringArrayVar(&o.Explained.Versions, "release", nil, "release that explains entries: each run verifies it where it is published; repeats")
	f.StringArrayVar(&o.Explained.Dirs, "releases", nil, "directory with state directories of releases, and bundles of records and summaries; who can write to it can explain any entry; repeats")
	f.StringArrayVar(&o.Explained.Handled, "handled", nil, "LOG/INDEX of an alarm that was dealt with; repeats")
	f.DurationVar(&o.Stalled, "stalled", 24*time.Hour, "how long a log may be without a new entry; 0 for any time")
	f.StringVar(&proof, "check-proof", "", "check a file that watch kept of a log that contradicted itself, offline")
	addMetricsFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) (err error) {
		if err := output.Check(); err != nil {
			return err
		}
		if (o.State == "") == (proof == "") {
			return verdict.Refuse(verdict.Usage, "--state", "give the directory for what was read, or --check-proof with a file, and not both")
		}
		o.Transport = cli.Transport(false)
		if o.Gate, err = gate.Open(cmd.Context(), path, gate.Opening{
			Reader: profile.Reader{Rules: rules(), Now: time.Now(), Trust: (&cli.Trust{}).Reader(cmd.Context())}, Transport: o.Transport, OpenPlace: cloud.OpenPlace,
		}); err != nil {
			return err
		}
		if proof == "" {
			return answer(cmd, &output, o.Once(cmd.Context(), time.Now()), nil)
		}
		c := watched.Contradiction{}
		raw, err := store.ReadNamed(proof, maxPolicy)
		if err == nil && json.Unmarshal(raw, &c) != nil {
			err = verdict.Refuse(verdict.ConfigParse, proof, "not a file that watch kept")
		}
		if err = cmp.Or(err, c.Check(o.Gate.Verifier())); err == nil {
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "OK %s: it proves %s of log %s, seen at %s\n%s\n%s", proof, c.Code, c.Log, c.Seen, c.First, c.Second)
		}
		return verdict.InFile(proof, err)
	}
	output.AddFlags(cmd)
	return cmd
}
