// Command waybill-bench-promote brings images from one registry to another
// once, with waybill or with a peer, and says what that took. waybill-bench
// lets its ways take turns.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"

	"github.com/waybill-release/waybill/test/bench/promote"
)

func main() {
	var req promote.Request
	var tree promote.Tree
	flags := flag.NewFlagSet("waybill-bench-promote", flag.ExitOnError)
	flags.StringVar(&req.Way, "way", promote.Apply, "who does what: apply, again, gate, crane or cosign")
	flags.IntVar(&req.N, "n", 1000, "images")
	flags.DurationVar(&req.Trip, "trip", 0, "a round trip to a registry and back")
	flags.IntVar(&req.Rate, "rate", 0, "requests a second that both registries answer together; 0: all")
	flags.IntVar(&req.Abreast, "abreast", 1, "processes of a peer at a time")
	flags.StringVar(&req.Bin, "bin", "", "directory of waybill")
	flags.StringVar(&req.Peer, "peer", "", "the crane or cosign")
	flags.StringVar(&req.Seed, "seed", "", "directory of the images")
	flags.StringVar(&req.Dir, "dir", "", "where scenes are made")
	mint := flags.Bool("mint", false, "make the images")
	flags.IntVar(&tree.Manifests, "manifests", 0, "write so many manifests of images to -dir, and nothing else")
	flags.IntVar(&tree.Images, "images", 10, "images of such a manifest")
	flags.IntVar(&tree.Digests, "digests", 10, "digests of such an image")
	flags.IntVar(&tree.Regions, "regions", 3, "destinations of such a manifest")
	_ = flags.Parse(os.Args[1:]) // it ends the command itself
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	var err error
	switch {
	case *mint:
		err = promote.Seed(ctx, req.Seed, req.N)
	case tree.Manifests > 0:
		err = tree.Write(req.Dir)
	default:
		err = promote.Run(ctx, os.Stdout, req)
	}
	if err != nil {
		stop()
		fmt.Fprintln(os.Stderr, "bench promote:", err)
		os.Exit(1)
	}
}
