package main

import (
	"cmp"
	"strings"

	"github.com/spf13/cobra"

	"github.com/waybill-release/waybill/cmd/internal/cli"
	"github.com/waybill-release/waybill/pkg/backend/github"
	"github.com/waybill-release/waybill/pkg/backend/store"
	"github.com/waybill-release/waybill/pkg/gate"
	"github.com/waybill-release/waybill/pkg/gate/profile"
	"github.com/waybill-release/waybill/pkg/judge/slsa"
	"github.com/waybill-release/waybill/pkg/judge/verify"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// onGitHub are the options of verify release --repo, besides those of a release.
type onGitHub struct {
	*cli.VerifyRelease
	repository, issuer, builders string
	roots                        []string
}

func (o *onGitHub) addFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&o.repository, "repo", "", "verify the release of a tag on GitHub that has no manifest: OWNER/NAME, or https://HOST/OWNER/NAME")
	f.StringArrayVar(&o.roots, "trusted-root", nil, "with --repo: Sigstore trusted_root.json to use; repeats, once for each trust domain")
	f.StringVar(&o.builders, "builders", "", "with --repo: file of kind Builders: builders to know beside those of waybill trust builders; one of level 3 may sign for the repository's run")
	f.StringVar(&o.issuer, "certificate-oidc-issuer", "", "with --repo: identity provider of the repository's workflows (default GitHub Actions of the host)")
}

// run verifies a release, with --repo that of a tag, and prints the verdict.
func (o *onGitHub) run(cmd *cobra.Command, args []string) error {
	if o.repository == "" {
		if err := cli.Unused(cmd, "the flag is for --repo", "trusted-root", "certificate-oidc-issuer", "builders"); err != nil {
			return err
		}
		return o.Run(cmd, args, profile.Release)
	}
	if err := cli.Unused(cmd, "the flag is for a release with a profile; leave it out, or leave out --repo", strings.Fields("profile source images listing place digests only depth"+
		" require-level source-vsa declaration accept-vsa print-sums download state report features report-as rekor-url evidence accept-defect defects exception")...); err != nil {
		return err
	}
	uri := "github+" + o.repository
	if !strings.Contains(uri, "://") {
		uri = "github://" + o.repository
	}
	at, err := github.Parse(strings.TrimSuffix(uri, "/") + "/" + args[0])
	scope, _ := o.Part.Scope(nil) // its other flags are refused above
	if err != nil || len(args) != 1 {
		return verdict.Refuse(verdict.Usage, "--repo", "want one tag, and OWNER/NAME or https://HOST/OWNER/NAME: %v", err)
	}
	repository, issuer := at.Certified()
	known, err := cli.KnownBuilders(o.builders)
	if err != nil {
		return err
	}
	ask := gate.GitHubRelease{Repository: repository, Tag: at.Tag, Issuer: cmp.Or(o.issuer, issuer), Platform: scope.Platform}
	ask.Known = func(e verify.Evidence) (slsa.Pair, string) { return known.Find(e) }
	if ask.Files, err = store.Open(cmp.Or(o.At.Files, at.URI()), cli.Transport(o.Trust.Offline)); err != nil {
		return err
	}
	sources := []cli.Trust{o.Trust, o.Trust}
	sources[1].Domain = "github"
	for i, file := range o.roots {
		sources = append(sources[:i], cli.Trust{File: file, Moment: o.Trust.Moment})
	}
	for _, s := range sources {
		r, err := s.ToJudge(cmd.Context())
		if err != nil {
			return err
		}
		ask.Roots, ask.Now = append(ask.Roots, r.Root), r.Now
	}
	return answer(cmd, &o.Output, ask.Decide(cmd.Context()), nil)
}
