package mutation

import (
	"cmp"
	_ "embed"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"text/tabwriter"
)

//go:embed equivalent.txt
var equivalent string

// Equivalent are the reasons why mutants cannot be noticed, by their keys.
func Equivalent() (map[string]string, error) {
	reasons := map[string]string{}
	for line := range strings.Lines(equivalent) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		key, why, ok := strings.Cut(line, " :: ")
		if !ok || strings.TrimSpace(why) == "" {
			return nil, fmt.Errorf("equivalent.txt: %q has no reason: write KEY :: REASON", line)
		}
		reasons[key] = why
	}
	return reasons, nil
}

// Draw takes n mutants at random; the same seed draws the same.
func Draw(mutants []Mutant, n int, seed uint64) []Mutant {
	drawn := slices.Clone(mutants)
	rand.New(rand.NewPCG(seed, seed)).Shuffle(len(drawn), func(i, j int) { drawn[i], drawn[j] = drawn[j], drawn[i] })
	return drawn[:min(n, len(drawn))]
}

// Report prints a table by package and each mutant that nobody noticed, and
// returns the share of those noticed among those that can be.
func Report(w io.Writer, results []Result) float64 {
	type count struct{ all, noticed, equivalent, survived, unreached, undecided int }
	by := map[string]*count{}
	total := &count{}
	var missed []Result
	for _, r := range results {
		if by[r.Package] == nil {
			by[r.Package] = &count{}
		}
		for _, c := range []*count{by[r.Package], total} {
			c.all++
			switch {
			case r.Noticed != "":
				c.noticed++
			case r.Why != "":
				c.equivalent++
			case r.Left > 0:
				c.undecided++
			case r.Ran == 0:
				c.unreached++
			default:
				c.survived++
			}
		}
		if r.Noticed == "" && r.Why == "" {
			missed = append(missed, r)
		}
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "package\tmutants\tnoticed\tequivalent\tsurvived\tnot reached\tnot decided\tshare")
	row := func(name string, c *count) {
		fmt.Fprintf(t, "%s\t%d\t%d\t%d\t%d\t%d\t%d\t%.0f %%\n", name, c.all, c.noticed, c.equivalent, c.survived, c.unreached, c.undecided, 100*share(c.noticed, c.all-c.equivalent))
	}
	for _, name := range sorted(by) {
		row(name, by[name])
	}
	row("all", total)
	_ = t.Flush()
	slices.SortFunc(missed, func(a, b Result) int { return cmp.Or(cmp.Compare(a.File, b.File), a.ID-b.ID) })
	for _, r := range missed {
		fmt.Fprintf(w, "not noticed by %d, %d not run: %s\n    %s\n", r.Ran, r.Left, r.Mutant, r.Key())
	}
	return share(total.noticed, total.all-total.equivalent)
}

func share(n, of int) float64 {
	if of == 0 {
		return 1
	}
	return float64(n) / float64(of)
}

func sorted[V any](m map[string]V) []string {
	names := make([]string, 0, len(m))
	for name := range m {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
