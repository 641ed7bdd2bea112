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

	"github.com/waybill-release/waybill/pkg/digest"
	"github.com/waybill-release/waybill/pkg/registry"
	"github.com/waybill-release/waybill/pkg/routes"
	"github.com/waybill-release/waybill/pkg/verdict"
	"github.com/waybill-release/waybill/pkg/version"
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
	Plan routes.Plan
	// Judge is who decides about an image of a route.
	Judge func(routes.Route, routes.Edge) (ImageJudge, error)
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
	p := &planning{PlanRequest: req, cases: casesOf(req.Plan), verdict: v}
	v.Counts.Required = 0
	p.judge(ctx)
	p.report()
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
	name  string
	edges []int
	said  *verdict.Verdict // nil when it was not asked
	err   error            // why not
	// accepted is the answer, before proofs that are too many were let go.
	accepted bool
}

// casesOf are the cases of a plan, in its order.
func casesOf(p routes.Plan) []*planCase {
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

// planning is a plan that is being judged.
type planning struct {
	PlanRequest
	cases   []*planCase
	verdict *verdict.Verdict

	mu      sync.Mutex // owns the rest
	sources map[string]*planSource
	done    int
	proofs  int
	left    int // proofs that were not kept
	notes   int // the same of notes
	judged  bool
}

// planSource is a registry of a plan, opened once.
type planSource struct {
	open   func() (registry.Source, error)
	silent int // images in a row that it did not answer about
}

// judge asks about every case, many at a time. Each answer is kept where its
// case is, so that the verdict has the order of the plan.
func (p *planning) judge(ctx context.Context) {
	p.sources = map[string]*planSource{}
	for _, r := range p.Plan.Routes {
		if p.sources[r.Source] == nil {
			p.sources[r.Source] = &planSource{open: sync.OnceValues(func() (registry.Source, error) { return p.Open(r.Source) })}
		}
	}
	var group errgroup.Group
	group.SetLimit(inFlight)
	for _, c := range p.cases {
		group.Go(func() error {
			c.said, c.err = p.ask(ctx, c)
			p.told(c)
			return nil
		})
	}
	_ = group.Wait() // what went wrong is in the cases
}

// errSilent is why an image is not asked for.
var errSilent = errors.New("it gave no answer about many other images")

func (p *planning) ask(ctx context.Context, c *planCase) (*verdict.Verdict, error) {
	e := p.Plan.Edges[c.edges[0]]
	r := p.Plan.Routes[e.Route]
	p.mu.Lock()
	source := p.sources[r.Source]
	quiet := source.silent >= silent
	p.mu.Unlock()
	if err := context.Cause(ctx); err != nil {
		return nil, &verdict.UnavailableError{Place: r.Source, Op: "judging " + e.Image, Err: err}
	}
	if quiet {
		return nil, &verdict.UnavailableError{Place: r.Source, Op: "judging " + e.Image, Err: errSilent}
	}
	judge, err := p.Judge(r, e)
	if err != nil {
		return nil, err
	}
	from, err := source.open()
	if err != nil {
		return nil, err
	}
	v := judge.Image(ctx, Image{Source: from, Name: c.name, Repository: e.Image, Digest: e.Digest})
	p.mu.Lock()
	defer p.mu.Unlock()
	if source.silent++; v.Outcome() != verdict.Unavailable {
		source.silent = 0
	}
	return v, p.Plan.Under(v.Policy, "plan")
}

// told counts a case, and lets go of what is too much to keep of it.
func (p *planning) told(c *planCase) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if v := c.said; v != nil {
		v.Settle(c.name)
		c.accepted = c.err == nil && v.Outcome() == verdict.Accepted
		p.verdict.Include(*v)
		v.Inputs, v.Levels = nil, nil // the plan names them all
		if p.proofs += len(v.Proofs); p.proofs > maxProofs && c.accepted {
			p.left += len(v.Proofs)
			v.Proofs = nil
		}
	}
	if p.done++; p.Progress != nil {
		p.Progress(p.done, len(p.cases))
	}
}

