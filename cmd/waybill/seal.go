package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"

	channelindex "github.com/waybill-release/waybill/attestations/channel/v1"
	"github.com/waybill-release/waybill/cmd/internal/exit"
	"github.com/waybill-release/waybill/pkg/gate/profile"
	"github.com/waybill-release/waybill/pkg/pipeline"
	"github.com/waybill-release/waybill/pkg/release/manifest"
	"github.com/waybill-release/waybill/pkg/report/render"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// sealing are the options of seal beyond those of every stage.
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

// help is the page about the command.
func (sealing) help() string {
	return `Make the release manifest from the plan and verified provenance, never from a
listing, and sign it. A file without a plan (SEAL_EXTRA) or a planned artifact
without file or provenance (SEAL_MISSING) stops it before anything is signed.

Without --confirm nothing is signed and nothing is written, whatever is asked
for; what would be is printed: what it is, as whom it would be signed and with
which services, and what stands against it. No signing service is asked. Run it
again after an interruption: the manifest that was begun is finished, with the
time and the bytes that it had, so that it is in the log once.

--amend signs the next revision of a manifest that was sealed before: the same
names with the same bytes, and the evidence that there is now. --withdraw signs
the revision that says that the release must no longer be used; every verifier
that sees it refuses (WITHDRAWN), and no later revision takes that back. Both
name the revision that they supersede, and neither needs a new build. A revision
is public once it is promoted.

--at release does either without a --state: the manifest that is public is
verified, and the revision is written over it, and over the same one in staging.
Whoever holds the release identity can withdraw a release from any machine. A
revision that somebody else writes at the same time stays, and is named
(MANIFEST_EQUIVOCATION).

--from takes over a release that another tool made, from a directory or bucket,
and its images from --from-images, a registry or the directory of an OCI layout:
release.yaml has outputs and no steps, and what the places hold must be exactly
those and what release.yaml says is outside of the release (SEAL_EXTRA,
SEAL_MISSING). Files are copied into --state and hashed in one pass, and these
bytes are signed and listed. Provenance, SBOMs and checksums that came along
must not contradict them (NOT_BOUND, SBOM_SUBJECT, EVIDENCE_CONFLICT). They are
carried and listed; provenance counts if the policy names the builder that
signed it, and else the release is of Build level 0. An archive or program that
is empty, or of another platform than planned, is refused (PLATFORM). Without
--confirm names are compared, and nothing is copied; what is sealed in --state
already is compared byte for byte.

--channel says which channels stand for the release from now on: latest, stable,
rc, beta or alpha, alone or with -MAJOR.MINOR. It signs the next channel index,
as the identity in the policy's role "channel", and writes it where the profile's
channels.index says, or --index; the other channels of the one that is there are
taken over. It follows the one that the profile names, wherever it is written, so
that no number is given twice. The release must be public. A channel goes back to an
older version only if the one that it stood for was withdrawn (CHANNEL_STALE).

` + exit.Table
}

func sealCommand() *cobra.Command {
	o, s := &project{}, &sealing{}
	cmd := &cobra.Command{
		Use:     "seal VERSION",
		Short:   "Sign the manifest: the closed list of everything in the release",
		GroupID: "stage",
		Long:    sealing{}.help(),
		Example: `  waybill seal v0.1.0 --profile profile.yaml --identity-token release=release.token
  waybill seal v0.1.0 --profile profile.yaml --identity-token release=release.token --confirm
  waybill seal v0.1.0 --amend --reason "signed again with the new log" --profile profile.yaml
  waybill seal v0.1.0 --withdraw --reason "it flickers" --use v0.1.1 \
    --profile profile.yaml --identity-token release=release.token --confirm
  waybill promote v0.1.0 --to release --profile profile.yaml --confirm
  waybill seal v0.1.0 --withdraw --at release --reason "it flickers" \
    --profile profile.yaml --identity-token release=release.token --confirm
  waybill seal v0.1.0 --from ./dist --source ./lantern --profile profile.yaml \
    --identity-token release=release.token --confirm
  waybill seal v0.1.0 --channel latest --channel stable --channel stable-0.1 \
    --profile profile.yaml --identity-token channel=channel.token --confirm`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
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
		},
	}
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
	f.BoolVar(&s.amend, "amend", false, "sign the next revision of a sealed release")
	f.BoolVar(&s.withdraw, "withdraw", false, "sign that the release must no longer be used")
	f.StringVar(&s.reason, "reason", "", "with --amend or --withdraw: why, for people; --withdraw needs one")
	f.StringVar(&s.at, "at", "", "with --amend or --withdraw: revise the manifest that lies at this stage, staging or release; no --state is needed")
	f.StringVar(&s.use, "use", "", "with --withdraw: what to use instead")
	f.StringVar(&s.from.Files, "from", "", "place that another tool filled: take the release over from it")
	f.StringVar(&s.from.Images, "from-images", "", "with --from: the registry prefix, or the directory with an OCI layout, that has the images")
	f.StringArrayVar(&s.channels, "channel", nil, "sign that a channel stands for the release; repeats")
	f.StringVar(&s.index, "index", "", "with --channel: the channel index, a file or an object of a bucket; read if it is there, and written (default: the profile's channels.index, else "+channelindex.Name+")")
	f.DurationVar(&s.life, "expires", 30*24*time.Hour, "with --channel: how long the index stands")
	s.ahead.addFlags(cmd, "really sign")
}

