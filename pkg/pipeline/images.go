package pipeline

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/waybill-release/waybill/pkg/backend/journal"
	"github.com/waybill-release/waybill/pkg/backend/lease"
	"github.com/waybill-release/waybill/pkg/backend/registry"
	"github.com/waybill-release/waybill/pkg/gate"
	"github.com/waybill-release/waybill/pkg/gate/profile"
	"github.com/waybill-release/waybill/pkg/judge/waiver"
	"github.com/waybill-release/waybill/pkg/pipeline/promote"
	"github.com/waybill-release/waybill/pkg/release/promotionplan"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// Promotion configures how the images of a plan are promoted.
type Promotion struct {
	Shard promotionplan.Shard
	// Exclusive is called before each tag and fails if another run promotes,
	// too; nil skips that check.
	Exclusive func(ctx context.Context) error
	// Progress is called with the number of images done and the total; may be nil.
	Progress func(done, of int)
}

// imageRun promotes images by a plan.
type imageRun struct{ *job }

// promote applies a plan of images, by the policy of the profile and the
// demands of the manifests. Without a token or key of the verifier no records
// are written, and a note says so.
func (p imageRun) promote(ctx context.Context, plan promotionplan.Plan, how Promotion) (done promote.Applied, err error) {
	j, err := journal.Open(p.promotions(how.Shard))
	if err != nil {
		return promote.Applied{}, err
	}
	defer func() { err = errors.Join(err, j.Close()) }()
	goals := plan.Goals()
	work := promote.Images{
		Plan: plan, Shard: how.Shard, Ledger: promote.OpenLedger(j, p.rules(), p.Clock),
		Judge: func(r promotionplan.Route, e promotionplan.Edge) (gate.ImageJudge, error) {
			return p.judgeOf(r, e, goals.Of(r.Source, e.Image))
		},
		Open:   func(prefix string) (*registry.Remote, error) { return registry.OpenRemote(prefix, p.Transport) },
		Rights: promote.Rights{Exclusive: how.Exclusive, MayMove: p.mayMove()},
		Run:    promote.Run{Now: p.Clock(), Progress: how.Progress},
	}
	unrecorded := ""
	if !p.recorded() {
		unrecorded = "No record was written, because no verifier identity was given; use --identity-token " + TokenVerifier + "=FILE."
	} else if work.Records, _, err = records(p).recorder(j); err != nil {
		return promote.Applied{}, err
	}
	done, err = work.Apply(ctx)
	if err == nil && unrecorded != "" {
		done.Verdict.Tell("%s", unrecorded)
	}
	return done, err
}

// recorded reports whether a verifier identity or key was given.
func (p imageRun) recorded() bool {
	return p.Tokens[TokenVerifier] != nil || p.Keys[TokenVerifier] != nil
}

// rules identify what decides about images, and whether records are written.
// The ledger ignores entries made under other rules.
func (p imageRun) rules() string {
	rules := fmt.Sprintf("policy %s, trust root %s, recorded %v", p.Profile.Policy.Digest(), p.Profile.TrustRoot.Digest(), p.recorded())
	if p.recorded() && !p.RecordOptions.Summarize() { // entries without summaries must not count once summaries are wanted
		rules += " without summaries"
	}
	if err := p.Profile.Policy.Life(p.Clock()); err != nil { // images promoted before the policy lapsed are refused now
		rules += ", " + err.Error()
	}
	named := p.Gate.Waivers()
	for _, l := range named.Lists {
		rules += ", known defects " + l.StateAt(p.Clock())
	}
	for _, id := range named.Accept {
		rules += ", accepted defect " + id
	}
	for _, x := range named.Exceptions {
		rules += ", exception " + x.ID()
	}
	if s := p.Gate.Switches(); s != nil { // images promoted while a feature was off are judged again when it is on
		rules += fmt.Sprintf(", features %v", s)
	}
	return rules
}

// promotions is the journal of promotions from this state directory. Shards
// run concurrently, so each has its own.
func (p imageRun) promotions(s promotionplan.Shard) string {
	name := "promotions.jsonl"
	if s.Of > 1 {
		name = fmt.Sprintf("promotions-%d-of-%d.jsonl", s.Index, s.Of)
	}
	return filepath.Join(p.State, name)
}

// judgeOf returns what decides about an image: the policy of the profile, and
// the additional demands of the manifest. The policy counts as it does at the
// destination.
func (p imageRun) judgeOf(r promotionplan.Route, e promotionplan.Edge, goals []string) (gate.ImageJudge, error) {
	ours, err := p.Gate.One(profile.Staging, p.Clock(), goals...)
	if err != nil {
		return nil, err
	}
	ours.Version = gate.VersionOf(e.Tags)
	bench := gate.AllJudges{ours}
	if !r.Policy.Demands() {
		return bench, nil
	}
	theirs, err := gate.ManifestRequest{Manifest: r.Manifest, Policy: r.Policy, Verifier: p.verifier, Now: p.Clock()}.Judge()
	if err != nil {
		return nil, err
	}
	return append(bench, theirs), nil
}

