// Package simulate runs the product's own code in a simulated world: time, network,
// registries, buckets, log and disks are in memory, and a seed decides what fails.
//
// A [World] is one run. Its actors ([Actor]) are processes of the product: each has a
// transport whose requests the world answers, and a directory that survives it. For each
// request the world draws, from the seed, the request and how often it came before,
// how long it takes, and whether it is lost, refused, repeated, cut off, or the last one
// before its actor is killed. So the same seed gives the same run.
//
//	simulate.Run(t, seed, func(w *simulate.World) {
//		a := w.Actor("promoter")
//		err := a.Do(func(ctx context.Context) error { return promote(ctx, a.Transport) })
//	})
package simulate

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"net/http"
	"os"
	"regexp"
	"slices"
	"sync"
	"testing"
	"testing/cryptotest"
	"testing/synctest"
	"time"
)

// World is everything outside of the product, in one run.
type World struct {
	// Seed decides the run.
	Seed uint64
	// Hosts answer requests, by host and port.
	Hosts map[string]http.Handler
	// Check is called after each request by which an actor may have changed something,
	// and says what is wrong then; may be nil.
	Check func(by *Actor, req *http.Request) error
	// Names replaces digests and hosts, which differ between processes, in what the dice
	// are drawn for; may be nil.
	Names map[string]string
	// Rates are how often each fault happens.
	Rates Rates
	// Broken is what is wrong with the product in this world, to see whether the checks
	// notice; nothing in all worlds that test the product.
	Broken Defect

	dir      string
	requests int  // of a process, about
	spoiled  bool // something must be refused
	began    time.Time
	late     sync.WaitGroup // what is still on its way

	mu     sync.Mutex // guards the fields below
	disks  []*Actor
	trace  []event
	stats  Stats
	wrongs []string
	calm   bool // nothing fails any more

	whole map[string]bool // repositories whose image was checked once; a single goroutine reads it at a time
}

// event is one request in the trace of a run.
type event struct {
	at   time.Duration // since the run began
	what string
}

// Stats count what happened in a run, or in several.
type Stats struct {
	Runs, Requests, Crashes int
	// Faults are by kind.
	Faults map[Fault]int
}

// Add adds the counts of another run.
func (s *Stats) Add(other Stats) {
	s.Runs, s.Requests, s.Crashes = s.Runs+other.Runs, s.Requests+other.Requests, s.Crashes+other.Crashes
	if s.Faults == nil {
		s.Faults = map[Fault]int{}
	}
	for kind, n := range other.Faults {
		s.Faults[kind] += n
	}
}

// Result is how a run ended.
type Result struct {
	Stats
	// Wrong says which invariants did not hold.
	Wrong []string
	// Events are the requests of the run, with their times and fates.
	Events []string
	// Took is how long the run took, in its own time.
	Took time.Duration
}

// Run runs a world from a time on. Everything that it starts ends with it.
func Run(t *testing.T, seed uint64, from time.Time, play func(w *World)) Result {
	t.Helper()
	dir, err := os.MkdirTemp(memory(), "waybill-simulate-")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(dir) }() // in memory
	waitDurably()
	collect()
	w := &World{Seed: seed, dir: dir, Hosts: map[string]http.Handler{}, whole: map[string]bool{}, stats: Stats{Runs: 1, Faults: map[Fault]int{}}}
	w.Rates = drawRates(w.dice("rates"))
	var took time.Duration
	synctest.Test(t, func(t *testing.T) {
		cryptotest.SetGlobalRandom(t, seed)
		time.Sleep(time.Until(from))
		w.began = time.Now()
		choose(w.dice("begin"))
		defer jitterBy(&jitter{seed: seed, began: w.began})()
		syncing = w.synced
		play(w)
		w.late.Wait()
		took = time.Since(w.began)
	})
	return Result{Stats: w.stats, Wrong: w.wrongs, Events: w.events(), Took: took}
}

// memory is a directory in memory, if the system has one.
func memory() string {
	if info, err := os.Stat("/dev/shm"); err == nil && info.IsDir() {
		return "/dev/shm"
	}
	return ""
}

// Wrongf records that an invariant does not hold.
func (w *World) Wrongf(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if text := fmt.Sprintf(format, args...); !slices.Contains(w.wrongs, text) {
		w.wrongs = append(w.wrongs, text)
	}
}

// Calm ends all faults: from now on everything works.
func (w *World) Calm() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.calm = true
	clear(w.whole) // at the end it is checked once more
}

// dice are drawn from the seed for a purpose.
func (w *World) dice(purpose string) *rand.Rand {
	h := fnv.New64a()
	_, _ = h.Write([]byte(purpose))
	return rand.New(rand.NewPCG(w.Seed, h.Sum64())) //nolint:gosec // repeatable, and nothing secret
}

var random = regexp.MustCompile(`[0-9a-f]{64}|127\.0\.0\.1:[0-9]+|-[A-Z2-7]{26}|\b[0-9]{16}\b|\b[0-9a-f]{12}%2F`)

// stable is a text without what differs between two runs of one seed: digests of
// signatures, and of plans, in which are ports of the lab, these ports, names of trials,
// and generations in a bucket, which are times.
func (w *World) stable(text string) string {
	return random.ReplaceAllStringFunc(text, func(part string) string { return cmp.Or(w.Names[part], "random") })
}

// coming counts a request, and returns the dice for it. Equal requests of one moment, of
// which nobody can say which came first, meet the same.
func (w *World) coming(what string) (dice *rand.Rand, calm bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stats.Requests++
	dice = w.dice(fmt.Sprintf("%s after %d", what, time.Since(w.began)))
	choose(dice) // so that nothing counts of what came before
	return dice, w.calm
}

// note records an event.
func (w *World) note(what string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.trace = append(w.trace, event{time.Since(w.began), what})
}

func (w *World) count(kind Fault) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stats.Faults[kind]++
}

// events are the trace. Events of the same moment are independent of each other, and
// sorted.
func (w *World) events() (list []string) {
	slices.SortStableFunc(w.trace, func(a, b event) int {
		return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.what, b.what))
	})
	for _, e := range w.trace {
		list = append(list, e.at.String()+" "+e.what)
	}
	return list
}

// jitter is a source of numbers that depend on the seed and the moment only, whichever
// goroutine draws first.
type jitter struct {
	seed  uint64
	began time.Time

	mu   sync.Mutex // guards the fields below
	at   time.Duration
	many uint64
}

// Uint64 implements [rand.Source].
func (j *jitter) Uint64() uint64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	now := time.Since(j.began)
	if now != j.at {
		j.at, j.many = now, 0
	}
	j.many++                                                    // so that a caller that draws until it likes a number ends
	return rand.NewPCG(j.seed, uint64(now)+j.many>>12).Uint64() //nolint:gosec // repeatable, and nothing secret
}
