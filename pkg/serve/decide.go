package serve

import (
	"context"
	"fmt"
	"runtime/debug"
	"strings"
	"sync"

	"github.com/waybill-release/waybill/pkg/backend/registry"
	"github.com/waybill-release/waybill/pkg/backend/tracing/span"
	"github.com/waybill-release/waybill/pkg/gate"
	"github.com/waybill-release/waybill/pkg/govern/feature/known"
	"github.com/waybill-release/waybill/pkg/judge/policy"
	"github.com/waybill-release/waybill/pkg/serve/api"
	"github.com/waybill-release/waybill/pkg/serve/caller"
	"github.com/waybill-release/waybill/pkg/value/address"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/trace"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// asked is a question that was read.
type asked struct {
	api.Question
	host, repository string
	digest           digest.Digest
	caller           string // who asks
}

// seeDocument is the next act of who asked wrongly.
const seeDocument = "ask as GET /openapi.json describes"

func wrong(format string, args ...any) error {
	return verdict.Refuse(verdict.Usage, "request", format, args...).Advise(seeDocument)
}

// maxName bounds the names of a question: a host, a path, a digest.
const maxName = 1000

// read reads a question. What it leaves out is what it says there.
func read(q api.Question) (asked, error) {
	refuse := func(format string, args ...any) (asked, error) {
		return asked{}, wrong(format, args...)
	}
	if len(q.Image) > maxName || len(q.To) > maxName {
		return refuse("image and to: at most %d characters", maxName)
	}
	name, sum, found := strings.Cut(q.Image, "@")
	if !found {
		return refuse("image %.300q: want HOST/PATH@sha256:…; a tag can name something else when it is used", q.Image)
	}
	d, err := digest.Parse(sum)
	if err != nil || d.Algorithm() != digest.SHA256 || strings.Contains(q.To, "@") { // what stands before it may be a password, and is not repeated
		return refuse("image and to: want HOST/PATH@sha256:… and HOST/PATH, with nothing before the host")
	}
	host, repository, found := strings.Cut(name, "/")
	if !found || strings.Contains(repository, ":") {
		return refuse("image %.300q: want HOST/PATH@sha256:…", q.Image)
	}
	if q.To == "" {
		q.To = name
	}
	for _, place := range []string{name, q.To} {
		if _, err := address.Canonical(place); err != nil || !hasHost(place) {
			return refuse("image and to: %.300q is no HOST/PATH, with a host as registry.example.test or localhost:5000", place)
		}
	}
	if q.Channel == "" {
		q.Channel = caller.NoChannel
	}
	if q.Verb == api.Verify && q.To != name {
		return refuse("verb verify: what is to go somewhere else is to be promoted")
	}
	if q.Verb != api.Verify && q.Verb != api.Promote && q.Verb != api.Override {
		return refuse("verb %.50q: want verify, promote or override", string(q.Verb))
	}
	if len(q.Version) > 100 {
		return refuse("version: more than 100 characters")
	}
	if err := checkExceptions(q); err != nil {
		return asked{}, err
	}
	return asked{Question: q, host: host, repository: repository, digest: d}, nil
}

// hasHost reports whether an address begins with a host, and not with what
// could be a part of a path at a registry that is not named.
func hasHost(place string) bool {
	host, _, _ := strings.Cut(place, "/")
	return host == "localhost" || strings.ContainsAny(host, ".:")
}

// act is what the caller must be granted.
func (a asked) act() caller.Act {
	name, _, _ := strings.Cut(a.Image, "@")
	return caller.Act{Verb: caller.Verb(a.Verb), From: name, To: a.To, Channel: a.Channel}
}

// destination is where what is excepted is so; nothing else depends on it, so
// that one decision answers for all destinations.
func (a asked) destination() string {
	if a.Verb == api.Override {
		return a.To
	}
	return ""
}

// decider decides about images by the policy, and remembers what it decided.
type decider struct {
	world    *World
	limits   Limits
	features *featureReader
	flags    *flags

	cache   cache
	vouch   cache // of summaries
	open    remotes
	judging chan struct{} // bounds what is decided at the same time
	callers shares        // decisions of a caller that are made
	hosts   shares        // decisions that wait for one registry
}

// decide answers all questions of a request that was granted, each in an act of
// its own.
func (d *decider) decide(ctx context.Context, basis *standing, all []asked) ([]api.Decision, []trace.Context) {
	out, acts := make([]api.Decision, len(all)), make([]trace.Context, len(all))
	answer := func(i int) {
		a := all[i]
		ctx, end := span.Start(ctx, span.Gate, span.ArtifactFilename.String(a.Image), span.ArtifactHash.String(a.digest.String()))
		acts[i] = span.Of(ctx)
		out[i] = d.one(ctx, basis, a)
		end(out[i].Verdict.Err())
	}
	if len(all) == 1 { // as almost everybody asks
		answer(0)
		return out, acts
	}
	var wait sync.WaitGroup
	for i := range all {
		wait.Go(func() { answer(i) })
	}
	wait.Wait()
	return out, acts
}

// one answers one question: from what was decided, if it was not long ago and
// nothing that it rests on has changed.
func (d *decider) one(ctx context.Context, basis *standing, a asked) api.Decision {
	now := d.world.Clock()
	basis, err := d.features.under(basis, a)
	if err != nil {
		return answered(a, made{verdict: d.undecided(basis, a, err)}, false)
	}
	bucket := now.Truncate(d.limits.Remember)
	// What counts of the policy is part of what was decided by.
	key := fmt.Sprint(a.host, "/", a.repository, "@", a.digest, " ", a.Version, " ", basis.digest, " ", verdict.InForce(basis.Policy.Digest(), basis.Policy.Features()), basis.Policy.Features(), " ", bucket.Unix())
	remembered := &d.cache
	if a.Verb == api.Override { // nothing of it is remembered, and nothing that is remembered answers it
		remembered = new(cache)
	}
	got, hit, err := remembered.get(ctx, key, now, d.guarded(basis, a, func(own context.Context) made {
		return made{verdict: d.judge(own, basis, a), until: bucket.Add(d.limits.Remember)}
	}))
	if err == nil && basis.Summaries.speakOf(a, got) && d.flags.ask(known.EmitVSA) {
		got, err = d.summarized(ctx, basis, summary{a, got, key})
	}
	if err != nil {
		got.verdict = d.undecided(basis, a, &verdict.UnavailableError{Place: a.host, Op: "deciding", Err: fmt.Errorf("it took longer than there was time: %w", err)})
	}
	return answered(a, got, hit)
}

func answered(a asked, got made, hit bool) api.Decision {
	return api.Decision{Image: a.Image, Outcome: got.verdict.Outcome().String(), Cached: hit, Verdict: got.verdict, Summary: got.summary}
}

// undecided is the answer where something kept the policy from being asked.
func (d *decider) undecided(basis *standing, a asked, err error) *verdict.Verdict {
	v := verdict.New("image "+a.Image, d.world.Clock())
	v.Policy, v.Features, v.TrustRoot = basis.Policy.Digest(), basis.Policy.Features(), basis.Verifier.Root().Digest()
	v.Counts.Required = 1
	v.AddError(a.Image, err)
	return v
}

// guarded decides in a goroutine of its own. A bug that is met there would end
// the service for everybody: it is an answer to this question, and never a yes.
func (d *decider) guarded(basis *standing, a asked, decide func(own context.Context) made) func(context.Context) made {
	return func(ctx context.Context) (m made) {
		own, stop := context.WithTimeout(context.WithoutCancel(ctx), d.limits.Deadline)
		defer stop()
		defer func() {
			if p := recover(); p != nil {
				d.world.Log.ErrorContext(own, "a bug was met while deciding", "image", a.Image, "panic", fmt.Sprintf("%.1000v", p), "stack", string(debug.Stack()))
				m = made{verdict: d.undecided(basis, a, verdict.Refuse(verdict.InternalBug, a.Image, "a bug was met while deciding"))}
			}
		}()
		return decide(own)
	}
}

// judge asks the policy.
func (d *decider) judge(ctx context.Context, basis *standing, a asked) *verdict.Verdict {
	caller, err := d.callers.enter(ctx, a.caller)
	if err != nil {
		return d.undecided(basis, a, err)
	}
	defer caller()
	host, err := d.hosts.enter(ctx, a.host)
	if err != nil {
		return d.undecided(basis, a, err)
	}
	defer host()
	select {
	case d.judging <- struct{}{}:
		defer func() { <-d.judging }()
	case <-ctx.Done():
		return d.undecided(basis, a, errBusy())
	}
	at, err := d.open.at(a.host)
	if err != nil {
		return d.undecided(basis, a, err)
	}
	waivers, err := basis.excepting(a)
	if err != nil {
		return d.undecided(basis, a, err)
	}
	src := registry.Remember(at, false)
	defer src.Close()
	req := basis.PolicyRequest
	req.Stage, req.Version, req.Now, req.Waivers = policy.Staging, a.Version, d.world.Clock(), waivers
	return req.Image(ctx, gate.Image{Source: src, Name: a.Image, Repository: a.repository, Digest: a.digest, To: a.destination()})
}
