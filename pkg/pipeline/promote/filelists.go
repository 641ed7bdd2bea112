package promote

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/waybill-release/waybill/pkg/backend/atonce"
	"github.com/waybill-release/waybill/pkg/backend/store"
	"github.com/waybill-release/waybill/pkg/gate"
	"github.com/waybill-release/waybill/pkg/release/plan"
	"github.com/waybill-release/waybill/pkg/release/promotionplan"
	"github.com/waybill-release/waybill/pkg/tool/plural"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// FileJudge decides whether one file may be promoted. It is called once for
// each file, whatever the number of destinations.
type FileJudge interface {
	Placed(f gate.PlacedFile) *verdict.Verdict
}

// Files promotes the files of a plan. Each is hashed at the source, judged
// with the bundle beside it (NAME.sigstore.json), and copied to every
// destination: the bundle first, a listed checksum (NAME.sha256) next, the
// file last, so a file is never there without its evidence. Copied bytes are
// hashed again on the way, and read back. Nothing is ever overwritten.
//
// Refusals and unreachable places do not stop the rest. Existing files are
// kept, so the same plan can be applied again at any time.
//
//	v, err := promote.Files{Plan: plan, Judge: request, Open: open, …}.Apply(ctx)
//	err = v.Err()
type Files struct {
	Plan  promotionplan.Plan
	Judge FileJudge
	// Class is the artifact class whose requirements apply; the default is
	// [plan.Binary], for which policies require most.
	Class      plan.Class
	Open       func(uri string) (store.Place, error)
	OpenWriter func(uri string) (store.Writer, error)
	Now        time.Time
	// Progress is called with the number of files done and the total, by several
	// goroutines; may be nil.
	Progress func(done, of int)
}

// filing is a plan of files being applied.
type filing struct {
	Files
	places filePlaces
	done   counter

	mu      sync.Mutex // owns the rest
	verdict *verdict.Verdict
	written []string // files that this run wrote, by address
}

// fileJob is a file, and the files that are copied with it.
type fileJob struct {
	promotionplan.File
	from     string
	to       []string
	bundle   digest.Digest // as listed in the plan; zero if not
	checksum digest.Digest // of NAME.sha256, as listed in the plan
}

// checksumSuffix is appended to the name of a file to name its checksum.
const checksumSuffix = ".sha256"

// Apply copies the files that are accepted. An error means that the plan
// could not be started, or that the run was interrupted.
func (p Files) Apply(ctx context.Context) (*verdict.Verdict, error) {
	a, err := p.begin("promotion of plan ", "evidence of every file", "copies by digest", "evidence at each destination")
	if err != nil {
		return nil, err
	}
	a.verdict.Counts.Required = p.Plan.Extent().Copies
	return a.run(ctx, a.promoteFile)
}

// Decide judges each file at its source without copying it. Nothing is
// written, and no destination is read.
func (p Files) Decide(ctx context.Context) (*verdict.Verdict, error) {
	p.OpenWriter = nil
	a, err := p.begin("files of plan ", "evidence of every file")
	if err != nil {
		return nil, err
	}
	a.verdict.Scope.Left = []string{"the content of the destinations"}
	a.verdict.Counts.Required = len(p.Plan.Files)
	return a.run(ctx, a.decide)
}

// begin refuses plans that cannot be applied.
func (p Files) begin(question string, checks ...string) (*filing, error) {
	switch {
	case p.Plan.Release != nil || len(p.Plan.Edges) > 0:
		return nil, verdict.Refuse(verdict.Usage, "plan", "not a plan of files only")
	case p.Judge == nil:
		return nil, verdict.Refuse(verdict.Usage, "policy", "promoting files requires a policy that says which evidence they need").Advise("add --policy FILE or --profile FILE")
	case p.Plan.Extent().Copies == 0:
		return nil, verdict.Refuse(verdict.Usage, "plan", "the plan has nothing to promote")
	}
	if p.Class == "" {
		p.Class = plan.Binary
	}
	a := &filing{Files: p, verdict: verdict.New(question+p.Plan.Digest().String(), p.Now)}
	a.verdict.Subject = "promotion of " + plural.Of(p.Plan.Extent().Copies, "file")
	a.verdict.Scope.Checks = checks
	return a, a.places.open(p)
}

