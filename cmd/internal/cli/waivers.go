package cli

import (
	"slices"

	"github.com/spf13/cobra"

	"github.com/waybill-release/waybill/pkg/gate"
)

// Waivers are the options that name known defects and set findings aside.
type Waivers struct{ gate.Named }

// AddFlags adds the flags.
func (o *Waivers) AddFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringArrayVar(&o.Named.Exceptions, "exception", nil, "signed exception whose finding is set aside; repeats; the verdict shows each")
	f.StringArrayVar(&o.Accept, "accept-defect", nil, "ID of a known defect whose findings are set aside; repeats; the verdict shows each")
	f.StringArrayVar(&o.Defects, "known-defects", nil, "list of known defects: a bundle signed by the policy officer, or unsigned YAML, which explains findings but cannot set them aside")
}

// Exceptions are the paths of the exceptions, to send them to a gate that judges
// them.
func (o *Waivers) Exceptions() []string { return slices.Clone(o.Named.Exceptions) }
