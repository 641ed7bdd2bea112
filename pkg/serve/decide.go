package serve

import (
	"cmp"
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

// asked is a parsed question.
type asked struct {
	api.Question
	host, repository string
	digest           digest.Digest
	caller           string // the caller's name
	anew             bool   // a refusal is not answered from the cache: evidence may have been pushed since
}

// seeDocument is the act for a malformed request.
const seeDocument = "see GET /openapi.json for the format of requests"

func malformed(format string, args ...any) error {
	return verdict.Refuse(verdict.Usage, "request", format, args...).Advise(seeDocument)
}

// maxName bounds the names in a question: host, path and digest.
const maxName = 1000

// parseQuestion parses a question and fills in the defaults.
func parseQuestion(q api.Question) (asked, error) {
	refuse := func(format string, args ...any) (asked, error) {
		return asked{}, malformed(format, args...)
	}
	if len(q.Image) > maxName || len(q.To) > maxName {
		return refuse("image and to: at most %d characters", maxName)
	}
	name, sum, found := strings.Cut(q.Image, "@")
	if !found {
		return refuse("image %.300q: want HOST/PATH@sha256:…; a tag is not accepted, because it can move", q.Image)
	}
	d, err := digest.Parse(sum)
	if err != nil || d.Algorithm() != digest.SHA256 || strings.Contains(q.To, "@") { // the part before may be a password, so it is not quoted
		return refuse("image and to: want HOST/PATH@sha256:… and HOST/PATH, without user or password")
	}
	host, repository, found := strings.Cut(name, "/")
	if !found || strings.Contains(repository, ":") {
		return refuse("image %.300q: want HOST/PATH@sha256:…", q.Image)
	}
	q.To = cmp.Or(q.To, name)
	for _, place := range []string{name, q.To} {
		if _, err := address.Canonical(place); err != nil || !hasHost(place) {
			return refuse("image and to: %.300q: want HOST/PATH, such as registry.example.test/demo or localhost:5000/demo", place)
		}
	}
	q.Channel = cmp.Or(q.Channel, caller.NoChannel)
	if q.Verb == api.Verify && q.To != name {
		return refuse("verb verify: to must be left out or name the image's own repository; use promote for another")
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

// hasHost reports whether an address begins with a host, and not with a part of
// a path in an unnamed registry.
func hasHost(place string) bool {
	host, _, _ := strings.Cut(place, "/")
	return host == "localhost" || strings.ContainsAny(host, ".:")
}

// act is what the caller must be granted.
func (a asked) act() caller.Act {
	name, _, _ := strings.Cut(a.Image, "@")
	return caller.Act{Verb: caller.Verb(a.Verb), From: name, To: a.To, Channel: a.Channel}
}

// destination is where the exceptions must apply; nothing else depends on it,
// so one decision serves all destinations.
func (a asked) destination() string {
	if a.Verb == api.Override {
		return a.To
	}
	return ""
}

// decider decides about images by the policy, and caches decisions.
type decider struct {
	world    *World
	limits   Limits
	features *featureReader
	flags    *flags

	cache   cache
	vouch   cache // cache of summaries
	open    remotes
	judging chan struct{} // bounds concurrent decisions
	callers shares        // decisions under way for each caller
	hosts   shares        // decisions that wait for one registry
}

// decide answers all granted questions of a request, each in its own span.
func (d *decider) decide(ctx context.Context, basis *standing, all []asked) ([]api.Decision, []trace.Context) {
	out, acts := make([]api.Decision, len(all)), make([]trace.Context, len(all))
	answer := func(i int) {
		a := all[i]
		ctx, end := span.Start(ctx, span.Gate, span.ArtifactFilename.String(a.Image), span.ArtifactHash.String(a.digest.String()))
		acts[i] = span.Of(ctx)
		out[i] = d.decideOne(ctx, basis, a)
		end(out[i].Verdict.Err())
	}
	if len(all) == 1 { // the common case
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

// decideOne answers one question: from the cache, if the decision is recent and based
// on the same data.
func (d *decider) decideOne(ctx context.Context, basis *standing, a asked) api.Decision {
	now := d.world.Clock()
	basis, err := d.features.effective(basis, a)
	if err != nil {
		return answered(a, made{verdict: d.undecided(basis, a, err)}, false)
	}
	bucket := now.Truncate(d.limits.Remember)
	// The effective policy is part of the cache key.
	key := fmt.Sprint(a.host, "/", a.repository, "@", a.digest, " ", a.Version, " ", basis.digest, " ", verdict.InForce(basis.Policy.Digest(), basis.Policy.Features()), basis.Policy.Features(), " ", bucket.Unix())
	remembered := &d.cache
	if a.Verb == api.Override { // overrides are never cached or answered from the cache
		remembered = new(cache)
	}
	judge := d.guarded(basis, a, func(own context.Context) made {
		return made{verdict: d.judge(own, basis, a), until: bucket.Add(d.limits.Remember)}
	})
	got, hit, err := remembered.get(ctx, key, now, judge)
	if refused := err == nil && hit && got.verdict.Outcome() == verdict.Refused; refused && a.anew {
		remembered.drop(key, nil)
		got, hit, err = remembered.get(ctx, key, now, judge)
	}
	if err == nil && basis.Summaries.wants(a, got) && d.flags.enabled(known.EmitVSA) {
		got, err = d.summarized(ctx, basis, summary{a, got, key})
	}
	if err != nil {
		got.verdict = d.undecided(basis, a, &verdict.UnavailableError{Place: a.host, Op: "deciding", Err: fmt.Errorf("the decision took longer than its deadline: %w", err)})
	}
	return answered(a, got, hit)
}

func answered(a asked, got made, hit bool) api.Decision {
	return api.Decision{Image: a.Image, Outcome: got.verdict.Outcome().String(), Cached: hit, Verdict: got.verdict, Summary: got.summary}
}

// undecided is the answer if the policy could not be applied.
func (d *decider) undecided(basis *standing, a asked, err error) *verdict.Verdict {
	v := verdict.New("image "+a.Image, d.world.Clock())
	v.Policy, v.Features, v.TrustRoot = basis.Policy.Digest(), basis.Policy.Features(), basis.Verifier.Root().Digest()
	v.Counts.Required = 1
	v.AddError(a.Image, err)
	return v
}

// guarded decides in its own goroutine. A panic there becomes the answer to
// this question, never an acceptance; otherwise it would end the service.
func (d *decider) guarded(basis *standing, a asked, decide func(own context.Context) made) func(context.Context) made {
	return func(ctx context.Context) (m made) {
		own, stop := context.WithTimeout(context.WithoutCancel(ctx), d.limits.Deadline)
		defer stop()
		defer func() {
			if p := recover(); p != nil {
				d.world.Log.ErrorContext(own, "internal error while deciding", "image", a.Image, "panic", fmt.Sprintf("%.1000v", p), "stack", string(debug.Stack()))
				m = made{verdict: d.undecided(basis, a, verdict.Refuse(verdict.InternalBug, a.Image, "internal error while deciding"))}
			}
		}()
		return decide(own)
	}
}

// judge applies the policy.
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
	at, err := d.open.registryAt(a.host)
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
	v := req.Image(ctx, gate.Image{Source: src, Name: a.Image, Repository: a.repository, Digest: a.digest, To: a.destination()})
	v.Levels = nil // long, and kept as long as the decision; waybill gate check reports them
	return v
}
