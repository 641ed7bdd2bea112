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

// watch follows logs of ever more entries from their beginning.
func (s *setting) watch(ctx context.Context) ([]bench.Section, error) {
	dir := filepath.Join(s.dir, "entries")
	defer func() { _ = os.RemoveAll(dir) }() // two gigabytes, made in a minute
	var commands []bench.Command
	for _, n := range []int{s.work.entries / 10, s.work.entries} {
		own, count := filepath.Join(dir, strconv.Itoa(n)), strconv.Itoa(n)
		progress("a log of %d entries is made", n)
		if said, err := exec.CommandContext(ctx, s.maker(), "--dir", own, "--entries", count).CombinedOutput(); err != nil {
			return nil, fmt.Errorf("making a log of %d entries: %w\n%s", n, err, said)
		}
		commands = append(commands,
			bench.Command{Name: "followed, " + count + " entries", Args: []string{s.maker(), "--dir", own, "--follow", count}, Units: n, Inner: true},
			bench.Command{Name: "read and hashed, " + count + " entries", Args: []string{s.maker(), "--dir", own, "--hash-entries", count}, Units: n, Inner: true})
	}
	rows, err := s.turns(ctx, commands)
	if err != nil {
		return nil, err
	}
	return []bench.Section{{
		Name: "following a log from its beginning, from tiles on the disk", Unit: "record", Rows: rows,
		Ratios: []bench.Ratio{goal(rows[2].Over(rows[0]), "1x"), rows[2].Over(rows[3])},
		Notes: []string{
			"the goal is 50,000 entries a second on two cores, which is at most 40 us of CPU for each record, and the same peak however many there are",
			"all certificates have the issuer of the identities that are watched, and one entry is by one of them",
		},
	}}, nil
}
