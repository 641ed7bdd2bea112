package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	channelindex "github.com/waybill-release/waybill/attestations/channel/v1"
	"github.com/waybill-release/waybill/pkg/gate/profile"
	"github.com/waybill-release/waybill/pkg/pipeline"
	"github.com/waybill-release/waybill/pkg/release/manifest"
	"github.com/waybill-release/waybill/pkg/report/render"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// sealing are the options of seal in addition to those of every stage.
type sealing struct {
	amend, withdraw bool
	reason, use     string
	at              string
	from            pipeline.From
	channels        []string
	index           string
	life            time.Duration
	ahead
}

func sealCommand() *cobra.Command {
	o, s := &project{}, &sealing{}
	cmd := newCommand("seal", cobra.ExactArgs(1), func(c *cobra.Command, args []string) error {
		if err := s.check(); err != nil {
			return err
		}
		p, ctx, err := o.open(c, args)
		if err != nil {
			return err
		}
		switch {
		case s.amend || s.withdraw:
			return s.revise(ctx, c, p)
		case s.from.Files != "":
			return s.takeOver(ctx, c, p)
		case len(s.channels) > 0:
			return s.point(ctx, c, p)
		}
		return s.seal(ctx, c, p)
	})
	o.addFlags(cmd)
	o.addSourceFlags(cmd)
	o.addTokenFlags(cmd)
	o.addLegacyFlag(cmd)
	o.addFeatureFlags(cmd)
	s.addFlags(cmd)
	return cmd
}

func (s *sealing) addFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.BoolVar(&s.amend, "amend", false, "sign the next revision of a sealed manifest")
	f.BoolVar(&s.withdraw, "withdraw", false, "sign a revision that withdraws the release")
	f.StringVar(&s.reason, "reason", "", "with --amend or --withdraw: the reason, for people; required with --withdraw")
	f.StringVar(&s.at, "at", "", "with --amend or --withdraw: revise the manifest at this place, staging or release; needs no --state")
	f.StringVar(&s.use, "use", "", "with --withdraw: version to use instead")
	f.StringVar(&s.from.Files, "from", "", "directory or bucket with a release that another tool made, to adopt and seal")
	f.StringVar(&s.from.Images, "from-images", "", "with --from: registry prefix, or directory with an OCI layout, of the images")
	f.StringArrayVar(&s.channels, "channel", nil, "point this channel to the release, in a new channel index; repeats")
	f.StringVar(&s.index, "index", "", "with --channel: file or bucket object of the channel index; read if it exists, and written (default: the profile's channels.index, else "+channelindex.Name+")")
	f.DurationVar(&s.life, "expires", 30*24*time.Hour, "with --channel: how long the index is valid")
	s.ahead.addFlags(cmd, "sign; without it, only print what would be signed")
}

// check refuses flags that exclude each other.
func (s *sealing) check() error {
	switch {
	case s.amend && s.withdraw:
		return verdict.Refuse(verdict.Usage, "--amend", "excludes --withdraw; give one of the two")
	case s.from.Files != "" && (s.amend || s.withdraw || len(s.channels) > 0):
		return verdict.Refuse(verdict.Usage, "--from", "excludes --amend, --withdraw and --channel; run them after the release is sealed")
	case s.from.Images != "" && s.from.Files == "":
		return verdict.Refuse(verdict.Usage, "--from-images", "needs --from, the place of the files")
	case len(s.channels) > 0 && (s.amend || s.withdraw):
		return verdict.Refuse(verdict.Usage, "--channel", "excludes --amend and --withdraw; run one after the other")
	case len(s.channels) > 0 && s.life <= 0:
		return verdict.Refuse(verdict.Usage, "--expires", "%s: want more than 0, how long the index is valid", s.life)
	case s.at != "" && !s.amend && !s.withdraw:
		return verdict.Refuse(verdict.Usage, "--at", "needs --amend or --withdraw")
	case s.at != "" && s.at != string(profile.Staging) && s.at != string(profile.Release):
		return verdict.Refuse(verdict.Usage, "--at", "%q: want staging or release", s.at)
	case !s.amend && !s.withdraw && s.reason != "":
		return verdict.Refuse(verdict.Usage, "--reason", "needs --amend or --withdraw")
	case !s.withdraw && s.use != "":
		return verdict.Refuse(verdict.Usage, "--use", "needs --withdraw")
	}
	return s.checkNames()
}

// seal signs the manifest, with --confirm.
func (s *sealing) seal(ctx context.Context, c *cobra.Command, p *pipeline.Pipeline) error {
	if s.confirm {
		return s.done(c, p, p.Seal(ctx))
	}
	f, err := p.ForecastActs(ctx, pipeline.ActSeal)
	return s.printForecast(c, f, err)
}

