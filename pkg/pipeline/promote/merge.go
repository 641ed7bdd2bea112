package promote

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"

	"github.com/waybill-release/waybill/pkg/backend/store"
	"github.com/waybill-release/waybill/pkg/release/promotionplan"
	"github.com/waybill-release/waybill/pkg/tool/plural"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// Shards is a plan that several workers applied, each of which wrote its
// results.
type Shards struct {
	Plan promotionplan.Plan
	// Results is the place of the plan's results: see [ResultsPlace].
	Results store.Place
	// Again is the command that applies a shard, without --shard and
	// --confirm, for advice about missing shards.
	Again string
	Now   time.Time
}

// Merge accounts for every image of the plan at every destination. It accepts
// only if the shard that is responsible for each reports it as done. It
// reports missing results, failures, and results that do not belong to the
// plan; the verdict's groups are the destinations.
//
// The last attempt of a shard counts for each image, except that a failure to
// get an answer does not override an earlier success.
//
// The results are claims of whoever can write to the place. No registry is
// contacted. Memory use is the plan, and two bytes for each image and
// destination.
func (s Shards) Merge(ctx context.Context) (*verdict.Verdict, error) {
	m := newMerging(s)
	objects, err := s.Results.List(ctx)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	files := m.files(objects)
	if of, one := m.division(files); one {
		m.v.Scope.Checks = []string{fmt.Sprintf("the results of %s", plural.Of(of, "shard"))}
		for len(files) > 0 {
			n := 1
			for n < len(files) && files[n].shard == files[0].shard {
				n++
			}
			m.shard(ctx, files[:n])
			files = files[n:]
		}
		m.account(of)
	}
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	m.end()
	return m.v, nil
}

// kind is the content of an item, without its place.
type kind struct {
	state State
	code  verdict.Code
}

// merging is a merge in progress.
type merging struct {
	Shards
	v    *verdict.Verdict
	plan digest.Digest
	// first is the slot of each edge at its first destination.
	first []int
	// slots are indexes into kinds for each edge and destination; 0 means
	// unknown.
	slots []uint16
	kinds []kind
	known map[kind]uint16

	there    map[int]bool          // shards that have results
	again    []promotionplan.Shard // shards that must run again
	policies []digest.Digest
	read     int
}

func newMerging(s Shards) *merging {
	m := &merging{Shards: s, plan: s.Plan.Digest(), kinds: make([]kind, 1), known: map[kind]uint16{}, there: map[int]bool{}}
	m.v = verdict.NewCheck("promotion of plan "+m.plan.String()+", all shards", s.Now)
	m.v.Subject = "promotion of " + plural.Of(len(s.Plan.Edges), "image") + ", all shards"
	for _, e := range s.Plan.Edges {
		m.first = append(m.first, m.v.Counts.Required)
		m.v.Counts.Required += len(s.Plan.Routes[e.Route].Destinations)
	}
	m.slots = make([]uint16, m.v.Counts.Required)
	return m
}

// files are the results among the objects, by shard and attempt. Other
// objects are findings.
func (m *merging) files(objects []store.Object) (files []resultsFile) {
	foreign, staged := 0, 0
	for _, o := range objects {
		f, is := parseResultsName(o.Name)
		switch {
		case is:
			files = append(files, f)
		case store.IsStaging(o.Name):
			staged++
		default:
			if foreign++; foreign <= maxFindings {
				m.extra(o.Name, "not a result of a shard")
			}
		}
	}
	if staged > 0 {
		m.v.Note("incomplete results of interrupted runs: %d", staged)
	}
	slices.SortFunc(files, func(a, b resultsFile) int {
		return cmp.Or(cmp.Compare(a.shard.Of, b.shard.Of), cmp.Compare(a.shard.Index, b.shard.Index), cmp.Compare(a.attempt, b.attempt))
	})
	return files
}

func (m *merging) extra(name, format string, args ...any) {
	m.v.Add(verdict.Find(verdict.Extra, name, format, args...).Advise("find out who wrote this file to " + m.Results.URI() + ", and remove it"))
}

// division is the number of shards of the plan: all results must agree on it.
func (m *merging) division(files []resultsFile) (of int, one bool) {
	if len(files) == 0 {
		m.v.Add(verdict.Find(verdict.Missing, "plan "+m.plan.String(), "no shard of the plan has written results to %s", m.Results.URI()).
			Advise("run " + m.Again + " --shard i/n --confirm for every i from 0 to n-1, or check whether --results names the right place"))
		return 0, false
	}
	of = files[0].shard.Of
	if last := files[len(files)-1].shard.Of; last != of {
		m.extra(m.Results.URI(), "results of a division into %d shards and of one into %d shards are mixed, so shards overlap", of, last)
		m.v.Findings[len(m.v.Findings)-1].Fix = "remove the results of the wrong division"
		return 0, false
	}
	return of, true
}

