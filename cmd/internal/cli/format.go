package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// AddFormat adds the flag --output of a command without a verdict. It takes one of the
// formats, of which the first is the default.
func AddFormat(cmd *cobra.Command, to *string, usage string, formats ...string) {
	*to = formats[0]
	cmd.Flags().VarP(format{to, formats}, "output", "o", usage)
}

// format is the value of a flag that takes one of a few words.
type format struct {
	chosen *string
	all    []string
}

// Set chooses one of the words.
func (f format) Set(text string) error {
	if !slices.Contains(f.all, text) {
		return fmt.Errorf("want %s", strings.Join(f.all, " or "))
	}
	*f.chosen = text
	return nil
}

// String is the word that is chosen.
func (f format) String() string {
	if f.chosen == nil { // pflag calls this on a zero value
		return ""
	}
	return *f.chosen
}

// Type is the name of the value in the help.
func (f format) Type() string { return "string" }
