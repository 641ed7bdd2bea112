package promote

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/waybill-release/waybill/pkg/backend/atonce"
	"github.com/waybill-release/waybill/pkg/backend/registry"
	"github.com/waybill-release/waybill/pkg/backend/tracing/span"
	"github.com/waybill-release/waybill/pkg/gate"
	"github.com/waybill-release/waybill/pkg/release/promotionplan"
	"github.com/waybill-release/waybill/pkg/tool/plural"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// inFlight is how many images are processed at once: enough to use the
// [transport.Config.PerHost] requests that are allowed at a time.
const inFlight = 64

// toAtOnce is how many destinations get one image at the same time.
const toAtOnce = 8

// Images promotes the images of a plan: each is judged, copied with
// everything that refers to it, recorded, read back, and tagged last.
// Existing images are kept, so the same plan can be applied again at any
// time, and continues an interrupted run.
//
//	done, err := promote.Images{Plan: plan, Judge: judge, Open: open, …}.Apply(ctx)
//	err = done.Verdict.Err()
type Images struct {
	Plan promotionplan.Plan
	// Shard is the part of the plan to apply; the zero Shard is all.
	Shard promotionplan.Shard
	// Judge returns what decides about an image of a route. It is called once
	// for each digest, whatever the number of destinations.
	Judge func(promotionplan.Route, promotionplan.Edge) (gate.ImageJudge, error)
	// Open opens a registry of the plan. It is called once for each.
	Open func(prefix string) (*registry.Remote, error)
	// Records signs records of promotions; nil signs none.
	Records Recorder
	// Ledger remembers earlier runs; nil remembers nothing.
	Ledger *Ledger
	// Rights are permissions beyond copying.
	Rights Rights
	Run    Run
}

// Run is one application of a plan.
type Run struct {
	Now time.Time
	// Progress is called with the number of images done and the total, by several
	// goroutines; may be nil.
	Progress func(done, of int)
}

// Rights are what a promotion may do beyond copying.
type Rights struct {
	// Exclusive is called before each tag is written, and fails if this is no
	// longer the only promotion; nil skips the check.
	Exclusive func(ctx context.Context) error
	// MayMove reports whether a tag of a destination ("host/path:tag") that
	// names a different image may be moved to this one; nil moves none.
	MayMove func(tag string, from, to digest.Digest) (verdict.Waiver, bool)
}

// Applied is the result of applying a plan.
type Applied struct {
	Verdict *verdict.Verdict
	Items   []Item
}

// Item is the result for one image at one destination.
type Item struct {
	Edge  int          `json:"edge"` // of the plan
	To    string       `json:"to"`   // the destination, as in the route
	State State        `json:"state"`
	Code  verdict.Code `json:"code,omitempty"` // why it is not there
}

// State is the state of one image at one destination.
type State string

// The states. Only Done and Present are good.
const (
	Done    State = "done"    // copied, recorded and tagged by this run
	Present State = "present" // existed already, complete and with its evidence
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
	remotes  atonce.Memo[*registry.Remote] // by their prefix
	regions  regions
	attached atonce.Memo[[]string] // the evidence tags of the sources: each repository is listed once
	done     counter
}

// Apply copies the images that are accepted. Refusals and unreachable places
// do not stop the rest. An error means that the plan could not be started.
func (p Images) Apply(ctx context.Context) (Applied, error) {
	if p.Judge == nil || p.Open == nil || len(p.Plan.Edges) == 0 {
		return Applied{}, verdict.Refuse(verdict.Usage, "plan", "the plan has no images, or no policy to judge them")
	}
	a := &applying{Images: p, plan: p.Plan.Digest()}
	a.report = newReport(p, a.plan)
	mine := p.Shard.Edges(p.Plan)
	atonce.Each(inFlight, mine, func(_, i int) {
		a.edge(ctx, i)
		a.done.add(1, len(mine), a.Run.Progress)
	})
	done := a.report.applied()
	done.tell(p.Plan)
	return done, nil
}

// maxTold is how many copies the verdict names one by one.
const maxTold = 10

