package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/waybill-release/waybill/test/bench"
)

// starts is how often the start of the verifier is measured.
const starts = 20

// Rows, in the order in which they take turns.
const (
	verify256 = iota
	bare256
	signatures
	verifyAll
	bareBoth
	openssl // last, for it may be absent
)

func (s *setting) commands() ([]bench.Command, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	verify := []string{s.verifier(), version, "--offline", "--profile", filepath.Join(s.tree, profileName)}
	list := []bench.Command{
		verify256:  {Name: "k8s-verify-release --digests sha256", Args: append(verify[:len(verify):len(verify)], "--digests", "sha256")},
		bare256:    {Name: "bare parallel SHA-256", Args: []string{self, "hash", s.released}},
		signatures: {Name: "signatures of the files alone", Args: []string{s.maker(), "--signatures", "--dir", s.tree}},
		verifyAll:  {Name: "k8s-verify-release", Args: verify},
		bareBoth:   {Name: "bare parallel SHA-256 and SHA-512", Args: []string{self, "hash", "--sha512", s.released}},
	}
	if path, err := exec.LookPath("openssl"); err == nil {
		list = append(list, bench.Command{Name: "openssl dgst -sha256, one process", Args: append([]string{path, "dgst", "-sha256"}, s.files...)})
	}
	return list, nil
}

func (s *setting) verifier() string { return filepath.Join(s.bin, "k8s-verify-release") }

// measure lets all commands take turns.
func (s *setting) measure(ctx context.Context) (bench.Record, error) {
	record := bench.Record{Time: time.Now().UTC(), Machine: bench.ThisMachine(), Tree: s.facts, Rounds: s.rounds, Notes: notes()}
	info, err := os.Stat(s.verifier())
	if err != nil {
		return bench.Record{}, err
	}
	record.Binary = info.Size()
	commands, err := s.commands()
	if err != nil {
		return bench.Record{}, err
	}
	watch := func(what string) { progress("%s", what) }
	if record.Rows, err = bench.Alternate(ctx, commands, s.rounds, watch); err != nil {
		return bench.Record{}, err
	}
	record.Ratios = ratios(record.Rows)
	start := bench.Command{Name: "k8s-verify-release --version", Args: []string{s.verifier(), "--version"}}
	rows, err := bench.Alternate(ctx, []bench.Command{start}, starts, func(string) {})
	if err != nil {
		return bench.Record{}, err
	}
	record.Start = rows[0]
	return record, nil
}

func ratios(rows []bench.Row) []bench.Ratio {
	goal := func(r bench.Ratio, goal string) bench.Ratio {
		r.Goal = goal
		return r
	}
	list := []bench.Ratio{
		goal(rows[verify256].Over(rows[bare256]), "1.05x"),
		goal(rows[verifyAll].Over(rows[bareBoth]), "1.05x"),
		rows[verify256].OverSum(rows[bare256], rows[signatures]),
		rows[verifyAll].OverSum(rows[bareBoth], rows[signatures]),
	}
	if len(rows) > openssl {
		list = append(list, rows[openssl].Over(rows[verify256]), rows[openssl].Over(rows[verifyAll]))
	}
	return list
}

func notes() []string {
	return []string{
		"the goal for the peak of the verifier is 32 MiB, whatever the files' sizes",
		"every built file has a signature of its own, which hashing alone does not pay for; the second pair of ratios counts it on both sides",
		"coreutils' sha256sum is not measured: without the processor's SHA instructions it is a floor that anything beats",
	}
}
