// Command waybill-bench-verify verifies bundles in one process, one after
// another: the work that waybill-bench measures. It is a command of its own so
// that what it needs is not in the memory of the measurer.
package main

import (
	"flag"
	"fmt"
	"os"

	"github.com/waybill-release/waybill/test/bench/bundles"
)

func main() {
	dir := flag.String("dir", "", "directory that waybill-bench-tree --mint made")
	shape := flag.String("shape", string(bundles.RekorV1), "shape of the bundles: rekor-v1 or rekor-v2")
	shared := flag.Bool("shared", false, "bundles with one certificate together")
	way := flag.String("way", "waybill", "waybill, sigstore-go or bare; statement or statement-hash for the one large statement")
	n := flag.Int("n", 400, "number of bundles")
	passes := flag.Int("passes", 1, "how often to verify them all")
	flag.Parse()
	if err := run(*dir, *way, bundles.Set{Shape: bundles.Shape(*shape), Shared: *shared}, *n, *passes); err != nil {
		fmt.Fprintln(os.Stderr, "bench verify:", err)
		os.Exit(1)
	}
}

func run(dir, way string, set bundles.Set, n, passes int) error {
	switch way {
	case "statement":
		return bundles.VerifyStatement(dir)
	case "statement-hash":
		return bundles.HashStatement(dir)
	}
	list, root, err := set.Read(dir, n)
	if err != nil {
		return err
	}
	var verify bundles.Way
	switch way {
	case "waybill":
		verify, err = bundles.Ours(root)
	case "sigstore-go":
		verify, err = bundles.Library(root)
	case "bare":
		verify, err = bundles.Bare(set)
	default:
		err = fmt.Errorf("no way is called %q", way)
	}
	if err != nil {
		return err
	}
	for range passes {
		if err := verify(list); err != nil {
			return err
		}
	}
	fmt.Println(n*passes, "bundles verified")
	return nil
}
