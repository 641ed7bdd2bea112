package mutation

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A Suite is what is run at once: all tests of a package of the product, or
// one test of the test module.
type Suite struct {
	Name    string // a package's folder, and perhaps #Test
	Dir     string
	Binary  string
	Run     string // for -test.run
	Seconds float64
	Reaches []int // the mutants whose places it reaches
}

// A Bench is the product with all its mutants, and the tests, built once.
type Bench struct {
	Root    string // of the checkout
	Dir     string // of what is built
	Mutants []Mutant
	Suites  []Suite
	overlay string
	log     io.Writer
}

// Skip is the tests that make test leaves out.
const Skip = "^TestLong"

// New switches the mutants in, builds the tests of both modules with them, and
// runs each suite once with all of them off, to learn which places it reaches.
// What a run learned is kept in dir, and used again there. Of the packages with
// tests only those are built whose folders match.
func New(ctx context.Context, root, dir string, suites *regexp.Regexp, log io.Writer) (*Bench, error) {
	b := &Bench{Root: root, Dir: dir, log: log}
	var err error
	if b.Mutants, b.overlay, err = Switch(root, dir, Packages); err != nil {
		return nil, err
	}
	fmt.Fprintf(log, "%d mutants\n", len(b.Mutants))
	if kept, err := os.ReadFile(b.record()); err == nil {
		return b, json.Unmarshal(kept, &b.Suites)
	}
	if err := b.set(0); err != nil {
		return nil, err
	}
	if err := b.build(ctx, suites); err != nil {
		return nil, err
	}
	sound := b.Suites[:0]
	for _, s := range b.Suites {
		switch err := b.learn(ctx, &s); {
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case err != nil:
			fmt.Fprintf(log, "%s fails without a mutant, so it is not asked: %v\n", s.Name, err)
		case len(s.Reaches) > 0:
			sound = append(sound, s)
		}
	}
	b.Suites = sound
	slices.SortStableFunc(b.Suites, func(x, y Suite) int { return int(1000*x.Seconds) - int(1000*y.Seconds) })
	kept, err := json.Marshal(b.Suites)
	if err != nil {
		return nil, err
	}
	return b, os.WriteFile(b.record(), kept, 0o600)
}

func (b *Bench) record() string { return filepath.Join(b.Dir, "suites.json") }

func (b *Bench) set(id int) error {
	return os.WriteFile(filepath.Join(b.Dir, "active"), []byte(strconv.Itoa(id)), 0o600)
}

// environ makes Go build with the mutants, whoever calls it.
func (b *Bench) environ() []string {
	flags := os.Getenv("GOFLAGS") + " -overlay=" + b.overlay
	return append(os.Environ(), "GOFLAGS="+strings.TrimSpace(flags), "GOWORK=off")
}

func (b *Bench) build(ctx context.Context, suites *regexp.Regexp) error {
	for _, m := range []string{"", "test"} {
		root := filepath.Join(b.Root, m)
		list := exec.CommandContext(ctx, "go", "list", "-f", "{{if or .TestGoFiles .XTestGoFiles}}{{.Dir}}{{end}}", "./...")
		list.Dir, list.Env = root, b.environ()
		out, err := list.Output()
		if err != nil {
			return fmt.Errorf("list the packages of %s: %w", root, err)
		}
		for dir := range strings.FieldsSeq(string(out)) {
			name, err := filepath.Rel(b.Root, dir)
			if err != nil {
				return err
			}
			if slices.Contains(without, name) || !suites.MatchString(name) {
				continue
			}
			fmt.Fprintf(b.log, "build the tests of %s\n", name)
			binary := filepath.Join(b.Dir, strings.ReplaceAll(name, "/", "-")+".test")
			build := exec.CommandContext(ctx, "go", "test", "-c", "-vet=off", "-o", binary, ".")
			build.Dir, build.Env = dir, b.environ()
			if out, err := build.CombinedOutput(); err != nil {
				return fmt.Errorf("%s: %w\n%s", name, err, out)
			}
			if err := b.suites(name, dir, binary, m == "test"); err != nil {
				return err
			}
		}
	}
	return nil
}