// takeOver compares a place with release.yaml, and with --confirm seals it.
func (s *sealing) takeOver(ctx context.Context, c *cobra.Command, p *pipeline.Pipeline) error {
	if s.confirm {
		return s.done(c, p, p.SealFrom(ctx, s.from))
	}
	planned, f, err := p.ForecastFrom(ctx, s.from)
	if err != nil {
		return s.printForecast(c, f, err)
	}
	if s.output == "table" {
		for _, g := range slices.Concat(planned.Given, planned.GivenImages) {
			fmt.Fprintf(c.OutOrStdout(), "%s  <- %s\n", render.Safe(g.Name), render.Safe(g.From))
		}
		fmt.Fprintln(c.OutOrStdout())
	}
	fmt.Fprintf(c.ErrOrStderr(), "present as planned: files %d, images %d\n", len(planned.Given), len(planned.GivenImages))
	return s.printForecast(c, f, nil)
}

// point drafts a channel index, and with --confirm signs it.
func (s *sealing) point(ctx context.Context, c *cobra.Command, p *pipeline.Pipeline) error {
	index := cmp.Or(s.index, p.Profile.Channels.Index, channelindex.Name)
	channels := p.Channels(pipeline.TargetAt(index))
	d, err := channels.Draft(ctx, s.channels, s.life)
	if err != nil {
		return s.printForecast(c, pipeline.Forecast{}, err)
	}
	if s.confirm {
		proof, err := channels.Sign(ctx, d)
		if err == nil && s.output == "table" {
			fmt.Fprintf(c.OutOrStdout(), "%s: index %d, signed by %s; read back and verified\n", render.Safe(index), d.Number, render.Safe(proof.Identity))
		}
		return s.done(c, p, err)
	}
	f, err := channels.Forecast(ctx)
	if err == nil && s.output == "table" {
		var page bytes.Buffer
		if err := json.Indent(&page, d.Statement.Raw(), "", "  "); err != nil {
			return err
		}
		fmt.Fprintf(c.OutOrStdout(), "%s\n\n", page.String())
	}
	return s.printForecast(c, f, err)
}

// revise drafts a revision, and with --confirm signs it.
func (s *sealing) revise(ctx context.Context, c *cobra.Command, p *pipeline.Pipeline) error {
	revision := p.Revise(profile.Stage(s.at))
	var next manifest.Manifest
	var err error
	if s.withdraw {
		next, err = revision.Withdraw(ctx, manifest.Withdrawal{Reason: s.reason, Use: s.use})
	} else {
		next, err = revision.Amend(ctx, s.reason)
	}
	if err != nil {
		return s.printForecast(c, pipeline.Forecast{}, err)
	}
	if s.confirm {
		return s.revised(c, p, next, revision.Sign(ctx, next))
	}
	f, err := revision.Forecast(ctx, next)
	if err == nil && s.output == "table" {
		printRevision(c.OutOrStdout(), next)
	}
	return s.printForecast(c, f, err)
}

// revised prints where the signed revision is.
func (s *sealing) revised(c *cobra.Command, p *pipeline.Pipeline, next manifest.Manifest, err error) error {
	where := "is sealed; run waybill promote to publish it"
	if s.at != "" {
		where = "is sealed, and written to the " + s.at + " place"
	}
	if err == nil && s.output == "table" {
		fmt.Fprintf(c.OutOrStdout(), "%s %s: revision %d %s\n", render.Safe(next.Name), next.Version, next.Revision, where)
	}
	return s.done(c, p, err)
}

func printRevision(w io.Writer, m manifest.Manifest) {
	fmt.Fprintf(w, "%s %s, revision %d\n\n", render.Safe(m.Name), m.Version, m.Revision)
	fmt.Fprintf(w, "  supersedes  %s\n  change      %s\n  artifacts   %d, with the same bytes\n", m.Supersedes, render.Safe(m.Change), len(m.Artifacts))
	if m.Withdrawn != nil {
		fmt.Fprintf(w, "  withdrawn   %s\n", render.Safe(m.Withdrawn.Reason))
	}
	if m.Withdrawn != nil && m.Withdrawn.Use != "" {
		fmt.Fprintf(w, "  use         %s\n", render.Safe(m.Withdrawn.Use))
	}
	fmt.Fprintln(w)
}

// checkNames refuses invalid channel names, and a --from directory that does not exist.
func (s *sealing) checkNames() error {
	for _, name := range s.channels {
		if !channelindex.IsChannel(name) {
			return verdict.Refuse(verdict.Usage, "--channel", "%q: want latest, stable, rc, beta or alpha, alone or with -MAJOR or -MAJOR.MINOR", name)
		}
	}
	if s.from.Files == "" || strings.Contains(s.from.Files, "://") {
		return nil
	}
	if _, err := os.Stat(s.from.Files); errors.Is(err, fs.ErrNotExist) {
		return verdict.Refuse(verdict.Usage, "--from", "%q: no such directory", s.from.Files).
			Advise("name the directory or bucket with the release of the other tool")
	}
	return nil
}
