package promote

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/waybill-release/waybill/pkg/backend/store"
	"github.com/waybill-release/waybill/pkg/gate"
	"github.com/waybill-release/waybill/pkg/release/plan"
	"github.com/waybill-release/waybill/pkg/release/promotionplan"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// FileJudge decides whether one file may be promoted. It is asked once for each
// file, however many destinations there are.
type FileJudge interface {
	Placed(f gate.PlacedFile) *verdict.Verdict
}

// Files promotes the files of a plan. Each is hashed where it lies, judged with
// the bundle beside it (NAME.sigstore.json), and copied to every destination:
// the bundle first, a listed checksum (NAME.sha256) next, the file last, so that
// no file is ever there without its evidence. What is written is hashed once
// more on its way, and read back. Nothing is ever written over.
//
// What is refused, and what cannot be reached, does not stop the rest; what is
// there already stays, so the same plan can be applied again at any time.
//
//	v, err := promote.Files{Plan: plan, Judge: request, Open: open, …}.Apply(ctx)
//	err = v.Err()
type Files struct {
	Plan  promotionplan.Plan
	Judge FileJudge
	// Class is what the policy is asked about; zero is [plan.Binary], of which a
	// policy asks most.
	Class      plan.Class
	Open       func(uri string) (store.Place, error)
	OpenWriter func(uri string) (store.Writer, error)
	Now        time.Time
	// Progress is told how many files have been dealt with, of how many. It is
	// called by several goroutines; nil tells nobody.
	Progress func(done, of int)
}

// filing is a plan of files being applied.
type filing struct {
	Files
	places filePlaces

	mu      sync.Mutex // owns the rest
	verdict *verdict.Verdict
	done    int
}

// parcel is a file, and what is written beside it.
type parcel struct {
	promotionplan.File
	from     string
	to       []string
	bundle   digest.Digest // as the plan lists it; zero if it does not
	checksum digest.Digest // the same of NAME.sha256
}

// checksumSuffix is what the name of a listed checksum adds to that of its file.
const checksumSuffix = ".sha256"

// Apply does what the plan says, as far as it is decided to be right. The error
// is that of a plan that cannot be begun, or of an end that came too early.
func (p Files) Apply(ctx context.Context) (*verdict.Verdict, error) {
	a, err := p.begin("promotion of plan ", "evidence of every file", "copies by digest", "evidence at each destination")
	if err != nil {
		return nil, err
	}
	a.verdict.Counts.Required = p.Plan.Extent().Copies
	return a.run(ctx, a.parcel)
}

// Decide says of each file whether it would be promoted: it is hashed where it
// lies, and judged. Nothing is written, and no destination is asked.
func (p Files) Decide(ctx context.Context) (*verdict.Verdict, error) {
	p.OpenWriter = nil
	a, err := p.begin("files of plan ", "evidence of every file")
	if err != nil {
		return nil, err
	}
	a.verdict.Scope.Left = []string{"what the destinations have"}
	a.verdict.Counts.Required = len(p.Plan.Files)
	return a.run(ctx, a.decide)
}

// begin refuses what cannot be begun.
func (p Files) begin(question string, checks ...string) (*filing, error) {
	switch {
	case p.Plan.Release != nil || len(p.Plan.Edges) > 0:
		return nil, verdict.Refuse(verdict.Usage, "plan", "it is not a plan of files alone")
	case p.Judge == nil:
		return nil, verdict.Refuse(verdict.Usage, "policy", "files need evidence as images do, and nobody says what would be enough").Advise("add --policy FILE, or --profile where it is asked for")
	case p.Plan.Extent().Copies == 0:
		return nil, verdict.Refuse(verdict.Usage, "plan", "there is nothing to promote")
	}
	if p.Class == "" {
		p.Class = plan.Binary
	}
	a := &filing{Files: p, verdict: verdict.New(question+p.Plan.Digest().String(), p.Now)}
	a.verdict.Scope.Checks = checks
	return a, a.places.open(p)
}

// run deals with every file of the plan, several at a time.
func (a *filing) run(ctx context.Context, do func(context.Context, parcel)) (*verdict.Verdict, error) {
	group := errgroup.Group{}
	group.SetLimit(writers)
	for _, one := range parcels(a.Plan) {
		group.Go(func() error {
			if ctx.Err() == nil {
				do(ctx, one)
				a.progress(one.weight())
			}
			return nil
		})
	}
	_ = group.Wait() // what went wrong is in the verdict
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	a.verdict.Add(a.places.away()...)
	return a.verdict, nil
}

