package mutation

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Skip is the tests that make test leaves out.
const Skip = "^TestLong"

// Open switches the mutants in, builds the tests of both modules with them, and
// runs each package once with all of them off, to learn which places each test
// reaches. What a run learned is kept in Dir, and learned again only for a
// package of which something that is linked has changed. Of the packages with
// tests only those are asked whose folders match.
func (b *Bench) Open(ctx context.Context, suites *regexp.Regexp) (err error) {
	if b.Mutants, b.overlay, err = Switch(b.Root, b.Dir, Packages); err != nil {
		return err
	}
	fmt.Fprintf(b.Log, "%d mutants\n", len(b.Mutants))
	if err := set(b.Dir, 0); err != nil {
		return err
	}
	for _, module := range []string{"", "test"} {
		if err := b.module(ctx, filepath.Join(b.Root, module), suites); err != nil {
			return err
		}
	}
	return nil
}

// without are test packages that make test does not run, or that ask nothing
// of what the product does.
var without = []string{"test/interop", "test/servers", "test/cluster", "test/simulate", "test/arch", "test/bench", "test/mutation"}

// listed is a package as go list prints it; that of a test program is called X.test.
type listed struct {
	ImportPath, Dir, BuildID  string
	TestGoFiles, XTestGoFiles []string
	Deps                      []string
}

func (b *Bench) list(ctx context.Context, dir string, args ...string) ([]listed, error) {
	list := exec.CommandContext(ctx, "go", append([]string{"list", "-json=ImportPath,Dir,BuildID,TestGoFiles,XTestGoFiles,Deps"}, args...)...)
	list.Dir, list.Env, list.Stderr = dir, b.environ(), b.Log
	out, err := list.Output()
	if err != nil {
		return nil, fmt.Errorf("list the packages of %s: %w", dir, err)
	}
	var all []listed
	for decode := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p listed
		if err := decode.Decode(&p); errors.Is(err, io.EOF) {
			return all, nil
		} else if err != nil {
			return nil, err
		}
		all = append(all, p)
	}
}

// module builds the tests of one module, and learns what is not known of them.
func (b *Bench) module(ctx context.Context, root string, suites *regexp.Regexp) error {
	all, err := b.list(ctx, root, "./...")
	if err != nil {
		return err
	}
	var chosen []Suite
	var paths []string
	for _, p := range all {
		name, err := filepath.Rel(b.Root, p.Dir)
		if err != nil {
			return err
		}
		if len(p.TestGoFiles)+len(p.XTestGoFiles) > 0 && !slices.Contains(without, name) && suites.MatchString(name) {
			chosen, paths = append(chosen, Suite{Name: name, Dir: p.Dir}), append(paths, p.ImportPath)
		}
	}
	if len(paths) == 0 {
		return nil
	}
	if all, err = b.list(ctx, root, append([]string{"-test", "-deps", "-export"}, paths...)...); err != nil {
		return err
	}
	built := map[string]listed{}
	for _, p := range all {
		built[p.ImportPath] = p
	}
	for i, s := range chosen {
		program := built[paths[i]+".test"]
		hash := sha256.New()
		fmt.Fprintln(hash, b.Skip, program.BuildID)
		for _, dep := range program.Deps {
			fmt.Fprintln(hash, dep, built[dep].BuildID)
		}
		s.Key = fmt.Sprintf("%x", hash.Sum(nil)[:12])
		if err := b.suite(ctx, s); err != nil {
			return err
		}
	}
	return nil
}

