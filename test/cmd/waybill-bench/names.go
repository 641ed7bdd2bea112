package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"

	"github.com/waybill-release/waybill/test/bench"
)

// names reads manifests of ever more names, and compares them with a place.
func (s *setting) names(ctx context.Context) ([]bench.Section, error) {
	dir := filepath.Join(s.dir, "names")
	defer func() { _ = os.RemoveAll(dir) }() // half a gigabyte, made in seconds
	var commands []bench.Command
	for n := 100; n <= s.work.names; n *= 10 {
		own := filepath.Join(dir, strconv.Itoa(n))
		progress("a manifest of %d names is made", n)
		if said, err := exec.CommandContext(ctx, s.maker(), "--dir", own, "--names", strconv.Itoa(n)).CombinedOutput(); err != nil {
			return nil, fmt.Errorf("making a manifest of %d names: %w\n%s", n, err, said)
		}
		commands = append(commands, bench.Command{
			Name: fmt.Sprintf("%d names", n), Args: []string{s.maker(), "--dir", own, "--census", strconv.Itoa(n)}, Units: n, Inner: true,
		})
	}
	rows, err := s.turns(ctx, commands)
	if err != nil {
		return nil, err
	}
	section := bench.Section{Name: "reading a manifest and comparing it with a place, files left out", Unit: "name", Rows: rows}
	if len(rows) > 1 {
		section.Ratios = []bench.Ratio{goal(rows[len(rows)-1].Over(rows[1]), "1x")}
	}
	s.aim(bench.Counted("P5", fmt.Sprintf("memory to read a manifest of %d names and compare it with a place", s.work.names), "MiB", 256, bench.MiB(rows[len(rows)-1])))
	section.Notes = []string{
		"ratios are of one name; the goal is that it costs the same however many there are, and a peak of 200 MB at a million",
		"above a thousand names the manifest is on pages, which are read one at a time; what the place lists is held",
		"the digests of both sides are in it: of pages as they are read, and of the bytes of each name, which stand for a file's",
	}
	return []bench.Section{section}, nil
}
