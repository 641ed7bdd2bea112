package cli

import (
	"github.com/spf13/cobra"

	"github.com/waybill-release/waybill/pkg/gate"
)

// At are the flags that say where to read instead of where the profile says.
type At struct{ gate.Elsewhere }

// AddFlags adds the flags.
func (a *At) AddFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&a.Files, "files", "", "read the files here instead of where the profile says")
	f.StringVar(&a.Images, "images", "", "read the images here instead of where the profile says")
	f.StringVar(&a.Listing, "listing", "", "list the files here, where the place that has them lists nothing, as a web server does not")
	a.AddInstead(cmd)
}

// AddInstead adds the flag for a mirror alone.
func (a *At) AddInstead(cmd *cobra.Command) {
	cmd.Flags().StringArrayVar(&a.Instead, "place", nil, "CANONICAL=ACTUAL: read a mirror: what the manifest places at CANONICAL or below it is read at ACTUAL or below it; repeats, for files and for images")
}
