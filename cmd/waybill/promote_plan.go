package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"github.com/waybill-release/waybill/cmd/internal/cli"
	"github.com/waybill-release/waybill/pkg/backend/store"
	"github.com/waybill-release/waybill/pkg/backend/store/cloud"
	"github.com/waybill-release/waybill/pkg/gate/profile"
	"github.com/waybill-release/waybill/pkg/pipeline/promote"
	"github.com/waybill-release/waybill/pkg/release/promoterfile"
	"github.com/waybill-release/waybill/pkg/release/promotionplan"
	"github.com/waybill-release/waybill/pkg/report/render"
	"github.com/waybill-release/waybill/pkg/tool/plural"
	"github.com/waybill-release/waybill/pkg/value/verdict"
	"github.com/waybill-release/waybill/pkg/value/version"
)

// maxPromoterManifest is how large one manifest of images or files may be.
const maxPromoterManifest = 64 << 20

// planning are the options of promote plan.
type planning struct {
	project
	to        string
	policy    string
	output    string
	diff      bool
	keepGoing bool
	left      []promoterfile.BadList // lists that keepGoing leaves out
}

func promotePlanCommand() *cobra.Command {
	o := &planning{}
	cmd := newCommand("promote_plan", cobra.MinimumNArgs(1), o.run)
	f := cmd.Flags()
	f.StringVar(&o.profile, "profile", "", "profile of the release; the argument is then a version")
	f.StringVar(&o.to, "to", "", "destination of a version: staging or release")
	f.StringVar(&o.policy, "policy", "", "policy that must judge the images: under any other, promote apply refuses the plan")
	addStateFlag(cmd, &o.state, "directory with the files of the release, for --to staging")
	cli.AddFormat(cmd, &o.output, "table or json", "table", "json")
	f.BoolVar(&o.keepGoing, "keep-going", false, "leave out what faulty lists name, list it, print the plan of the rest, and end with status 1")
	f.BoolVar(&o.diff, "diff", false, "compare the files with those at the destinations")
	o.waivers.AddFlags(cmd)
	o.sources.AddFlags(cmd)
	o.feature.addSiteFlags(cmd)
	return cmd
}

func (o *planning) run(cmd *cobra.Command, args []string) error {
	plan, err := o.plan(cmd, args)
	switch {
	case err != nil: // stdout is reserved for the plan
		return answerTo(cmd.ErrOrStderr(), cli.TableOutput(), nil, err)
	case !o.diff && o.output == "json":
		if _, err := cmd.OutOrStdout().Write(plan.JSON()); err != nil {
			return err
		}
		return promoterfile.LeftOut(o.left)
	case !o.diff:
		printRoutes(cmd.OutOrStdout(), plan)
		return promoterfile.LeftOut(o.left)
	case len(plan.Files) == 0:
		return verdict.Refuse(verdict.Usage, "--diff", "the plan has no files, and the flag compares only files").Advise("leave --diff out, save the plan with --output json, and run waybill promote diff")
	}
	rt := cli.Transport(false)
	all, err := promote.CompareFiles(cmd.Context(), plan, func(uri string) (store.Place, error) { return cloud.OpenPlace(uri, rt) })
	if err != nil {
		return err
	}
	if o.output == "json" {
		err = render.WriteJSON(cmd.OutOrStdout(), all)
	} else {
		printStates(cmd.OutOrStdout(), all)
	}
	if err != nil {
		return err
	}
	return errors.Join(promote.Compared(all), promoterfile.LeftOut(o.left))
}

// plan makes the plan, by the kind of the arguments.
func (o *planning) plan(cmd *cobra.Command, args []string) (promotionplan.Plan, error) {
	if o.profile == "" {
		if o.to != "" {
			return promotionplan.Plan{}, verdict.Refuse(verdict.Usage, "--to", "the flag is for a version, and needs --profile").Advise("add --profile FILE, or leave --to out: manifests name their destinations")
		}
		if err := cli.Unused(cmd, "the flag is for a version, and needs --profile", append(decisionFlags, "state")...); err != nil {
			return promotionplan.Plan{}, err
		}
		plan, left, err := planManifests(args, o.keepGoing)
		if err != nil {
			return promotionplan.Plan{}, err
		}
		o.left = left
		return o.under(plan)
	}
	if err := cli.Unused(cmd, "the flag is for manifests; a release is planned as a whole", "keep-going"); err != nil {
		return promotionplan.Plan{}, err
	}
	if o.policy != "" {
		return promotionplan.Plan{}, verdict.Refuse(verdict.Usage, "--policy", "the profile of a release names its policy; leave the flag out")
	}
	stage := profile.Stage(o.to)
	if stage != profile.Staging && stage != profile.Release {
		return promotionplan.Plan{}, verdict.Refuse(verdict.Usage, "--to", "%q: want staging or release", o.to).Advise("add --to staging, or --to release for a staged release")
	}
	if len(args) != 1 {
		return promotionplan.Plan{}, verdict.Refuse(verdict.Usage, "VERSION", "%d were given; want one: a plan is for one release", len(args))
	}
	if stage == profile.Staging {
		if err := cli.Unused(cmd, noDecision, decisionFlags...); err != nil {
			return promotionplan.Plan{}, err
		}
	}
	p, ctx, err := o.open(cmd, args)
	if err != nil {
		return promotionplan.Plan{}, err
	}
	return p.PlanRelease(ctx, stage)
}

// under adds the policy that must judge the images to their plan.
func (o *planning) under(plan promotionplan.Plan) (promotionplan.Plan, error) {
	if o.policy == "" {
		return plan, nil
	}
	if len(plan.Edges) == 0 {
		return promotionplan.Plan{}, verdict.Refuse(verdict.Usage, "--policy", "a plan of files names no policy; leave the flag out: the profile names it when the plan is applied")
	}
	p, err := readPolicy(o.policy)
	if err != nil {
		return promotionplan.Plan{}, err
	}
	plan.Policy = p.Digest()
	return plan, nil
}

