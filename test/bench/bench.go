// Package bench measures commands against each other on one machine, in one
// run: A B A B …, one warm-up each, medians, and ratios pair by pair.
//
// Seconds depend on the machine and on who else uses it; ratios of commands
// that took turns hardly do. Nothing here passes or fails on time.
//
//	rows, err := bench.Alternate(ctx, commands, 7, watch)
//	ratio := rows[0].Over(rows[1])
//
// The package is kept small on purpose: on Linux a child's peak memory starts
// at what its parent had, so a large measurer would measure itself.
package bench

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"time"
)

// Command is one way to do the work.
type Command struct {
	Name string   `json:"name"`
	Args []string `json:"-"`
	Dir  string   `json:"-"`
	// Units is how many things one run does, where that is more than one and
	// not the same for all commands: ratios are then those of one thing.
	Units int `json:"units,omitempty"`
	// Inner says that the command measures a part of itself with [Measure], and
	// that only that part counts; its peak is that of all of it, unless it says it.
	Inner bool `json:"inner,omitempty"`
	// Run does the work in place of Args, and says what it took.
	Run func(context.Context) (Sample, error) `json:"-"`
}

// units is never zero.
func (c Command) units() float64 { return float64(max(1, c.Units)) }

// Sample is what one run took.
type Sample struct {
	Wall time.Duration `json:"wall"`
	CPU  time.Duration `json:"cpu"` // user and system
	Peak int64         `json:"peak"`
	// Requests to services and Entries of a log, where they are counted.
	Requests int `json:"requests,omitempty"`
	Entries  int `json:"entries,omitempty"`
	// Refused are requests that a log told to come again, Busiest is how many
	// came to it in one second.
	Refused int `json:"refused,omitempty"`
	Busiest int `json:"busiest,omitempty"`
	// Facts are whatever else a command counted, by name.
	Facts map[string]int `json:"facts,omitempty"`
}

// Row is one command with everything that was measured of it.
type Row struct {
	Command
	Samples []Sample `json:"samples"`
	Median  Sample   `json:"median"` // each figure on its own; the peak is the highest
}

// Ratio is how much one row takes of what another takes.
type Ratio struct {
	Name string  `json:"name"`
	Wall float64 `json:"wall"`
	CPU  float64 `json:"cpu"`
	Goal string  `json:"goal,omitempty"`
}

// Alternate runs every command once to warm up, then all of them in turn, as
// often as there are rounds. A command that does not succeed ends it: the time
// of a failure says nothing.
func Alternate(ctx context.Context, commands []Command, rounds int, watch func(string)) ([]Row, error) {
	rows := make([]Row, len(commands))
	for i, c := range commands {
		rows[i].Command = c
	}
	for round := range rounds + 1 {
		for i, c := range commands {
			watch(fmt.Sprintf("round %d of %d: %s", round, rounds, c.Name))
			s, err := c.run(ctx)
			if err != nil {
				return nil, err
			}
			if round > 0 {
				rows[i].Samples = append(rows[i].Samples, s)
			}
		}
	}
	for i := range rows {
		rows[i].Median = rows[i].median()
	}
	return rows, nil
}

// Once runs a command once, for what takes too long to be repeated.
func Once(ctx context.Context, c Command) ([]Row, error) {
	s, err := c.run(ctx)
	if err != nil {
		return nil, err
	}
	row := Row{Command: c, Samples: []Sample{s}}
	row.Median = row.median()
	return []Row{row}, nil
}

func (c Command) run(ctx context.Context) (Sample, error) {
	if c.Run != nil {
		return c.Run(ctx)
	}
	cmd := exec.CommandContext(ctx, c.Args[0], c.Args[1:]...)
	cmd.Dir = c.Dir
	var out, inner bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if c.Inner {
		cmd.Stdout = &inner
	}
	start := time.Now()
	if err := cmd.Run(); err != nil {
		return Sample{}, fmt.Errorf("running %s: %w\n%.2000s", c.Name, err, out.Bytes())
	}
	state := cmd.ProcessState
	s := Sample{Wall: time.Since(start), CPU: state.UserTime() + state.SystemTime()}
	if c.Inner {
		var err error
		if s, err = readInner(inner.Bytes()); err != nil {
			return Sample{}, fmt.Errorf("running %s: %w", c.Name, err)
		}
	}
	if s.Peak == 0 {
		s.Peak = Peak(state)
	}
	return s, nil
}

func (r Row) median() Sample {
	m := Sample{
		Wall: Median(r.each(func(s Sample) time.Duration { return s.Wall })),
		CPU:  Median(r.each(func(s Sample) time.Duration { return s.CPU })),
	}
	for _, s := range r.Samples {
		m.Peak = max(m.Peak, s.Peak)
		m.Refused, m.Busiest = max(m.Refused, s.Refused), max(m.Busiest, s.Busiest)
		m.Requests, m.Entries = max(m.Requests, s.Requests), max(m.Entries, s.Entries)
		m.Facts = s.Facts // those of the last run
	}
	return m
}

func (r Row) each(pick func(Sample) time.Duration) []time.Duration {
	var list []time.Duration
	for _, s := range r.Samples {
		list = append(list, pick(s))
	}
	return list
}

// Over compares two rows round by round and takes the medians of the ratios,
// so that what disturbs a round disturbs both sides.
func (r Row) Over(base Row) Ratio { return r.OverSum(base) }

// OverSum compares a row with what several others take one after another.
func (r Row) OverSum(bases ...Row) Ratio {
	names := make([]string, len(bases))
	var wall, cpu []float64
	for i, s := range r.Samples {
		var sumWall, sumCPU float64
		for _, b := range bases {
			sumWall += float64(b.Samples[i].Wall) / b.units()
			sumCPU += float64(b.Samples[i].CPU) / b.units()
		}
		wall = append(wall, float64(s.Wall)/r.units()/sumWall)
		cpu = append(cpu, float64(s.CPU)/r.units()/sumCPU)
	}
	for i, b := range bases {
		names[i] = b.Name
	}
	return Ratio{Name: r.Name + " / " + strings.Join(names, " + "), Wall: Median(wall), CPU: Median(cpu)}
}

// Median is the middle one of a list, or the mean of the middle two.
func Median[T ~int64 | ~float64](list []T) T {
	if len(list) == 0 {
		panic("bench: the median of nothing")
	}
	sorted := slices.Sorted(slices.Values(list))
	n := len(sorted)
	if n%2 == 1 {
		return sorted[n/2]
	}
	return (sorted[n/2-1] + sorted[n/2]) / 2
}
