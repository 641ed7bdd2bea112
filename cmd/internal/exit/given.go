package exit

import (
	"errors"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Faults of a flag that would otherwise silently change what is checked.
var (
	errEmpty = errors.New("given, but empty; is a variable unset?")
	errTwice = errors.New("given twice; give it once")
)

// given is the value of a flag. An empty value is refused, and so is a second one
// where only one can count: an unset variable never removes a check.
type given struct {
	pflag.Value
	repeats bool // the value is a list
	before  bool // the flag was given already
}

// Set sets one value.
func (g *given) Set(s string) error {
	switch {
	case s == "":
		return errEmpty
	case g.before && !g.repeats:
		return errTwice
	}
	g.before = true
	return g.Value.Set(s)
}

// demandContent guards every flag of a command and of all below it.
func demandContent(cmd *cobra.Command) {
	guard := func(f *pflag.Flag) {
		_, repeats := f.Value.(pflag.SliceValue)
		if f.DefValue == "[]" || f.DefValue == "0s" {
			f.DefValue = "" // help prints no empty default
		}
		f.Value = &given{Value: f.Value, repeats: repeats}
	}
	cmd.PersistentFlags().VisitAll(guard)
	cmd.LocalNonPersistentFlags().VisitAll(guard)
	for _, below := range cmd.Commands() {
		demandContent(below)
	}
}
