package main

import (
	"context"
	"fmt"
	"maps"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/waybill-release/waybill/test/bench"
)

// promoted is how much there is to promote.
type promoted struct {
	images int
	sample int // of them that a peer copies, one process for each; ratios are those of one image
	rounds int
	plans  []tree
}

// tree is a directory of manifests to plan from.
type tree struct{ manifests, regions int }

// perManifest is how many digests one of them has: ten of each of ten images.
const perManifest = 10 * 10

// Of an image of two platforms, as package promote counts it; that package
// carries a lab, and is no part of this process.
const (
	copyBound     = 2*3 + 3*4 + 3           // A manifests and B blobs: 2A+3B+3
	evidenceBound = copyBound + 3 + 5*3 + 3 // three lists, three bundles, what they share
)

// far is how long a registry takes to answer that is not near.
const farAway = 50 * time.Millisecond

// promotes compares ways to bring images from one registry to another.
func (s *setting) promotes(ctx context.Context) ([]bench.Section, error) {
	seed := filepath.Join(s.dir, fmt.Sprintf("images-%d", s.work.promoted.images))
	if err := s.mintImages(ctx, seed); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(s.promotions(), 0o755); err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(s.promotions()) }()
	var sections []bench.Section
	for _, trip := range []time.Duration{0, farAway} {
		section, err := s.promoteImages(ctx, seed, trip)
		if err != nil {
			return nil, err
		}
		sections = append(sections, section)
	}
	return sections, nil
}

// plans plans what directories of manifests say.
func (s *setting) plans(ctx context.Context) ([]bench.Section, error) {
	if err := os.MkdirAll(s.promotions(), 0o755); err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(s.promotions()) }()
	var sections []bench.Section
	for _, t := range s.work.promoted.plans {
		section, err := s.planPromotion(ctx, t)
		if err != nil {
			return nil, err
		}
		sections = append(sections, section)
	}
	return sections, nil
}

func (s *setting) promoter() string { return filepath.Join(s.dir, "bin", "waybill-bench-promote") }

func (s *setting) promotions() string { return filepath.Join(s.dir, "promote") }

// mintImages makes the images once.
func (s *setting) mintImages(ctx context.Context, dir string) error {
	if made(dir) && !s.trees.fresh {
		return nil
	}
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	progress("making %d images, signed", s.work.promoted.images)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if said, err := exec.CommandContext(ctx, s.promoter(), "-mint", "-n", strconv.Itoa(s.work.promoted.images), "-seed", dir).CombinedOutput(); err != nil {
		return fmt.Errorf("making images: %w\n%s", err, said)
	}
	return os.WriteFile(filepath.Join(dir, complete), nil, 0o600)
}

// promoting is one way to do it.
func (s *setting) promoting(name, way, seed string, n int, flags ...string) bench.Command {
	args := []string{s.promoter(), "-bin", s.bin, "-dir", s.promotions(), "-seed", seed, "-way", way, "-n", strconv.Itoa(n)}
	return bench.Command{Name: name, Args: append(args, flags...), Units: n, Inner: true}
}

// promoteImages promotes all images, sees that they are there, and judges them.
func (s *setting) promoteImages(ctx context.Context, seed string, trip time.Duration) (bench.Section, error) {
	n, sample, at := s.work.promoted.images, s.work.promoted.sample, trip.String()
	commands := []bench.Command{
		s.promoting("waybill promote apply", "apply", seed, n, "-trip", at),
		s.promoting("waybill promote apply, all is there", "again", seed, n, "-trip", at),
		s.promoting("waybill gate check of the plan", "gate", seed, n, "-trip", at),
	}
	peer := func(name, way, path string, abreast int) {
		n := min(n, sample*min(abreast, 4))
		commands = append(commands, s.promoting(name, way, seed, n, "-trip", at, "-peer", path, "-abreast", strconv.Itoa(abreast)))
	}
	if s.peers.crane != "" {
		peer("crane copy, one process after another", "crane", s.peers.crane, 1)
		peer(fmt.Sprintf("crane copy, %d processes at a time", abreast), "crane", s.peers.crane, abreast)
	}
	if s.peers.cosign != "" {
		peer("cosign v3 copy, one process after another", "cosign", s.peers.cosign, 1)
	}
	rows, err := bench.Alternate(ctx, commands, s.work.promoted.rounds, func(what string) { progress("%s", what) })
	if err != nil {
		return bench.Section{}, err
	}
	section := bench.Section{Name: fmt.Sprintf("promote %d images of two platforms, each manifest signed, %s to each registry and back", n, distance(trip)), Unit: "image", Rows: rows}
	for i, row := range rows {
		section.Notes = append(section.Notes, requests(row))
		if i > 2 {
			want := ""
			if trip > 0 && i == 3 {
				want = ">= 40x"
			}
			section.Ratios = append(section.Ratios, goal(row.Over(rows[0]), want))
		}
	}
	s.aimPromotion(rows, trip)
	section.Notes = append(section.Notes,
		fmt.Sprintf("copying such an image takes at least %d requests (2A+3B+3), with its three bundles %d; waybill's include reading everything back", copyBound, evidenceBound),
		"with all there the goal is 2 requests for an image; the gate's is 3 for each manifest that it verifies",
		"crane and cosign copy no referrers, and judge nothing; waybill verifies three signatures of each image first",
		fmt.Sprintf("medians of %d rounds; ratios are of one image; the promoter's processes are measured, not the registries", s.work.promoted.rounds))
	return section, nil
}

