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
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/waybill-release/waybill/test/mutation"
)

// options are the flags.
type options struct {
	draw        draw
	patience    time.Duration
	dir, suites string
	skip        string
	workers     int
	least       float64
}

// draw says which mutants are tried.
type draw struct {
	n, after int
	seed     uint64
	only     string
}

func main() {
	o := options{}
	today, _ := strconv.ParseUint(time.Now().UTC().Format("20060102"), 10, 64)
	flag.IntVar(&o.draw.n, "n", 600, "how many mutants to try")
	flag.Uint64Var(&o.draw.seed, "seed", today, "draws the mutants; the default is the day")
	flag.StringVar(&o.draw.only, "only", "", "draw only mutants whose key contains one of these lines, such as pkg/judge/policy")
	flag.IntVar(&o.draw.after, "after", 0, "leave out the first of the mutants drawn, which an earlier run of the seed tried")
	flag.IntVar(&o.workers, "workers", 1, "how many mutants to try side by side")
	flag.DurationVar(&o.patience, "patience", 30*time.Minute, "how long a mutant's tests may run; one that is left with tests to run is not decided")
	flag.StringVar(&o.dir, "dir", "", "build here, and keep what is built and what was learned; default: a directory that is removed")
	flag.StringVar(&o.suites, "suites", ".", "build and ask only the tests of packages whose folders match this")
	flag.StringVar(&o.skip, "skip", mutation.Skip, "do not run the tests whose names match this")
	flag.Float64Var(&o.least, "least", 0, "fail if a smaller share is noticed")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := o.run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "waybill-mutate:", err)
		os.Exit(1)
	}
}

func (o options) run(ctx context.Context) error {
	ask, err := regexp.Compile(o.suites)
	if err != nil {
		return fmt.Errorf("-suites: %w", err)
	}
	root, err := filepath.Abs("..")
	if err != nil {
		return err
	}
	dir := o.dir
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
	bench := &mutation.Bench{Root: root, Dir: dir, Skip: o.skip, Log: os.Stderr}
	if err := bench.Open(ctx, ask); err != nil {
		return err
	}
	lines := strings.Split(o.draw.only, "\n")
	among := slices.DeleteFunc(slices.Clone(bench.Mutants), func(m mutation.Mutant) bool {
		return !slices.ContainsFunc(lines, func(line string) bool { return strings.Contains(m.Key(), line) })
	})
	drawn := mutation.Draw(among, o.draw.after+o.draw.n, o.draw.seed)
	drawn = drawn[min(o.draw.after, len(drawn)):]
	var results []mutation.Result
	start := time.Now()
	err = bench.TryAll(ctx, drawn, max(1, o.workers), o.patience, func(r mutation.Result) {
		r.Why = reasons[r.Key()]
		results = append(results, r)
		fmt.Fprintf(os.Stderr, "%.0f s, %d of %d: %s => %s\n", time.Since(start).Seconds(), len(results), len(drawn), r.Mutant, outcome(r))
	})
	if err != nil && ctx.Err() == nil { // stopped: print what there is
		return err
	}
	fmt.Printf("%d of %d mutants, seed %d\n", len(results), len(bench.Mutants), o.draw.seed)
	if got := mutation.Report(os.Stdout, results); got < o.least || len(results) == 0 {
		return fmt.Errorf("the tests noticed %.1f %% of the mutants, and at least %.1f %% are asked", 100*got, 100*o.least)
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
