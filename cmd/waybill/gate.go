package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/waybill-release/waybill/cmd/internal/cli"
	"github.com/waybill-release/waybill/cmd/internal/ui"
	"github.com/waybill-release/waybill/pkg/backend/registry"
	"github.com/waybill-release/waybill/pkg/backend/store"
	"github.com/waybill-release/waybill/pkg/backend/store/cloud"
	"github.com/waybill-release/waybill/pkg/gate"
	"github.com/waybill-release/waybill/pkg/gate/profile"
	"github.com/waybill-release/waybill/pkg/judge/verify"
	"github.com/waybill-release/waybill/pkg/pipeline/promote"
	"github.com/waybill-release/waybill/pkg/release/plan"
	"github.com/waybill-release/waybill/pkg/release/promotionplan"
	"github.com/waybill-release/waybill/pkg/sbom"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

func gateCommand() *cobra.Command {
	cmd := group(*newCommand("gate", nil, nil))
	cmd.AddCommand(gateCheckCommand(), gateFileCommand(), gateImageCommand(), servingCommand("gate_serve", false), servingCommand("gate_proxy", true), gateAuditCommand())
	return cmd
}

// gateCheck are the options of gate check: those of a release, and those of
// everything else, which share trust, log and output.
type gateCheck struct {
	release cli.VerifyRelease
	one     onePolicy
	class   string
	server  asking
	feature featureFlags
}

func gateCheckCommand() *cobra.Command {
	o := &gateCheck{release: cli.VerifyRelease{Rules: rules(), OpenPlace: cloud.OpenPlace, Inside: sbom.Look{Layers: &sbom.Layers{}}}}
	cmd := newCommand("gate_check", cobra.MinimumNArgs(1), o.run)
	o.one.addQuestion(cmd)
	cmd.Flags().StringVar(&o.release.Trust.File, "trusted-root", "", "Sigstore trusted_root.json to use, instead of a TUF repository; for a release the profile names it")
	cmd.Flags().StringVar(&o.class, "class", string(plan.Binary), "class of the files: binary, archive, other or sums")
	o.release.AddFlags(cmd)
	o.server.addFlags(cmd)
	o.feature.addSiteFlags(cmd)
	o.release.Switches = o.feature.switches
	return cmd
}

// releaseFlags are the flags that only apply to a release, and nonReleaseFlags those that
// do not apply to one.
var (
	releaseFlags    = []string{"profile", "digests", "source", "files", "images", "listing", "place", "depth", "exception", "accept-defect", "known-defects", "expected", "kit", "pin"}
	nonReleaseFlags = []string{"policy", "stage", "release-version", "commit", "trusted-root", "class"}
)

// policyFlags are the flags that only apply with --policy, and localFlags those that only
// apply to a decision that this program makes itself.
var (
	policyFlags = []string{"stage", "release-version", "commit", "accept-vsa", "source-vsa", "declaration"}
	localFlags  = []string{"accept-vsa", "source-vsa", "declaration", "offline", "cache", "min-root", "now", "rekor-url", "evidence", "features", "report-as"}
)

func (o *gateCheck) run(cmd *cobra.Command, args []string) error {
	asked, err := sortReferences(args)
	if err != nil {
		return err
	}
	if o.server.server != "" {
		return o.ask(cmd, asked)
	}
	if err := cli.Unused(cmd, "the flag is for a gate service; add --server", serverFlags("to", "channel", "summary")...); err != nil {
		return err
	}
	if asked.version {
		if err := cli.Unused(cmd, "the profile of a release names policy and trust root; leave the flag out", nonReleaseFlags...); err != nil {
			return err
		}
		return o.release.Run(cmd, args, profile.Staging)
	}
	if err := o.unused(cmd, asked); err != nil {
		return err
	}
	answers, err := o.judge(cmd, asked)
	return answer(cmd, &o.release.Output, answers, err)
}

// unused refuses the flags that have no effect for images, files and manifests.
func (o *gateCheck) unused(cmd *cobra.Command, asked references) error {
	if err := cli.Unused(cmd, "the flag is for a release, and no VERSION was given", releaseFlags...); err != nil {
		return err
	}
	if len(asked.files) == 0 {
		if err := cli.Unused(cmd, "the flag is for FILEs, and none was given", "class"); err != nil {
			return err
		}
	}
	if len(asked.plans) > 0 {
		if err := cli.Unused(cmd, "levels are of releases, images and files, and a promotion was given", "report"); err != nil {
			return err
		}
	}
	if o.one.policy == "" && len(asked.images)+len(asked.files) == 0 {
		return cli.Unused(cmd, "the flag needs --policy", policyFlags...)
	}
	return nil
}

// ask lets a gate service decide.
func (o *gateCheck) ask(cmd *cobra.Command, asked references) error {
	if err := cli.Unused(cmd, "the answer of a gate service has no levels; leave the flag out", "report"); err != nil {
		return err
	}
	local := slices.DeleteFunc(slices.Concat(releaseFlags, nonReleaseFlags, localFlags), func(name string) bool { return name == "release-version" || name == "exception" })
	o.server.exceptions = o.release.Waivers.Exceptions()
	if err := cli.Unused(cmd, "the gate at --server uses its own policy and trust root; leave the flag out", local...); err != nil {
		return err
	}
	v, err := o.server.decide(cmd, asked, o.one.version)
	return answer(cmd, &o.release.Output, v, err)
}