// report puts the answers together, in the order of the plan.
func (p *planning) report() {
	groups := make([]verdict.Group, len(p.Plan.Routes))
	wordless := map[int]bool{} // routes whose manifests demand nothing: said once
	for _, c := range p.cases {
		for _, i := range c.edges {
			g := &groups[p.Plan.Edges[i].Route]
			g.Name = p.Plan.Routes[p.Plan.Edges[i].Route].Manifest
			if g.Required++; c.accepted {
				g.Verified++
			}
		}
		p.verdict.Counts.Required++
		if c.accepted {
			p.verdict.Counts.Verified++
		}
		route := p.Plan.Edges[c.edges[0]].Route
		if verdict.FindingOf("", c.err).Code == verdict.PolicyEmpty {
			if wordless[route] {
				continue
			}
			wordless[route] = true
		}
		p.add(c)
	}
	p.verdict.Groups = slices.DeleteFunc(groups, func(g verdict.Group) bool { return g.Required == 0 })
	if p.left > 0 {
		p.verdict.Note("%d proofs of images that were accepted are left out; ask about an image to see its own", p.left)
	}
	if p.notes > 0 {
		p.verdict.Note("%d notes about single images are left out; ask about an image to see its own", p.notes)
	}
	checkClock(p.verdict)
}

// add takes over the answer about a case, and says whom it keeps waiting.
func (p *planning) add(c *planCase) {
	v := p.verdict
	if c.err != nil {
		f := verdict.FindingOf(c.name, c.err)
		if f.Code != verdict.PolicyEmpty { // which is of the manifest
			f = p.blocking(c, f)
		}
		v.Add(f)
		return
	}
	said := c.said
	for _, f := range said.Findings {
		v.Add(p.blocking(c, f))
	}
	for _, f := range said.Warnings {
		v.Warn(p.about(c, f))
	}
	v.Waived = append(v.Waived, said.Waived...)
	v.Proofs = append(v.Proofs, said.Proofs...)
	v.AddFeatures(said.Features...)
	v.Scope.Checks, v.Scope.Left = union(v.Scope.Checks, said.Scope.Checks), union(v.Scope.Left, said.Scope.Left)
	if v.TrustRoot.IsZero() {
		v.TrustRoot = said.TrustRoot
	}
	switch {
	case !p.judged:
		v.Policy, p.judged = said.Policy, true
	case v.Policy != said.Policy:
		v.Policy = digest.Digest{} // there are several, and the plan has them
	}
	for _, note := range said.Notes {
		switch {
		case slices.Contains(v.Notes, note):
		case len(v.Notes) < maxNotes:
			v.Notes = append(v.Notes, note)
		default:
			p.notes++
		}
	}
}

// blocking says in a finding where the image does not go.
func (p *planning) blocking(c *planCase, f verdict.Finding) verdict.Finding {
	var blocked []string
	for _, i := range c.edges {
		e := p.Plan.Edges[i]
		for _, to := range p.Plan.Routes[e.Route].Destinations {
			where := to + "/" + e.Image
			if len(e.Tags) > 0 {
				where += ":" + strings.Join(e.Tags, ",")
			}
			blocked = append(blocked, where)
		}
	}
	f = p.about(c, f)
	f.Message = fmt.Sprintf("%s; blocks %s", f.Message, strings.Join(blocked, ", "))
	return f
}

// about calls an image in a finding what the plan calls it, with its registry.
func (p *planning) about(c *planCase, f verdict.Finding) verdict.Finding {
	e := p.Plan.Edges[c.edges[0]]
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

// Several decides about several things, each by itself, and puts the answers
// together. What is asked is called question.
func Several(question string, answers ...*verdict.Verdict) *verdict.Verdict {
	if len(answers) == 1 {
		return answers[0]
	}
	v := verdict.New(question, time.Time{})
	for i, one := range answers {
		if i == 0 {
			v.Time, v.Policy, v.TrustRoot = one.Time, one.Policy, one.TrustRoot
		}
		if v.Policy != one.Policy {
			v.Policy = digest.Digest{}
		}
		v.Groups = append(v.Groups, one.Groups...)
		join(v, one)
	}
	v.Least = nil // of each, and not of all
	return v
}
