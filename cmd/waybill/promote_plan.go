package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/waybill-release/waybill/cmd/internal/cli"
	"github.com/waybill-release/waybill/cmd/internal/exit"
	"github.com/waybill-release/waybill/pkg/promoter"
	"github.com/waybill-release/waybill/pkg/routes"
	"github.com/waybill-release/waybill/pkg/verdict"
)

// maxPromoterManifest is how large one manifest of images may be.
const maxPromoterManifest = 64 << 20

func promotePlanCommand() *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "plan MANIFEST|DIR...",
		Short: "Say what manifests of Kubernetes' promoter would move",
		Long: `Read the manifests of Kubernetes' promoter as they are, and say what they would
move: which digests of which source, to which destinations, under which tags. A
directory is one with manifests/NAME/promoter-manifest.yaml and the lists beside
them in images/NAME/images.yaml; a file is a manifest that lists its images.

Several are one plan, and two of them that want one tag for two images are
refused. No registry is asked, and nothing is copied.

` + exit.Table,
		Example: `  waybill promote plan ./registry.k8s.io
  waybill promote plan ./registry.k8s.io --output json > plan.json`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			p, err := planRoutes(args)
			switch {
			case err != nil:
				return err
			case output == "json":
				_, err := cmd.OutOrStdout().Write(p.JSON())
				return err
			case output != "table":
				return verdict.Refuse(verdict.Usage, "--output", "%q: want table or json", output)
			}
			printRoutes(cmd.OutOrStdout(), p)
			return nil
		},
	}
	cmd.Flags().StringVarP(&output, "output", "o", "table", "table or json")
	return cmd
}

// planRoutes reads each argument as what it is.
func planRoutes(args []string) (routes.Plan, error) {
	var all []promoter.Manifest
	for _, arg := range args {
		if info, err := os.Stat(arg); err == nil && info.IsDir() {
			list, err := promoter.ReadDir(os.DirFS(arg))
			if err != nil {
				return routes.Plan{}, err
			}
			all = append(all, list...)
			continue
		}
		raw, err := cli.ReadFile(arg, maxPromoterManifest)
		if err != nil {
			return routes.Plan{}, err
		}
		m, err := promoter.Parse(filepath.Base(arg), raw)
		if err != nil {
			return routes.Plan{}, err
		}
		all = append(all, m)
	}
	return routes.Make(all)
}

func printRoutes(w io.Writer, p routes.Plan) {
	counts := make([]int, len(p.Routes))
	for _, e := range p.Edges {
		counts[e.Route]++
	}
	for i, r := range p.Routes {
		fmt.Fprintf(w, "%s: %d digests of %s go to\n", r.Manifest, counts[i], r.Source)
		for _, d := range r.Destinations {
			fmt.Fprintf(w, "  %s\n", d)
		}
	}
	fmt.Fprintf(w, "\n%s\nplan %s\n", p.Extent(), p.Digest())
}
