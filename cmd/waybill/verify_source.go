package main

import (
	"errors"
	"strings"

	"github.com/spf13/cobra"

	"github.com/waybill-release/waybill/cmd/internal/cli"
	"github.com/waybill-release/waybill/pkg/backend/store"
	"github.com/waybill-release/waybill/pkg/gate"
	"github.com/waybill-release/waybill/pkg/gate/profile"
	"github.com/waybill-release/waybill/pkg/govern/feature/known"
	"github.com/waybill-release/waybill/pkg/pipeline"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

type verifyingSource struct {
	officer
	output            cli.Output
	moment            cli.Moment
	summaries, levels []string
	signers, summary  string
	options           gate.Options
}

func verifySourceCommand() *cobra.Command {
	o := &verifyingSource{officer: officer{signsAs: []string{pipeline.TokenVerifier}}}
	cmd := newCommand("verify_source", cobra.ExactArgs(1), func(c *cobra.Command, args []string) error { return o.run(c, args[0]) })
	f := cmd.Flags()
	f.StringVar(&o.options.Checkout.Repository, "source", "", "clone of the repository")
	f.StringVar(&o.options.Checkout.Ref, "ref", "", "branch or tag whose history must include COMMIT, such as refs/tags/v0.1.0")
	f.StringVar(&o.options.Checkout.Previous, "previous", "", "tag of an earlier release, which the history of COMMIT must include")
	f.StringVar(&o.signers, "allowed-signers", "", "allowed-signers file of ssh-keygen: one of them must have signed REF, a tag of COMMIT")
	f.StringArrayVar(&o.summaries, "source-vsa", nil, "file with a verification summary (VSA) of the commit; repeats")
	f.StringArrayVar(&o.levels, "require-level", nil, "refuse a lower level of the Source track: source=1 to source=4")
	f.StringVar(&o.profile, "profile", "profile.yaml", "profile that names the policy and the trust root")
	f.StringVar(&o.summary, "vsa", "", "file for a summary (VSA) of the accepted commit, with --confirm")
	o.addSigner(cmd)
	o.moment.AddFlags(cmd)
	o.output.AddFlags(cmd)
	return cmd
}

// run verifies a commit, and writes the summary if one is wanted.
func (o *verifyingSource) run(c *cobra.Command, commit string) (err error) {
	if !strings.HasPrefix(o.options.Checkout.Ref, "refs/") || o.options.Checkout.Repository == "" {
		return verdict.Refuse(verdict.Usage, "--ref", "want --source CLONE, and --ref with the full name of a branch or tag, such as refs/heads/main")
	}
	if o.signers != "" {
		o.options.Checkout.Signers, err = store.ReadNamed(o.signers, maxPolicy)
	}
	if err == nil {
		o.options.Scope.Levels, err = cli.Demands(o.levels)
	}
	now, wrong := o.moment.Time()
	if err := errors.Join(err, wrong); err != nil {
		return err
	}
	switch {
	case o.summary == "":
		err = cli.Unused(c, "only a summary is signed (--vsa)", "identity", "identity-token", "key", "key-password", "confirm")
	case !o.feature.asks(known.EmitVSA)():
		err = cli.Unused(c, "the feature EmitVSA is off, so no summary is written", "vsa")
	default:
		err = cli.Unused(c, "a summary states the time of its run", "now")
	}
	if err != nil {
		return err
	}
	by, err := gate.Open(c.Context(), o.profile, gate.Opening{
		Reader: profile.Reader{Rules: rules(), Now: now, Trust: (&cli.Trust{}).Reader(c.Context())}, Transport: cli.Transport(false), Sources: o.summaries,
	})
	if err != nil {
		return err
	}
	v := by.Source(c.Context(), commit, o.options, now)
	if err := answer(c, &o.output, v, nil); err != nil || o.summary == "" {
		return err
	}
	c.SetOut(c.ErrOrStderr()) // stdout is the verdict
	off, err := o.open(c)
	if err != nil {
		return err
	}
	d, err := off.DraftSource(v, commit, o.options.Checkout.Ref)
	if err != nil {
		return err
	}
	return o.finish(c, off, d, o.summary)
}
