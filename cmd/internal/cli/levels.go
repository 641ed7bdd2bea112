package cli

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/waybill-release/waybill/pkg/gate"
	"github.com/waybill-release/waybill/pkg/judge/slsa"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// Levels are the flags that say which builders are believed how far, and which
// SLSA levels are required.
type Levels struct{ Builders, Require []string }

// AddFlags adds the flags.
func (l *Levels) AddFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringArrayVar(&l.Builders, "builder", nil, "ID=LEVEL: the signer may speak for this builder, up to this level of the SLSA Build track, 0 to 3; repeats")
	f.StringArrayVar(&l.Require, "require-level", nil, "refuse a lower SLSA level: build=1 to build=3, v0.1=1 to v0.1=4; repeats")
}

// levels makes what the gate asks. Every builder is one of the signer's.
func (l *Levels) levels(signer slsa.Pair) (out gate.Levels, err error) {
	var pairs []slsa.Pair
	var seen []string
	for _, text := range l.Builders {
		at := strings.LastIndexByte(text, '=')
		id, level := text[:max(at, 0)], strings.Index("0123", text[at+1:])
		if id == "" || len(text)-at != 2 || level < 0 {
			return gate.Levels{}, verdict.Refuse(verdict.Usage, "--builder", "%q: want ID=LEVEL, LEVEL 0 to 3", text)
		}
		if slices.Contains(seen, id) {
			return gate.Levels{}, verdict.Refuse(verdict.Usage, "--builder", "%q has two levels", id)
		}
		seen = append(seen, id)
		if level > 0 { // whom nobody believes has no entry
			signer.BuilderID, signer.Level = id, level
			pairs = append(pairs, signer)
		}
	}
	if out.Builders, err = slsa.NewTrust(pairs, nil); err != nil {
		return gate.Levels{}, verdict.Wrap(verdict.Usage, "--builder", err)
	}
	for _, text := range l.Require {
		d, err := slsa.ParseDemand(text)
		if err != nil {
			return gate.Levels{}, verdict.Wrap(verdict.Usage, "--require-level", err)
		}
		out.Require = append(out.Require, d)
	}
	return out, nil
}