// without are test packages that make test does not run, or that ask nothing
// of what the product does.
var without = []string{"test/interop", "test/servers", "test/arch", "test/bench", "test/mutation"}

var tests = regexp.MustCompile(`(?m)^func (Test\w*)\(t `)

// suites lists what is run of a package: each test alone, or all of them.
func (b *Bench) suites(name, dir, binary string, alone bool) error {
	s := Suite{Name: name, Dir: dir, Binary: binary, Run: "."}
	if !alone {
		b.Suites = append(b.Suites, s)
		return nil
	}
	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	if err != nil {
		return err
	}
	for _, file := range files {
		source, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		for _, found := range tests.FindAllSubmatch(source, -1) {
			if test := string(found[1]); !strings.HasPrefix(test, "TestLong") && test != "TestMain" {
				s.Name, s.Run = name+"#"+test, "^"+test+"$"
				b.Suites = append(b.Suites, s)
			}
		}
	}
	return nil
}

// learn runs a suite once, to see how long it takes and which places it reaches.
func (b *Bench) learn(ctx context.Context, s *Suite) error {
	reached := filepath.Join(b.Dir, "reached")
	if err := os.WriteFile(reached, make([]byte, len(b.Mutants)+1), 0o600); err != nil {
		return err
	}
	defer func() { _ = os.Remove(reached) }()
	start := time.Now()
	if err := b.run(ctx, *s, 20*time.Minute); err != nil {
		return err
	}
	s.Seconds = time.Since(start).Seconds()
	seen, err := os.ReadFile(reached)
	if err != nil {
		return err
	}
	for id, was := range seen {
		if was != 0 {
			s.Reaches = append(s.Reaches, id)
		}
	}
	fmt.Fprintf(b.log, "%s: %.1f s, reaches %d\n", s.Name, s.Seconds, len(s.Reaches))
	return nil
}

// run runs a suite; an error is what a developer would see as a failure.
func (b *Bench) run(ctx context.Context, s Suite, limit time.Duration) error {
	ctx, stop := context.WithTimeout(ctx, limit)
	defer stop()
	cmd := exec.CommandContext(ctx, s.Binary, "-test.run", s.Run, "-test.skip", Skip, "-test.failfast")
	var out bytes.Buffer
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = s.Dir, b.environ(), &out, &out
	cmd.WaitDelay = 5 * time.Second
	err := cmd.Run()
	if err != nil && !errors.Is(err, exec.ErrWaitDelay) {
		tail := out.Bytes()[max(0, out.Len()-400):]
		return fmt.Errorf("%w: %s", err, strings.Join(strings.Fields(string(tail)), " "))
	}
	return nil
}

// A Result is what came of one mutant.
type Result struct {
	Mutant
	Noticed string // the suite that failed, or ""
	Ran     int    // suites that reach the place and ran
	Left    int    // suites that reach the place and were not run: out of patience
	Why     string // it changes nothing that anybody could notice
}

// Try switches a mutant on and runs the suites that reach its place, the
// quickest first, until one fails or patience has run out.
func (b *Bench) Try(ctx context.Context, m Mutant, patience time.Duration) (Result, error) {
	r := Result{Mutant: m}
	if err := b.set(m.ID); err != nil {
		return r, err
	}
	defer func() { _ = b.set(0) }()
	until := time.Now().Add(patience)
	for _, s := range b.Suites {
		if _, reaches := slices.BinarySearch(s.Reaches, m.ID); !reaches {
			continue
		}
		if time.Now().After(until) {
			r.Left++
			continue
		}
		r.Ran++
		limit := time.Minute + time.Duration(10*s.Seconds*float64(time.Second))
		if err := b.run(ctx, s, limit); ctx.Err() != nil {
			return r, ctx.Err()
		} else if err != nil {
			r.Noticed = s.Name
			return r, nil
		}
	}
	return r, nil
}
