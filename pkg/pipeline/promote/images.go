package promote

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/waybill-release/waybill/pkg/backend/registry"
	"github.com/waybill-release/waybill/pkg/backend/tracing/span"
	"github.com/waybill-release/waybill/pkg/gate"
	"github.com/waybill-release/waybill/pkg/release/promotionplan"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// inFlight is how many images are on their way at once: enough to keep a host
// busy that takes [transport.Config.PerHost] requests at a time.
const inFlight = 64

// toAtOnce is how many destinations get one image at the same time.
const toAtOnce = 8

// Images promotes the images of a plan: each is judged, copied with everything
// that refers to it, recorded, read back, and tagged last. What is there
// already stays as it is, so the same plan can be applied again at any time,
// and goes on where it was broken off.
//
//	done, err := promote.Images{Plan: plan, Judge: judge, Open: open, …}.Apply(ctx)
//	err = done.Verdict.Err()
type Images struct {
	Plan promotionplan.Plan
	// Shard is the part of the plan that is asked for; the zero Shard is all.
	Shard Shard
	// Judge is who decides about an image of a route. It is asked once for each
	// digest, however many destinations there are.
	Judge func(promotionplan.Route, promotionplan.Edge) (gate.ImageJudge, error)
	// Open opens a registry of the plan. It is called once for each.
	Open func(prefix string) (*registry.Remote, error)
	// Records signs what is said of a promotion; nil signs nothing.
	Records Recorder
	// Ledger remembers what earlier runs did; nil remembers nothing.
	Ledger *Ledger
	// Rights say what only some may do, and only for a time.
	Rights Rights
	Run    Run
}

// Run is one application of a plan.
type Run struct {
	Now time.Time
	// Progress is told how many images have been dealt with, of how many. It is
	// called by several goroutines; nil tells nobody.
	Progress func(done, of int)
}

// Rights are what a promotion may do beyond copying.
type Rights struct {
	// Exclusive is asked before each tag is written whether nobody else
	// promotes; nil claims nothing of the kind.
	Exclusive func(ctx context.Context) error
	// MayMove reports whether a tag of a destination ("host/path:tag") that
	// names another image may be moved to this one; nil moves none.
	MayMove func(tag string, from, to digest.Digest) (verdict.Waiver, bool)
}

// Applied is what came of a plan.
type Applied struct {
	Verdict *verdict.Verdict
	Items   []Item
}

// Item is how one image stands at one destination.
type Item struct {
	Edge  int          `json:"edge"` // of the plan
	To    string       `json:"to"`   // the destination, as the route names it
	State State        `json:"state"`
	Code  verdict.Code `json:"code,omitempty"` // why not
}

// State is how far one image came at one destination.
type State string

// The states. Only Done and Present are good.
const (
	Done    State = "done"    // copied, recorded and tagged by this run
	Present State = "present" // it was there, whole, with its evidence
	Refused State = "refused"
	Failed  State = "failed" // the destination or the source did not answer
)

// Good reports whether the image is there.
func (s State) Good() bool { return s == Done || s == Present }

// applying is a plan being applied.
type applying struct {
	Images
	plan     digest.Digest
	report   *report
	remotes  remotes
	regions  regions
	attached attachedTags

	mu   sync.Mutex // owns done
	done int
}

// Apply does what the plan says, as far as it is decided to be right. What is
// refused, and what cannot be reached, does not stop the rest. The error is
// that of a plan that cannot be begun.
func (p Images) Apply(ctx context.Context) (Applied, error) {
	if p.Judge == nil || p.Open == nil || len(p.Plan.Edges) == 0 {
		return Applied{}, verdict.Refuse(verdict.Usage, "plan", "there is nothing to promote, or nobody to decide about it")
	}
	a := &applying{Images: p, plan: p.Plan.Digest(), remotes: remotes{open: p.Open}}
	a.report = newReport(p, a.plan)
	mine := p.Shard.edges(p.Plan)
	group := errgroup.Group{}
	group.SetLimit(inFlight)
	for _, i := range mine {
		group.Go(func() error {
			a.edge(ctx, i)
			a.progress(len(mine))
			return nil
		})
	}
	_ = group.Wait() // what went wrong is in the report
	return a.report.applied(), nil
}

func (a *applying) progress(of int) {
	if a.Run.Progress == nil {
		return
	}
	a.mu.Lock()
	a.done++
	done := a.done
	a.mu.Unlock()
	a.Run.Progress(done, of)
}

// one is one image of the plan on its way.
type one struct {
	*applying
	index int
	edge  promotionplan.Edge
	route promotionplan.Route
	src   *registry.Memory
	there []string      // the destinations that have it already
	life  life          // once it was accepted
	proof verdict.Proof // one of those by which it was accepted
	first *firstError
}