// suite adds a suite to those that are asked. What was learned of it is kept beside its program.
func (b *Bench) suite(ctx context.Context, s Suite) error {
	s.Binary = filepath.Join(b.Dir, strings.ReplaceAll(s.Name, "/", "-")+".test")
	record := s.Binary + ".json"
	var kept Suite
	if content, err := os.ReadFile(record); err == nil && json.Unmarshal(content, &kept) == nil && kept.Key == s.Key {
		b.Suites = append(b.Suites, kept)
		return nil
	} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	build := exec.CommandContext(ctx, "go", "test", "-c", "-vet=off", "-o", s.Binary, ".")
	build.Dir, build.Env = s.Dir, b.environ()
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", s.Name, err, out)
	}
	switch err := b.learn(ctx, &s); {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		fmt.Fprintf(b.Log, "%s fails without a mutant, so it is not asked: %v\n", s.Name, err)
		return nil
	}
	content, err := json.Marshal(s)
	if err != nil {
		return err
	}
	b.Suites = append(b.Suites, s)
	return os.WriteFile(record, content, 0o600)
}

// learn runs a suite once, to see how long its tests take and which places they reach.
func (b *Bench) learn(ctx context.Context, s *Suite) error {
	reached, entered := filepath.Join(b.Dir, "reached"), filepath.Join(b.Dir, "tests")
	size := b.Mutants[len(b.Mutants)-1].ID + 1
	if err := errors.Join(os.WriteFile(reached, make([]byte, size), 0o600), os.WriteFile(entered, nil, 0o600)); err != nil {
		return err
	}
	defer func() { _ = errors.Join(os.Remove(reached), os.Remove(entered)) }()
	start := time.Now()
	out, err := b.run(ctx, b.Dir, *s, 40*time.Minute, "-test.run", ".", "-test.timeout", "0")
	end := time.Now()
	bad := failed.FindAllStringSubmatch(out, -1)
	if err != nil && len(bad) == 0 {
		return fmt.Errorf("%w: %s", err, strings.Join(strings.Fields(out[max(0, len(out)-400):]), " "))
	}
	rest, err := os.ReadFile(reached)
	if err != nil {
		return err
	}
	lines, err := os.ReadFile(entered)
	if err != nil {
		return err
	}
	if s.Tests, err = learned(string(lines), rest, start, end); err != nil {
		return err
	}
	s.Tests = slices.DeleteFunc(s.Tests, func(t Test) bool {
		fails := slices.ContainsFunc(bad, func(found []string) bool { return t.Name == "" || found[1] == t.Name })
		if fails {
			fmt.Fprintf(b.Log, "%s %s fails without a mutant, so it is not asked\n", s.Name, t.Name)
		}
		return fails || len(t.Reaches) == 0
	})
	fmt.Fprintf(b.Log, "%s: %.1f s, %d tests reach mutants\n", s.Name, end.Sub(start).Seconds(), len(s.Tests))
	return nil
}

// learned reads what tests wrote when they began, and what the last one reached.
// What was reached before the first is the first one's, too.
func learned(lines string, rest []byte, start, end time.Time) ([]Test, error) {
	now, began := Test{}, start.UnixMilli()
	var all []Test
	add := func(until int64, reached []int) {
		now.Reaches, now.Seconds = append(now.Reaches, reached...), float64(until-began)/1000
		slices.Sort(now.Reaches)
		now.Reaches = slices.Compact(now.Reaches)
	}
	for line := range strings.Lines(lines) {
		fields := strings.Fields(line)
		var numbers []int
		for i, field := range fields {
			if i == 1 {
				continue
			}
			n, err := strconv.Atoi(field)
			if err != nil {
				return nil, err
			}
			numbers = append(numbers, n)
		}
		add(int64(numbers[0]), numbers[1:])
		before := now
		now, began = Test{Name: fields[1]}, int64(numbers[0])
		if before.Name == "" {
			now.Reaches = before.Reaches
		} else {
			all = append(all, before)
		}
	}
	var last []int
	for id, was := range rest {
		if was != 0 {
			last = append(last, id)
		}
	}
	add(end.UnixMilli(), last)
	all = append(all, now)
	slices.SortStableFunc(all, func(x, y Test) int { return int(1000*x.Seconds) - int(1000*y.Seconds) })
	return all, nil
}
