package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/waybill-release/waybill/test/bench"
)

// built is how much there is to build.
type built struct {
	bytes     int64 // of a tree that one step writes
	platforms int   // for which the example is compiled
	rounds    int
}

// builds compares builds with the commands that they run.
func (s *setting) builds(ctx context.Context) ([]bench.Section, error) {
	defer func() { _ = os.RemoveAll(s.scratch()) }() // what it held is of no use
	look := exec.CommandContext(ctx, s.builder(), append(s.places(), "-walls")...)
	look.Stderr = os.Stderr
	said, err := look.Output()
	if err != nil {
		return nil, fmt.Errorf("looking for walls: %w", err)
	}
	walls := strings.TrimSpace(string(said))
	platforms := strconv.Itoa(s.work.built.platforms)
	sections := []bench.Section{{
		Name: "a build behind walls: the example for " + platforms + " platforms, with empty caches",
		Rows: s.ways(walls, "compile", 2*s.work.built.platforms+1, "-platforms", platforms), // compile, pack, one image
	}}
	for _, files := range []int{8, 1000} {
		sections = append(sections, bench.Section{
			Name: fmt.Sprintf("a build behind walls: one step that writes %.2f GB in %d files", float64(s.work.built.bytes)/1e9, files),
			Rows: s.ways(walls, "tree", 1, "-files", strconv.Itoa(files), "-bytes", strconv.FormatInt(s.work.built.bytes, 10)),
		})
	}
	for i := range sections {
		if err := s.compare(ctx, &sections[i]); err != nil {
			return nil, err
		}
	}
	return sections, nil
}

func (s *setting) builder() string { return filepath.Join(s.dir, "bin", "waybill-bench-build") }

func (s *setting) scratch() string { return filepath.Join(s.dir, "build") }

func (s *setting) places() []string {
	return []string{"-bin", s.bin, "-example", filepath.Join(s.root, "test", "example"), "-dir", s.scratch()}
}

// Rows, in the order in which they take turns.
const (
	rowBare = iota
	rowSync
	rowWaybill
	rowHash
	rowHashAll
	rowIdle
)

// ways are the ways to do a work, not measured yet. Their names are those of
// waybill-bench-build, which carries a lab and is no part of this process.
func (s *setting) ways(walls, work string, steps int, flags ...string) []bench.Row {
	row := func(name, work, way string, flags ...string) bench.Row {
		args := append([]string{s.builder(), "-work", work, "-way", way}, s.places()...)
		return bench.Row{Command: bench.Command{Name: name, Args: append(args, flags...), Inner: true}}
	}
	return []bench.Row{
		rowBare:    row("bare", work, "bare", flags...),
		rowSync:    row("bring that to the disk", work, "sync", flags...),
		rowWaybill: row("waybill build, "+walls, work, "waybill", flags...),
		rowHash:    row("hash it", work, "hash", flags...),
		rowHashAll: row("hash it, all processors", work, "hash-all", flags...),
		rowIdle:    row(fmt.Sprintf("waybill build of %d idle", steps), "idle", "waybill", "-steps", strconv.Itoa(steps)),
	}
}

// compare measures the rows of a section, and what they are to each other.
func (s *setting) compare(ctx context.Context, section *bench.Section) error {
	var commands []bench.Command
	for _, r := range section.Rows {
		commands = append(commands, r.Command)
	}
	rows, err := bench.Alternate(ctx, commands, s.work.built.rounds, func(what string) { progress("%s", what) })
	if err != nil {
		return err
	}
	section.Rows = rows
	rest := without(rows[rowWaybill], rows[rowBare], rows[rowSync], rows[rowHash], rows[rowIdle])
	section.Ratios = []bench.Ratio{
		rows[rowWaybill].Over(rows[rowBare]),
		rows[rowHash].Over(rows[rowBare]),
		goal(without(rows[rowWaybill], rows[rowHash]).Over(rows[rowBare]), "1.03x"),
		without(rows[rowWaybill], rows[rowHash]).OverSum(rows[rowBare], rows[rowSync]),
		rest.Over(rows[rowBare]),
	}
	section.Notes = []string{
		fmt.Sprintf("medians of %d rounds; the goal is 3%% more than bare, and hashing", s.work.built.rounds),
		fmt.Sprintf("beyond all of these, each once, it takes %.3f s, %.3f s of CPU", rest.Median.Wall.Seconds(), rest.Median.CPU.Seconds()),
		"an idle step writes a line: what it takes is a checkout, walls, a signature, and waiting for the lab's log, which after the first takes an entry a second",
		"archives and images are made by waybill build alone: bare, only the steps that have commands are run",
		"bare commands run one after another, each with an empty home; the peak is that of the lab, and says nothing",
	}
	return nil
}

// without is a row less what others take of it, round by round.
func without(row bench.Row, others ...bench.Row) bench.Row {
	rest := bench.Row{Command: bench.Command{Name: row.Name}}
	for _, o := range others {
		rest.Name += " - " + o.Name
	}
	rest.Name = "(" + rest.Name + ")"
	var wall, cpu []time.Duration
	for i, sample := range row.Samples {
		for _, o := range others {
			sample.Wall -= o.Samples[i].Wall
			sample.CPU -= o.Samples[i].CPU
		}
		rest.Samples = append(rest.Samples, sample)
		wall, cpu = append(wall, sample.Wall), append(cpu, sample.CPU)
	}
	rest.Median = bench.Sample{Wall: bench.Median(wall), CPU: bench.Median(cpu)}
	return rest
}