// run processes every file of the plan, several at a time.
func (a *filing) run(ctx context.Context, do func(context.Context, fileJob)) (*verdict.Verdict, error) {
	atonce.Each(writers, fileJobs(a.Plan), func(_ int, one fileJob) {
		if ctx.Err() == nil {
			do(ctx, one)
			a.done.add(one.weight(), len(a.Plan.Files), a.Progress)
		}
	})
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	a.verdict.Add(a.places.unavailable()...)
	slices.Sort(a.written)
	for _, address := range a.written[:min(maxTold, len(a.written))] {
		a.verdict.Tell("Copied to %s.", address)
	}
	if more := len(a.written) - maxTold; more > 0 {
		a.verdict.Tell("Copied %s more.", plural.Of(more, "file"))
	}
	return a.verdict, nil
}

// fileJobs are the files of a plan, each with its companions.
func fileJobs(p promotionplan.Plan) (all []fileJob) {
	listed := make([]map[string]digest.Digest, len(p.Stores))
	for _, f := range p.Files {
		if listed[f.Store] == nil {
			listed[f.Store] = map[string]digest.Digest{}
		}
		listed[f.Store][f.Name] = f.Digest
	}
	for _, f := range p.Files {
		if of, is := companionOf(f.Name); is && !listed[f.Store][of].IsZero() {
			continue // copied with the file that it is about
		}
		s := p.Stores[f.Store]
		all = append(all, fileJob{
			File: f, from: s.Source, to: s.Destinations,
			bundle: listed[f.Store][f.Name+gate.BundleSuffix], checksum: listed[f.Store][f.Name+checksumSuffix],
		})
	}
	return all
}

// companionOf is the file of which a name would be the evidence or checksum.
func companionOf(name string) (of string, is bool) {
	for _, suffix := range []string{gate.BundleSuffix, checksumSuffix} {
		if of, is := strings.CutSuffix(name, suffix); is {
			return of, true
		}
	}
	return "", false
}

// weight is how many files of the plan a job covers.
func (p fileJob) weight() int {
	n := 1
	for _, d := range []digest.Digest{p.bundle, p.checksum} {
		if !d.IsZero() {
			n++
		}
	}
	return n
}

// promoteFile promotes one file to all its destinations.
func (a *filing) promoteFile(ctx context.Context, p fileJob) {
	targets := a.checkTargets(ctx, p)
	if len(targets) == 0 {
		return
	}
	src := a.places[p.from]
	goods, err := a.readSource(ctx, src, p, targets)
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
		if t.digests.IsZero() {
			a.mu.Lock()
			a.written = append(a.written, t.place.uri+p.Name)
			a.mu.Unlock()
		}
	}
}

// decide judges one file at its source.
func (a *filing) decide(ctx context.Context, p fileJob) {
	src := a.places[p.from]
	goods, err := a.readSource(ctx, src, p, []fileTarget{{}})
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

// count counts a file and its companions as verified.
func (a *filing) count(p fileJob) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.verdict.Counts.Verified += p.weight()
}

// judge judges a file with the evidence beside it.
func (a *filing) judge(p fileJob, g filePayload) error {
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
		return &verdict.Error{Finding: verdict.Find(verdict.PlanStale, p.Name, "the plan was made for a different policy").Differ(want.String(), v.Policy.String())}
	}
	a.verdict.Warn(v.Warnings...)
	if len(a.verdict.Proofs) < 200 { // in a large promotion, read the evidence beside each file instead
		a.verdict.Proofs = append(a.verdict.Proofs, v.Proofs...)
	}
	return v.Err()
}

// refuse reports a file that is not copied at all: it is missing or different
// at the source, or its evidence is insufficient.
func (a *filing) refuse(src *filePlace, p fileJob, places int, err error) {
	if src.isSourceOf(err) {
		src.missed(p.weight()*places, err)
		return
	}
	effect := fmt.Sprintf("; not copied to any destination (%d)", len(p.to))
	found := []verdict.Finding{verdict.FindingOf(p.from+p.Name, err)}
	if judged, is := errors.AsType[*verdict.NotAcceptedError](err); is && len(judged.Verdict.Findings) > 0 {
		found = slices.Clone(judged.Verdict.Findings)
	}
	found[0].Message += effect
	a.mu.Lock()
	defer a.mu.Unlock()
	a.verdict.Add(found...)
}

// fail reports a file that is not copied to one destination.
func (a *filing) fail(at *filePlace, p fileJob, err error) {
	if at.isSourceOf(err) {
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
