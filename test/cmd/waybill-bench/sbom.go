package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/waybill-release/waybill/test/bench"
	"github.com/waybill-release/waybill/test/bench/sbom"
)

// described is how many packages the large document has.
const described = 100_000

// things does what must be done in a process of its own: it makes what is
// described, hashes it, or counts packages.
func things(args []string) error {
	f := flag.NewFlagSet("sbom", flag.ExitOnError)
	var o sbom.Options
	f.StringVar(&o.Dir, "dir", "", "make what is described here")
	f.StringVar(&o.Programs, "programs", "", "Go programs")
	f.StringVar(&o.Source, "source", "", "Go source tree")
	f.IntVar(&o.Packages, "packages", described, "packages of the large document")
	hash := f.String("hash", "", "only hash the files of this directory")
	count := f.String("count", "", "only count the packages of this document")
	of := f.Int("of", 0, "number of what it is about")
	if err := f.Parse(args); err != nil {
		return err
	}
	switch {
	case *hash != "":
		_, err := sbom.Hash(*hash)
		return err
	case *count != "":
		c, err := sbom.CountIn(o.Dir, *of, *count)
		if err != nil {
			return err
		}
		return json.NewEncoder(os.Stdout).Encode(c)
	}
	return sbom.Make(o)
}

// sboms measures how long it takes to describe the same things with waybill
// and with syft, and how many packages each finds.
func (s *setting) sboms(ctx context.Context) ([]bench.Section, error) {
	dir := filepath.Join(s.dir, "sbom-1")
	if err := s.makeThings(ctx, dir); err != nil {
		return nil, err
	}
	made, err := sbom.Made(dir)
	if err != nil {
		return nil, err
	}
	d := describing{setting: s, dir: dir}
	var sections []bench.Section
	for i, t := range made {
		measure := d.thing
		if t.What == "document" {
			measure = d.document
		}
		section, err := measure(ctx, i, t)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", t.What, err)
		}
		sections = append(sections, section)
	}
	return sections, nil
}

func (s *setting) makeThings(ctx context.Context, dir string) error {
	if made(dir) && !s.trees.fresh {
		return nil
	}
	if err := errors.Join(os.RemoveAll(dir), os.MkdirAll(filepath.Join(dir, "out"), 0o755)); err != nil {
		return err
	}
	progress("making what is described in %s", dir)
	programs, err := s.programs(ctx, filepath.Join(dir, "built"))
	if err != nil {
		return err
	}
	source, err := filepath.Abs(s.root)
	if err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, self, "sbom", "-dir", dir, "-programs", programs, "-source", source)
	if said, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("making what is described: %w\n%s", err, said)
	}
	return os.WriteFile(filepath.Join(dir, complete), nil, 0o600)
}

// programs collects Go programs that are at hand: the product, what measures
// it and whom it is compared with, and tools of the toolchain to fill up.
func (s *setting) programs(ctx context.Context, dir string) (string, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	tools, err := exec.CommandContext(ctx, "go", "env", "GOTOOLDIR").Output()
	if err != nil {
		return "", err
	}
	from := []string{s.bin, filepath.Join(s.dir, "bin")}
	for _, peer := range []string{s.peers.syft, s.peers.cosign} {
		if peer != "" {
			from = append(from, filepath.Dir(peer))
		}
	}
	for i, where := range append(from, strings.TrimSpace(string(tools))) {
		found, err := filepath.Glob(filepath.Join(where, "*"))
		if err != nil {
			return "", err
		}
		for _, path := range found {
			// The number keeps what comes first first.
			if err := os.Symlink(path, filepath.Join(dir, fmt.Sprintf("%d-%s", i, filepath.Base(path)))); err != nil {
				return "", err
			}
		}
	}
	return dir, nil
}

// describing measures one thing after the other.
type describing struct {
	*setting
	dir string
}

func (d describing) out(name string) string { return filepath.Join(d.dir, "out", name+".spdx.json") }

func (d describing) waybill(name, path string, more ...string) bench.Command {
	args := append([]string{filepath.Join(d.bin, "waybill"), "sbom", "generate", path, "--name", "x", "--to", d.out(name)}, more...)
	return bench.Command{Name: name, Args: args}
}

// roundsOf is how often a thing is described: programs are quick, and a peer takes
// a quarter of a minute for the others.
func (d describing) roundsOf(n int) int {
	if n == 0 {
		return d.work.rounds
	}
	return 1
}

