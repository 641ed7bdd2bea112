package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"github.com/waybill-release/waybill/cmd/internal/cli"
	"github.com/waybill-release/waybill/cmd/internal/exit"
	"github.com/waybill-release/waybill/pkg/backend/store"
	"github.com/waybill-release/waybill/pkg/backend/store/cloud"
	"github.com/waybill-release/waybill/pkg/gate/profile"
	"github.com/waybill-release/waybill/pkg/pipeline/promote"
	"github.com/waybill-release/waybill/pkg/release/promoterfile"
	"github.com/waybill-release/waybill/pkg/release/promotionplan"
	"github.com/waybill-release/waybill/pkg/value/verdict"
	"github.com/waybill-release/waybill/pkg/value/version"
)

// maxPromoterManifest is how large one manifest of images or files may be.
const maxPromoterManifest = 64 << 20

// planning are the options of planning a promotion.
type planning struct {
	project
	to     string
	policy string
	output string
	diff   bool
}

func promotePlanCommand() *cobra.Command {
	o := &planning{}
	cmd := &cobra.Command{
		Use:   "plan MANIFEST|DIR... | plan VERSION --profile FILE --to STAGE",
		Short: "Say what a promotion would move: images, files or a sealed release",
		Long: `Say what a promotion would move, as a value that is reviewed and applied later
(waybill promote apply). A plan is of one kind:

images    manifests of Kubernetes' promoter, as they are: which digests of which
          source, to which destinations, under which tags. A directory is one
          with manifests/NAME/promoter-manifest.yaml and the lists beside them in
          images/NAME/images.yaml; a file is a manifest that lists its images.
files     manifests of its file promotion: a directory with
          filestores/NAME/filepromoter-manifest.yaml and lists in manifests/NAME,
          or a file that has both.
a release a version, with --profile and --to: what its manifest lists, which is
          read where the release comes from, and verified. --to staging plans
          from the state directory, --to release from staging, if the gate
          accepts what lies there: what it refuses is not planned.

Several manifests are one plan, and two of them that want one tag for two
images, or one name for two files, are refused. Nothing is copied, and of images
and files nothing is asked but with --diff: it reads what the destinations have
of the files, and says of each whether it is there with the same bytes, missing,
or there with other bytes, which no promotion writes over.

` + exit.Table,
		Example: `  waybill promote plan ./registry.k8s.io --output json > plan.json
  waybill promote plan ./artifacts --diff
  waybill promote plan v0.1.0 --profile profile.yaml --to release --output json > plan.json`,
		Args: cobra.MinimumNArgs(1),
		RunE: o.run,
	}
	f := cmd.Flags()
	f.StringVar(&o.profile, "profile", "", "profile of the release; with it, the argument is a version")
	f.StringVar(&o.to, "to", "", "staging or release, of a version")
	f.StringVar(&o.policy, "policy", "", "policy that the images must be decided about by: applied under another, the plan is refused")
	f.StringVar(&o.state, "state", ".waybill", "directory in which the release came into being, for --to staging")
	f.StringVarP(&o.output, "output", "o", "table", "table or json")
	f.BoolVar(&o.diff, "diff", false, "compare the files with what the destinations have")
	o.waivers.AddFlags(cmd)
	o.feature.addSiteFlags(cmd)
	return cmd
}

func (o *planning) run(cmd *cobra.Command, args []string) error {
	if o.output != "table" && o.output != "json" {
		return verdict.Refuse(verdict.Usage, "--output", "%q: want table or json", o.output)
	}
	plan, err := o.plan(cmd, args)
	switch {
	case err != nil: // stdout is a plan, or empty
		return answerTo(cmd.ErrOrStderr(), cli.TableOutput(), nil, err)
	case !o.diff && o.output == "json":
		_, err := cmd.OutOrStdout().Write(plan.JSON())
		return err
	case !o.diff:
		printRoutes(cmd.OutOrStdout(), plan)
		return nil
	case len(plan.Files) == 0:
		return verdict.Refuse(verdict.Usage, "--diff", "the plan has no files, and images are compared by another command").Advise("leave --diff out, save the plan with --output json, and ask waybill promote diff")
	}
	rt := cli.Transport(false)
	all, err := promote.CompareFiles(cmd.Context(), plan, func(uri string) (store.Place, error) { return cloud.OpenPlace(uri, rt) })
	if err != nil {
		return err
	}
	if o.output == "json" {
		err = printJSON(cmd.OutOrStdout(), all)
	} else {
		printStates(cmd.OutOrStdout(), all)
	}
	if err != nil {
		return err
	}
	return promote.Compared(all)
}

// plan makes the plan of what the arguments are.
func (o *planning) plan(cmd *cobra.Command, args []string) (promotionplan.Plan, error) {
	if o.profile == "" {
		if o.to != "" {
			return promotionplan.Plan{}, verdict.Refuse(verdict.Usage, "--to", "it is for a version, whose places a profile names").Advise("add --profile FILE; manifests say themselves where they go")
		}
		if err := cli.Unused(cmd, "it is for a version, whose places and policy a profile names", append(decides, "state")...); err != nil {
			return promotionplan.Plan{}, err
		}
		plan, err := planManifests(args)
		if err != nil {
			return promotionplan.Plan{}, err
		}
		return o.under(plan)
	}
	if o.policy != "" {
		return promotionplan.Plan{}, verdict.Refuse(verdict.Usage, "--policy", "the profile of a release names its policy")
	}
	stage := profile.Stage(o.to)
	if stage != profile.Staging && stage != profile.Release {
		return promotionplan.Plan{}, verdict.Refuse(verdict.Usage, "--to", "%q: want staging or release", o.to).Advise("add --to staging, or --to release for what is staged")
	}
	if len(args) != 1 {
		return promotionplan.Plan{}, verdict.Refuse(verdict.Usage, "VERSION", "%d were given; a plan is of one release", len(args))
	}
	if stage == profile.Staging {
		if err := cli.Unused(cmd, ungated, decides...); err != nil {
			return promotionplan.Plan{}, err
		}
	}
	p, ctx, err := o.open(cmd, args)
	if err != nil {
		return promotionplan.Plan{}, err
	}
	return p.PlanRelease(ctx, stage)
}

