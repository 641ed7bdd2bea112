package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	releasesignoff "github.com/waybill-release/waybill/attestations/release-signoff/v1"
	"github.com/waybill-release/waybill/cmd/internal/cli"
	"github.com/waybill-release/waybill/pkg/backend/git"
	"github.com/waybill-release/waybill/pkg/govern/signoff"
	"github.com/waybill-release/waybill/pkg/judge/policy"
	"github.com/waybill-release/waybill/pkg/pipeline"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
	"github.com/waybill-release/waybill/pkg/value/version"
)

type attesting struct {
	documents
	officer
	source, to string
	life       time.Duration
}

func signoffAttestCommand() *cobra.Command {
	o := &attesting{officer: officer{signsAs: []string{pipeline.TokenSignoff}}}
	cmd := newCommand("signoff_attest", cobra.NoArgs, func(cmd *cobra.Command, _ []string) error { return o.run(cmd) })
	o.documents.addFlags(cmd)
	o.officer.addFlags(cmd)
	f := cmd.Flags()
	f.StringVar(&o.source, "source", "", "repository with the release.yaml to sign off, with @REF if it is not at HEAD (required)")
	f.StringVar(&o.to, "to", ".", "directory or bucket for the bundles")
	f.DurationVar(&o.life, "expires", 90*24*time.Hour, fmt.Sprintf("how long the sign-off is valid; at most %s", releasesignoff.MaxLife))
	return cmd
}

func (o *attesting) run(cmd *cobra.Command) error {
	if o.milestone == "" {
		return verdict.Refuse(verdict.Usage, "--milestone", "required: a sign-off is for one milestone")
	}
	if o.life < time.Minute || o.life > releasesignoff.MaxLife {
		return verdict.Refuse(verdict.Usage, "--expires", "%s: want from 1m to %s", o.life, releasesignoff.MaxLife)
	}
	if o.now != "" && o.confirm {
		return verdict.Refuse(verdict.Usage, "--now", "excluded with --confirm: a signed check is of the present time")
	}
	if info, err := os.Stat(o.to); !strings.Contains(o.to, "://") && (err != nil || !info.IsDir()) {
		return verdict.Refuse(verdict.Usage, "--to", "%q: no such directory", o.to)
	}
	if err := o.ofOneMilestone(); err != nil {
		return err
	}
	off, err := o.open(cmd)
	if err != nil {
		return err
	}
	of, err := pipeline.ReadSignedSource(cmd.Context(), pipeline.ParseSource(o.source))
	if err != nil {
		return err
	}
	p, err := o.judge(cmd, of)
	if err != nil {
		return err
	}
	sign, summary, err := off.DraftSignoff(of, p)
	if err != nil {
		return err
	}
	for _, d := range []struct {
		draft pipeline.Draft
		name  string
	}{{sign, releasesignoff.Name}, {summary, releasesignoff.Summary}} {
		if err := o.finish(cmd, off, d.draft, o.path(d.name)); err != nil {
			return err
		}
	}
	return nil
}

// ofOneMilestone refuses a source at a tag of another milestone: its sign-off would
// count for no release.
func (o *attesting) ofOneMilestone() error {
	_, ref := git.Split(o.source)
	v, err := version.Parse(strings.TrimPrefix(ref, "refs/tags/"))
	if err != nil {
		return nil //nolint:nilerr // a branch or a commit, whose version is not known yet
	}
	if want := policy.MilestoneOf(v); want != withV(o.milestone) {
		return &verdict.Error{Finding: verdict.Find(verdict.Usage, "--milestone", "the tag of the source belongs to another milestone").Differ(want, o.milestone)}
	}
	return nil
}

// judge checks the documents, and prints the verdict to stderr: stdout is for the
// statements.
func (o *attesting) judge(cmd *cobra.Command, of pipeline.SignedSource) (releasesignoff.Predicate, error) {
	q, template, err := o.question()
	if err != nil {
		return releasesignoff.Predicate{}, err
	}
	v, report := signoff.Check(q)
	for _, dir := range pipeline.Attribute(cmd.Context(), o.keps, q.Set, report) {
		report.Left = append(report.Left, "who ticked every box of "+dir)
	}
	if err := cli.TableOutput().Write(cmd.ErrOrStderr(), *v); err != nil {
		return releasesignoff.Predicate{}, err
	}
	return report.Predicate(v, signoff.Signing{
		Milestone: withV(o.milestone), Source: of.Source, Version: cli.BuildVersion(), Life: o.life,
		Template: releasesignoff.File{Name: filepath.Base(o.template), Digest: digest.Of(digest.SHA256, template)},
	})
}

// path is the path of a bundle in the place of --to.
func (o *attesting) path(name string) string {
	if strings.Contains(o.to, "://") {
		return strings.TrimSuffix(o.to, "/") + "/" + name
	}
	return filepath.Join(o.to, name)
}
