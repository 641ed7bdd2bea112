package mutation

import (
	"bytes"
	"cmp"
	"context"
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
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"
)

// A Suite is the tests of one package, built.
type Suite struct {
	Name   string // the package's folder
	Dir    string
	Binary string
	Key    string // of all that is linked into Binary
	Tests  []Test
}

// A Test is one test, or with the name "" a whole package whose tests run side by side.
type Test struct {
	Name    string
	Seconds float64
	Reaches []int // the mutants whose places it reaches
}

// A Bench is the product with all its mutants, and the tests, built once.
type Bench struct {
	Root    string // of the checkout
	Dir     string // of what is built
	Mutants []Mutant
	Suites  []Suite
	Skip    string // tests that are not run, for -test.skip
	Log     io.Writer
	overlay string
}

// set switches a mutant on for the processes that are told of dir.
func set(dir string, id int) error {
	if err := os.MkdirAll(filepath.Join(dir, "tmp"), 0o700); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "active"), []byte(strconv.Itoa(id)), 0o600)
}

// environ makes Go build with the mutants, whoever calls it.
func (b *Bench) environ() []string {
	flags := os.Getenv("GOFLAGS") + " -overlay=" + b.overlay
	return append(os.Environ(), "GOFLAGS="+strings.TrimSpace(flags), "GOWORK=off")
}

// run runs tests of a suite with the mutant that is on in dir; an error is what
// a developer would see as a failure.
func (b *Bench) run(ctx context.Context, dir string, s Suite, limit time.Duration, args ...string) (string, error) {
	ctx, stop := context.WithTimeout(ctx, limit)
	defer stop()
	cmd := exec.CommandContext(ctx, s.Binary, args...)
	if b.Skip != "" {
		cmd.Args = append(cmd.Args, "-test.skip", b.Skip)
	}
	var out bytes.Buffer
	tmp := filepath.Join(dir, "tmp")
	cmd.Dir, cmd.Stdout, cmd.Stderr = s.Dir, &out, &out
	cmd.Env = append(b.environ(), "WAYBILL_MUTANT="+dir, "TMPDIR="+tmp)
	// What a test started ends with it.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 5 * time.Second
	err := cmd.Run()
	if cmd.Process != nil {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
	}
	_ = os.RemoveAll(tmp)
	if errors.Is(err, exec.ErrWaitDelay) {
		err = nil
	}
	return out.String(), errors.Join(err, os.MkdirAll(tmp, 0o700))
}

// A Result is what came of one mutant.
type Result struct {
	Mutant
	Noticed string // the test that failed, or ""
	Ran     int    // tests that reach the place and ran
	Left    int    // tests that reach the place and were not run: out of patience
	Why     string // it changes nothing that anybody could notice
}

// TryAll tries mutants, by some workers side by side, and hands on what came of each.
func (b *Bench) TryAll(ctx context.Context, mutants []Mutant, workers int, patience time.Duration, each func(Result)) error {
	results, free := make(chan Result), make(chan string, workers)
	free <- b.Dir // processes that were not told of a directory look here
	for i := 1; i < workers; i++ {
		free <- filepath.Join(b.Dir, "worker"+strconv.Itoa(i))
	}
	group, ctx := errgroup.WithContext(ctx)
	go func() {
		for _, m := range mutants {
			dir := <-free
			group.Go(func() error {
				defer func() { free <- dir }()
				r, err := b.Try(ctx, dir, m, patience)
				if err == nil {
					results <- r
				}
				return err
			})
		}
		_ = group.Wait()
		close(results)
	}()
	for r := range results {
		each(r)
	}
	return group.Wait()
}

// Try switches a mutant on in dir and runs the tests that reach its place,
// until one fails or patience has run out.
func (b *Bench) Try(ctx context.Context, dir string, m Mutant, patience time.Duration) (Result, error) {
	r := Result{Mutant: m}
	if err := set(dir, m.ID); err != nil {
		return r, err
	}
	defer func() { _ = set(dir, 0) }()
	until := time.Now().Add(patience)
	for _, run := range b.batches(m) {
		if time.Now().After(until) {
			r.Left += len(run.tests)
			continue
		}
		r.Ran += len(run.tests)
		limit := time.Minute + time.Duration(10*run.seconds*float64(time.Second))
		out, err := b.run(ctx, dir, run.suite, limit, "-test.failfast", "-test.run", pattern(run.tests))
		if ctx.Err() != nil {
			return r, ctx.Err()
		}
		if err != nil {
			r.Noticed = run.suite.Name
			if found := failed.FindStringSubmatch(out); found != nil {
				r.Noticed += " " + found[1]
			}
			return r, nil
		}
	}
	return r, nil
}

// failed finds the tests that failed; of their parts the lines are indented.
var failed = regexp.MustCompile(`(?m)^--- FAIL: (\w+)`)

// A batch is tests that run in one process.
type batch struct {
	suite   Suite
	tests   []string
	seconds float64
}

// batches are the tests that reach a mutant, in the order in which they are
// asked: those of its own package, then the quick. Of a package several run in
// one process, which makes what they share once: the quickest first, then four
// times as long each time.
func (b *Bench) batches(m Mutant) []batch {
	var all []batch
	for _, s := range b.Suites {
		most, now := 1.0, batch{suite: s}
		for _, t := range s.Tests { // the quickest first
			if _, reaches := slices.BinarySearch(t.Reaches, m.ID); !reaches {
				continue
			}
			if len(now.tests) > 0 && now.seconds+t.Seconds > most {
				all, now, most = append(all, now), batch{suite: s}, 4*most
			}
			now.tests, now.seconds = append(now.tests, t.Name), now.seconds+t.Seconds
		}
		if len(now.tests) > 0 {
			all = append(all, now)
		}
	}
	own := func(r batch) int {
		if r.suite.Name == m.Package {
			return 0
		}
		return 1
	}
	slices.SortStableFunc(all, func(x, y batch) int { return cmp.Or(own(x)-own(y), cmp.Compare(x.seconds, y.seconds)) })
	return all
}

// pattern is for -test.run.
func pattern(tests []string) string {
	if slices.Equal(tests, []string{""}) {
		return "."
	}
	return fmt.Sprintf("^(%s)$", strings.Join(tests, "|"))
}