// under ties a plan of images to the policy that was named.
func (o *planning) under(plan promotionplan.Plan) (promotionplan.Plan, error) {
	if o.policy == "" {
		return plan, nil
	}
	if len(plan.Edges) == 0 {
		return promotionplan.Plan{}, verdict.Refuse(verdict.Usage, "--policy", "a plan of files is tied to none; the profile names it when the plan is applied")
	}
	p, err := readPolicy(o.policy)
	if err != nil {
		return promotionplan.Plan{}, err
	}
	plan.Policy = p.Digest()
	return plan, nil
}

// planManifests reads each argument as what it is. All must be of one kind.
func planManifests(args []string) (promotionplan.Plan, error) {
	var images []promoterfile.Manifest
	var files []promoterfile.FileManifest
	for _, arg := range args {
		moreImages, moreFiles, err := readManifests(arg)
		if err != nil {
			return promotionplan.Plan{}, err
		}
		if !listsAny(moreImages, moreFiles) {
			return promotionplan.Plan{}, verdict.Refuse(verdict.ConfigParse, arg, "the manifests list no images and no files").
				Advise("leave it out, or add what it is to list")
		}
		images, files = append(images, moreImages...), append(files, moreFiles...)
		if len(images) > 0 && len(files) > 0 {
			return promotionplan.Plan{}, verdict.Refuse(verdict.Usage, arg, "images and files are two plans").Advise("plan the manifests of images apart from those of files")
		}
	}
	if len(files) > 0 {
		return promotionplan.MakeFiles(files)
	}
	return promotionplan.Make(images)
}

// listsAny reports whether manifests list an image or a file.
func listsAny(images []promoterfile.Manifest, files []promoterfile.FileManifest) bool {
	return slices.ContainsFunc(images, func(m promoterfile.Manifest) bool { return len(m.Images) > 0 }) ||
		slices.ContainsFunc(files, func(m promoterfile.FileManifest) bool { return len(m.Files) > 0 })
}

func readManifests(arg string) ([]promoterfile.Manifest, []promoterfile.FileManifest, error) {
	if info, err := os.Stat(arg); err == nil && info.IsDir() {
		if tree := os.DirFS(arg); promoterfile.HasFiles(tree) {
			files, err := promoterfile.ReadFilesDir(tree)
			return nil, files, err
		}
		images, err := promoterfile.ReadDir(os.DirFS(arg))
		return images, nil, err
	}
	raw, err := store.ReadNamed(arg, maxPromoterManifest)
	if _, is := version.Parse(arg); err != nil && is == nil {
		return nil, nil, verdict.Refuse(verdict.Usage, arg, "it is a version, and nothing says where that lies").Advise("add --profile FILE and --to staging or release")
	}
	if err != nil {
		return nil, nil, err
	}
	if promoterfile.IsFiles(raw) {
		m, err := promoterfile.ParseFiles(filepath.Base(arg), raw)
		return nil, []promoterfile.FileManifest{m}, err
	}
	m, err := promoterfile.Parse(filepath.Base(arg), raw)
	return []promoterfile.Manifest{m}, nil, err
}

func printRoutes(w io.Writer, p promotionplan.Plan) {
	counts := make([]int, len(p.Routes)+len(p.Stores))
	for _, e := range p.Edges {
		counts[e.Route]++
	}
	for _, f := range p.Files {
		counts[len(p.Routes)+f.Store]++
	}
	show := func(manifest string, n int, what, source string, destinations []string) {
		fmt.Fprintf(w, "%s: %d %s of %s go to\n", manifest, n, what, source)
		for _, d := range destinations {
			fmt.Fprintf(w, "  %s\n", d)
		}
	}
	for i, r := range p.Routes {
		show(r.Manifest, counts[i], "digests", r.Source, r.Destinations)
	}
	for i, s := range p.Stores {
		show(s.Manifest, counts[len(p.Routes)+i], "files", s.Source, s.Destinations)
	}
	if !p.Policy.IsZero() {
		fmt.Fprintf(w, "\nto be decided about by the policy %s\n", p.Policy)
	}
	if r := p.Release; r != nil {
		fmt.Fprintf(w, "\n%s %s, revision %d, from %s to %s; manifest %s, evidence %d\n", r.Name, r.Version, r.Revision, r.From, r.To, r.Manifest, r.Evidence)
	}
	e := p.Extent()
	fmt.Fprintf(w, "\n%s\n", e)
	if e.Digests > 0 && p.Release == nil {
		fmt.Fprintf(w, "requests at least %d, and up to 2A+3B+3 for each copy of an image of A manifests and B blobs\n", e.Requests())
	} else {
		fmt.Fprintf(w, "requests at least %d\n", e.Requests())
	}
	fmt.Fprintf(w, "plan %s\n", p.Digest())
}

// printStates lists what a promotion would have to do, and counts the rest.
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
