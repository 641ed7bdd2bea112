// Command waybill-bench-gate measures the gate as a service once, or what a
// decision cannot cost less than, and says what that took. waybill-bench lets
// its ways take turns.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"

	"github.com/waybill-release/waybill/test/bench/gate"
)

func main() {
	var req gate.Request
	flags := flag.NewFlagSet("waybill-bench-gate", flag.ExitOnError)
	flags.StringVar(&req.Way, "way", gate.Cold, "cold, warm or soak: of the service; verify, sigstore-go or bare: of the same bundles")
	flags.StringVar(&req.Images, "images", "attested", "which: "+strings.Join(gate.Kinds(), ", "))
	flags.IntVar(&req.N, "n", 1000, "images; for warm and soak, requests")
	flags.IntVar(&req.Abreast, "abreast", 16, "requests at a time")
	flags.DurationVar(&req.Trip, "trip", 0, "a round trip to the registry and back")
	flags.BoolVar(&req.Secure, "tls", false, "TLS and HTTP/2")
	flags.StringVar(&req.Bin, "bin", "", "directory of waybill")
	flags.StringVar(&req.Seed, "seed", "", "directory of the images")
	flags.StringVar(&req.Dir, "dir", "", "where scenes are made")
	flags.StringVar(&req.Registry, "registry", "", "with a registry of distribution, at this path: pulls through waybill gate proxy; -n is how often")
	flags.IntVar(&req.Bytes, "bytes", 256<<20, "of a layer, with -registry")
	pass, to := flags.String("pass", "", "only pass on what comes at this address"), flags.String("to", "", "where -pass passes it on to")
	mint := flags.Bool("mint", false, "make the images")
	_ = flags.Parse(os.Args[1:]) // it ends the command itself
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	var err error
	switch {
	case *pass != "":
		err = gate.Pass(*pass, *to)
	case *mint:
		err = gate.Seed(ctx, req.Seed, req.N)
	case req.Registry != "":
		err = gate.Proxy(ctx, os.Stdout, req)
	default:
		err = gate.Run(ctx, os.Stdout, req)
	}
	if err != nil {
		stop()
		fmt.Fprintln(os.Stderr, "bench gate:", err)
		os.Exit(1)
	}
}
