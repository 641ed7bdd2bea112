package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/waybill-release/waybill/test/bench"
)

// parts are what can be measured, in order: those that goals are about, and
// those that are measured only where they are asked for.
func parts() []part {
	return []part{
		{"bundles", (*setting).bundles, true},
		{"statement", (*setting).statement, true},
		{"start", (*setting).start, true},
		{"policy", (*setting).policy, true},
		{"sbom", (*setting).sboms, true},
		{"names", (*setting).names, true},
		{"release", (*setting).release, true},
		{"sign", (*setting).signs, true},
		{"promote", (*setting).promotes, true},
		{"gate", (*setting).gates, true},
		{"proxy", (*setting).proxies, true},
		{"curves", (*setting).curves, true},
		{"watch", (*setting).watch, false},
		{"build", (*setting).builds, false},
		{"layouts", (*setting).layouts, false},
		{"plans", (*setting).plans, false},
		{"soak", (*setting).soaks, false},
	}
}

// part measures one thing, in one or several sections.
type part struct {
	name    string
	measure func(*setting, context.Context) ([]bench.Section, error)
	goals   bool
}

func names() []string {
	var list []string
	for _, p := range parts() {
		list = append(list, p.name)
	}
	return list
}

// wants reports whether a part is to be measured.
func (o options) wants(name string) bool {
	if o.only == "" {
		return slices.ContainsFunc(parts(), func(p part) bool { return p.name == name && p.goals })
	}
	return slices.Contains(strings.Split(o.only, ","), name)
}

// measure measures everything that is wanted.
func (s *setting) measure(ctx context.Context) (bench.Record, error) {
	record := bench.Record{Time: time.Now().UTC(), Machine: bench.ThisMachine(), Tree: s.facts, Rounds: s.work.rounds}
	info, err := os.Stat(s.verifier())
	if err != nil {
		return bench.Record{}, err
	}
	record.Binary = info.Size()
	var failed error
	for _, p := range parts() {
		if !s.wants(p.name) {
			continue
		}
		start, load, before := time.Now(), bench.ThisMachine().Load, len(s.lines)
		sections, err := p.measure(s, ctx)
		if err != nil { // the others are measured all the same
			failed = errors.Join(failed, fmt.Errorf("%s: %w", p.name, err))
			s.lines = s.lines[:before]
			if ctx.Err() != nil {
				break
			}
			progress("%s failed: %v", p.name, err)
			continue
		}
		for i := range s.lines[before:] {
			s.lines[before+i].Part, s.lines[before+i].Load = p.name, load
		}
		progress("%s took %s", p.name, time.Since(start).Round(time.Second))
		record.Sections = append(record.Sections, sections...)
	}
	return record, failed
}

// aim takes up lines of the table of goals.
func (s *setting) aim(lines ...bench.Line) { s.lines = append(s.lines, lines...) }

// turns lets all commands take turns.
func (s *setting) turns(ctx context.Context, commands []bench.Command) ([]bench.Row, error) {
	return bench.Alternate(ctx, commands, s.work.rounds, func(what string) { progress("%s", what) })
}

func goal(r bench.Ratio, goal string) bench.Ratio {
	r.Goal = goal
	return r
}

func (s *setting) verifier() string { return filepath.Join(s.bin, "k8s-verify-release") }