// mayMove returns a function that says by the exceptions whether a tag may be
// moved.
func (p imageRun) mayMove() func(tag string, from, to digest.Digest) (verdict.Waiver, bool) {
	exceptions := p.Gate.Waivers().Exceptions
	if len(exceptions) == 0 {
		return nil
	}
	return func(tag string, from, to digest.Digest) (verdict.Waiver, bool) {
		where, artifact := exceptedTag(tag)
		v := verdict.New(tag, p.Clock())
		v.Add(verdict.Find(verdict.TagConflict, artifact, "the tag %s names another image", tag).Differ(to.String(), from.String()))
		waiver.Apply(v, waiver.Case{Policy: p.Profile.Policy, Exceptions: exceptions, Subjects: []waiver.Subject{
			{Name: artifact, Digests: digest.Set{SHA256: to}, Destination: where},
		}})
		if len(v.Waived) != 1 {
			return verdict.Waiver{}, false
		}
		return v.Waived[0], true
	}
}

// exceptedTag is how an exception names a tag: the destination is its
// repository, the artifact is PATH@TAG without the host.
func exceptedTag(tag string) (destination, artifact string) {
	i := strings.LastIndexByte(tag, ':')
	_, path, _ := strings.Cut(tag[:i], "/")
	return tag[:i], path + "@" + tag[i+1:]
}

// Shared is what workers on one plan share, besides the plan.
type Shared struct {
	// Results is the place of the results of all plans; empty writes none.
	Results string
	Exclusion
}

// Exclusion is a lease that excludes other runs.
type Exclusion struct {
	// Lease is the place of leases; empty takes no lease.
	Lease string
	// Term is how long a lease lasts without renewal.
	Term time.Duration
}

// leaseName is the object that excludes other runs of the whole plan, or of
// the same shard of any plan.
func leaseName(s promotionplan.Shard) string {
	if s.Of <= 1 {
		return "promotion.lease.json"
	}
	return fmt.Sprintf("promotion-%03d-of-%03d.lease.json", s.Index, s.Of)
}

// PromoteShard applies a plan of images, as one of several workers: it has
// the lease of its shard while it works, and writes its results at the end.
// An interrupted run writes no results.
func (p *Pipeline) PromoteShard(ctx context.Context, plan promotionplan.Plan, how Promotion, with Shared) (promote.Applied, error) {
	p.Report(ctx, "promoting plan %s", plan.Digest())
	var held *lease.Lease
	if with.Lease != "" {
		var err error
		if held, err = claim(ctx, p.World, with.Exclusion, leaseName(how.Shard)); err != nil {
			return promote.Applied{}, err
		}
		defer func() { _ = held.Release(ctx) }() // if this fails, the lease expires
		how.Exclusive = held.Held
	}
	done, err := imageRun{p.job}.promote(ctx, plan, how)
	if err != nil {
		return promote.Applied{}, err
	}
	if held != nil { // about this run only, so not part of the results
		defer done.Verdict.Note("promoted under lease %s at %s, number %d", leaseName(how.Shard), with.Lease, held.Number())
	}
	if err := context.Cause(ctx); err != nil || with.Results == "" {
		return done, err
	}
	at := promote.ResultsPlace(with.Results, plan.Digest())
	to, err := p.OpenWriter(at)
	if err != nil {
		return promote.Applied{}, err
	}
	name, err := done.WriteResults(ctx, to, plan, how.Shard)
	if err != nil {
		return promote.Applied{}, fmt.Errorf("writing the results: %w", err)
	}
	p.Report(ctx, "results written to %s%s", at, name)
	return done, nil
}

func claim(ctx context.Context, p World, with Exclusion, name string) (*lease.Lease, error) {
	at, err := p.openPlace(with.Lease)
	if err != nil {
		return nil, verdict.Wrap(verdict.Usage, with.Lease, err)
	}
	to, err := p.OpenWriter(with.Lease)
	if err != nil {
		return nil, err
	}
	host, err := os.Hostname()
	if err != nil {
		host = "unknown host"
	}
	return lease.Claim(ctx, lease.Place{Place: at, Writer: to}, name, lease.Config{
		Holder: fmt.Sprintf("%s %d %s", host, os.Getpid(), rand.Text()[:8]), Term: with.Term, Clock: p.Clock,
	})
}
