package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	"github.com/waybill-release/waybill/test/bench"
)

// curved is how much there is to do for each point of the picture.
type curved struct {
	far   int // images, at each distance
	quota int // images, at each quota
}

// curves measures what grows: each point once, for a picture.
func (s *setting) curves(ctx context.Context) ([]bench.Section, error) {
	seed := filepath.Join(s.dir, fmt.Sprintf("images-%d", s.work.promoted.images))
	if err := s.mintImages(ctx, seed); err != nil {
		return nil, err
	}
	for _, dir := range []string{s.promotions(), s.scenes()} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return nil, err
		}
	}
	defer func() { _, _ = os.RemoveAll(s.promotions()), os.RemoveAll(s.scenes()) }()
	for _, draw := range []func(context.Context, string) (bench.Curve, error){s.overSize, s.overTrip, s.overQuota} {
		curve, err := draw(ctx, seed)
		if err != nil {
			return nil, err
		}
		s.drawn = append(s.drawn, curve)
	}
	return nil, nil
}

// point runs a command once, and returns what it took for each of its units.
func point(ctx context.Context, c bench.Command) (bench.Sample, error) {
	progress("a point of a curve: %s", c.Name)
	rows, err := bench.Once(ctx, c)
	if err != nil {
		return bench.Sample{}, err
	}
	return rows[0].Median, nil
}

// overSize reads manifests of ever more names, and hashes them.
func (s *setting) overSize(ctx context.Context, _ string) (bench.Curve, error) {
	self, err := os.Executable()
	if err != nil {
		return bench.Curve{}, err
	}
	ours, bare := bench.OneWay{Name: "read, and compare with a place"}, bench.OneWay{Name: "limit: SHA-256 of its bytes, one process"}
	for n := 1000; n <= s.work.names; n *= 10 {
		dir := filepath.Join(s.promotions(), "names-"+strconv.Itoa(n))
		if said, err := exec.CommandContext(ctx, s.maker(), "--dir", dir, "--names", strconv.Itoa(n)).CombinedOutput(); err != nil {
			return bench.Curve{}, fmt.Errorf("making a manifest of %d names: %w\n%s", n, err, said)
		}
		for _, way := range []struct {
			to   *bench.OneWay
			args []string
		}{{&ours, []string{s.maker(), "--dir", dir, "--census", strconv.Itoa(n)}}, {&bare, []string{self, "hash", dir}}} {
			took, err := point(ctx, bench.Command{Name: way.to.Name + ", " + strconv.Itoa(n), Args: way.args, Inner: way.to == &ours})
			if err != nil {
				return bench.Curve{}, err
			}
			way.to.Points = append(way.to.Points, [2]float64{float64(n), took.CPU.Seconds()})
		}
	}
	return bench.Curve{Title: "1 · Size of a manifest", X: "names", Y: "seconds of CPU", Ways: []bench.OneWay{ours, bare}}, nil
}

// overTrip promotes with registries ever further away.
func (s *setting) overTrip(ctx context.Context, seed string) (bench.Curve, error) {
	n := s.work.curved.far
	type way struct {
		bench.OneWay
		command func(trip string) bench.Command
	}
	ways := []way{{bench.OneWay{Name: "waybill: judge, copy, read back"}, func(trip string) bench.Command {
		return s.promoting("apply, "+trip, "apply", seed, n, "-trip", trip)
	}}, {bench.OneWay{Name: "waybill gate check: judge"}, func(trip string) bench.Command {
		return s.promoting("gate, "+trip, "gate", seed, n, "-trip", trip)
	}}}
	if s.peers.crane != "" {
		ways = append(ways, way{bench.OneWay{Name: fmt.Sprintf("crane copy, %d at a time", abreast)}, func(trip string) bench.Command {
			return s.promoting("crane, "+trip, "crane", seed, 2*abreast, "-trip", trip, "-peer", s.peers.crane, "-abreast", strconv.Itoa(abreast))
		}})
	}
	curve := bench.Curve{Title: "2 · Distance of the registries", X: "ms from a request to its answer", Y: fmt.Sprintf("seconds for each of %d images", n)}
	for _, ms := range []int{1, 10, 50, 100} {
		for i := range ways {
			c := ways[i].command((time.Duration(ms) * time.Millisecond).String())
			took, err := point(ctx, c)
			if err != nil {
				return curve, err
			}
			ways[i].Points = append(ways[i].Points, [2]float64{float64(ms), took.Wall.Seconds() / float64(c.Units)})
		}
	}
	for _, w := range ways {
		curve.Ways = append(curve.Ways, w.OneWay)
	}
	return curve, nil
}

// overQuota promotes where both registries together answer so many requests a
// second, and 429 to the rest; those of the first second may come at once.
func (s *setting) overQuota(ctx context.Context, seed string) (bench.Curve, error) {
	n := s.work.curved.quota
	ours, limit := bench.OneWay{Name: "waybill: judge, copy, read back"}, bench.OneWay{Name: "limit: its requests at that rate"}
	for _, rate := range []int{25, 50, 100, 200} {
		took, err := point(ctx, s.promoting(fmt.Sprintf("apply, %d a second", rate), "apply", seed, n, "-rate", strconv.Itoa(rate)))
		if err != nil {
			return bench.Curve{}, err
		}
		ours.Points = append(ours.Points, [2]float64{float64(rate), took.Wall.Seconds() / float64(n)})
		limit.Points = append(limit.Points, [2]float64{float64(rate), float64(took.Requests-took.Facts["refused"]-rate) / float64(rate*n)})
	}
	return bench.Curve{Title: "3 · Quota of the registries", X: "requests a second that both together answer", Y: fmt.Sprintf("seconds for each of %d images", n), Ways: []bench.OneWay{ours, limit}}, nil
}
