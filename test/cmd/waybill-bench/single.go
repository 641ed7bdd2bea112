package main

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"strconv"

	"github.com/waybill-release/waybill/test/bench"
)

// A set is bundles of one kind, as package bundles names them.
type set struct {
	shape  string
	shared bool
	what   string
	least  float64 // for sigstore-go's time over ours
}

func sets() []set {
	return []set{
		{"rekor-v1", false, "Rekor v1 with a promise, a certificate each", 1.9},
		{"rekor-v1", true, "Rekor v1 with a promise, one certificate", 6},
		// A timestamp is a signature of P-384 for each bundle, whatever is shared.
		{"rekor-v2", false, "Rekor v2 with a timestamp, a certificate each", 1.9},
		{"rekor-v2", true, "Rekor v2 with a timestamp, one certificate", 3.3},
	}
}

// Rows of a set.
const (
	ours = iota
	library
	limit
	cosign // last, for it may be absent
)

// passes make a run long enough for its start not to matter. Each of ours
// begins with a new verifier.
const passes = 5

// processes is how many of cosign there are in one run, at most.
const processes = 20

// bundles verifies single bundles.
func (s *setting) bundles(ctx context.Context) ([]bench.Section, error) {
	var sections []bench.Section
	for _, one := range sets() {
		rows, err := s.turns(ctx, s.single(one))
		if err != nil {
			return nil, err
		}
		section := bench.Section{
			Name: fmt.Sprintf("%d bundles: %s", s.work.bundles, one.what), Unit: "bundle", Rows: rows,
			Ratios: []bench.Ratio{goal(rows[library].Over(rows[ours]), fmt.Sprintf(">= %gx", one.least)), rows[library].Over(rows[limit]), rows[ours].Over(rows[limit])},
			Notes:  []string{"bare signature checks are the limit: no verifier that drops none of them can pass the ratio of sigstore-go to it"},
		}
		if len(rows) > cosign {
			section.Ratios = append(section.Ratios, rows[cosign].Over(rows[ours]))
		} else {
			section.Notes = append(section.Notes, "no cosign was given to compare with")
		}
		s.aim(bench.CPU.Beats("P4", "verify a bundle: "+one.what, one.least, rows[ours], rows[library]), bench.CPU.Limited("P4", "verify a bundle: "+one.what+", against the limit", 1.35, rows[ours], rows[limit]))
		sections = append(sections, section)
	}
	return sections, nil
}

// single are the ways to verify a set.
func (s *setting) single(one set) []bench.Command {
	command := func(name, way string, passes int, more ...string) bench.Command {
		args := []string{
			s.worker(), "--dir", s.minted, "--shape", one.shape, "--shared=" + strconv.FormatBool(one.shared),
			"--way", way, "--n", strconv.Itoa(s.work.bundles), "--passes", strconv.Itoa(passes),
		}
		return bench.Command{Name: name, Args: append(args, more...), Units: passes * s.work.bundles}
	}
	list := []bench.Command{
		ours:    command("waybill, one process", "waybill", passes),
		library: command("sigstore-go in a loop, one process", "sigstore-go", 1),
		limit:   command("bare signature checks", "bare", passes),
	}
	if s.peers.cosign != "" {
		n := min(processes, s.work.bundles)
		c := command("cosign verify-blob, one process each", "processes", 1, "--cosign", s.peers.cosign, "--n", strconv.Itoa(n))
		c.Units = n
		list = append(list, c)
	}
	return list
}

// statement verifies one very large statement.
func (s *setting) statement(ctx context.Context) ([]bench.Section, error) {
	rows, err := s.turns(ctx, []bench.Command{
		{Name: "waybill", Args: []string{s.worker(), "--dir", s.minted, "--way", "statement"}},
		{Name: "SHA-256 of the bundle", Args: []string{s.worker(), "--dir", s.minted, "--way", "statement-hash"}},
	})
	if err != nil {
		return nil, err
	}
	more := (rows[0].Median.CPU - rows[1].Median.CPU).Seconds() * 1000
	line := bench.Counted("P5", "read a statement of 100000 subjects, without its SHA-256", "ms CPU", 150, more)
	line.Limit = "its SHA-256: " + bench.CPU.Says(rows[1])
	s.aim(line, bench.Counted("P5", "memory to read it", "MiB", 122, bench.MiB(rows[0])))
	return []bench.Section{{
		Name: "one statement of 100000 subjects", Rows: rows, Ratios: []bench.Ratio{rows[0].Over(rows[1])},
		Notes: []string{
			"the goal is 150 ms more than its own SHA-256, and at most 128 MB",
			"sigstore-go and cosign refuse more than 1024 subjects, so there is nobody to compare with",
		},
	}}, nil
}

// starts is how often a start is measured.
const starts = 20

// start starts the verifier and does nothing.
func (s *setting) start(ctx context.Context) ([]bench.Section, error) {
	commands := []bench.Command{{Name: "k8s-verify-release --version", Args: []string{s.verifier(), "--version"}}}
	if s.peers.cosign != "" {
		commands = append(commands, bench.Command{Name: filepath.Base(s.peers.cosign) + " version", Args: []string{s.peers.cosign, "version"}})
	}
	rows, err := bench.Alternate(ctx, commands, starts, func(string) {})
	if err != nil {
		return nil, err
	}
	section := bench.Section{Name: "start", Rows: rows, Notes: []string{"the goal is 15 ms of CPU"}}
	line := bench.Counted("P14", "start of the verifier", "ms CPU", 15, rows[0].Median.CPU.Seconds()*1000)
	if len(rows) > 1 {
		section.Ratios = []bench.Ratio{rows[1].Over(rows[0])}
		line.Peer = rows[1].Name + ": " + bench.CPU.Says(rows[1])
	}
	s.aim(line)
	return []bench.Section{section}, nil
}

// known finds a command that is compared with.
func known(command string) (string, error) {
	if command == "" {
		return "", nil
	}
	path, err := exec.LookPath(command)
	if err != nil {
		return "", fmt.Errorf("looking for a peer: %w", err)
	}
	return filepath.Abs(path)
}
