// Command waybill-bench-verify verifies bundles in one process, one after
// another: the work that waybill-bench measures. It is a command of its own so
// that what it needs is not in the memory of the measurer.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"

	"github.com/waybill-release/waybill/test/bench/bundles"
)

// options are the flags.
type options struct {
	dir    string
	way    string
	cosign string
	set    bundles.Set
	n      int
	passes int
}

func main() {
	var o options
	flag.StringVar(&o.dir, "dir", "", "directory that waybill-bench-tree --mint made")
	shape := flag.String("shape", string(bundles.RekorV1), "shape of the bundles: rekor-v1 or rekor-v2")
	flag.BoolVar(&o.set.Shared, "shared", false, "bundles with one certificate together")
	flag.StringVar(&o.way, "way", "waybill", "waybill, sigstore-go or bare; processes of cosign; statement or statement-hash for the one large statement")
	flag.StringVar(&o.cosign, "cosign", "cosign", "the command of which there is a process for each bundle")
	flag.IntVar(&o.n, "n", 400, "number of bundles")
	flag.IntVar(&o.passes, "passes", 1, "how often to verify them all")
	flag.Parse()
	o.set.Shape = bundles.Shape(*shape)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := o.run(ctx); err != nil {
		stop()
		fmt.Fprintln(os.Stderr, "bench verify:", err)
		os.Exit(1)
	}
}

func (o options) run(ctx context.Context) error {
	switch o.way {
	case "statement":
		return bundles.VerifyStatement(o.dir)
	case "statement-hash":
		return bundles.HashStatement(o.dir)
	case "processes":
		return bundles.Processes(ctx, o.cosign, o.dir, o.set, o.n)
	}
	list, root, err := o.set.Read(o.dir, o.n)
	if err != nil {
		return err
	}
	verify, err := o.in(root)
	if err != nil {
		return err
	}
	for range o.passes {
		if err := verify(list); err != nil {
			return err
		}
	}
	fmt.Println(o.n*o.passes, "bundles verified")
	return nil
}

// in finds the way to verify in this process.
func (o options) in(root []byte) (bundles.Way, error) {
	switch o.way {
	case "waybill":
		return bundles.Ours(root)
	case "sigstore-go":
		return bundles.Library(root)
	case "bare":
		return bundles.Bare(o.set)
	}
	return nil, fmt.Errorf("no way is called %q", o.way)
}