// tell says in the verdict what was copied where.
func (a Applied) tell(plan promotionplan.Plan) {
	told := 0
	for _, i := range a.Items {
		if i.State != Done {
			continue
		}
		if told++; told <= maxTold {
			e := plan.Edges[i.Edge]
			a.Verdict.Tell("Copied to %s/%s@%s, tags: %s.", i.To, e.Image, e.Digest, cmp.Or(strings.Join(e.Tags, ", "), "none"))
		}
	}
	if told > maxTold {
		a.Verdict.Tell("Copied %s more.", plural.Of(told-maxTold, "image"))
	}
}

// counter is how much is done; several goroutines add to it.
type counter struct{ atomic.Int64 }

// add counts n more, and reports the number and the total; tell may be nil.
func (c *counter) add(n, of int, tell func(done, of int)) {
	if done := c.Add(int64(n)); tell != nil {
		tell(int(done), of)
	}
}

// imageJob is one image of the plan being promoted.
type imageJob struct {
	*applying
	index int
	edge  promotionplan.Edge
	route promotionplan.Route
	src   *registry.Memory
	there []string      // destinations that have the image already
	trace traceIDs      // once the image is accepted
	proof verdict.Proof // one of the proofs of acceptance
	first *firstError
}

// edge promotes one image to all its destinations, in one span.
func (a *applying) edge(ctx context.Context, index int) {
	e := a.Plan.Edges[index]
	o := imageJob{applying: a, index: index, edge: e, route: a.Plan.Routes[e.Route], first: &firstError{}}
	ctx, end := span.Start(ctx, span.PromoteEdge,
		span.PipelineTaskName.String("promote "+e.Image), span.PipelineTaskType.String("deploy"), span.ArtifactHash.String(e.Digest.String()))
	o.promote(ctx)
	end(o.first.err)
}

func (o imageJob) promote(ctx context.Context) {
	pending, there := o.checkTargets(ctx)
	if len(pending) == 0 {
		return
	}
	o.there = there
	from, err := o.remote(o.route.Source)
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
	if o.trace = o.traceIDsOf(ctx, judged); len(judged.Proofs) > 0 {
		o.proof = judged.Proofs[0]
	}
	o.deliver(o.withTrace(ctx, o.trace), pending, judged)
}

// name is the image at its source.
func (o imageJob) name() string {
	return o.route.Source + "/" + o.edge.Image + "@" + o.edge.Digest.String()
}

// ref is the image at a destination.
func (o imageJob) ref(to string) string {
	return to + "/" + o.edge.Image + "@" + o.edge.Digest.String()
}

// checkTargets reads the image at each destination, and returns the targets
// that need it and the names of those that have it. A destination with a
// different image under one of the tags gets nothing.
func (o imageJob) checkTargets(ctx context.Context) (pending []*target, there []string) {
	all := make([]*target, len(o.route.Destinations))
	atonce.Each(toAtOnce, o.route.Destinations, func(i int, to string) {
		t := &target{name: to}
		if o.regions.down(to) {
			o.failAt(ctx, t, &verdict.UnavailableError{Place: to, Op: "promoting " + o.edge.Image, Err: errDown})
			return
		}
		err := o.checkTarget(ctx, t)
		o.regions.saw(to, err)
		if err != nil {
			o.failAt(ctx, t, err)
			return
		}
		all[i] = t
	})
	for _, t := range all {
		switch {
		case t == nil:
		case t.whole:
			o.report.proven(t.proof)
			o.succeed(t, Present)
			there = append(there, t.name)
		default:
			pending = append(pending, t)
		}
	}
	return pending, there
}

func (o imageJob) decide(ctx context.Context) (*verdict.Verdict, error) {
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

// fail reports that the image is not copied to any of the pending
// destinations, as one finding.
func (o imageJob) fail(ctx context.Context, pending []*target, err error) {
	o.first.set(err)
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
	o.report.failed(o.name(), err, fmt.Sprintf("not copied to %s", strings.Join(names, ", ")))
}

// failAt reports that the image is not copied to one destination.
func (o imageJob) failAt(ctx context.Context, t *target, err error) {
	o.first.set(err)
	if ctx.Err() != nil { // the context ended, which is the cause of any other error
		o.report.interrupted(o.index, t.name)
		return
	}
	o.report.item(o.index, t.name, err)
	o.report.failed(o.ref(t.name), err, "")
}

func (o imageJob) succeed(t *target, s State) { o.report.good(o.index, t.name, s) }
