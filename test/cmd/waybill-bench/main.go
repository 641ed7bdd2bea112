// Command waybill-bench measures the verifier: of a whole release against a
// bare parallel hash of the same files and against openssl, of single bundles
// against sigstore-go, against cosign and against bare cryptography, of one
// large statement and of manifests of up to a million names, how long it takes
// to start, and what the policy's part is;
// and SBOMs, against syft.
// And how fast a log is followed.
// And the builder, against the bare commands that it runs; the signer, against
// cosign; and the promotion of images, against crane and cosign.
// And the gate as a service, against the cryptography of what it decides about,
// and as a proxy, against the registry behind it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"

	"github.com/waybill-release/waybill/test/bench"
)

// options are the flags.
type options struct {
	root  string
	bin   string
	dir   string
	out   out
	only  string
	peers peers
	work  work
	trees trees
}

// out is what is written besides what is printed.
type out struct {
	json   string
	record bool
}

// trees says which releases outlive a run: none is taken over from an earlier
// one if it is to be fresh, and large ones are kept where somebody said where.
type trees struct{ fresh, kept bool }

// peers are commands to compare with, each of which may be absent.
type peers struct{ cosign, cosign2, crane, syft, registry string }

// work is how much there is to do.
type work struct {
	size    int64
	outputs int
	bundles int
	decided int
	rounds  int
	built   built
	signed  signed
	// promoted is of images.
	promoted promoted
	gated    gated
	proxied  proxied
	curved   curved
	names    int // at most, in one manifest
	entries  int // in the log that is followed
}

