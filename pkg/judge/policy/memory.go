package policy

import (
	"sync"
	"time"

	"github.com/waybill-release/waybill/pkg/document/intoto"
	"github.com/waybill-release/waybill/pkg/judge/slsa"
	"github.com/waybill-release/waybill/pkg/release/plan"
	"github.com/waybill-release/waybill/pkg/value/digest"
)

// memory caches results about a statement with many subjects, so that they are
// not computed for each artifact. It belongs to one signer: the same statement
// by another signer has its own memory.
//
// Only acceptances are cached. A refusal is always computed again, for the
// artifact in question.
type memory struct {
	mu       sync.Mutex // guards all fields
	memoized map[memoKey]bool
	levels   map[levelKey]levels
	looked   int
	index    *index
}

// memoKey is everything besides the fact that the result of a perRelease clause
// depends on: the policy and its rule, and the parts of a question that are not
// about one artifact.
type memoKey struct {
	policy  *Policy
	rule    *some
	stage   Stage
	class   plan.Class
	version string
	commit  string
	entire  bool
}

// levelKey is what a level depends on besides the statement.
type levelKey struct {
	policy *Policy
	entire bool
	at     time.Time // declarations end
	by     string    // rebuilders
}

// levels is a cached result of the trust map.
type levels struct {
	report slsa.Report
	err    error
}

// entire reports whether every digest that the fact gives was compared. If the
// artifact is named by its digest, only that one may be known.
func (m *judgement) entire(f *fact) bool { return !m.q.ByDigest || f.said.Binds(m.q.Bytes) }

// has reports whether the perRelease clauses are known to be met.
func (r *memory) has(c memoKey) bool {
	if r == nil {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.memoized[c]
}

func (r *memory) keep(c memoKey) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.memoized == nil {
		r.memoized = map[memoKey]bool{}
	}
	r.memoized[c] = true
}

// level returns the cached result of the trust map, or asks for it.
func (r *memory) level(g levelKey, ask func() (slsa.Report, error)) (slsa.Report, error) {
	if r == nil {
		return ask()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	got, there := r.levels[g]
	if !there {
		if r.levels == nil {
			r.levels = map[levelKey]levels{}
		}
		got.report, got.err = ask()
		r.levels[g] = got
	}
	return got.report, got.err
}

// index finds subjects of a statement without a scan.
type index struct {
	subjects []intoto.Subject
	first    map[string]int // first subject with a name
	next     []int          // next subject with the same name, 0: none
	bytes    func() map[digest.Digest]bool
}

func indexOf(said intoto.Statement) *index {
	all := said.Subjects()
	i := &index{subjects: all, first: make(map[string]int, len(all)), next: make([]int, len(all))}
	for n := len(all) - 1; n >= 0; n-- {
		i.next[n] = i.first[all[n].Name]
		i.first[all[n].Name] = n
	}
	i.bytes = sync.OnceValue(func() map[digest.Digest]bool {
		has := make(map[digest.Digest]bool, 2*len(all))
		for _, s := range all {
			has[s.Digests.SHA256], has[s.Digests.SHA512] = true, true
		}
		return has
	})
	return i
}

// names is [intoto.Statement.Names], with the index.
func (i *index) names(name string, bytes digest.Set) bool {
	at, there := i.first[name]
	for there {
		if i.subjects[at].Binds(bytes) {
			return true
		}
		at = i.next[at]
		there = at > 0
	}
	return false
}

func (i *index) has(d digest.Digest) bool { return !d.IsZero() && i.bytes()[d] }

// fewLooks is how many scans of all subjects are made before an index is built:
// a statement with many subjects may be used for one only.
const fewLooks = 8

// find returns the index of a statement, nil before it is worth building.
func (r *memory) find(said intoto.Statement) *index {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.looked++; r.index == nil && r.looked > fewLooks {
		r.index = indexOf(said)
	}
	return r.index
}
