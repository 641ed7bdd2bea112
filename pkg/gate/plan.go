package gate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/waybill-release/waybill/pkg/backend/atonce"
	"github.com/waybill-release/waybill/pkg/backend/registry"
	"github.com/waybill-release/waybill/pkg/release/promotionplan"
	"github.com/waybill-release/waybill/pkg/tool/plural"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

const (
	// inFlight is how many images of a plan are judged at once: a distant
	// registry answers slowly, and most of the time is waiting for it.
	inFlight = 64
	// silent is after how many unanswered images in a row the other images of a
	// registry are no longer requested.
	silent = 16
	// maxProofs and maxNotes limit how many proofs and notes of accepted images
	// are kept.
	maxProofs = 10_000
	maxNotes  = 100
)

// PlanRequest asks about all images that a promotion plan moves.
type PlanRequest struct {
	Plan promotionplan.Plan
	// Judge returns the judge for an image of a route.
	Judge func(promotionplan.Route, promotionplan.Edge) (ImageJudge, error)
	// Open opens a registry of the plan, once for each.
	Open func(prefix string) (registry.Source, error)
	Now  time.Time
	// Progress is called with the number of judged images and the total, by one
	// goroutine at a time; may be nil.
	Progress func(done, of int)
}

// Plan decides about the images of a plan. Each digest of a source is judged
// once by each policy that applies to it, however many destinations there are.
// A refused or unreachable image does not stop the others: the verdict says for
// each which destinations it blocks.
func Plan(ctx context.Context, req PlanRequest) *verdict.Verdict {
	v := verdict.New("promotion plan", req.Now)
	v.Counts.Required = 1
	if err := req.check(); err != nil {
		v.AddError("plan", err)
		return v
	}
	name := req.Plan.Digest() // takes a while for a large plan
	v.Question += " " + name.String()
	v.Subject = "promotion plan of " + plural.Of(len(req.Plan.Edges), "image")
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
		return verdict.Refuse(verdict.Usage, "plan", "the plan moves a sealed release, which is judged as a whole by manifest and profile").
			Advise("ask about the version: waybill gate check VERSION --profile FILE")
	case len(r.Plan.Files) > 0:
		return verdict.Refuse(verdict.Usage, "plan", "the plan moves files, each of which is hashed and judged in its place when the plan is applied").
			Advise("run waybill promote apply, which judges each file, or judge one with waybill gate file")
	case len(r.Plan.Edges) == 0 || r.Judge == nil || r.Open == nil:
		return verdict.Refuse(verdict.Usage, "plan", "the plan moves no images, or the request lacks Judge or Open")
	}
	return nil
}

// planCase is one digest of a source under one policy, with the edges that need
// it.
type planCase struct {
	name   string
	edges  []int
	answer *verdict.Verdict // nil if it was not judged
	err    error            // why it was not judged
	// accepted is whether the image was accepted; the answer may have lost its
	// proofs since.
	accepted bool
}

// casesOf returns the cases of a plan, in its order.
func casesOf(p promotionplan.Plan) (all []*planCase) {
	at := map[string]*planCase{}
	policies := make([]string, len(p.Routes))
	for i, r := range p.Routes {
		if r.Policy.Demands() {
			policies[i] = r.Policy.Digest().String()
		}
	}
	for i, e := range p.Edges {
		name := p.Routes[e.Route].Source + "/" + e.Image + "@" + e.Digest.String()
		// A policy can depend on the tags, so other tags make another case.
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

// asking judges the images of a plan.
type asking struct {
	PlanRequest
	of      int // number of cases
	sources map[string]*planSource

	mu     sync.Mutex // guards the fields below, and silent of each source
	done   int
	proofs int
	left   int // proofs that were dropped
}

// planSource is a registry of the plan, opened once.
type planSource struct {
	open   func() (registry.Source, error)
	silent int // unanswered images in a row
}

// ask judges every case, many at a time. Each answer is stored in its case, so
// the verdict has the order of the plan. It returns how many proofs were
// dropped.
func (r PlanRequest) ask(ctx context.Context, cases []*planCase) (left int) {
	a := &asking{PlanRequest: r, of: len(cases), sources: map[string]*planSource{}}
	for _, route := range r.Plan.Routes {
		if a.sources[route.Source] == nil {
			a.sources[route.Source] = &planSource{open: sync.OnceValues(func() (registry.Source, error) { return r.Open(route.Source) })}
		}
	}
	atonce.Each(inFlight, cases, func(_ int, c *planCase) {
		c.answer, c.err = a.image(ctx, c)
		a.keep(c)
	})
	return a.left
}

// errSilent is why an image is not requested.
var errSilent = errors.New("not asked, because the registry did not answer about many other images")

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

// keep counts a case, and drops proofs beyond the limit.
func (a *asking) keep(c *planCase) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if v := c.answer; v != nil {
		v.Settle(c.name)
		c.accepted = c.err == nil && v.Outcome() == verdict.Accepted
		v.Inputs, v.Levels = nil, nil // the plan names them
		if a.proofs += len(v.Proofs); a.proofs > maxProofs && c.accepted {
			a.left += len(v.Proofs)
			v.Proofs = nil
		}
	}
	if a.done++; a.Progress != nil {
		a.Progress(a.done, a.of)
	}
}

// report joins the answers in the order of the plan. Left is the number of
// dropped proofs.
func (r PlanRequest) report(v *verdict.Verdict, cases []*planCase, left int) {
	all := merged{v: v}
	groups := make([]verdict.Group, len(r.Plan.Routes))
	empty := map[int]bool{} // routes whose manifest has no policy: reported once
	dropped := 0            // number of notes
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
			case !empty[route]: // a finding about the manifest, not about the image
				empty[route] = true
				v.Add(f)
			}
			continue
		}
		answer := r.asPartOfPlan(c)
		room := max(0, maxNotes-len(v.Notes))
		fresh := slices.DeleteFunc(answer.Notes, func(note string) bool { return slices.Contains(v.Notes, note) })
		answer.Notes = fresh[:min(room, len(fresh))]
		dropped += len(fresh) - len(answer.Notes)
		all.add(answer)
	}
	v.Groups = slices.DeleteFunc(groups, func(g verdict.Group) bool { return g.Required == 0 })
	if left > 0 {
		v.Note("left out: %s of accepted images; judge a single image to see its proofs", plural.Of(left, "proof"))
	}
	if dropped > 0 {
		v.Note("left out: %s about single images; judge a single image to see its notes", plural.Of(dropped, "note"))
	}
	checkClock(v)
}

// asPartOfPlan is the answer about a case as part of the plan's answer: it counts one
// image, under its name in the plan, and its findings say which destinations
// they block.
func (r PlanRequest) asPartOfPlan(c *planCase) *verdict.Verdict {
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

// about names the image in a finding as the plan names it, with its registry.
func (r PlanRequest) about(c *planCase, f verdict.Finding) verdict.Finding {
	e := r.Plan.Edges[c.edges[0]]
	if f.Subject != c.name && f.Subject != e.Image+"@"+e.Digest.String() {
		f.Message = f.Subject + ": " + f.Message
	}
	f.Subject = c.name
	return f
}

// VersionOf returns the version among the tags of an image, if there is exactly
// one. A policy may compare build parameters with it.
func VersionOf(tags []string) (found string) {
	for _, tag := range tags {
		v, err := versionIn(tag)
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
