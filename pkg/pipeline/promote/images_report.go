package promote

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/waybill-release/waybill/pkg/tool/plural"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// maxFindings limits the findings of one code: an unreachable registry gives
// the same one for every image.
const maxFindings = 100

// maxProofs limits the proofs: for a large promotion, the records at the
// destinations say who signed what.
const maxProofs = 200

// report collects the results of a plan.
type report struct {
	mu      sync.Mutex // owns the rest
	verdict *verdict.Verdict
	items   []Item
	counts  map[verdict.Code]int
	present int
	cut     int // items not finished because the run was interrupted
}

func newReport(p Images, plan digest.Digest) *report {
	v := verdict.New("promotion of plan "+plan.String()+p.Shard.Suffix(), p.Run.Now)
	v.Scope.Checks = []string{"evidence of every image", "copies by digest", "evidence at each destination", "tags"}
	v.Scope.Left = p.Shard.Others()
	r := &report{verdict: v, counts: map[verdict.Code]int{}}
	v.Subject = "promotion of " + plural.Of(len(p.Shard.Edges(p.Plan)), "image") + p.Shard.Suffix()
	for _, i := range p.Shard.Edges(p.Plan) {
		v.Counts.Required += len(p.Plan.Routes[p.Plan.Edges[i].Route].Destinations)
	}
	return r
}

// judged adopts the basis and the warnings of a decision.
func (r *report) judged(v *verdict.Verdict) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.verdict.Policy.IsZero() {
		r.verdict.Policy = v.Policy
	}
	r.verdict.TrustRoot = v.TrustRoot
	r.verdict.Include(*v)
	for _, w := range v.Warnings {
		if r.few(w.Code) {
			r.verdict.Warn(w)
		}
	}
	for _, note := range v.Notes {
		if len(r.verdict.Notes) < maxFindings && !slices.Contains(r.verdict.Notes, note) {
			r.verdict.Note("%s", note)
		}
	}
	r.prove(v.Proofs)
}

// prove adds proofs of an image, up to the limit.
func (r *report) prove(all []verdict.Proof) {
	room := max(0, maxProofs-len(r.verdict.Proofs))
	r.verdict.Proofs = append(r.verdict.Proofs, all[:min(room, len(all))]...)
}

// proven adds the proof of an earlier run's decision about an image.
func (r *report) proven(p verdict.Proof) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.prove([]verdict.Proof{p})
}

// few reports whether another finding of a code may be listed.
func (r *report) few(c verdict.Code) bool {
	r.counts[c]++
	return r.counts[c] <= maxFindings
}

// good reports an image that is where it should be.
func (r *report) good(edge int, to string, s State) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.verdict.Counts.Verified++
	if s == Present {
		r.present++
	}
	r.items = append(r.items, Item{Edge: edge, To: to, State: s})
}

// item reports an image that is not copied to a destination.
func (r *report) item(edge int, to string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	outcome := verdict.OutcomeOf(err)
	i := Item{Edge: edge, To: to, State: Refused, Code: verdict.FindingOf(to, err).Code}
	if outcome == verdict.Unavailable {
		i.State = Failed
	}
	for _, f := range findings(to, err) { // the first of the findings that decided
		if f.Code.Outcome() == outcome {
			i.Code = f.Code
			break
		}
	}
	r.items = append(r.items, i)
}

// interrupted reports an image that is not copied because the run was
// interrupted. All of them are one finding.
func (r *report) interrupted(edge int, to string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cut++
	r.items = append(r.items, Item{Edge: edge, To: to, State: Failed, Code: verdict.PlaceDown})
}

// failed reports why. A refusal adds all its findings.
func (r *report) failed(subject string, err error, effect string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, f := range findings(subject, err) {
		if i == 0 && effect != "" {
			f.Message += "; " + effect
		}
		if r.few(f.Code) {
			r.verdict.Add(f)
		}
	}
}

// left notes how many referrers of an image were not copied with it, once for
// all destinations.
func (r *report) left(name string, n int) {
	if n == 0 {
		return
	}
	r.note(fmt.Sprintf("%s: referrers not copied, because they are images themselves, are stored elsewhere, or cannot be read: %d", name, n))
}

// leftTag notes an evidence tag that was not copied.
func (r *report) leftTag(tag, why string) {
	r.note(fmt.Sprintf("%s was not copied: a tag for evidence must contain evidence; %s", tag, why))
}

// note adds a note once, up to the limit.
func (r *report) note(note string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.verdict.Notes) < maxFindings && !slices.Contains(r.verdict.Notes, note) {
		r.verdict.Note("%s", note)
	}
}

// moved notes a tag that is moved, and the exception that permits it.
func (r *report) moved(by verdict.Waiver) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.verdict.Waived = append(r.verdict.Waived, by)
}

func (r *report) applied() Applied {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range slices.Sorted(maps.Keys(r.counts)) {
		if more := r.counts[c] - maxFindings; more > 0 {
			r.verdict.Note("%s: more findings of this kind, not listed: %d", c, more)
		}
	}
	if r.cut > 0 {
		r.verdict.Add(verdict.Find(verdict.PlaceDown, "the promotion", "the promotion was interrupted; not finished: %d", r.cut).
			Advise("run the same command again; it continues where this run ended"))
	}
	if c := r.verdict.Counts; c.Verified > 0 && c.Verified < c.Required {
		r.verdict.Tell("%d of %d copies are done; run the same command again for the others.", c.Verified, c.Required)
	}
	if r.present > 0 {
		r.verdict.Tell("Copies that an earlier run had made, with their evidence: %d.", r.present)
	}
	slices.SortFunc(r.items, byEdge)
	return Applied{Verdict: r.verdict, Items: r.items}
}

func findings(subject string, err error) []verdict.Finding {
	if judged, is := errors.AsType[*verdict.NotAcceptedError](err); is && len(judged.Verdict.Findings) > 0 {
		return judged.Verdict.Findings
	}
	return []verdict.Finding{verdict.FindingOf(subject, err)}
}
