package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	"github.com/waybill-release/waybill/test/bench"
)

// gated is how much there is to decide about over HTTP.
type gated struct {
	images int // that are asked about once
	warm   int // requests about what was decided before
	soak   int // requests of all kinds
	rounds int
}

// gates measures the gate as a service.
func (s *setting) gates(ctx context.Context) ([]bench.Section, error) {
	seed := filepath.Join(s.dir, fmt.Sprintf("gated-%d", s.work.gated.images))
	if err := s.mintGated(ctx, seed, s.work.gated.images); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(s.gateScenes(), 0o755); err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(s.gateScenes()) }()
	var sections []bench.Section
	for _, measure := range []func(context.Context, string) (bench.Section, error){
		func(ctx context.Context, seed string) (bench.Section, error) {
			return s.gateCold(ctx, seed, "attested", "a certificate each")
		},
		func(ctx context.Context, seed string) (bench.Section, error) {
			return s.gateCold(ctx, seed, "attested-shared", "one certificate for each signer")
		},
		s.gateWarm, s.gateFar,
	} {
		section, err := measure(ctx, seed)
		if err != nil {
			return nil, err
		}
		sections = append(sections, section)
	}
	return sections, nil
}

// soaks sends the service very many requests.
func (s *setting) soaks(ctx context.Context) ([]bench.Section, error) {
	seed := filepath.Join(s.dir, fmt.Sprintf("gated-%d", s.work.gated.images))
	if err := errors.Join(s.mintGated(ctx, seed, s.work.gated.images), os.MkdirAll(s.gateScenes(), 0o755)); err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(s.gateScenes()) }()
	section, err := s.gateSoak(ctx, seed)
	return []bench.Section{section}, err
}

func (s *setting) gater() string { return filepath.Join(s.dir, "bin", "waybill-bench-gate") }

func (s *setting) gateScenes() string { return filepath.Join(s.dir, "gate") }

// mintGated makes n images of each kind once, and one to begin with.
func (s *setting) mintGated(ctx context.Context, dir string, n int) error {
	if made(dir) && !s.trees.fresh {
		return nil
	}
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	progress("making %d images of three kinds, signed", n)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if said, err := exec.CommandContext(ctx, s.gater(), "-mint", "-n", strconv.Itoa(n+1), "-seed", dir).CombinedOutput(); err != nil {
		return fmt.Errorf("making images: %w\n%s", err, said)
	}
	return os.WriteFile(filepath.Join(dir, complete), nil, 0o600)
}

// gating is one way to decide, or a limit of it.
func (s *setting) gating(name, way, seed string, n int, flags ...string) bench.Command {
	args := []string{s.gater(), "-bin", s.bin, "-dir", s.gateScenes(), "-seed", seed, "-way", way, "-n", strconv.Itoa(n)}
	return bench.Command{Name: name, Args: append(args, flags...), Units: n, Inner: true}
}

func (s *setting) gateTurns(ctx context.Context, commands ...bench.Command) ([]bench.Row, error) {
	return bench.Alternate(ctx, commands, s.work.gated.rounds, func(what string) { progress("%s", what) })
}

// gateCold decides about images that nobody asked about before.
func (s *setting) gateCold(ctx context.Context, seed, images, what string) (bench.Section, error) {
	n := s.work.gated.images
	rows, err := s.gateTurns(ctx,
		s.gating("waybill gate serve, one process", "cold", seed, n, "-images", images),
		s.gating("package verify alone", "verify", seed, n, "-images", images),
		s.gating("sigstore-go in a loop", "sigstore-go", seed, n, "-images", images),
		s.gating("bare signature checks", "bare", seed, n, "-images", images))
	if err != nil {
		return bench.Section{}, err
	}
	const service, alone, library, bare = 0, 1, 2, 3
	s.aim(bench.CPU.Limited("P7", "decide about an image over HTTP, empty cache: "+what, 1.5, rows[service], rows[bare]))
	return bench.Section{
		Name: fmt.Sprintf("decide about %d images over HTTP, nothing known: a signature and a provenance each, %s", n, what), Unit: "decision", Rows: rows,
		Ratios: []bench.Ratio{
			rows[service].Over(rows[alone]), rows[service].Over(rows[library]), rows[service].Over(rows[bare]), rows[alone].Over(rows[bare]),
		},
		Notes: []string{
			waits(rows[service]),
			"the goal is at most 1.5x the CPU of what two bundles cannot cost less than, which includes reading them; ratios are of one decision",
			"the service's CPU is of all of it: the caller's token, a registry's four answers, the policy, the record; the others read bundles from memory and ask nobody",
			"registry, issuer and callers share this machine's cores with the service, which decides more in a second without them",
		},
	}, nil
}

