package simulate_test

import (
	"context"
	"fmt"
	"io"
	"log"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/waybill-release/waybill/test/simulate"
)

// made is the release of all worlds.
var made *simulate.Made

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	if !simulate.Runs {
		return m.Run()
	}
	runtime.GOMAXPROCS(1) // one goroutine at a time
	debug.SetGCPercent(400)
	log.SetOutput(io.Discard) // of the registry, which reports uploads that break off
	dir, err := os.MkdirTemp("", "waybill-simulate-")
	if err == nil {
		defer os.RemoveAll(dir)
		err = os.Setenv("DOCKER_CONFIG", dir) // nobody's credentials
	}
	if err == nil {
		made, err = simulate.Make(context.Background(), dir, "project")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer made.Close()
	return m.Run()
}

func needsSimulation(t *testing.T) {
	t.Helper()
	if !simulate.Runs {
		t.Skip("this build cannot simulate: make simulate can")
	}
}

// number is a number in the environment.
func number(t *testing.T, name string, other uint64) uint64 {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return other
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return n
}

// scenarioOf is the scenario that a seed plays: each as often as its share says.
func scenarioOf(seed uint64) simulate.Scenario {
	all, shares := simulate.Scenarios(), 0
	for _, s := range all {
		shares += s.Share
	}
	n := int(seed % uint64(shares))
	for _, s := range all {
		if n -= s.Share; n < 0 {
			return s
		}
	}
	panic("simulate: no scenario")
}

func named(name string) simulate.Scenario {
	all := simulate.Scenarios()
	return all[slices.IndexFunc(all, func(s simulate.Scenario) bool { return s.Name == name })]
}

func play(t *testing.T, s simulate.Scenario, seed uint64) simulate.Result {
	t.Helper()
	r := s.Play(t, made, seed, "")
	for _, wrong := range r.Wrong {
		t.Errorf("make simulate SEED=%d plays this again, scenario %s: after %s in the world: %.2000s", seed, s.Name, r.Took, wrong)
	}
	return r
}

// TestSeeds plays SEEDS seeds from FIRST on, for MINUTES at most, or the seed SEED alone.
func TestSeeds(t *testing.T) {
	needsSimulation(t)
	first, many := number(t, "FIRST", 0), number(t, "SEEDS", 40)
	if os.Getenv("SEED") != "" {
		first, many = number(t, "SEED", 0), 1
	}
	all := map[string]*simulate.Stats{}
	began := time.Now()
	most := time.Duration(number(t, "MINUTES", 1000)) * time.Minute
	for seed := first; seed < first+many && time.Since(began) < most; seed++ {
		s := scenarioOf(seed)
		if only := os.Getenv("SCENARIO"); only != "" {
			s = named(only)
		}
		if all[s.Name] == nil {
			all[s.Name] = &simulate.Stats{}
		}
		all[s.Name].Add(play(t, s, seed).Stats)
	}
	var whole simulate.Stats
	for _, s := range simulate.Scenarios() {
		if stats := all[s.Name]; stats != nil {
			whole.Add(*stats)
			t.Logf("%-8s %6d runs, %8d requests, %6d kills", s.Name, stats.Runs, stats.Requests, stats.Crashes)
		}
	}
	t.Logf("all      %6d runs, %8d requests, %6d kills; %s; %.1f runs a second, %s of CPU",
		whole.Runs, whole.Requests, whole.Crashes, faults(whole), float64(whole.Runs)/time.Since(began).Seconds(), cpu().Round(time.Second))
}

func faults(s simulate.Stats) string {
	var list []string
	for kind, n := range s.Faults {
		list = append(list, fmt.Sprintf("%s %d", kind, n))
	}
	slices.Sort(list)
	return strings.Join(list, ", ")
}

func cpu() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u) // zero if it fails
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// TestOneSeedIsOneRun plays seeds twice: the same requests come at the same times, and
// meet the same faults. The scenario of files has no goroutines that compete for
// something, and is the same always; of the others many runs are (TWICE=20 prints
// how many), because nothing makes Go's scheduler choose as before.
func TestOneSeedIsOneRun(t *testing.T) {
	needsSimulation(t)
	for _, s := range simulate.Scenarios() {
		seeds, same := number(t, "TWICE", 0), 0
		if s.Name == "files" {
			seeds = max(seeds, 5)
		}
		for seed := range seeds {
			a, b := s.Play(t, made, seed, ""), s.Play(t, made, seed, "")
			if a.Trace == b.Trace {
				same++
			} else if s.Name == "files" {
				t.Errorf("seed %d: %d requests in %s, then %d in %s", seed, a.Requests, a.Took, b.Requests, b.Took)
			}
		}
		t.Logf("%s: %d of %d seeds twice the same", s.Name, same, seeds)
	}
}

// TestDefectsAreNoticed puts a defect into the product, and plays seeds until a check
// fails. Without the defect none fails: that is what [TestSeeds] demands.
func TestDefectsAreNoticed(t *testing.T) {
	needsSimulation(t)
	for _, c := range []struct {
		scenario string
		broken   simulate.Defect
		wrong    string
	}{
		{"copies", simulate.TagsBare, "is there, and its manifest"},
		{"copies", simulate.NoExclusion, "wrote while"},
		{"stage", simulate.NoMemory, "have the same content"},
	} {
		t.Run(string(c.broken), func(t *testing.T) {
			const most = 60
			for seed := range uint64(most) {
				for _, wrong := range named(c.scenario).Play(t, made, seed, c.broken).Wrong {
					if strings.Contains(wrong, c.wrong) {
						t.Logf("seed %d: %.300s", seed, wrong)
						return
					}
				}
			}
			t.Errorf("%d seeds, and no check says that %q", most, c.wrong)
		})
	}
}
