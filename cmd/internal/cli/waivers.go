package cli

import (
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/waybill-release/waybill/pkg/gate"
	"github.com/waybill-release/waybill/pkg/profile"
	"github.com/waybill-release/waybill/pkg/verify"
	"github.com/waybill-release/waybill/pkg/waiver"
)

// Waivers are the options that say which findings are known or set aside.
type Waivers struct {
	exceptions []string
	accept     []string
	defects    []string
}

// AddFlags adds the flags.
func (o *Waivers) AddFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringArrayVar(&o.exceptions, "exception", nil, "set aside what this signed exception covers; repeats, and the verdict shows each")
	f.StringArrayVar(&o.accept, "accept-defect", nil, "set aside what the known defect of this ID covers; repeats, and the verdict shows each")
	f.StringArrayVar(&o.defects, "known-defects", nil, "list of known defects: a bundle of the policy's officer, or YAML, which only explains")
}

// IsZero reports whether nothing was named.
func (o *Waivers) IsZero() bool { return len(o.exceptions)+len(o.accept)+len(o.defects) == 0 }

// Exceptions are the paths of the exceptions that were named, for who has
// another judge them.
func (o *Waivers) Exceptions() []string { return slices.Clone(o.exceptions) }

// Read reads what the options name, besides what the profile names itself.
// Everything is verified by the trust root and the policy of the profile.
func (o *Waivers) Read(v *verify.Verifier, p profile.Profile) (gate.Waivers, error) {
	w := gate.Waivers{Accept: o.accept}
	for _, path := range o.defects {
		list, err := profile.ReadDefects(path, p.TrustRoot, p.Policy)
		if err != nil {
			return gate.Waivers{}, fmt.Errorf("%s: %w", path, err)
		}
		w.Lists = append(w.Lists, list)
	}
	for _, path := range o.exceptions {
		raw, err := ReadFile(path, verify.MaxBundle)
		if err != nil {
			return gate.Waivers{}, err
		}
		e, err := v.Attestation(raw)
		if err != nil {
			return gate.Waivers{}, fmt.Errorf("%s: %w", path, err)
		}
		x, err := waiver.ParseException(e, p.Policy)
		if err != nil {
			return gate.Waivers{}, fmt.Errorf("%s: %w", path, err)
		}
		w.Exceptions = append(w.Exceptions, x)
	}
	return w, nil
}
