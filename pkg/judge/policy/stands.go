package policy

import (
	"sync"

	"github.com/waybill-release/waybill/pkg/document/intoto"
	"github.com/waybill-release/waybill/pkg/judge/slsa"
	"github.com/waybill-release/waybill/pkg/release/plan"
	"github.com/waybill-release/waybill/pkg/value/digest"
)

// memory is what is remembered of a statement that speaks of many artifacts,
// so that it is not worked out for each of them. It belongs to one signer: what
// others would say with the same words is never taken from it.
//
// Only a yes is remembered. A no is always worked out anew, for the artifact
// that it is about.
type memory struct {
	mu     sync.Mutex // guards all fields
	stands map[circumstance]bool
	levels map[grounds]levels
	looked int
	index  *index
}

// circumstance is everything that a lasting clause can look at besides the
// fact: the policy and its rule, and those parts of a question that are not
// about one artifact.
type circumstance struct {
	policy  *Policy
	rule    *some
	stage   Stage
	class   plan.Class
	version string
	commit  string
	entire  bool
}

// grounds are what a level rests on besides the statement.
type grounds struct {
	policy *Policy
	entire bool
}

// levels are the answer of a trust map.
type levels struct {
	report slsa.Report
	err    error
}

func (m *matter) circumstance(s *some, f *Fact) circumstance {
	return circumstance{m.policy, s, m.q.Stage, m.q.Class, m.q.Version, m.q.Commit, m.entire(f)}
}

// entire reports whether every digest that the fact gives was compared. Where
// the digest is the name, one may be all that is known.
func (m *matter) entire(f *Fact) bool { return !m.q.ByDigest || f.said.Binds(m.q.Bytes) }

// has reports whether the lasting clauses are known to be met.
func (r *memory) has(c circumstance) bool {
	if r == nil {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.stands[c]
}

func (r *memory) keep(c circumstance) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.stands == nil {
		r.stands = map[circumstance]bool{}
	}
	r.stands[c] = true
}

// level is what the trust map answered, or answers now.
func (r *memory) level(g grounds, ask func() (slsa.Report, error)) (slsa.Report, error) {
	if r == nil {
		return ask()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	got, there := r.levels[g]
	if !there {
		if r.levels == nil {
			r.levels = map[grounds]levels{}
		}
		got.report, got.err = ask()
		r.levels[g] = got
	}
	return got.report, got.err
}

// index finds the subjects of a statement without reading all of them.
type index struct {
	subjects []intoto.Subject
	first    map[string]int // of a name
	next     []int          // of the same name, 0: none
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

// names is [intoto.Statement.Names].
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

// fewLooks is how often all subjects are read before it is worth to index
// them: a statement of very many may be asked about one.
const fewLooks = 8

// find is the index of a statement, nil while it is not worth one.
func (r *memory) find(said intoto.Statement) *index {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.looked++; r.index == nil && r.looked > fewLooks {
		r.index = indexOf(said)
	}
	return r.index
}
