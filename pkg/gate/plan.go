package gate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/waybill-release/waybill/pkg/backend/registry"
	"github.com/waybill-release/waybill/pkg/release/promotionplan"
	"github.com/waybill-release/waybill/pkg/value/verdict"
	"github.com/waybill-release/waybill/pkg/value/version"
)

const (
	// inFlight is how many images of a plan are judged at once: a registry far
	// away answers slowly, and most of the time is waiting for it.
	inFlight = 64
	// silent is how many images in a row a registry gives no answer about before
	// the rest of its images are not asked for.
	silent = 16
	// maxProofs and maxNotes bound what is kept of images that were accepted.
	maxProofs = 10_000
	maxNotes  = 100
)

// PlanRequest asks about all images that a plan of a promotion moves.
type PlanRequest struct {
	Plan promotionplan.Plan
	// Judge is who decides about an image of a route.
	Judge func(promotionplan.Route, promotionplan.Edge) (ImageJudge, error)
	// Open opens a registry of the plan. It is called once for each.
	Open func(prefix string) (registry.Source, error)
	Now  time.Time
	// Progress is told how many images have been judged, of how many; nil tells
	// nobody. It is called by one goroutine at a time.
	Progress func(done, of int)
}

// Plan decides about the images of a plan. Each digest of a source is judged
// once by each policy that it is under, however many destinations there are. What
// is refused, and what cannot be reached, stops nothing else: the verdict says of
// each which destinations it blocks.
func Plan(ctx context.Context, req PlanRequest) *verdict.Verdict {
	v := verdict.New("promotion plan", req.Now)
	v.Counts.Required = 1
	if err := req.check(); err != nil {
		v.AddError("plan", err)
		return v
	}
	name := req.Plan.Digest() // of which a large one takes a while
	v.Question += " " + name.String()
	v.Inputs = append(v.Inputs, verdict.Input{Name: "plan", Digest: name})
	v.Counts.Required = 0
	cases := casesOf(req.Plan)
	kept := req.ask(ctx, cases)
	req.report(v, cases, kept)
	return v
}

func (r PlanRequest) check() error {
	switch {
	case r.Plan.Release != nil:
		return verdict.Refuse(verdict.Usage, "plan", "it is of a sealed release, which its manifest and profile decide about").
			Advise("ask about the version: waybill gate check VERSION --profile FILE")
	case len(r.Plan.Files) > 0:
		return verdict.Refuse(verdict.Usage, "plan", "it is of files, each of which is hashed and judged where it lies when the plan is applied").
			Advise("waybill promote apply decides about each; ask about one with waybill gate file")
	case len(r.Plan.Edges) == 0 || r.Judge == nil || r.Open == nil:
		return verdict.Refuse(verdict.Usage, "plan", "it moves no images, or nobody was named who decides")
	}
	return nil
}

// planCase is one digest of a source, under one policy, and the edges that need
// it.
type planCase struct {
	name   string
	edges  []int
	answer *verdict.Verdict // nil when it was not asked
	err    error            // why not
	// accepted is the answer, before proofs that are too many were let go.
	accepted bool
}

// casesOf are the cases of a plan, in its order.
func casesOf(p promotionplan.Plan) []*planCase {
	var all []*planCase
	at := map[string]*planCase{}
	policies := make([]string, len(p.Routes))
	for i, r := range p.Routes {
		if r.Policy.Demands() {
			policies[i] = r.Policy.Digest().String()
		}
	}
	for i, e := range p.Edges {
		name := p.Routes[e.Route].Source + "/" + e.Image + "@" + e.Digest.String()
		// A policy can ask for what the image is called, so other tags are another case.
		key := strings.Join(append([]string{name, policies[e.Route]}, e.Tags...), " ")
		c, known := at[key]
		if !known {
			c = &planCase{name: name}
			at[key] = c
			all = append(all, c)
		}
		c.edges = append(c.edges, i)
	}
	return all
}

// asking is a plan whose images are being judged.
type asking struct {
	PlanRequest
	of      int // cases
	sources map[string]*planSource

	mu     sync.Mutex // owns the rest, and what sources have counted
	done   int
	proofs int
	left   int // proofs that were not kept
}

// planSource is a registry of a plan, opened once.
type planSource struct {
	open   func() (registry.Source, error)
	silent int // images in a row that it did not answer about
}

// ask asks about every case, many at a time. Each answer is kept where its case
// is, so that the verdict has the order of the plan. It returns how many proofs
// were too many to be kept.
func (r PlanRequest) ask(ctx context.Context, cases []*planCase) (left int) {
	a := &asking{PlanRequest: r, of: len(cases), sources: map[string]*planSource{}}
	for _, route := range r.Plan.Routes {
		if a.sources[route.Source] == nil {
			a.sources[route.Source] = &planSource{open: sync.OnceValues(func() (registry.Source, error) { return r.Open(route.Source) })}
		}
	}
	var group errgroup.Group
	group.SetLimit(inFlight)
	for _, c := range cases {
		group.Go(func() error {
			c.answer, c.err = a.image(ctx, c)
			a.keep(c)
			return nil
		})
	}
	_ = group.Wait() // what went wrong is in the cases
	return a.left
}

// errSilent is why an image is not asked for.
var errSilent = errors.New("it gave no answer about many other images")

