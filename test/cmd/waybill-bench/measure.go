package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/waybill-release/waybill/test/bench"
)

// parts are what can be measured, in order.
func parts() []part {
	return []part{
		{"bundles", (*setting).bundles},
		{"statement", (*setting).statement},
		{"start", (*setting).start},
		{"policy", (*setting).policy},
		{"sbom", (*setting).sboms},
		{"release", (*setting).release},
		{"build", (*setting).builds},
		{"sign", (*setting).signs},
	}
}

// part measures one thing, in one or several sections.
type part struct {
	name    string
	measure func(*setting, context.Context) ([]bench.Section, error)
}

func names() []string {
	var list []string
	for _, p := range parts() {
		list = append(list, p.name)
	}
	return list
}

// wants reports whether a part is to be measured.
func (o options) wants(part string) bool {
	return o.only == "" || slices.Contains(strings.Split(o.only, ","), part)
}

// measure measures everything that is wanted.
func (s *setting) measure(ctx context.Context) (bench.Record, error) {
	record := bench.Record{Time: time.Now().UTC(), Machine: bench.ThisMachine(), Tree: s.facts, Rounds: s.work.rounds}
	info, err := os.Stat(s.verifier())
	if err != nil {
		return bench.Record{}, err
	}
	record.Binary = info.Size()
	for _, p := range parts() {
		if !s.wants(p.name) {
			continue
		}
		sections, err := p.measure(s, ctx)
		if err != nil {
			return bench.Record{}, err
		}
		record.Sections = append(record.Sections, sections...)
	}
	return record, nil
}

// turns lets all commands take turns.
func (s *setting) turns(ctx context.Context, commands []bench.Command) ([]bench.Row, error) {
	return bench.Alternate(ctx, commands, s.work.rounds, func(what string) { progress("%s", what) })
}

func goal(r bench.Ratio, goal string) bench.Ratio {
	r.Goal = goal
	return r
}

func (s *setting) verifier() string { return filepath.Join(s.bin, "k8s-verify-release") }

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

// release verifies a whole release.
func (s *setting) release(ctx context.Context) ([]bench.Section, error) {
	commands, err := s.commands()
	if err != nil {
		return nil, err
	}
	rows, err := s.turns(ctx, commands)
	if err != nil {
		return nil, err
	}
	name := fmt.Sprintf("a whole release: %d files, %.2f GB, %d of them signed one by one", s.facts.Files, float64(s.facts.Bytes)/1e9, s.facts.Artifacts)
	return []bench.Section{{Name: name, Bytes: s.facts.Bytes, Rows: rows, Ratios: ratios(rows), Notes: notes()}}, nil
}

func ratios(rows []bench.Row) []bench.Ratio {
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