// aimPromotion says what goals are about: far away what is asked, and how long
// it takes beside crane.
func (s *setting) aimPromotion(rows []bench.Row, trip time.Duration) {
	if trip == 0 {
		return
	}
	each := func(r bench.Row) float64 { // without what is asked once
		return math.Round(10*float64(r.Median.Requests)/float64(r.Units)) / 10
	}
	asked := bench.Counted("P8", "promote an image of 2 platforms with 3 bundles, read back", "requests", 35, each(rows[0]))
	asked.Limit = fmt.Sprintf("to copy it, 2A+3B+3 for image and bundles: %d", evidenceBound)
	s.aim(asked, bench.Counted("P9", "promote it again", "requests", 2, each(rows[1])))
	if s.peers.crane != "" {
		s.aim(bench.Wall.Beats("P8", fmt.Sprintf("promote %d images, %s away", rows[0].Units, distance(trip)), 40, rows[0], rows[3]))
	}
}

func distance(trip time.Duration) string {
	if trip == 0 {
		return "no time"
	}
	return trip.String()
}

// requests says what a row asked, of one image.
func requests(row bench.Row) string {
	each := func(n int) float64 { return float64(n) / float64(row.Units) }
	facts := row.Median.Facts
	var asked []string
	for _, what := range slices.Sorted(maps.Keys(facts)) {
		if strings.Contains(what, " ") && each(facts[what]) >= 0.1 {
			asked = append(asked, fmt.Sprintf("%s %.1f", what, each(facts[what])))
		}
	}
	said := fmt.Sprintf("%s: %d of them, %.1f requests each (%s)", row.Name, row.Units, each(row.Median.Requests), strings.Join(asked, ", "))
	if tags, copied := facts["tags"]; copied {
		said += fmt.Sprintf("; %d tags at the destination, %d bundles", tags, facts["referrers"])
	}
	return said
}

// planPromotion plans what a directory of manifests says.
func (s *setting) planPromotion(ctx context.Context, t tree) (bench.Section, error) {
	dir := filepath.Join(s.promotions(), fmt.Sprintf("tree-%d-%d", t.manifests, t.regions))
	write := exec.CommandContext(ctx, s.promoter(), "-dir", dir, "-manifests", strconv.Itoa(t.manifests), "-regions", strconv.Itoa(t.regions))
	if said, err := write.CombinedOutput(); err != nil {
		return bench.Section{}, fmt.Errorf("writing manifests: %w\n%s", err, said)
	}
	n := t.manifests * perManifest
	plan := bench.Command{Name: "waybill promote plan", Args: []string{filepath.Join(s.bin, "waybill"), "promote", "plan", dir, "-o", "json"}, Units: n}
	rows, err := bench.Alternate(ctx, []bench.Command{plan}, s.work.promoted.rounds, func(what string) { progress("%s", what) })
	if err != nil {
		return bench.Section{}, err
	}
	return bench.Section{
		Name: fmt.Sprintf("plan %d digests of %d manifests for %d regions: %d moves", n, t.manifests, t.regions, n*t.regions),
		Unit: "digest", Rows: rows,
		Notes: []string{"the plan is written as JSON; no registry is asked"},
	}, nil
}