// image asks about the image of a case.
func (a *asking) image(ctx context.Context, c *planCase) (*verdict.Verdict, error) {
	e := a.Plan.Edges[c.edges[0]]
	r := a.Plan.Routes[e.Route]
	a.mu.Lock()
	source := a.sources[r.Source]
	quiet := source.silent >= silent
	a.mu.Unlock()
	if err := context.Cause(ctx); err != nil {
		return nil, &verdict.UnavailableError{Place: r.Source, Op: "judging " + e.Image, Err: err}
	}
	if quiet {
		return nil, &verdict.UnavailableError{Place: r.Source, Op: "judging " + e.Image, Err: errSilent}
	}
	judge, err := a.Judge(r, e)
	if err != nil {
		return nil, err
	}
	from, err := source.open()
	if err != nil {
		return nil, err
	}
	v := judge.Image(ctx, Image{Source: from, Name: c.name, Repository: e.Image, Digest: e.Digest})
	a.mu.Lock()
	defer a.mu.Unlock()
	if source.silent++; v.Outcome() != verdict.Unavailable {
		source.silent = 0
	}
	return v, a.Plan.Under(v.Policy, "plan")
}

// keep counts a case, and drops what is too much to keep of its answer.
func (a *asking) keep(c *planCase) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if v := c.answer; v != nil {
		v.Settle(c.name)
		c.accepted = c.err == nil && v.Outcome() == verdict.Accepted
		v.Inputs, v.Levels = nil, nil // the plan names them all
		if a.proofs += len(v.Proofs); a.proofs > maxProofs && c.accepted {
			a.left += len(v.Proofs)
			v.Proofs = nil
		}
	}
	if a.done++; a.Progress != nil {
		a.Progress(a.done, a.of)
	}
}

// report puts the answers together, in the order of the plan. Left are the proofs
// that were not kept.
func (r PlanRequest) report(v *verdict.Verdict, cases []*planCase, left int) {
	all := merged{v: v}
	groups := make([]verdict.Group, len(r.Plan.Routes))
	empty := map[int]bool{} // routes whose manifests demand nothing: said once
	dropped := 0            // notes
	for _, c := range cases {
		for _, i := range c.edges {
			g := &groups[r.Plan.Edges[i].Route]
			g.Name = r.Plan.Routes[r.Plan.Edges[i].Route].Manifest
			if g.Required++; c.accepted {
				g.Verified++
			}
		}
		if c.err != nil {
			v.Counts.Required++
			route, f := r.Plan.Edges[c.edges[0]].Route, verdict.FindingOf(c.name, c.err)
			switch {
			case f.Code != verdict.PolicyEmpty:
				v.Add(r.blocking(c, f))
			case !empty[route]: // which is of the manifest
				empty[route] = true
				v.Add(f)
			}
			continue
		}
		answer := r.named(c)
		room := max(0, maxNotes-len(v.Notes))
		fresh := slices.DeleteFunc(answer.Notes, func(note string) bool { return slices.Contains(v.Notes, note) })
		answer.Notes = fresh[:min(room, len(fresh))]
		dropped += len(fresh) - len(answer.Notes)
		all.add(answer)
	}
	v.Groups = slices.DeleteFunc(groups, func(g verdict.Group) bool { return g.Required == 0 })
	if left > 0 {
		v.Note("%d proofs of images that were accepted are left out; ask about an image to see its own", left)
	}
	if dropped > 0 {
		v.Note("%d notes about single images are left out; ask about an image to see its own", dropped)
	}
	checkClock(v)
}

// named is the answer about a case as a part of the plan's: it counts one image,
// called as the plan calls it, and its findings say which destinations they block.
func (r PlanRequest) named(c *planCase) *verdict.Verdict {
	v := c.answer
	v.Counts = verdict.Counts{Required: 1}
	if c.accepted {
		v.Counts.Verified = 1
	}
	for i, f := range v.Findings {
		v.Findings[i] = r.blocking(c, f)
	}
	for i, f := range v.Warnings {
		v.Warnings[i] = r.about(c, f)
	}
	return v
}

// blocking says in a finding where the image does not go.
func (r PlanRequest) blocking(c *planCase, f verdict.Finding) verdict.Finding {
	var blocked []string
	for _, i := range c.edges {
		e := r.Plan.Edges[i]
		for _, to := range r.Plan.Routes[e.Route].Destinations {
			where := to + "/" + e.Image
			if len(e.Tags) > 0 {
				where += ":" + strings.Join(e.Tags, ",")
			}
			blocked = append(blocked, where)
		}
	}
	f = r.about(c, f)
	f.Message = fmt.Sprintf("%s; blocks %s", f.Message, strings.Join(blocked, ", "))
	return f
}

// about calls an image in a finding what the plan calls it, with its registry.
func (r PlanRequest) about(c *planCase, f verdict.Finding) verdict.Finding {
	e := r.Plan.Edges[c.edges[0]]
	if f.Subject != c.name && f.Subject != e.Image+"@"+e.Digest.String() {
		f.Message = f.Subject + ": " + f.Message
	}
	f.Subject = c.name
	return f
}

// VersionOf is the version that tags of an image name, if they name one: a policy
// may hold the parameters of a build against it.
func VersionOf(tags []string) (found string) {
	for _, tag := range tags {
		v, err := version.Parse(tag)
		if err != nil {
			continue
		}
		if found != "" {
			return ""
		}
		found = v.String()
	}
	return found
}