// check refuses flags that do not belong together.
func (s *sealing) check() error {
	if err := s.ahead.check(); err != nil {
		return err
	}
	switch {
	case s.amend && s.withdraw:
		return verdict.Refuse(verdict.Usage, "--amend", "and --withdraw are two revisions; sign one of them")
	case s.from.Files != "" && (s.amend || s.withdraw || len(s.channels) > 0):
		return verdict.Refuse(verdict.Usage, "--from", "seals a release for the first time; amend, withdraw or name it afterwards")
	case s.from.Images != "" && s.from.Files == "":
		return verdict.Refuse(verdict.Usage, "--from-images", "belongs to --from, the place of the files")
	case len(s.channels) > 0 && (s.amend || s.withdraw):
		return verdict.Refuse(verdict.Usage, "--channel", "is no revision of the release; sign one after the other")
	case len(s.channels) > 0 && s.life <= 0:
		return verdict.Refuse(verdict.Usage, "--expires", "%s: want a time in which the index stands", s.life)
	case s.at != "" && !s.amend && !s.withdraw:
		return verdict.Refuse(verdict.Usage, "--at", "of what? it says where the manifest lies that --amend or --withdraw revises")
	case s.at != "" && s.at != string(profile.Staging) && s.at != string(profile.Release):
		return verdict.Refuse(verdict.Usage, "--at", "%q: want staging or release", s.at)
	case !s.amend && !s.withdraw && s.reason != "":
		return verdict.Refuse(verdict.Usage, "--reason", "of what? it is of --amend or --withdraw")
	case !s.withdraw && s.use != "":
		return verdict.Refuse(verdict.Usage, "--use", "of what? it is of --withdraw")
	}
	return s.named()
}

// seal signs the manifest, if that was confirmed.
func (s *sealing) seal(ctx context.Context, c *cobra.Command, p *pipeline.Pipeline) error {
	if s.confirm {
		return s.done(c, p, p.Seal(ctx))
	}
	f, err := p.ForecastActs(ctx, pipeline.ActSeal)
	return s.foretell(c, f, err)
}

// takeOver compares a place with release.yaml, and seals it if that was
// confirmed.
func (s *sealing) takeOver(ctx context.Context, c *cobra.Command, p *pipeline.Pipeline) error {
	if s.confirm {
		return s.done(c, p, p.SealFrom(ctx, s.from))
	}
	planned, f, err := p.ForecastFrom(ctx, s.from)
	if err != nil {
		return s.foretell(c, f, err)
	}
	if s.output == "table" {
		for _, g := range slices.Concat(planned.Given, planned.GivenImages) {
			fmt.Fprintf(c.OutOrStdout(), "%s  <- %s\n", render.Safe(g.Name), render.Safe(g.From))
		}
		fmt.Fprintln(c.OutOrStdout())
	}
	fmt.Fprintf(c.ErrOrStderr(), "%d files and %d images are there as planned\n", len(planned.Given), len(planned.GivenImages))
	return s.foretell(c, f, nil)
}

// indexOf is where the index is read and written.
func (s *sealing) indexOf(p profile.Profile) string {
	return cmp.Or(s.index, p.Channels.Index, channelindex.Name)
}

// point drafts a channel index, and signs it if that was confirmed.
func (s *sealing) point(ctx context.Context, c *cobra.Command, p *pipeline.Pipeline) error {
	index := s.indexOf(p.Profile)
	channels := p.Channels(pipeline.TargetAt(index))
	d, err := channels.Draft(ctx, s.channels, s.life)
	if err != nil {
		return s.foretell(c, pipeline.Forecast{}, err)
	}
	if s.confirm {
		proof, err := channels.Sign(ctx, d)
		if err == nil && s.output == "table" {
			fmt.Fprintf(c.OutOrStdout(), "%s: index %d, signed by %s, and verified as it was written\n", render.Safe(index), d.Number, render.Safe(proof.Identity))
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
	return s.foretell(c, f, err)
}

// revise drafts a revision, and signs it if that was confirmed.
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
		return s.foretell(c, pipeline.Forecast{}, err)
	}
	if s.confirm {
		return s.revised(c, p, next, revision.Sign(ctx, next))
	}
	f, err := revision.Forecast(ctx, next)
	if err == nil && s.output == "table" {
		printRevision(c.OutOrStdout(), next)
	}
	return s.foretell(c, f, err)
}

// revised says where a revision is that was signed.
func (s *sealing) revised(c *cobra.Command, p *pipeline.Pipeline, next manifest.Manifest, err error) error {
	where := "is sealed; waybill promote makes it public"
	if s.at != "" {
		where = "is sealed, and is at the " + s.at + " place"
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
