package cli

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/waybill-release/waybill/pkg/gate"
	"github.com/waybill-release/waybill/pkg/judge/slsa"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// Levels are the flags that say up to which SLSA level each builder is trusted,
// and which levels are required.
type Levels struct{ Builders, Require []string }

// AddFlags adds the flags.
func (l *Levels) AddFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringArrayVar(&l.Builders, "builder", nil, "ID=LEVEL: trust provenance of this builder, signed by the signer, up to this level of the SLSA Build track, 0 to 3; repeats")
	f.StringArrayVar(&l.Require, "require-level", nil, "refuse a lower SLSA level: "+levelsOffered+"; repeats")
}

// levelsOffered are the levels that can be required.
const levelsOffered = "build=1 to build=3, source=1 to source=4, or v0.1=1 to v0.1=4, the levels of KEP-3027, which kep-3027=N also names"

// AddSources adds the flag that names summaries of source revisions.
func AddSources(cmd *cobra.Command, files *[]string) {
	cmd.Flags().StringArrayVar(files, "source-vsa", nil, "file with a verification summary (VSA) of the source revision, by a verifier that the policy lists under sources; it counts for provenance that names its commit and repository; repeats")
}

// demands parses required levels.
func demands(list []string) (out []slsa.Demand, err error) {
	for _, text := range list {
		d, err := slsa.ParseDemand(text)
		if err != nil {
			return nil, verdict.Wrap(verdict.Usage, "--require-level", err)
		}
		out = append(out, d)
	}
	return out, nil
}

// levels makes the levels that the gate requires. The signer may sign for every
// builder that is named.
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
		if level > 0 { // level 0: the builder is not trusted
			signer.BuilderID, signer.Level = id, level
			pairs = append(pairs, signer)
		}
	}
	if out.Builders, err = slsa.NewTrust(pairs, nil); err != nil {
		return gate.Levels{}, verdict.Wrap(verdict.Usage, "--builder", err)
	}
	out.Require, err = demands(l.Require)
	return out, err
}