// judge decides about all arguments, in this order: images, files, promotions.
func (o *gateCheck) judge(cmd *cobra.Command, asked references) (*verdict.Verdict, error) {
	o.one.trust, o.one.log, o.one.vouched, o.one.sources = o.release.Trust, o.release.Log, o.release.Part.Vouched, o.release.Part.Sources
	if o.one.policy == "" && len(asked.images)+len(asked.files) > 0 {
		return nil, verdict.Refuse(verdict.Usage, "--policy", "required: only a promoter's manifest can contain its own requirements")
	}
	req, err := o.one.prepare(cmd)
	if err != nil {
		return nil, err
	}
	if len(asked.plans) > 0 && o.one.policy != "" { // check once, not for every image
		if err := errors.Join(req.Policy.Life(req.Now), req.Policy.Root(req.Verifier.Root().IsLab(), req.Verifier.Root().Date(), req.Now)); err != nil {
			return nil, err
		}
	}
	switches, err := o.feature.switches(cmd.Context(), req.Policy, req.Verifier)
	if err != nil {
		return nil, err
	}
	anywhere := req // the destination of an image or a file is unknown
	if anywhere.Policy, err = gate.Effective(switches, req.Policy); err != nil {
		return nil, err
	}
	var answers []*verdict.Verdict
	progress := ui.NewProgress(cli.Notes(cmd))
	defer progress.Ended("")
	rt := cli.Transport(o.release.Trust.Offline)
	for _, reference := range asked.images {
		image, err := cli.Image(reference, rt)
		if err != nil {
			return nil, err
		}
		progress.Says("reading " + reference)
		answers = append(answers, anywhere.Image(cmd.Context(), image))
	}
	for _, path := range asked.files {
		f, err := judgedFile(path, o.class)
		if err != nil {
			return nil, err
		}
		answers = append(answers, anywhere.File(cmd.Context(), f))
	}
	for _, p := range asked.plans {
		if len(p.Files) > 0 && p.Release == nil {
			v, err := o.judgeFiles(cmd, anywhere, p)
			if err != nil {
				return nil, err
			}
			answers = append(answers, v)
			continue
		}
		ask := gate.PlanRequest{
			Plan: p, Now: req.Now, Judge: o.judgeOf(req, switches, p.Goals()), Progress: progress.Count("judging", "images"),
			Open: func(prefix string) (registry.Source, error) { return registry.OpenRemote(prefix, rt) },
		}
		answers = append(answers, gate.Plan(cmd.Context(), ask))
	}
	return gate.Several(fmt.Sprintf("%d references", len(answers)), answers...), cmd.Context().Err()
}

// judgeOf makes the judge of an image of a route: the policy that was named, with
// the requirements that are enforced at the destination, and the requirements of
// the manifest.
func (o *gateCheck) judgeOf(req gate.PolicyRequest, switches gate.Switches, goals promotionplan.Goals) func(promotionplan.Route, promotionplan.Edge) (gate.ImageJudge, error) {
	return func(r promotionplan.Route, e promotionplan.Edge) (gate.ImageJudge, error) {
		var bench gate.AllJudges
		if o.one.policy != "" {
			one := req
			effective, err := gate.Effective(switches, req.Policy, goals.Of(r.Source, e.Image)...)
			if err != nil {
				return nil, err
			}
			one.Policy = effective
			if one.Version == "" {
				one.Version = gate.VersionOf(e.Tags)
			}
			bench = append(bench, one)
		}
		if o.one.policy != "" && !r.Policy.Demands() {
			return bench, nil
		}
		own, err := gate.ManifestRequest{Manifest: r.Manifest, Policy: r.Policy, Verifier: req.Verifier, Now: req.Now, Finder: req.Finder}.Judge()
		if err != nil {
			return nil, err
		}
		return append(bench, own), nil
	}
}

// prepare makes the request: with the policy, if one is named, and always with a
// verifier.
func (o *onePolicy) prepare(cmd *cobra.Command) (gate.PolicyRequest, error) {
	if o.policy != "" {
		return o.request(cmd)
	}
	root, err := o.trust.ToJudge(cmd.Context())
	if err != nil {
		return gate.PolicyRequest{}, err
	}
	req := gate.PolicyRequest{Now: root.Now}
	if req.Finder, err = o.log.Finder(o.trust.Offline); err != nil {
		return req, err
	}
	req.Verifier, err = verify.New(root.Root)
	return req, err
}

// judgeFiles decides about the files of a plan at their source, each by the
// requirements of its class and the bundle beside it.
func (o *gateCheck) judgeFiles(cmd *cobra.Command, req gate.PolicyRequest, p promotionplan.Plan) (*verdict.Verdict, error) {
	if o.one.policy == "" {
		return nil, verdict.Refuse(verdict.Usage, "--policy", "required: a list of files contains no requirements")
	}
	if !slices.Contains(fileClasses(), o.class) {
		return nil, verdict.Refuse(verdict.Usage, "--class", "%q: want one of %s", o.class, strings.Join(fileClasses(), ", "))
	}
	rt := cli.Transport(o.release.Trust.Offline)
	progress := ui.NewProgress(cli.Notes(cmd))
	defer progress.Ended("")
	return promote.Files{
		Plan: p, Judge: req, Class: plan.Class(o.class), Now: req.Now, Progress: progress.Count("judging", "files"),
		Open: func(uri string) (store.Place, error) { return cloud.OpenPlace(uri, rt) },
	}.Decide(cmd.Context())
}
