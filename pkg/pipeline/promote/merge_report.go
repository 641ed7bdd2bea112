package promote

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/waybill-release/waybill/pkg/release/promotionplan"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// tally counts the images and destinations of one shard.
type tally struct{ all, unknown, bad int }

// account checks whether each shard reported everything for which it is
// responsible.
func (m *merging) account(of int) {
	tallies := make([]tally, of)
	for i, e := range m.Plan.Edges {
		t := &tallies[promotionplan.ShardOf(e.Digest, of)]
		for at := range m.Plan.Routes[e.Route].Destinations {
			t.all++
			switch k := m.slots[m.first[i]+at]; {
			case k == 0:
				t.unknown++
			case !m.kinds[k].state.Good():
				t.bad++
			}
		}
	}
	for i, t := range tallies {
		if t.bad+t.unknown > 0 {
			m.again = append(m.again, promotionplan.Shard{Index: i, Of: of})
		}
		if t.unknown > 0 {
			m.missing(promotionplan.Shard{Index: i, Of: of}, t)
		}
	}
}

// missing reports what a shard does not account for.
func (m *merging) missing(s promotionplan.Shard, t tally) {
	f := verdict.Find(verdict.Missing, "shard "+s.String(), "results for %d of %d images and destinations", t.all-t.unknown, t.all)
	if !m.there[s.Index] {
		f.Message = fmt.Sprintf("no results written; images and destinations in this shard: %d", t.all)
	}
	f.Fix = "run " + m.command(s)
	before := m.v.Counts.Missing
	if len(m.v.Findings) < maxFindings {
		m.v.Add(f)
	}
	m.v.Counts.Missing = before + t.unknown // the count is of images, not of shards
}

func (m *merging) command(s promotionplan.Shard) string {
	if s.Of == 1 {
		return m.Again + " --confirm"
	}
	return m.Again + " --shard " + s.String() + " --confirm"
}

// region is the state of a plan at one destination.
type region struct {
	good, all int
	bad       map[kind]int
	example   map[kind]string
}

// end reports the state of each destination.
func (m *merging) end() {
	regions := map[string]*region{}
	for i, e := range m.Plan.Edges {
		for at, to := range m.Plan.Routes[e.Route].Destinations {
			r := regions[to]
			if r == nil {
				r = &region{bad: map[kind]int{}, example: map[kind]string{}}
				regions[to] = r
			}
			r.all++
			k := m.kinds[m.slots[m.first[i]+at]]
			switch {
			case k.state.Good():
				r.good++
			case k.state != "":
				if r.bad[k]++; r.bad[k] == 1 {
					r.example[k] = e.Image + "@" + e.Digest.String()
				}
			}
		}
	}
	for _, to := range slices.Sorted(maps.Keys(regions)) {
		r := regions[to]
		m.v.Groups = append(m.v.Groups, verdict.Group{Name: to, Verified: r.good, Required: r.all})
		m.v.Counts.Verified += r.good
		for _, k := range slices.SortedFunc(maps.Keys(r.bad), func(a, b kind) int { return cmp.Compare(a.code, b.code) }) {
			m.v.Add(verdict.Find(k.code, to, "%d of %d images are not there, among them %s", r.bad[k], r.all, r.example[k]))
		}
	}
	m.notes()
}

func (m *merging) notes() {
	if n := len(m.again); n > 0 {
		m.v.Note("shards to run again: %d of %d; existing images are kept. The first: %s", n, m.again[0].Of, m.command(m.again[0]))
	}
	switch len(m.policies) {
	case 0:
	case 1:
		m.v.Policy = m.policies[0]
	default:
		m.v.Note("the shards used %d different policies, the first is %s", len(m.policies), m.policies[0])
	}
	if m.read > 0 {
		m.v.Note("based on unsigned result files: %d; no registry was read", m.read)
	}
}