// planManifests reads each argument by its kind. All must be of one kind. Faults
// of all arguments are reported together. With keepGoing, faulty lists are left
// out of the plan.
func planManifests(args []string, keepGoing bool) (plan promotionplan.Plan, left []promoterfile.BadList, err error) {
	var images []promoterfile.Manifest
	var files []promoterfile.FileManifest
	for _, arg := range args {
		moreImages, moreFiles, bad, fault := readManifests(arg)
		if fault == nil && len(bad) == 0 && !listsAny(moreImages, moreFiles) {
			fault = verdict.Refuse(verdict.ConfigParse, arg, "the manifests list no images and no files").
				Advise("leave the argument out, or add images or files to its lists")
		}
		err = errors.Join(err, fault)
		images, files, left = append(images, moreImages...), append(files, moreFiles...), append(left, bad...)
		if len(images) > 0 && len(files) > 0 {
			return plan, nil, verdict.Refuse(verdict.Usage, arg, "images and files cannot be in one plan").Advise("plan the manifests of images and those of files separately")
		}
	}
	switch {
	case err != nil || !keepGoing:
		for _, b := range left {
			err = errors.Join(err, b.Err)
		}
	case !listsAny(images, files):
		err = promoterfile.LeftOut(left)
	}
	switch {
	case err != nil:
		return plan, nil, err
	case len(files) > 0:
		plan, err = promotionplan.MakeFiles(files)
	default:
		plan, err = promotionplan.Make(images)
	}
	return plan, left, err
}

func listsAny(images []promoterfile.Manifest, files []promoterfile.FileManifest) bool {
	return slices.ContainsFunc(images, func(m promoterfile.Manifest) bool { return len(m.Images) > 0 }) ||
		slices.ContainsFunc(files, func(m promoterfile.FileManifest) bool { return len(m.Files) > 0 })
}

func readManifests(arg string) (images []promoterfile.Manifest, files []promoterfile.FileManifest, bad []promoterfile.BadList, err error) {
	if info, err := os.Stat(arg); err == nil && info.IsDir() {
		if tree := os.DirFS(arg); promoterfile.HasFiles(tree) {
			files, bad, err = promoterfile.ReadUsableFiles(tree)
		} else {
			images, bad, err = promoterfile.ReadUsable(tree)
		}
		return images, files, bad, err
	}
	raw, err := store.ReadNamed(arg, maxPromoterManifest)
	if _, is := version.Parse(arg); err != nil && is == nil {
		return nil, nil, nil, verdict.Refuse(verdict.Usage, arg, "a version, whose places only a profile names").Advise("add --profile FILE and --to staging or release")
	}
	if err != nil {
		return nil, nil, nil, err
	}
	if promoterfile.IsFiles(raw) {
		m, err := promoterfile.ParseFiles(filepath.Base(arg), raw)
		return nil, []promoterfile.FileManifest{m}, nil, err
	}
	m, err := promoterfile.Parse(filepath.Base(arg), raw)
	return []promoterfile.Manifest{m}, nil, nil, err
}

func printRoutes(w io.Writer, p promotionplan.Plan) {
	counts := make([]int, len(p.Routes)+len(p.Stores))
	for _, e := range p.Edges {
		counts[e.Route]++
	}
	for _, f := range p.Files {
		counts[len(p.Routes)+f.Store]++
	}
	show := func(manifest, what, source string, destinations []string) {
		fmt.Fprintf(w, "%s: %s of %s to\n", manifest, what, source)
		for _, d := range destinations {
			fmt.Fprintf(w, "  %s\n", d)
		}
	}
	for i, r := range p.Routes {
		show(r.Manifest, plural.Of(counts[i], "digest"), r.Source, r.Destinations)
	}
	for i, s := range p.Stores {
		show(s.Manifest, plural.Of(counts[len(p.Routes)+i], "file"), s.Source, s.Destinations)
	}
	if !p.Policy.IsZero() {
		fmt.Fprintf(w, "\nto be judged by the policy %s\n", p.Policy)
	}
	if r := p.Release; r != nil {
		fmt.Fprintf(w, "\n%s %s, revision %d, from %s to %s; manifest %s, evidence %d\n", r.Name, r.Version, r.Revision, r.From, r.To, r.Manifest, r.Evidence)
	}
	e := p.Extent()
	fmt.Fprintf(w, "\n%s\n", e)
	if e.Digests > 0 && p.Release == nil {
		fmt.Fprintf(w, "registry requests: at least %d; at most 2A+3B+3 for each copy of an image with A manifests and B blobs\n", e.Requests())
	} else {
		fmt.Fprintf(w, "requests: at least %d\n", e.Requests())
	}
	fmt.Fprintf(w, "plan %s\n", p.Digest())
}

// printStates lists the files that a promotion would copy or refuse, and counts all
// of them.
func printStates(w io.Writer, all []promote.FileState) {
	counts := map[promote.DiffState]int{}
	for _, f := range all {
		counts[f.State]++
		switch f.State {
		case promote.Same:
		case promote.Other:
			fmt.Fprintf(w, "%-8s %s%s  %s\n", f.State, f.To, f.Name, f.Got)
		default:
			fmt.Fprintf(w, "%-8s %s%s  %s\n", f.State, f.To, f.Name, f.Why)
		}
	}
	fmt.Fprintf(w, "same %d, missing %d, other %d, unknown %d\n", counts[promote.Same], counts[promote.Absent], counts[promote.Other], counts[promote.Unknown])
}
