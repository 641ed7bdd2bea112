// Command waybill-mutate breaks the product in places drawn at random, and says
// which of them no test notices.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/waybill-release/waybill/test/mutation"
)

func main() {
	n := flag.Int("n", 600, "how many mutants to try")
	today, _ := strconv.ParseUint(time.Now().UTC().Format("20060102"), 10, 64)
	seed := flag.Uint64("seed", today, "draws the mutants; the default is the day")
	only := flag.String("only", "", "draw only mutants whose key contains this, such as pkg/judge/policy")
	patience := flag.Duration("patience", 30*time.Minute, "how long a mutant's tests may run; one that is left with tests to run is not decided")
	dir := flag.String("dir", "", "build here, and keep what is built; default: a directory that is removed")
	suites := flag.String("suites", ".", "build and ask only the tests of packages whose folders match this")
	least := flag.Float64("least", 0, "fail if a smaller share is noticed")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *n, *seed, *only, *patience, *dir, *suites, *least); err != nil {
		fmt.Fprintln(os.Stderr, "waybill-mutate:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, n int, seed uint64, only string, patience time.Duration, dir, suites string, least float64) error {
	ask, err := regexp.Compile(suites)
	if err != nil {
		return fmt.Errorf("-suites: %w", err)
	}
	root, err := filepath.Abs("..")
	if err != nil {
		return err
	}
	if dir == "" {
		if dir, err = os.MkdirTemp("", "waybill-mutate"); err != nil {
			return err
		}
		defer func() { _ = os.RemoveAll(dir) }()
	}
	reasons, err := mutation.Equivalent()
	if err != nil {
		return err
	}
	bench, err := mutation.New(ctx, root, dir, ask, os.Stderr)
	if err != nil {
		return err
	}
	var among []mutation.Mutant
	for _, m := range bench.Mutants {
		if strings.Contains(m.Key(), only) {
			among = append(among, m)
		}
	}
	var results []mutation.Result
	drawn := mutation.Draw(among, n, seed)
	for i, m := range drawn {
		r, err := bench.Try(ctx, m, patience)
		if err != nil {
			break // stopped: print what there is
		}
		r.Why = reasons[m.Key()]
		results = append(results, r)
		fmt.Fprintf(os.Stderr, "%d of %d: %s => %s\n", i+1, len(drawn), m, outcome(r))
	}
	fmt.Printf("%d of %d mutants, seed %d\n", len(results), len(bench.Mutants), seed)
	if got := mutation.Report(os.Stdout, results); got < least || len(results) == 0 {
		return fmt.Errorf("the tests noticed %.1f %% of the mutants, and at least %.1f %% are asked", 100*got, 100*least)
	}
	return nil
}

func outcome(r mutation.Result) string {
	switch {
	case r.Noticed != "":
		return "noticed by " + r.Noticed
	case r.Why != "":
		return "equivalent: " + r.Why
	case r.Left > 0:
		return "not decided"
	case r.Ran == 0:
		return "not reached by any test"
	}
	return "survived"
}
