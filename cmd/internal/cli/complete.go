package cli

import (
	"maps"
	"slices"
	"strings"
	"unicode"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// valuesOf are the values of flags that have few, by the name of the flag. The same name
// has different values in different commands: each help text lists them.
func valuesOf(flag string) []string {
	if flag == "type" {
		return slices.Sorted(maps.Keys(predicateNames()))
	}
	for _, row := range []string{
		"require-level build=1 build=2 build=3 source=1 source=2 source=3 source=4 v0.1=1 v0.1=2 v0.1=3 v0.1=4 kep-3027=1 kep-3027=2 kep-3027=3 kep-3027=4",
		"at staging release", "certificate-identity-type email uri", "class binary archive file other sums sbom",
		"color always never auto", "depth files signatures provenance", "digests sha256 all",
		"for build stage release verify", "log-format text json", "only files images",
		"output table json text junit sarif markdown html tag-value", "profile kubernetes kubernetes-sealed",
		"report kep-3027 slsa-build slsa-source", "stage staging release alpha beta stable", "to staging release",
	} {
		if name, values, _ := strings.Cut(row, " "); name == flag {
			return strings.Fields(values)
		}
	}
	return nil
}

// Complete offers the values of flags to the shell, in a command and all below it: those
// that the help of the flag names.
func Complete(cmd *cobra.Command) {
	for _, sub := range cmd.Commands() {
		Complete(sub)
	}
	cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
		values := valuesOf(f.Name)
		if len(values) == 0 {
			return // as most flags of each command, at each start
		}
		words := strings.FieldsFunc(f.Usage, func(r rune) bool {
			return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("-=.", r)
		})
		values = slices.DeleteFunc(values, func(v string) bool { return !strings.Contains(v, "=") && !slices.Contains(words, v) })
		if _, given := cmd.GetFlagCompletionFunc(f.Name); given || len(values) < 2 {
			return
		}
		directive := cobra.ShellCompDirectiveNoFileComp
		if f.Name == "profile" { // or a file
			directive = cobra.ShellCompDirectiveDefault
		}
		_ = cmd.RegisterFlagCompletionFunc(f.Name, cobra.FixedCompletions(values, directive)) // the flag exists
	})
}