// thing describes one thing.
func (d describing) thing(ctx context.Context, n int, t sbom.Thing) (bench.Section, error) {
	self, err := os.Executable()
	if err != nil {
		return bench.Section{}, err
	}
	commands := []bench.Command{d.waybill("waybill sbom generate", t.Path)}
	if n == 0 {
		commands = append(commands, d.waybill("waybill sbom generate --packages-only", t.Path, "--packages-only"),
			bench.Command{Name: "bare SHA-1, SHA-256 and SHA-512 of the files", Args: []string{self, "sbom", "-hash", t.Path}})
	}
	if d.peers.syft != "" {
		commands = append(commands, bench.Command{Name: "syft scan", Args: []string{
			d.peers.syft, "scan", t.Scheme + ":" + t.Path, "-q", "-o", "spdx-json=" + d.out("syft scan"),
		}})
	}
	rows, err := bench.Alternate(ctx, commands, d.roundsOf(n), func(what string) { progress("%s", what) })
	if err != nil {
		return bench.Section{}, err
	}
	section := bench.Section{Name: "SBOM of " + t.What, Bytes: t.Bytes, Rows: rows}
	for _, row := range rows {
		if _, err := os.Stat(d.out(row.Name)); err != nil {
			continue // the hash writes no document
		}
		note, err := d.count(ctx, n, row.Name)
		if err != nil {
			return bench.Section{}, err
		}
		section.Notes = append(section.Notes, note)
	}
	section.Ratios = d.ratios(n, rows)
	d.aimThing(n, t.What, rows)
	if d.peers.syft == "" {
		section.Notes = append(section.Notes, "no syft was given to compare with")
	}
	return section, nil
}

// aimThing says what goals are about: programs and images.
func (d describing) aimThing(n int, what string, rows []bench.Row) {
	syft := rows[len(rows)-1]
	switch {
	case n == 0:
		d.aim(bench.Counted("P10", "SBOM of "+what+", packages only", "ms", 50, rows[1].Median.Wall.Seconds()*1000),
			bench.Wall.Limited("P10", "SBOM of "+what, 1.2, rows[0], rows[2]))
		if d.peers.syft != "" {
			d.aim(bench.Wall.Beats("P10", "SBOM of "+what+", packages only", 40, rows[1], syft), bench.Wall.Beats("P10", "SBOM of "+what, 3.5, rows[0], syft))
		}
	case n > 1:
		d.aim(bench.Counted("P11", "memory for an SBOM of "+what, "MiB", 256, bench.MiB(rows[0])))
		if d.peers.syft != "" {
			d.aim(bench.Wall.Beats("P11", "SBOM of "+what, 2, rows[0], syft))
		}
	}
}

// ratios are those that have goals: the peer over us, and us over the hash.
func (d describing) ratios(n int, rows []bench.Row) []bench.Ratio {
	goals := map[int]string{0: ">= 3.5x", 1: "", 2: ">= 2x", 3: ">= 2x", 4: ">= 2x"}
	var list []bench.Ratio
	if n == 0 {
		list = append(list, goal(rows[0].Over(rows[2]), "1.2x"))
	}
	if d.peers.syft == "" {
		return list
	}
	syft := rows[len(rows)-1]
	list = append(list, goal(syft.Over(rows[0]), goals[n]))
	if n == 0 {
		list = append(list, goal(syft.Over(rows[1]), ">= 40x"))
	}
	return list
}

// count says what a document found.
func (d describing) count(ctx context.Context, n int, name string) (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	cmd := exec.CommandContext(ctx, self, "sbom", "-dir", d.dir, "-of", strconv.Itoa(n), "-count", d.out(name))
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, os.Stderr
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("counting the packages of %q: %w", name, err)
	}
	var c sbom.Count
	if err := json.Unmarshal(said.Bytes(), &c); err != nil {
		return "", err
	}
	return fmt.Sprintf("%s: %d packages by URL, %d of the %d that are there", name, c.Found, c.True, c.Truth), nil
}

// document reads and checks a large document.
func (d describing) document(ctx context.Context, n int, t sbom.Thing) (bench.Section, error) {
	commands := []bench.Command{{Name: "waybill sbom validate", Args: []string{filepath.Join(d.bin, "waybill"), "sbom", "validate", t.Path}}}
	if d.peers.syft != "" {
		commands = append(commands, bench.Command{Name: "syft convert", Args: []string{d.peers.syft, "convert", t.Path, "-q", "-o", "spdx-json=" + d.out("converted")}})
	}
	rows, err := bench.Alternate(ctx, commands, d.roundsOf(n), func(what string) { progress("%s", what) })
	if err != nil {
		return bench.Section{}, err
	}
	info, err := os.Stat(t.Path)
	if err != nil {
		return bench.Section{}, err
	}
	section := bench.Section{
		Name: fmt.Sprintf("an SPDX document of %d packages, %d MB", described, info.Size()/1_000_000), Bytes: info.Size(), Rows: rows,
		Notes: []string{"the goal is 0.5 s of CPU and 200 MB; syft reads and writes it, for it has no command that only checks"},
	}
	what := fmt.Sprintf("an SPDX document of %d packages", described)
	d.aim(bench.Counted("P12", what, "s CPU", 0.5, rows[0].Median.CPU.Seconds()), bench.Counted("P12", "memory: "+what, "MiB", 190, bench.MiB(rows[0])))
	if len(rows) > 1 {
		section.Ratios = []bench.Ratio{goal(rows[1].Over(rows[0]), ">= 20x")}
		d.aim(bench.Wall.Beats("P12", what, 20, rows[0], rows[1]))
	}
	return section, nil
}
