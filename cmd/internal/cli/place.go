package cli

import (
	"github.com/spf13/cobra"

	"github.com/waybill-release/waybill/pkg/gate"
)

// At are the flags that read from other places than the profile names.
type At struct{ gate.Elsewhere }

// AddFlags adds the flags.
func (a *At) AddFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&a.Files, "files", "", "read the files from this place instead of the one that the profile names")
	f.StringVar(&a.Images, "images", "", "read the images from this registry or layout instead of the one that the profile names")
	f.StringVar(&a.Listing, "listing", "", "list the files at this place, where the place of the files cannot be listed (such as a web server)")
	a.AddInstead(cmd)
}

// AddInstead adds only the flag for a mirror.
func (a *At) AddInstead(cmd *cobra.Command) {
	cmd.Flags().StringArrayVar(&a.Instead, "place", nil, "CANONICAL=ACTUAL: read a mirror: read at or below ACTUAL what the manifest places at or below CANONICAL; repeats, for files and for images")
}
