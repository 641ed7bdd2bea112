// Command waybill-bench-build builds something once, bare or with waybill, and
// says what that took. waybill-bench lets its ways take turns.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"

	"github.com/waybill-release/waybill/test/bench/build"
)

func main() {
	var req build.Request
	flag.StringVar(&req.Work, "work", build.Compile, "what to build: compile, idle or tree")
	flag.StringVar(&req.Way, "way", build.Bare, "how: bare, sync, waybill, hash or hash-all")
	flag.StringVar(&req.Bin, "bin", "bin", "directory of the built commands")
	flag.StringVar(&req.Example, "example", "example", "the example project")
	flag.StringVar(&req.Dir, "dir", "", "where to build")
	flag.IntVar(&req.Platforms, "platforms", 4, "how many platforms to compile for")
	flag.IntVar(&req.Steps, "steps", 1, "how many idle steps")
	flag.IntVar(&req.Files, "files", 8, "files of the tree")
	flag.Int64Var(&req.Bytes, "bytes", 1_000_000_000, "bytes of the tree")
	walls := flag.Bool("walls", false, "measure nothing, and say behind which walls this machine builds")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, req, *walls); err != nil {
		stop()
		fmt.Fprintln(os.Stderr, "bench build:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, req build.Request, walls bool) (err error) {
	for _, dir := range []*string{&req.Bin, &req.Example, &req.Dir} {
		if *dir, err = filepath.Abs(*dir); err != nil {
			return err
		}
	}
	if walls {
		name, err := build.Walls(ctx, req)
		if err == nil {
			fmt.Println(name)
		}
		return err
	}
	return build.Run(ctx, os.Stdout, req)
}
