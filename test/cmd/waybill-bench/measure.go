package main

import (
	"context"
	"os"
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
		{"names", (*setting).names},
		{"watch", (*setting).watch},
		{"release", (*setting).release},
		{"build", (*setting).builds},
		{"sign", (*setting).signs},
		{"promote", (*setting).promotes},
		{"gate", (*setting).gates},
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
