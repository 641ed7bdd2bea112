// Command waybill-bench-sign signs many things once, with waybill's signer or
// with cosign, and says what that took. waybill-bench lets its ways take turns.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"

	"github.com/waybill-release/waybill/test/bench/sign"
)

func main() {
	var req sign.Request
	flags := flag.NewFlagSet("waybill-bench-sign", flag.ExitOnError)
	flags.StringVar(&req.What, "what", sign.Files, "what to sign: files, statement or images")
	flags.StringVar(&req.Way, "way", sign.Waybill, "who signs: waybill, cosign2 or cosign3")
	flags.IntVar(&req.N, "n", 500, "how many")
	flags.DurationVar(&req.Batch, "batch", 0, "how often the log is through with a batch")
	flags.IntVar(&req.Rate, "rate", 0, "how many entries a second the log takes; 0 for all")
	flags.IntVar(&req.Abreast, "abreast", 1, "processes of cosign at a time")
	flags.StringVar(&req.Peer, "peer", "", "the cosign")
	flags.StringVar(&req.Dir, "dir", "", "where scenes are made")
	flags.StringVar(&req.Registry, "registry", "", "where the images of a child are")
	subjects := flags.String("subjects", "", "work on a statement of so many subjects: mint it, state, bare, one, all or hash")
	child := flags.Bool("child", false, "be the one that signs")
	_ = flags.Parse(os.Args[1:]) // it ends the command itself
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, req, *subjects, *child); err != nil {
		stop()
		fmt.Fprintln(os.Stderr, "bench sign:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, req sign.Request, subjects string, child bool) (err error) {
	switch subjects {
	case "":
	case "mint":
		return sign.MintLarge(ctx, req.Dir, req.N)
	default:
		return sign.Subjects(os.Stdout, req.Dir, subjects, req.N)
	}
	if child {
		return sign.Child(ctx, req)
	}
	if req.Self, err = os.Executable(); err != nil {
		return err
	}
	return sign.Run(ctx, os.Stdout, req)
}
