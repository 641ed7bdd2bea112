package cli

import (
	"slices"

	"github.com/spf13/cobra"

	"github.com/waybill-release/waybill/pkg/gate"
)

// Waivers are the options that say which findings are known or set aside.
type Waivers struct{ gate.Named }

// AddFlags adds the flags.
func (o *Waivers) AddFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringArrayVar(&o.Named.Exceptions, "exception", nil, "set aside what this signed exception covers; repeats, and the verdict shows each")
	f.StringArrayVar(&o.Accept, "accept-defect", nil, "set aside what the known defect of this ID covers; repeats, and the verdict shows each")
	f.StringArrayVar(&o.Defects, "known-defects", nil, "list of known defects: a bundle of the policy's officer, or YAML, which only explains")
}

// Exceptions are the paths of the exceptions that were named, for who has
// another judge them.
func (o *Waivers) Exceptions() []string { return slices.Clone(o.Named.Exceptions) }