// edge promotes one image to all its destinations, which is one span.
func (a *applying) edge(ctx context.Context, index int) {
	e := a.Plan.Edges[index]
	o := one{applying: a, index: index, edge: e, route: a.Plan.Routes[e.Route], first: &firstError{}}
	ctx, end := span.Start(ctx, span.PromoteEdge,
		span.PipelineTaskName.String("promote "+e.Image), span.PipelineTaskType.String("deploy"), span.ArtifactHash.String(e.Digest.String()))
	o.promote(ctx)
	end(o.first.err)
}

func (o one) promote(ctx context.Context) {
	pending, there := o.look(ctx)
	if len(pending) == 0 {
		return
	}
	o.there = there
	from, err := o.remotes.at(o.route.Source)
	if err == nil && o.regions.down(o.route.Source) {
		err = &verdict.UnavailableError{Place: o.route.Source, Op: "reading " + o.edge.Image, Err: errDown}
	}
	if err != nil {
		o.fail(ctx, pending, err)
		return
	}
	o.src = registry.Remember(from, len(pending) > 1)
	defer o.src.Close()
	judged, err := o.decide(ctx)
	o.regions.count(o.route.Source, verdict.OutcomeOf(err) == verdict.Unavailable)
	if err != nil {
		o.fail(ctx, pending, err)
		return
	}
	if o.life = o.lifeOf(ctx, judged); len(judged.Proofs) > 0 {
		o.proof = judged.Proofs[0]
	}
	o.deliver(o.enter(ctx, o.life), pending, judged)
}

// name is what the image is called in its source.
func (o one) name() string { return o.route.Source + "/" + o.edge.Image + "@" + o.edge.Digest.String() }

// ref is what the image is called at a destination.
func (o one) ref(to string) string { return to + "/" + o.edge.Image + "@" + o.edge.Digest.String() }

// look asks each destination what it has, and returns those that need the
// image and those that have it. One that has another image under one of the
// tags gets nothing.
func (o one) look(ctx context.Context) (pending []*target, there []string) {
	all := make([]*target, len(o.route.Destinations))
	group := errgroup.Group{}
	group.SetLimit(toAtOnce)
	for i, to := range o.route.Destinations {
		group.Go(func() error {
			t := &target{name: to}
			if o.regions.down(to) {
				o.leave(ctx, t, &verdict.UnavailableError{Place: to, Op: "promoting " + o.edge.Image, Err: errDown})
				return nil
			}
			err := o.lookAt(ctx, t)
			o.regions.saw(to, err)
			if err != nil {
				o.leave(ctx, t, err)
				return nil
			}
			all[i] = t
			return nil
		})
	}
	_ = group.Wait() // each failure is that of its destination
	for _, t := range all {
		switch {
		case t == nil:
		case t.whole:
			o.report.proven(t.proof)
			o.settle(t, Present)
			there = append(there, t.name)
		default:
			pending = append(pending, t)
		}
	}
	return pending, there
}

// decide asks the judge about the image.
func (o one) decide(ctx context.Context) (*verdict.Verdict, error) {
	judge, err := o.Judge(o.route, o.edge)
	if err != nil {
		return nil, err
	}
	v := judge.Image(ctx, gate.Image{Source: o.src, Name: o.name(), Repository: o.edge.Image, Digest: o.edge.Digest})
	o.report.judged(v)
	if err := o.Plan.Under(v.Policy, o.name()); err != nil {
		return nil, err
	}
	return v, v.Err()
}

// fail notes that the image gets to none of the destinations that it should get
// to. It is one finding, however many they are.
func (o one) fail(ctx context.Context, pending []*target, err error) {
	o.first.saw(err)
	if ctx.Err() != nil {
		for _, t := range pending {
			o.report.interrupted(o.index, t.name)
		}
		return
	}
	var names []string
	for _, t := range pending {
		names = append(names, t.name)
		o.report.item(o.index, t.name, err)
	}
	o.report.failed(o.name(), err, fmt.Sprintf("it does not go to %s", strings.Join(names, ", ")))
}

// leave notes that the image does not get to one destination.
func (o one) leave(ctx context.Context, t *target, err error) {
	o.first.saw(err)
	if ctx.Err() != nil { // which is why, whatever became of it
		o.report.interrupted(o.index, t.name)
		return
	}
	o.report.item(o.index, t.name, err)
	o.report.failed(o.ref(t.name), err, "")
}

// settle notes that the image is at a destination.
func (o one) settle(t *target, s State) { o.report.good(o.index, t.name, s) }