// parcels are the files of a plan, each with what goes beside it.
func parcels(p promotionplan.Plan) (all []parcel) {
	listed := make([]map[string]digest.Digest, len(p.Stores))
	for _, f := range p.Files {
		if listed[f.Store] == nil {
			listed[f.Store] = map[string]digest.Digest{}
		}
		listed[f.Store][f.Name] = f.Digest
	}
	for _, f := range p.Files {
		if of, is := besides(f.Name); is && !listed[f.Store][of].IsZero() {
			continue // it goes with the file that it is about
		}
		s := p.Stores[f.Store]
		all = append(all, parcel{
			File: f, from: s.Source, to: s.Destinations,
			bundle: listed[f.Store][f.Name+gate.BundleSuffix], checksum: listed[f.Store][f.Name+checksumSuffix],
		})
	}
	return all
}

// besides is the file that a name would be evidence or a checksum of.
func besides(name string) (of string, is bool) {
	for _, suffix := range []string{gate.BundleSuffix, checksumSuffix} {
		if of, is := strings.CutSuffix(name, suffix); is {
			return of, true
		}
	}
	return "", false
}

// weight is how many files of the plan a parcel is.
func (p parcel) weight() int {
	n := 1
	for _, d := range []digest.Digest{p.bundle, p.checksum} {
		if !d.IsZero() {
			n++
		}
	}
	return n
}

// parcel promotes one file to all its destinations.
func (a *filing) parcel(ctx context.Context, p parcel) {
	targets := a.look(ctx, p)
	if len(targets) == 0 {
		return
	}
	src := a.places.at(p.from)
	goods, err := a.pack(ctx, src, p, targets)
	if err == nil {
		err = a.judge(p, goods)
	}
	if err != nil {
		a.refuse(src, p, len(targets), err)
		return
	}
	for _, t := range targets {
		if err := a.deliver(ctx, src, t, goods); err != nil {
			a.fail(t.place, p, err)
			continue
		}
		t.place.answered()
		a.count(p)
	}
}

// decide judges one file where it lies.
func (a *filing) decide(ctx context.Context, p parcel) {
	src := a.places.at(p.from)
	goods, err := a.pack(ctx, src, p, []fileTarget{{}})
	if err == nil {
		err = a.judge(p, goods)
	}
	if err != nil {
		a.refuse(src, p, 1, err)
		return
	}
	src.answered()
	a.count(p)
}

// count counts a file as verified, with what goes beside it.
func (a *filing) count(p parcel) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.verdict.Counts.Verified += p.weight()
}

// judge asks about a file with what lies beside it.
func (a *filing) judge(p parcel, g goods) error {
	f := gate.PlacedFile{Name: p.Name, Class: a.Class, Digests: g.digests}
	if i := slices.IndexFunc(g.beside, func(w written) bool { return w.name == p.Name+gate.BundleSuffix }); i >= 0 {
		f.Bundle = g.beside[i].raw
	}
	v := a.Judge.Placed(f)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.verdict.Policy, a.verdict.TrustRoot = v.Policy, v.TrustRoot
	a.verdict.Include(*v)
	for _, note := range v.Notes {
		if !slices.Contains(a.verdict.Notes, note) {
			a.verdict.Note("%s", note)
		}
	}
	if want := a.Plan.Policy; !want.IsZero() && !want.Equal(v.Policy) {
		return &verdict.Error{Finding: verdict.Find(verdict.PlanStale, p.Name, "the plan was made for another policy").Differ(want.String(), v.Policy.String())}
	}
	a.verdict.Warn(v.Warnings...)
	if len(a.verdict.Proofs) < 200 { // of a large promotion, the evidence beside each file says who signed it
		a.verdict.Proofs = append(a.verdict.Proofs, v.Proofs...)
	}
	return v.Err()
}

// refuse notes a file that goes nowhere: one that its source does not have, or
// has otherwise, or whose evidence is not enough.
func (a *filing) refuse(src *filePlace, p parcel, places int, err error) {
	if src.blame(err) {
		src.missed(p.weight()*places, err)
		return
	}
	effect := fmt.Sprintf("; it goes to none of %d places", len(p.to))
	found := []verdict.Finding{verdict.FindingOf(p.from+p.Name, err)}
	var judged *verdict.NotAcceptedError
	if errors.As(err, &judged) && len(judged.Verdict.Findings) > 0 {
		found = slices.Clone(judged.Verdict.Findings)
	}
	found[0].Message += effect
	a.mu.Lock()
	defer a.mu.Unlock()
	a.verdict.Add(found...)
}

// fail notes a file that does not get to one destination.
func (a *filing) fail(at *filePlace, p parcel, err error) {
	if at.blame(err) {
		at.missed(p.weight(), err)
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	found := verdict.FindingOf(at.uri+p.Name, err)
	if !strings.Contains(found.Subject, "://") {
		found.Subject = at.uri + found.Subject
	}
	a.verdict.Add(found)
}

func (a *filing) progress(n int) {
	a.mu.Lock()
	a.done += n
	done := a.done
	a.mu.Unlock()
	if a.Progress != nil {
		a.Progress(done, len(a.Plan.Files))
	}
}