// shard reads the attempts of one shard, in order.
func (m *merging) shard(ctx context.Context, attempts []resultsFile) {
	m.there[attempts[0].shard.Index] = true
	for _, f := range attempts {
		head, err := m.file(ctx, f)
		if err != nil {
			m.v.AddError(f.String(), err)
			continue
		}
		m.read++
		if head.Good > 0 && !head.Policy.IsZero() { // copies that this attempt accepted count, even if a later one failed
			m.v.TrustRoot = head.TrustRoot
			if !slices.Contains(m.policies, head.Policy) {
				m.policies = append(m.policies, head.Policy)
			}
		}
		m.mergeHead(head)
	}
}

func (m *merging) file(ctx context.Context, f resultsFile) (head resultsHead, err error) {
	body, _, err := m.Results.Open(ctx, f.String())
	if err != nil {
		return resultsHead{}, err
	}
	defer body.Close()
	last := Item{Edge: -1}
	err = readResults(body, func(h resultsHead) error {
		head = h
		if !h.Plan.Equal(m.plan) || h.Shard != f.shard {
			return verdict.Refuse(verdict.Extra, f.String(), "the content is of shard %s of plan %s", h.Shard, h.Plan).Advise("find out who wrote this file, and remove it")
		}
		return nil
	}, func(i Item) error {
		slot, err := m.slot(f.shard, i)
		if err != nil {
			return err
		}
		if byEdge(i, last) <= 0 {
			return fmt.Errorf("edge %d at %q is out of order or repeated", i.Edge, i.To)
		}
		last = i
		return m.record(slot, kind{i.State, i.Code})
	})
	var known interface{ Outcome() verdict.Outcome }
	if err == nil || errors.As(err, &known) || verdict.OutcomeOf(err) == verdict.Unavailable {
		return head, err
	}
	return head, verdict.Wrap(verdict.ConfigParse, f.String(), err).
		Advise("the file is not a valid result: remove it, and run " + m.command(f.shard))
}

// slot is the slot of an item, which must be in the plan and in the shard.
func (m *merging) slot(s promotionplan.Shard, i Item) (int, error) {
	if i.Edge < 0 || i.Edge >= len(m.Plan.Edges) {
		return 0, m.foreign(s, i, "the plan has no such edge")
	}
	e := m.Plan.Edges[i.Edge]
	if !s.Takes(e.Digest) {
		return 0, m.foreign(s, i, "the image is in another shard")
	}
	at := slices.Index(m.Plan.Routes[e.Route].Destinations, i.To)
	if at < 0 {
		return 0, m.foreign(s, i, "the plan does not copy it there")
	}
	return m.first[i.Edge] + at, nil
}

func (m *merging) foreign(s promotionplan.Shard, i Item, why string) error {
	return verdict.Refuse(verdict.Extra, "results of shard "+s.String(), "edge %d at %q: %s", i.Edge, i.To, why).
		Advise("the results are not of this plan: find out who wrote them, and remove them")
}

// record records the result of an attempt for an item. A failure to get an
// answer does not override an earlier success.
func (m *merging) record(slot int, k kind) error {
	if k.state == Failed && m.kinds[m.slots[slot]].state.Good() {
		return nil
	}
	n, known := m.known[k]
	if !known {
		n = uint16(len(m.kinds)) // there are fewer codes than that
		m.known[k] = n
		m.kinds = append(m.kinds, k)
	}
	m.slots[slot] = n
	return nil
}

// mergeHead adopts what a shard's verdict says besides the images.
func (m *merging) mergeHead(h resultsHead) {
	for _, w := range h.Waived {
		if !slices.ContainsFunc(m.v.Waived, func(o verdict.Waiver) bool { return o.ID == w.ID && o.Finding.Subject == w.Finding.Subject }) {
			m.v.Waived = append(m.v.Waived, w)
		}
	}
	if len(m.v.Warnings) < maxFindings {
		m.v.Warn(h.Warnings...)
	}
	if h.Lab != "" && m.v.Lab() == "" {
		m.v.Tell("%s", h.Lab)
	}
	for _, note := range h.Notes {
		if len(m.v.Notes) < maxFindings && !slices.Contains(m.v.Notes, note) {
			m.v.Note("%s", note)
		}
	}
}

func byEdge(a, b Item) int { return cmp.Or(cmp.Compare(a.Edge, b.Edge), cmp.Compare(a.To, b.To)) }
