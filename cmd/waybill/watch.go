package main

import (
	"context"
	"fmt"
	"net/url"
	"time"

	"github.com/spf13/cobra"

	"github.com/waybill-release/waybill/cmd/internal/cli"
	"github.com/waybill-release/waybill/cmd/internal/ui"
	"github.com/waybill-release/waybill/pkg/backend/store/cloud"
	"github.com/waybill-release/waybill/pkg/gate"
	"github.com/waybill-release/waybill/pkg/gate/profile"
	"github.com/waybill-release/waybill/pkg/pipeline/kit"
	"github.com/waybill-release/waybill/pkg/pipeline/watch"
	"github.com/waybill-release/waybill/pkg/serve"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

func watchCommand() *cobra.Command {
	o, output, path, metrics, carried := watch.Service{}, cli.Output{}, "", "", ""
	cmd := newCommand("watch", cobra.NoArgs, nil)
	f := cmd.Flags()
	f.StringVar(&path, "profile", "profile.yaml", "profile that names the policy, the trust root and where releases are published")
	f.StringVar(&o.State, "state", "", "directory for what was read and what is not explained yet; it is created")
	f.StringArrayVar(&o.Logs, "log", nil, "address of a log of Rekor v1 or v2 (default: the logs of the trust root that are valid now); repeats")
	f.Int64Var(&o.From, "from", -1, "first entry to read of a log that was not followed before; -1 reads only new entries")
	f.StringVar(&carried, "kit", "", "kit of a release: its log must extend the checkpoint in the kit, and is read from there if it was not followed before")
	f.StringArrayVar(&o.Explained.Versions, "release", nil, "release that explains entries: each pass verifies it where it is published; repeats")
	f.StringArrayVar(&o.Explained.Dirs, "releases", nil, "directory with state directories of releases, and bundles of records and summaries; their signatures are verified, but who has a signing identity and can write here can explain any entry of it; repeats")
	f.StringArrayVar(&o.Explained.Handled, "handled", nil, "LOG/INDEX of an alarm that was dealt with; repeats")
	f.DurationVar(&o.Explained.Reverify, "reverify", 0, "verify each --release again when its last accepted verdict is so old, such as 24h (default: in each pass)")
	f.DurationVar(&o.Stalled, "stalled", 24*time.Hour, "how long a log may be without a new entry; 0 for any time")
	f.DurationVar(&o.Every, "interval", 0, "repeat the pass at this interval until the process is ended, such as 5m (default: one pass)")
	f.StringVar(&o.Webhook, "webhook", "", "address to which each pass posts the alarms that are new, as a verdict in JSON; its path is never printed")
	f.StringVar(&metrics, "metrics-address", "", "HOST:PORT that serves metrics at /metrics in the Prometheus text format, with --interval")
	addMetricsFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) (err error) {
		hook, bad := url.Parse(o.Webhook)
		switch err := output.Check(); {
		case err != nil:
			return err
		case o.State == "":
			return verdict.Refuse(verdict.Usage, "--state", "required: the directory for what was read")
		case o.Explained.Reverify != 0 && len(o.Explained.Versions) == 0:
			return verdict.Refuse(verdict.Usage, "--reverify", "no release is verified: name each with --release")
		case o.Every < 0 || cmd.Flags().Changed("interval") && o.Every < time.Second:
			return verdict.Refuse(verdict.Usage, "--interval", "%s: want at least 1s", o.Every)
		case o.Webhook != "" && (bad != nil || hook.Host == "" || hook.Scheme != "https" && hook.Scheme != "http"):
			return verdict.Refuse(verdict.Usage, "--webhook", "want an address of the form https://HOST/PATH")
		case metrics != "" && o.Every == 0:
			return verdict.Refuse(verdict.Usage, "--metrics-address", "it serves metrics while passes are repeated: give --interval, or --metrics-file for one pass")
		}
		if o.Kept, err = kit.Checkpoint(cmd.Context(), carried); err != nil {
			return err
		}
		progress := ui.NewProgress(cli.Notes(cmd))
		o.Seen = func(at watch.Seen) {
			progress.Update("", gate.Progress{What: "reading " + at.Address, Unit: "entries", Files: int(at.Next), OfFiles: int(at.Size)})
		}
		o.Transport = cli.Transport(false)
		o.Open = func(ctx context.Context) (gate.Gate, error) {
			return gate.Open(ctx, path, gate.Opening{
				Reader: profile.Reader{Rules: rules(), Now: time.Now(), Trust: (&cli.Trust{}).Reader(ctx)}, Transport: o.Transport, OpenPlace: cloud.OpenPlace,
			})
		}
		if o.Every == 0 {
			if o.Gate, err = o.Open(cmd.Context()); err != nil {
				return err
			}
			v := o.Once(cmd.Context(), time.Now())
			progress.Ended("")
			return answer(cmd, &output, v, nil)
		}
		o.Tell = func(v *verdict.Verdict) error {
			progress.Ended("")
			for _, f := range v.Findings {
				if formatOf(cmd) == "json" { // the verdict has them for people
					loggerOf(cmd.Context()).ErrorContext(cmd.Context(), f.Message, "code", f.Code, "subject", f.Subject)
				}
			}
			return output.Write(cmd.OutOrStdout(), *v)
		}
		if metrics != "" {
			if metrics, err = serve.Metrics(cmd.Context(), metrics, loggerOf(cmd.Context()), o.WriteMetrics); err != nil {
				return err
			}
			fmt.Fprintf(cmd.ErrOrStderr(), "metrics http://%s/metrics\n", metrics)
		}
		return o.Run(cmd.Context())
	}
	output.AddFlags(cmd)
	return cmd
}
