package span

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"time"
)

// Tally counts the spans that have ended, by name and outcome, and how long
// they took. There are few names and outcomes, so it stays small.
type Tally struct {
	mu  sync.Mutex // owns all
	all map[Ended]Sum
}

// Ended is what spans are counted by.
type Ended struct {
	Name    Name
	Outcome string // Done, refused, malformed, unavailable or internal
}

// Done is the outcome of a span that ended without an error.
const Done = "done"

// Sum is how many there were, and how long they took together.
type Sum struct {
	Count int
	Took  time.Duration
}

func newTally() *Tally { return &Tally{all: map[Ended]Sum{}} }

func (t *Tally) ended(name Name, outcome string, took time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	sum := t.all[Ended{name, outcome}]
	sum.Count++
	sum.Took += took
	t.all[Ended{name, outcome}] = sum
}

// All lists what was counted, in the order of names and outcomes.
func (t *Tally) All() ([]Ended, []Sum) {
	t.mu.Lock()
	defer t.mu.Unlock()
	by := slices.SortedFunc(maps.Keys(t.all), func(a, b Ended) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Outcome, b.Outcome))
	})
	sums := make([]Sum, len(by))
	for i, e := range by {
		sums[i] = t.all[e]
	}
	return by, sums
}
