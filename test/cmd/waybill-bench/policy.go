package main

import (
	"context"
	"fmt"
	"path/filepath"
	"strconv"
	"time"

	"github.com/waybill-release/waybill/test/bench"
)

// decisions is how often the whole release is decided about in one run, so
// that a run is long enough to measure.
const decisions = 20

// loads is how often a policy is loaded in one run, once it is warm.
const loads = 50

// policy measures the policy's part of a verification: loading one, and
// deciding about all artifacts once their evidence is verified.
func (s *setting) policy(ctx context.Context) ([]bench.Section, error) {
	sections, err := s.loading(ctx)
	if err != nil {
		return nil, err
	}
	trees := []string{s.decided}
	if made(s.tree) { // by this run, or an earlier one
		trees = append(trees, s.tree)
	}
	for _, dir := range trees {
		section, err := s.deciding(ctx, dir)
		if err != nil {
			return nil, err
		}
		sections = append(sections, section)
	}
	return sections, nil
}

// linted is a shipped policy with most kinds of lines.
const linted = "waybill-release.yaml"

func (s *setting) loading(ctx context.Context) ([]bench.Section, error) {
	shipped := filepath.Join(s.root, "policies")
	waybill := filepath.Join(s.bin, "waybill")
	inside, err := s.turns(ctx, []bench.Command{
		{Name: "the first time in a process", Args: []string{s.maker(), "--load", shipped}, Inner: true},
		{Name: "again in the same process", Args: []string{s.maker(), "--load", shipped, "--passes", strconv.Itoa(loads)}, Units: loads, Inner: true},
	})
	if err != nil {
		return nil, err
	}
	outside, err := bench.Alternate(ctx, []bench.Command{
		{Name: "waybill policy lint " + linted, Args: []string{waybill, "policy", "lint", filepath.Join(shipped, linted)}},
		{Name: "waybill --version", Args: []string{waybill, "--version"}},
	}, starts, func(string) {})
	if err != nil {
		return nil, err
	}
	more := func(pick func(bench.Sample) time.Duration) float64 {
		var list []time.Duration
		for i, with := range outside[0].Samples {
			list = append(list, pick(with)-pick(outside[1].Samples[i]))
		}
		return float64(bench.Median(list)) / float64(time.Millisecond)
	}
	wall, cpu := more(func(s bench.Sample) time.Duration { return s.Wall }), more(func(s bench.Sample) time.Duration { return s.CPU })
	return []bench.Section{
		{Name: "loading the largest shipped policy without rules of its own", Unit: "load", Rows: inside, Notes: []string{"the goal is 5 ms"}},
		{Name: "loading the largest shipped policy, whose rules are compiled too", Rows: outside, Notes: []string{
			fmt.Sprintf("loading it takes %.1f ms, %.1f ms of CPU: what lint takes more than a bare start, medians of %d; the goal is 5 ms", wall, cpu, starts),
		}},
	}, nil
}

// deciding compares deciding about a tree with verifying it.
func (s *setting) deciding(ctx context.Context, dir string) (bench.Section, error) {
	t := setting{released: filepath.Join(dir, "release", version)}
	if err := t.look(); err != nil {
		return bench.Section{}, err
	}
	rows, err := s.turns(ctx, []bench.Command{
		{Name: "deciding about every artifact, evidence at hand", Args: []string{s.maker(), "--decide", strconv.Itoa(decisions), "--dir", dir}, Units: decisions, Inner: true},
		{Name: "k8s-verify-release", Args: []string{s.verifier(), version, "--offline", "--profile", filepath.Join(dir, profileName)}},
	})
	if err != nil {
		return bench.Section{}, err
	}
	s.aim(bench.CPU.Limited("P1", fmt.Sprintf("the policy's share in verifying %d artifacts", t.facts.Artifacts), 0.01, rows[0], rows[1]))
	each := float64(rows[0].Median.CPU) / decisions / float64(t.facts.Artifacts) / float64(time.Microsecond)
	return bench.Section{
		Name: fmt.Sprintf("the policy's part: %d artifacts signed one by one, %.2f GB", t.facts.Artifacts, float64(t.facts.Bytes)/1e9),
		Unit: "release", Rows: rows, Ratios: []bench.Ratio{goal(rows[0].Over(rows[1]), "1% CPU")},
		Notes: []string{fmt.Sprintf("a decision takes %.1f us of CPU, with the questions that the probe asks after it", each)},
	}, nil
}
