package slsa

import (
	"fmt"
	"slices"
	"strings"

	"github.com/waybill-release/waybill/pkg/tool/slice"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// Step is one artifact of an ancestry: the level that it reached by itself on a
// track, and the artifacts that it was made of. An artifact without inputs was
// made from source.
type Step struct {
	ID     string   `json:"id"`
	Level  int      `json:"level"`
	Inputs []string `json:"inputs,omitempty"`
}

// Limit is the level of an artifact including its ancestry, and the path from
// the artifact to the step that limits it.
type Limit struct {
	Level int      `json:"level"`
	Path  []string `json:"path"`
}

// String names the level and the limiting step.
func (l Limit) String() string {
	return fmt.Sprintf("level %d, limited by %s", l.Level, strings.Join(slice.Map(l.Path, quote), " made of "))
}

// Minimum returns the lowest level among an artifact and everything that it was
// made of. Of several limiting steps it names the nearest, then the first by
// name. It refuses an ancestor that is not in the list, a step that is listed
// twice and an artifact that is made of itself, because these have no defined
// level.
func Minimum(id string, steps []Step) (Limit, error) {
	byID := make(map[string]Step, len(steps))
	for _, s := range steps {
		if _, twice := byID[s.ID]; twice || s.ID == "" {
			return Limit{}, verdict.Refuse(verdict.BuildMix, "ancestry", "step %s is listed twice, or has no name", quote(s.ID))
		}
		byID[s.ID] = s
	}
	order, from, err := reach(id, byID)
	if err != nil {
		return Limit{}, err
	}
	if err := acyclic(order, byID); err != nil {
		return Limit{}, err
	}
	lowest := slices.MinFunc(order, func(a, b string) int { return byID[a].Level - byID[b].Level })
	limit := Limit{Level: byID[lowest].Level}
	for at := lowest; ; at = from[at] {
		limit.Path = append(limit.Path, at)
		if at == id {
			break
		}
	}
	slices.Reverse(limit.Path)
	return limit, nil
}

// reach lists the artifact and its ancestors, nearest first and then by name,
// each with the artifact that it was reached from.
func reach(id string, byID map[string]Step) (order []string, from map[string]string, err error) {
	from = map[string]string{id: ""}
	for ring := []string{id}; len(ring) > 0; {
		order = append(order, ring...)
		var next []string
		for _, at := range ring {
			step, known := byID[at]
			if !known {
				return nil, nil, verdict.Refuse(verdict.NoProvenance, "ancestry", "no step describes %s, which %s was made of", quote(at), quote(from[at]))
			}
			for _, input := range step.Inputs {
				if _, seen := from[input]; !seen {
					from[input] = at
					next = append(next, input)
				}
			}
		}
		slices.Sort(next)
		ring = next
	}
	return order, from, nil
}

// acyclic repeatedly removes the artifacts whose inputs are all removed. What
// remains is made of itself.
func acyclic(order []string, byID map[string]Step) error {
	left := make(map[string]int, len(order))
	users := make(map[string][]string, len(order))
	var ready []string
	for _, id := range order {
		left[id] = len(byID[id].Inputs)
		for _, input := range byID[id].Inputs {
			users[input] = append(users[input], id)
		}
		if left[id] == 0 {
			ready = append(ready, id)
		}
	}
	done := 0
	for ; done < len(ready); done++ {
		for _, user := range users[ready[done]] {
			if left[user]--; left[user] == 0 {
				ready = append(ready, user)
			}
		}
	}
	if done == len(order) {
		return nil
	}
	return verdict.Refuse(verdict.BuildMix, "ancestry", "an artifact is made of itself: %s", strings.Join(cycle(order, left, byID), " made of "))
}

// cycle follows the remaining artifacts until it returns to one.
func cycle(order []string, left map[string]int, byID map[string]Step) (names []string) {
	at := order[slices.IndexFunc(order, func(id string) bool { return left[id] > 0 })]
	seen := map[string]bool{}
	for ; !seen[at] && len(names) < 16; names = append(names, quote(at)) {
		seen[at] = true
		inputs := byID[at].Inputs
		at = inputs[slices.IndexFunc(inputs, func(id string) bool { return left[id] > 0 })]
	}
	return append(names, quote(at))
}