const usage = `Usage: waybill-bench [flags]
       waybill-bench hash [--sha512] DIR

Make a release of about five gigabytes and some hundred bundles once, and measure
how long verifying them takes, compared with programs that do the same and with
the least that the work takes on this machine; builds, compared with their commands
alone; signing; promoting images; and deciding about them over HTTP. Commands run
alternately; medians and ratios are printed. Nothing passes or fails on time.

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
	if len(args) > 0 && args[0] == "sbom" {
		return things(args[1:])
	}
	o, err := parse(args)
	if err != nil {
		return err
	}
	s, err := prepare(ctx, o)
	if err != nil {
		return err
	}
	record, failed := s.measure(ctx)
	failed = errors.Join(failed, s.clear())
	if ctx.Err() != nil || len(record.Sections) == 0 {
		return failed
	}
	if err := record.Print(os.Stdout); err != nil {
		return errors.Join(failed, err)
	}
	if o.out.json != "" {
		if err := record.Save(o.out.json); err != nil {
			return errors.Join(failed, err)
		}
	}
	return errors.Join(failed, s.compareGoals(record))
}

// Where a run is recorded, below the root of the repository.
const (
	recorded = "test/bench/record.json"
	page     = "docs/performance.md"
	picture  = "docs/performance.svg"
)

// compareGoals prints the table of goals beside the recorded one, and records it
// instead where that is asked for.
func (s *setting) compareGoals(record bench.Record) error {
	path := filepath.Join(s.root, recorded)
	was, err := bench.ReadSummary(path)
	if err != nil {
		return err
	}
	now := bench.Summary{Time: record.Time, Machine: record.Machine, Peers: s.peers.versions(), Lines: s.lines, Curves: s.drawn}
	if err := now.Print(os.Stdout, was); err != nil || !s.out.record {
		return err
	}
	now = now.Kept(was)
	return errors.Join(now.Save(path), writePage(s.root, now))
}

// writePage writes the page and the picture of a record.
func writePage(root string, record bench.Summary) error {
	text, err := os.ReadFile(filepath.Join(root, page))
	if err != nil {
		return err
	}
	written, err := record.Page(string(text))
	if err != nil {
		return err
	}
	return errors.Join(
		os.WriteFile(filepath.Join(root, page), []byte(written), 0o644),
		os.WriteFile(filepath.Join(root, picture), []byte(bench.Draw(record.Curves)), 0o644))
}

// versions are those of the peers that are at hand.
func (p peers) versions() (list []string) {
	for _, ask := range [][]string{{p.cosign, "version"}, {p.cosign2, "version"}, {p.crane, "version"}, {p.syft, "--version"}, {p.registry, "--version"}} {
		if ask[0] == "" {
			continue
		}
		said, err := exec.Command(ask[0], ask[1:]...).CombinedOutput()
		if found := versionWord.FindString(string(said)); err == nil && found != "" {
			list = append(list, filepath.Base(ask[0])+" "+found)
		}
	}
	return list
}

var versionWord = regexp.MustCompile(`v?[0-9]+\.[0-9]+\.[0-9]+[^\s+]*`)

func parse(args []string) (options, error) {
	var o options
	f := flag.NewFlagSet("waybill-bench", flag.ExitOnError)
	f.StringVar(&o.root, "root", ".", "checkout of Waybill, to build the commands from")
	f.StringVar(&o.bin, "bin", "", "directory of the product's commands, already built; default: build them")
	f.StringVar(&o.dir, "dir", "", "keep the commands and the release here; default: the user's cache directory, where no release of more than 2 GB is kept")
	f.StringVar(&o.out.json, "json", "", "write the record to this file")
	f.BoolVar(&o.out.record, "record", false, "record the goals in "+recorded+", "+page+" and "+picture+"; what -only leaves out stays")
	f.StringVar(&o.only, "only", "", "measure only these, separated by commas: "+strings.Join(names(), ", ")+"; default: those that goals are about")
	f.StringVar(&o.peers.cosign, "cosign", "", "cosign, to compare with; without it that is left out")
	f.StringVar(&o.peers.cosign2, "cosign2", "", "cosign v2, to compare signing with too; without it that is left out")
	f.StringVar(&o.peers.crane, "crane", "", "crane, to compare promotion with; without it that is left out")
	f.StringVar(&o.peers.syft, "syft", "", "syft, to compare with; without it that is left out")
	f.StringVar(&o.peers.registry, "registry", "", "the registry of distribution, for the part proxy; without it that is left out")
	f.Int64Var(&o.work.size, "size", 1_900_000_000, "bytes of all built files together")
	f.IntVar(&o.work.outputs, "outputs", 352, "number of built files; each has a signature and an SBOM besides")
	f.IntVar(&o.work.bundles, "bundles", 200, "number of bundles of each kind")
	f.IntVar(&o.work.decided, "decided", 1000, "number of built files, all of them small, about which a policy decides")
	f.IntVar(&o.work.rounds, "rounds", 3, "how often each command is measured")
	o.work.built = built{bytes: 1_000_000_000, platforms: 4, rounds: 5}
	o.work.names, o.work.entries = 1_000_000, 1_000_000
	o.work.signed = signed{files: 500, images: 40, sample: 16, rounds: 1}
	o.work.promoted = promoted{images: 400, sample: 8, rounds: 1, plans: []tree{{150, 3}, {460, 21}}}
	o.work.gated = gated{images: 400, warm: 20_000, soak: 1_000_000, rounds: 2}
	o.work.proxied = proxied{layer: 256 << 20, rounds: 7}
	o.work.curved = curved{far: 100, quota: 10}
	f.BoolVar(&o.trees.fresh, "fresh", false, "make the release again, although it is there")
	short := f.Bool("short", false, "64 MB, 50 bundles, 100 small files and 3 rounds, to see that it works")
	f.Usage = func() { fmt.Fprint(os.Stderr, usage); f.PrintDefaults() }
	if err := f.Parse(args); err != nil {
		return options{}, err
	}
	if *short {
		o.work = work{size: 64_000_000, outputs: 60, bundles: 50, decided: 100, rounds: 3, names: 10_000, entries: 20_000, built: built{bytes: 64_000_000, platforms: 2, rounds: 1},
			signed: signed{files: 60, images: 6, sample: 4, rounds: 1}, promoted: promoted{images: 60, sample: 4, rounds: 1, plans: []tree{{10, 3}}},
			gated: gated{images: 60, warm: 2_000, soak: 20_000, rounds: 1}, proxied: proxied{layer: 64 << 20, rounds: 3}, curved: curved{far: 10, quota: 2}}
	}
	o.work.signed.rounds = min(o.work.signed.rounds, o.work.rounds)
	if o.work.rounds < 1 || o.work.bundles < 1 || f.NArg() > 0 {
		return options{}, fmt.Errorf("want at least one round, one bundle and no arguments, got %d, %d and %q", o.work.rounds, o.work.bundles, f.Args())
	}
	for name := range strings.SplitSeq(o.only, ",") {
		if o.only != "" && !slices.Contains(names(), name) {
			return options{}, fmt.Errorf("nothing to measure is called %q; there are %s", name, strings.Join(names(), ", "))
		}
	}
	if o.trees.kept = o.dir != ""; !o.trees.kept {
		cache, err := os.UserCacheDir()
		if err != nil {
			return options{}, err
		}
		o.dir = filepath.Join(cache, "waybill-bench")
	}
	var err error
	for _, peer := range []*string{&o.peers.cosign, &o.peers.cosign2, &o.peers.crane, &o.peers.syft, &o.peers.registry} {
		if *peer, err = known(*peer); err != nil {
			return options{}, err
		}
	}
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
