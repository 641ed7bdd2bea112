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
	if err == nil {
		err = simulate.Prepare()
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

// TestSeeds plays SEEDS seeds from FIRST on, for MINUTES at most, or the seed SEED alone,
// and prints its requests.
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
		r := play(t, s, seed)
		all[s.Name].Add(r.Stats)
		if many == 1 {
			t.Log(strings.Join(r.Events, "\n"))
		}
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

// TestSeedsThatFoundDefects plays the seeds by which defects of the product were found, or
// by which a defect that was found is seen again if it is put back.
func TestSeedsThatFoundDefects(t *testing.T) {
	needsSimulation(t)
	for _, c := range []struct {
		scenario string
		seed     uint64
		found    string
	}{
		{"copies", 27, "a tag was written after the lease was lost: it was read between the check of the lease and the write"},
		{"kit", 16, "after a power cut a kit had its name and not its content: it was not synced"},
		{"kit", 29, "the same, and half of it was there"},
		{"shards", 90, "results of a shard broke off on the way, and were refused as malformed"},
	} {
		if len(play(t, named(c.scenario), c.seed).Wrong) > 0 {
			t.Errorf("%s, seed %d, is wrong again; it had found this: %s", c.scenario, c.seed, c.found)
		}
	}
}

// TestOneSeedIsOneRun plays seeds twice: the same requests come at the same times, and
// meet the same faults.
func TestOneSeedIsOneRun(t *testing.T) {
	needsSimulation(t)
	if !simulate.Repeats {
		t.Skip("runs repeat on linux/amd64: elsewhere Go chooses among goroutines that are ready at the same moment")
	}
	for _, s := range simulate.Scenarios() {
		for seed := range number(t, "TWICE", 2) {
			a, b := s.Play(t, made, seed, ""), s.Play(t, made, seed, "")
			if len(a.Events) != len(b.Events) {
				t.Errorf("%s, seed %d: %d and %d events", s.Name, seed, len(a.Events), len(b.Events))
			}
			for i, event := range a.Events {
				if i >= len(b.Events) || b.Events[i] != event {
					t.Errorf("%s, seed %d: of %d and %d events, number %d differs: %s", s.Name, seed, len(a.Events), len(b.Events), i, event)
					break
				}
			}
		}
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
		seed     uint64 // the first that is played
	}{
		{"copies", simulate.TagsBare, "is there, and its manifest", 0},
		{"copies", simulate.NoExclusion, "wrote while", 0},
		{"copies", simulate.LeaseGap, "wrote while", 27},
		{"stage", simulate.NoMemory, "have the same content", 0},
		{"kit", simulate.NoSync, "is not whole", 16},
	} {
		t.Run(string(c.broken), func(t *testing.T) {
			first, most := number(t, "FIRST", c.seed), number(t, "SEEDS", 60)
			for seed := first; seed < first+most; seed++ {
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
