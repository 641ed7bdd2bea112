// Command waybill-bench-tree makes the large release and the many bundles that
// waybill-bench verifies, verifies the signatures in the release without
// hashing anything else, and decides about it without verifying anything.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"

	"github.com/waybill-release/waybill/test/bench/bundles/mint"
	logs "github.com/waybill-release/waybill/test/bench/entries"
	"github.com/waybill-release/waybill/test/bench/names"
	"github.com/waybill-release/waybill/test/bench/tree"
)

func main() {
	var req tree.Request
	flag.StringVar(&req.Dir, "dir", "", "directory of the tree")
	flag.StringVar(&req.Bin, "bin", "bin", "directory of the built commands")
	flag.IntVar(&req.Shape.Outputs, "outputs", 600, "number of built files")
	flag.Int64Var(&req.Shape.Bytes, "bytes", 1_200_000_000, "bytes of all built files together")
	minted := flag.Int("mint", 0, "make this many bundles of each kind instead of a tree")
	signatures := flag.Bool("signatures", false, "verify the signatures of a tree that is there")
	decide := flag.Int("decide", 0, "decide this often about a tree that is there, and measure it")
	load := flag.String("load", "", "load the largest policy of this directory, and measure it")
	listed := flag.Int("names", 0, "make a manifest of this many names instead of a tree")
	census := flag.Int("census", 0, "read a manifest of this many names that is there, and measure it")
	entries := flag.Int("entries", 0, "make a log of this many entries instead of a tree")
	follow := flag.Int("follow", 0, "follow a log of this many entries that is there, and measure it")
	hash := flag.Int("hash-entries", 0, "hash the entries of a log that is there, and measure it")
	passes := flag.Int("passes", 0, "with --load: how often, once it is warm; 0: the first time")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	do := func() error { return run(ctx, req, *signatures) }
	switch {
	case *minted > 0:
		do = func() error { return mint.Make(ctx, req.Dir, *minted) }
	case *listed > 0:
		do = func() error { return names.Make(req.Dir, *listed) }
	case *census > 0:
		do = func() error { return names.Census(os.Stdout, req.Dir, *census) }
	case *entries > 0:
		do = func() error { return logs.Make(ctx, req.Dir, *entries) }
	case *follow > 0:
		do = func() error { return logs.Follow(ctx, os.Stdout, req.Dir, *follow) }
	case *hash > 0:
		do = func() error { return logs.Hash(ctx, os.Stdout, req.Dir, *hash) }
	case *decide > 0:
		do = func() error { return tree.Decide(os.Stdout, req.Dir, *decide) }
	case *load != "":
		do = func() error { return tree.Load(os.Stdout, *load, *passes) }
	}
	if err := do(); err != nil {
		stop()
		fmt.Fprintln(os.Stderr, "bench tree:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, req tree.Request, signatures bool) error {
	if signatures {
		n, err := tree.Signatures(ctx, req.Dir)
		fmt.Println(n, "signatures verified")
		return err
	}
	var err error
	if req.Dir, err = filepath.Abs(req.Dir); err != nil {
		return err
	}
	if req.Bin, err = filepath.Abs(req.Bin); err != nil {
		return err
	}
	req.Log = os.Stderr
	return tree.Make(ctx, req)
}
