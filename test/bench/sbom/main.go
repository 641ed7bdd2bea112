// Command sbom measures how long it takes to describe the same things with
// waybill and with syft, how many packages each finds, and how many of those
// are true: Go programs, a Go source tree, and an image with the packages of a
// distribution and programs.
//
//	go run ./bench/sbom -waybill ../bin/waybill -syft ../test/bin/syft
//
// The programs are the tools of the Go toolchain and what is given with
// -programs; the truth about them is what they say themselves, read with the
// standard library. Without -syft there is no peer, and that is said. Nothing
// passes or fails on time.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"

	"github.com/waybill-release/waybill/test/bench"
)

type options struct {
	waybill, syft, programs, source string
	dir, json                       string
	rounds                          int
	prepare                         bool
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	var o options
	flag.StringVar(&o.waybill, "waybill", "../bin/waybill", "the program that is measured")
	flag.StringVar(&o.syft, "syft", "", "its peer, if there is one")
	flag.StringVar(&o.programs, "programs", "", "directory of more Go programs to describe")
	flag.StringVar(&o.source, "source", "..", "Go source tree to describe")
	flag.StringVar(&o.dir, "dir", "", "directory for what is made; a temporary one if not given")
	flag.StringVar(&o.json, "json", "", "write all samples to this file")
	flag.IntVar(&o.rounds, "rounds", 5, "how often each command has its turn")
	flag.BoolVar(&o.prepare, "prepare", false, "only make what is described")
	flag.Parse()
	if err := run(ctx, o, os.Stdout); err != nil {
		stop()
		fmt.Fprintln(os.Stderr, "sbom:", err)
		os.Exit(1)
	}
}

// result is one thing that was described by all.
type result struct {
	What string      `json:"what"`
	Rows []bench.Row `json:"rows"`
	// Found counts the packages of each command, True those of them that are
	// so, Truth how many there are.
	Found map[string]int `json:"found"`
	True  map[string]int `json:"true"`
	Truth int            `json:"truth"`
}

func run(ctx context.Context, o options, out io.Writer) error {
	if o.dir == "" {
		dir, err := os.MkdirTemp("", "waybill-bench-sbom-")
		if err != nil {
			return err
		}
		defer func() { _ = os.RemoveAll(dir) }() // what it held is of no use
		o.dir = dir
	}
	for _, path := range []*string{&o.waybill, &o.syft, &o.source, &o.dir, &o.programs} {
		if *path != "" {
			absolute, err := filepath.Abs(*path)
			if err != nil {
				return err
			}
			*path = absolute
		}
	}
	if o.prepare {
		return prepare(o)
	}
	things, err := prepared(ctx, o)
	if err != nil {
		return err
	}
	var all []result
	for _, t := range things {
		r, err := measure(ctx, o, t)
		if err != nil {
			return fmt.Errorf("%s: %w", t.What, err)
		}
		show(out, r)
		all = append(all, r)
	}
	if o.syft == "" {
		fmt.Fprintln(out, "no peer was given: -syft names one")
	}
	if o.json == "" {
		return nil
	}
	raw, err := json.MarshalIndent(all, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(o.json, append(raw, '\n'), 0o644)
}

func measure(ctx context.Context, o options, t thing) (result, error) {
	document := func(name string) string { return filepath.Join(o.dir, name+".spdx.json") }
	commands := []bench.Command{{Name: "waybill", Dir: o.dir, Args: []string{o.waybill, "sbom", "generate", t.Path, "--name", "x", "--to", document("waybill")}}}
	if o.syft != "" {
		commands = append(commands, bench.Command{Name: "syft", Dir: o.dir, Args: []string{
			o.syft, "scan", t.Scheme + ":" + t.Path, "-q", "-o", "spdx-json=" + document("syft"),
		}})
	}
	rows, err := bench.Alternate(ctx, commands, o.rounds, func(s string) { fmt.Fprintln(os.Stderr, t.What+": "+s) })
	if err != nil {
		return result{}, err
	}
	r := result{What: t.What, Rows: rows, Found: map[string]int{}, True: map[string]int{}, Truth: len(t.Truth)}
	for _, row := range rows {
		found, err := packagesOf(document(row.Name))
		if err != nil {
			return result{}, err
		}
		r.Found[row.Name] = len(found)
		for purl := range found {
			if t.Truth[purl] {
				r.True[row.Name]++
			}
		}
	}
	return r, nil
}

// packagesOf are the package URLs of a document, without qualifiers.
func packagesOf(path string) (map[string]bool, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var doc struct {
		Packages []struct {
			ExternalRefs []struct{ ReferenceType, ReferenceLocator string }
		}
	}
	if err := json.Unmarshal(raw, &doc); err != nil {
		return nil, err
	}
	found := map[string]bool{}
	for _, p := range doc.Packages {
		for _, ref := range p.ExternalRefs {
			if ref.ReferenceType == "purl" {
				found[plain(ref.ReferenceLocator)] = true
			}
		}
	}
	return found, nil
}

// plain is a package URL without what tools write in different ways.
func plain(purl string) string {
	purl, _, _ = strings.Cut(purl, "?")
	purl, _, _ = strings.Cut(purl, "#")
	return strings.NewReplacer("%2B", "+", "%3A", ":", "%2b", "+", "%3a", ":").Replace(purl)
}

func show(out io.Writer, r result) {
	fmt.Fprintf(out, "%s: %d packages are there\n", r.What, r.Truth)
	for _, row := range r.Rows {
		fmt.Fprintf(out, "  %-8s %8.3fs wall %8.3fs CPU %6d MiB  %5d packages, %d of them those\n", row.Name,
			row.Median.Wall.Seconds(), row.Median.CPU.Seconds(), row.Median.Peak>>20, r.Found[row.Name], r.True[row.Name])
	}
	if len(r.Rows) > 1 {
		ratio := r.Rows[1].Over(r.Rows[0])
		fmt.Fprintf(out, "  %s takes %.1f× the wall time and %.1f× the CPU time\n", r.Rows[1].Name, ratio.Wall, ratio.CPU)
	}
}
