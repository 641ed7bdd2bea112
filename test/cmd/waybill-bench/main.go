// Command waybill-bench measures the verifier of a whole release against a
// bare parallel hash of the same files and against openssl.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"

	"github.com/waybill-release/waybill/test/bench"
)

// options are the flags.
type options struct {
	root    string
	bin     string
	dir     string
	json    string
	size    int64
	outputs int
	rounds  int
	fresh   bool
}

const usage = `Usage: waybill-bench [flags]
       waybill-bench hash [--sha512] DIR

Make a release of about a gigabyte once, and measure how long verifying it
takes, against hashing the same files and doing nothing else. The commands take
turns; medians and ratios are printed. Nothing passes or fails on time.

`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		stop()
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) > 0 && args[0] == "hash" {
		return bareHash(args[1:])
	}
	o, err := parse(args)
	if err != nil {
		return err
	}
	s, err := prepare(ctx, o)
	if err != nil {
		return err
	}
	record, err := s.measure(ctx)
	if err != nil {
		return err
	}
	if err := record.Print(os.Stdout); err != nil || o.json == "" {
		return err
	}
	return record.Save(o.json)
}

func parse(args []string) (options, error) {
	var o options
	f := flag.NewFlagSet("waybill-bench", flag.ExitOnError)
	f.StringVar(&o.root, "root", ".", "checkout of Waybill, to build the commands from")
	f.StringVar(&o.bin, "bin", "", "directory of the product's commands, already built; default: build them")
	f.StringVar(&o.dir, "dir", "", "keep the commands and the release here; default: the user's cache directory")
	f.StringVar(&o.json, "json", "", "write the record to this file")
	f.Int64Var(&o.size, "size", 1_200_000_000, "bytes of all built files together")
	f.IntVar(&o.outputs, "outputs", 600, "number of built files; each has a signature and an SBOM besides")
	f.IntVar(&o.rounds, "rounds", 7, "how often each command is measured")
	f.BoolVar(&o.fresh, "fresh", false, "make the release again, although it is there")
	short := f.Bool("short", false, "64 MB and 3 rounds, to see that it works")
	f.Usage = func() { fmt.Fprint(os.Stderr, usage); f.PrintDefaults() }
	if err := f.Parse(args); err != nil {
		return options{}, err
	}
	if *short {
		o.size, o.outputs, o.rounds = 64_000_000, 60, 3
	}
	if o.rounds < 1 || f.NArg() > 0 {
		return options{}, fmt.Errorf("want at least one round and no arguments, got %d and %q", o.rounds, f.Args())
	}
	if o.dir == "" {
		cache, err := os.UserCacheDir()
		if err != nil {
			return options{}, err
		}
		o.dir = filepath.Join(cache, "waybill-bench")
	}
	var err error
	o.dir, err = filepath.Abs(o.dir)
	return o, err
}

// bareHash is what the verifier is measured against, in a process of its own.
func bareHash(args []string) error {
	f := flag.NewFlagSet("hash", flag.ExitOnError)
	sha512 := f.Bool("sha512", false, "SHA-512 too, in the same pass")
	if err := f.Parse(args); err != nil {
		return err
	}
	n, err := bench.HashTree(f.Arg(0), *sha512)
	if err != nil {
		return err
	}
	fmt.Printf("%d bytes, %d at a time\n", n, runtime.GOMAXPROCS(0))
	return nil
}