// waits says how long callers of a row waited.
func waits(row bench.Row) string {
	f := row.Median.Facts
	return fmt.Sprintf("%s: callers wait %d us (p50) and %d us (p99), of which the service takes %d us and %d us; %.1f requests to the registry each; %.2f %% were decided before",
		row.Name, f["p50"], f["p99"], f["inside p50"], f["inside p99"], float64(f["registry"])/float64(row.Units), float64(f["hits in 10000"])/100)
}

// gateWarm asks about images that were decided about.
func (s *setting) gateWarm(ctx context.Context, seed string) (bench.Section, error) {
	n := s.work.gated.warm
	rows, err := s.gateTurns(ctx,
		s.gating("HTTP/1.1, one caller", "warm", seed, n, "-abreast", "1"),
		s.gating("HTTP/1.1, 16 callers", "warm", seed, n, "-abreast", "16"),
		s.gating("TLS and HTTP/2, one caller", "warm", seed, n, "-abreast", "1", "-tls"),
		s.gating("TLS and HTTP/2, 16 callers", "warm", seed, n, "-abreast", "16", "-tls"))
	if err != nil {
		return bench.Section{}, err
	}
	section := bench.Section{
		Name: fmt.Sprintf("decide over HTTP, %d requests about images that were decided about", n), Unit: "decision", Rows: rows,
		Notes: []string{"the goal is 100 us (p50) for a decision that was made before; connections are kept"},
	}
	for _, row := range rows {
		section.Notes = append(section.Notes, waits(row))
	}
	return section, nil
}

// gateFar decides with a registry that is far away.
func (s *setting) gateFar(ctx context.Context, seed string) (bench.Section, error) {
	n, each := s.work.gated.images, 3
	var commands []bench.Command
	abreast := []int{64, 128}
	for _, w := range abreast {
		commands = append(commands, s.gating(fmt.Sprintf("%d requests at a time", w), "cold", seed, n,
			"-images", "signed", "-trip", farAway.String(), "-abreast", strconv.Itoa(w)))
	}
	rows, err := s.gateTurns(ctx, commands...)
	if err != nil {
		return bench.Section{}, err
	}
	section := bench.Section{Name: fmt.Sprintf("decide about %d images over HTTP, nothing known, one signature each, %s to the registry and back", n, farAway), Unit: "decision", Rows: rows}
	for i, row := range rows {
		bound := time.Duration(n*each)*farAway/time.Duration(abreast[i]) + 2*farAway
		line := bench.Counted("P7", fmt.Sprintf("decide about %d images, %s away, %d at a time", n, farAway, abreast[i]), "x", 1.5, row.Median.Wall.Seconds()/bound.Seconds())
		line.Ours, line.Limit = fmt.Sprintf("%.2f s", row.Median.Wall.Seconds()), fmt.Sprintf("%d questions each, that many at a time: %.2f s", each, bound.Seconds())
		s.aim(line)
		section.Notes = append(section.Notes, waits(row),
			fmt.Sprintf("%s: %.2fx of %.3f s, which is %d questions for each image, that many at a time, and two round trips; the goal is 1.5x", row.Name, row.Median.Wall.Seconds()/bound.Seconds(), bound.Seconds(), each))
	}
	s.aim(bench.Counted("P6", "decide about an image with a signature", "requests", 3, float64(rows[0].Median.Facts["registry"])/float64(n)))
	section.Notes = append(section.Notes, "what does not depend on an answer is asked together with it, so the service can be faster than that")
	return section, nil
}

// gateSoak sends very many requests once.
func (s *setting) gateSoak(ctx context.Context, seed string) (bench.Section, error) {
	n := s.work.gated.soak
	command := s.gating("waybill gate serve, one process", "soak", seed, n, "-abreast", "16", "-tls")
	progress("%d requests", n)
	rows, err := bench.Once(ctx, command)
	if err != nil {
		return bench.Section{}, err
	}
	section := bench.Section{
		Name: fmt.Sprintf("%d requests over HTTP: 75 %% decided before, 5 %% about missing images, 5 %% malformed, 5 %% without credentials, 10 %% pulls through gate proxy", n), Unit: "request", Rows: rows,
		Notes: []string{"caller, certificate and policy change 50 times"},
	}
	f := rows[0].Median.Facts
	for _, at := range []int{n / 50, n / 2, n} {
		fact := func(name string) int { return f[fmt.Sprintf(name+" after %d", at)] }
		section.Notes = append(section.Notes, fmt.Sprintf("after %d requests: %.1f MiB resident, %.1f MiB of heap in use, %d goroutines, %d descriptors; gate proxy: %.1f MiB resident, %d descriptors",
			at, kib(fact("resident")), kib(fact("heap")), fact("goroutines"), fact("descriptors"), kib(fact("proxy resident")), fact("proxy descriptors")))
	}
	section.Notes = append(section.Notes, fmt.Sprintf("%.2f %% of decisions were made before", float64(f["hits in 10000"])/100))
	return section, nil
}

func kib(n int) float64 { return float64(n) / 1024 }
