package pipeline

import (
	"context"
	"crypto"
	"errors"
	"net/url"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/waybill-release/waybill/pkg/backend/git"
	"github.com/waybill-release/waybill/pkg/backend/registry"
	"github.com/waybill-release/waybill/pkg/backend/store"
	"github.com/waybill-release/waybill/pkg/backend/tracing/span"
	"github.com/waybill-release/waybill/pkg/backend/transport"
	"github.com/waybill-release/waybill/pkg/gate/profile"
	"github.com/waybill-release/waybill/pkg/judge/policy"
	"github.com/waybill-release/waybill/pkg/pipeline/doctor"
	"github.com/waybill-release/waybill/pkg/produce/run"
	"github.com/waybill-release/waybill/pkg/produce/sandbox"
	"github.com/waybill-release/waybill/pkg/produce/sign"
	"github.com/waybill-release/waybill/pkg/produce/workspace"
	"github.com/waybill-release/waybill/pkg/release/manifest"
	"github.com/waybill-release/waybill/pkg/release/plan"
	"github.com/waybill-release/waybill/pkg/value/identity"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// found is what an examination came to know on its way: what would be built,
// and behind which walls.
type found struct {
	plan   plan.Plan
	source run.Source
	walls  sandbox.Report
}

func (f found) identity(invocation string) workspace.Identity {
	return workspace.Identity{
		Name: f.plan.Name, Version: f.plan.Version, Commit: f.source.Commit, Plan: f.plan.Digest(), Invocation: invocation,
	}
}

// checkup looks at everything that a purpose needs.
type checkup struct{ *job }

// preflight examines every release before the first step of any, and refuses
// with everything that is wrong with any. Nothing is made and no log is written
// to. What it found of the sources is what is built afterwards.
func preflight(ctx context.Context, purpose doctor.Purpose, jobs ...*job) (all []found, err error) {
	ctx, end := jobs[0].spanning(ctx, span.Preflight, "look whether it can "+string(purpose))
	defer func() { end(err) }()
	report := doctor.Report{For: purpose, Time: jobs[0].Clock()}
	var plans []plan.Plan
	for _, j := range jobs {
		one, f := checkup{j}.examine(ctx, purpose, false)
		for _, c := range one.Checks {
			if len(jobs) > 1 {
				c.Name = j.Version.String() + ", " + c.Name
			}
			report.Checks = append(report.Checks, c)
		}
		all, plans = append(all, f), append(plans, f.plan)
	}
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	if err := report.Err(); err != nil {
		return nil, err
	}
	if len(jobs) > 1 {
		_, err = plan.NewReleases(plans...)
	}
	return all, err
}

// Examine looks at everything that a purpose needs. With confirm, what only a
// write can tell is written, and taken back.
func (p *Pipeline) Examine(ctx context.Context, purpose doctor.Purpose, confirm bool) doctor.Report {
	report, _ := checkup{p.job}.examine(ctx, purpose, confirm)
	return report
}

// ExamineMachine looks at what needs no profile, because none could be read.
func ExamineMachine(ctx context.Context, purpose doctor.Purpose, c Config, unread error) doctor.Report {
	asks := []doctor.Ask{one(doctor.Fault("profile", unread)), doctor.Disk{Dir: c.State}.Ask()}
	if purpose == doctor.Build || purpose == doctor.Stage {
		asks = append(asks, one(doctor.Program("git")), one(doctor.Walls(sandbox.Examine(ctx), c.Tokens[TokenUnisolated] != nil)...))
	}
	return doctor.Examine(ctx, purpose, c.Clock(), asks...)
}

// one is an answer that is known already.
func one(checks ...doctor.Check) doctor.Ask {
	return func(context.Context) []doctor.Check { return checks }
}

// examine looks at the source first: the other questions depend on the plan.
func (p checkup) examine(ctx context.Context, purpose doctor.Purpose, confirm bool) (doctor.Report, found) {
	var f found
	now := p.Clock()
	asks := []doctor.Ask{one(doctor.Root(p.Profile.TrustRoot, now), doctor.Policy(p.Profile.Policy, p.Profile.TrustRoot, now))}
	makes := purpose == doctor.Build || purpose == doctor.Stage
	if makes {
		f.walls = sandbox.Examine(ctx)
		asks = append(asks, p.examineSource(ctx, purpose, &f), one(doctor.Walls(f.walls, p.Tokens[TokenUnisolated] != nil)...),
			doctor.Tools(f.plan, f.source.Pins), doctor.Bases(f.source.Pins, p.Transport), doctor.Disk{Dir: p.State, Need: doctor.Estimate(f.plan)}.Ask())
		asks = append(asks, p.examineTokens(purpose, f.walls.Mode)...)
	}
	asks = append(asks, p.examineServices(makes))
	for _, f := range p.withdrawn(manifest.Manifest{}) {
		asks = append(asks, one(doctor.Fault("version", &verdict.Error{Finding: f})))
	}
	if p.Version.IsZero() {
		return doctor.Examine(ctx, purpose, now, append(asks, one(noVersion("places")))...), f
	}
	if makes {
		asks = append(asks, p.examinePublic())
	}
	for _, at := range placesOf(actsFor(purpose)) {
		asks = append(asks, p.examinePlace(ctx, at, f.plan, confirm)...)
	}
	return doctor.Examine(ctx, purpose, now, asks...), f
}

// placesOf are the stages whose places acts need, in their order.
func placesOf(acts []act) (list []visit) {
	for _, a := range acts {
		for _, v := range a.places {
			if i := slices.IndexFunc(list, func(l visit) bool { return l.stage == v.stage }); i < 0 {
				list = append(list, v)
			} else if v.write {
				list[i].write = true
			}
		}
	}
	return list
}

// examineSource finds out what would be built.
func (p checkup) examineSource(ctx context.Context, purpose doctor.Purpose, f *found) doctor.Ask {
	checks := []doctor.Check{doctor.Program("git")}
	switch _, err := exec.LookPath("git"); {
	case err != nil:
		return one(checks...)
	case p.Version.IsZero():
		return one(append(checks, noVersion("source"))...)
	}
	var err error
	if f.plan, f.source, err = p.plan(ctx); err != nil {
		return one(append(checks, faultsOf(err)...)...)
	}
	if purpose == doctor.Stage { // a build is judged by whoever takes it
		checks = append(checks, p.fits(f)...)
	}
	if f.source.Tag, err = p.Source.tag(ctx, f.source.Commit); err != nil {
		checks = append(checks, doctor.Fault("tag", err))
	}
	if err := errors.Join(git.CheckClean(ctx, p.Source.Repository), workspace.Check(p.State, f.identity(""))); err != nil {
		return one(append(checks, doctor.Fault("source", err))...)
	}
	checks = append(checks, doctor.Fine("source", "%s names commit %.12s, %d artifacts are planned", f.source.Commit.AskedFor(), f.source.Commit.Commit, len(f.plan.Artifacts)))
	if f.plan.Locked {
		checks = append(checks, doctor.Fine("lock", "pins what release.yaml names: %d bases, %d tools, %d modules",
			len(f.source.Pins.Bases), len(f.source.Pins.Tools), len(f.source.Pins.Modules)))
	}
	return one(checks...)
}

// faultsOf tells each fault of a configuration by itself.
func faultsOf(err error) (checks []doctor.Check) {
	var faults plan.Faults
	if !errors.As(err, &faults) {
		return []doctor.Check{doctor.Fault("source", err)}
	}
	for _, fault := range faults {
		checks = append(checks, doctor.Fault("source", verdict.Wrap(verdict.ConfigParse, plan.ConfigName, fault)))
	}
	return checks
}

// fits finds what the seal and the gate would refuse whatever is built: a
// source that the policy does not take, and places that are not the profile's.
func (p checkup) fits(f *found) (checks []doctor.Check) {
	if err := p.Profile.Policy.AllowsSource(f.source.Commit.Repository); err != nil {
		checks = append(checks, doctor.Fault("policy, source", err))
	}
	files, images := p.Profile.Canonical(p.Version)
	for _, place := range []struct{ name, planned, profile string }{{"files", f.plan.Files, files}, {"images", f.plan.Images, images}} {
		if place.planned == place.profile || place.name == "images" && place.planned == "" {
			continue
		}
		finding := verdict.Find(verdict.PlaceOther, plan.ConfigName, "it places the %s elsewhere than the profile expects them", place.name)
		checks = append(checks, doctor.Fault("places, "+place.name, &verdict.Error{Finding: finding.Differ(place.profile, place.planned)}))
	}
	return checks
}

func noVersion(what string) doctor.Check {
	return doctor.Doubt(what, "name a VERSION", "not asked: no version was named")
}

// examineTokens looks at the tokens that are going to be used.
func (p checkup) examineTokens(purpose doctor.Purpose, mode sandbox.Mode) (asks []doctor.Ask) {
	var names []string
	ask := func(name string, role policy.Role) {
		if key := p.Keys[name]; key != nil {
			asks = append(asks, one(p.examineKey(name, role, key)))
			return
		}
		t := doctor.Token{Name: name, Source: p.Tokens[name], Role: role, Missing: noToken(name)}
		asks = append(asks, t.Ask(p.Profile.Policy, p.Clock))
	}
	for _, a := range actsFor(purpose) {
		name := a.signs.tokenIn(mode)
		asked := slices.Contains(names, name) || name == TokenUnisolated && p.Tokens[name] == nil // that is said with the walls
		if a.signs.role != "" && !asked {
			names = append(names, name)
			ask(name, a.signs.role)
		}
	}
	return asks
}

// examineKey looks whether the policy knows a key in its role.
func (p checkup) examineKey(name string, role policy.Role, key crypto.Signer) doctor.Check {
	v, err := p.verifier.Key(key.Public())
	if err != nil {
		return doctor.Fault("key "+name, err)
	}
	who := identity.OfKey(v.Digest())
	if err := p.Profile.Policy.CheckIdentity(who, role, p.Clock()); err != nil && verdict.FindingOf("", err).Code == verdict.IdentityWindow {
		return doctor.Fault("key "+name, err)
	} else if err != nil {
		f := verdict.Find(verdict.SignedAsElse, "key", "it is not one of the %s role", role)
		f.Fix = sign.OtherKey
		return doctor.Fault("key "+name, &verdict.Error{Finding: f.Differ(strings.Join(p.Profile.Policy.Expected(role), " or "), who.String())})
	}
	return doctor.Fine("key "+name, "%s", who)
}

func noToken(name string) error {
	return verdict.Refuse(verdict.Usage, "identity token", "none was given for %s; use --identity-token %s=FILE, or --identity %s=SOURCE", name, name, name).
		Advise("fetch one, write it to a file that only you can read, and add the flag")
}

// examineServices looks at the services of signatures where there will be
// some, and else at the clocks of the places.
func (p checkup) examineServices(signs bool) doctor.Ask {
	world := doctor.World{Transport: p.Transport, Clock: p.Clock}
	if !signs {
		return world.Services(p.clocks())
	}
	services, err := servicesOf(p.job)
	if err == nil {
		err = forms(p).need()
	}
	if err != nil {
		return one(doctor.Fault("signing services", err))
	}
	return world.Services(doctor.Signing(services))
}

// clocks are the hosts of the release place: any answer of theirs has a date.
func (p checkup) clocks() (list []doctor.Service) {
	if uri, err := p.Profile.Files(profile.Release, p.Version); err == nil {
		if bucket, err := store.ParseBucket(uri); err == nil {
			list = append(list, doctor.Service{Name: "bucket", Address: bucket.Endpoint + "/"})
		} else if u, err := url.Parse(uri); err == nil && u.Scheme == "https" {
			list = append(list, doctor.Service{Name: "file place", Address: uri})
		}
	}
	if prefix, err := p.Profile.Images(profile.Release, p.Version); err == nil && prefix != "" {
		host, _, _ := strings.Cut(prefix, "/")
		scheme := "https"
		if u := (&url.URL{Host: host}); transport.Loopback(u.Hostname()) {
			scheme = "http"
		}
		list = append(list, doctor.Service{Name: "registry", Address: scheme + "://" + host + "/v2/"})
	}
	return list
}

// examinePlace looks at the places of one stage.
func (p checkup) examinePlace(ctx context.Context, at visit, planned plan.Plan, confirm bool) []doctor.Ask {
	uri, err := p.Profile.Files(at.stage, p.Version)
	if err != nil {
		return []doctor.Ask{one(doctor.Fault(string(at.stage)+" files", err))}
	}
	files := doctor.Place{Name: string(at.stage), Closed: p.Profile.Policy.Closes(policy.Files) == policy.Require, Confirm: confirm}
	if files.Place, err = p.openPlace(uri); err == nil && at.write {
		files.Writer, err = p.OpenWriter(uri)
	}
	if err != nil {
		return []doctor.Ask{one(doctor.Fault(files.Name+" files", err))}
	}
	asks := []doctor.Ask{files.Ask()}
	prefix, err := p.Profile.Images(at.stage, p.Version)
	if err == nil && prefix == "" {
		return asks
	}
	images := doctor.Images{Name: files.Name, Write: at.write, Confirm: confirm, Repositories: p.repositories(ctx, planned)}
	if err == nil {
		images.Remote, err = registry.OpenRemote(prefix, p.Transport)
	}
	if err != nil {
		return append(asks, one(doctor.Fault(files.Name+" registry", err)))
	}
	return append(asks, images.Ask())
}

// repositories are those of the planned images; where nothing is planned here,
// of the plan that was saved in the state directory.
func (p checkup) repositories(ctx context.Context, planned plan.Plan) (list []string) {
	if planned.Name == "" {
		if here, err := built(ctx, p.job, facts{}); err == nil {
			planned = here.plan
		}
	}
	for _, a := range planned.Artifacts {
		if a.Class == plan.Image {
			list = append(list, filepath.ToSlash(a.Repository))
		}
	}
	return list
}

// newVersion is the next act where a version is spent.
const newVersion = "what is public never changes, so release a new version: tag it, then waybill stage it"

// examinePublic looks whether the version is public already. What another run
// released under it no promotion would write over, so nothing is built for it. A
// place that does not answer says nothing.
func (p checkup) examinePublic() doctor.Ask {
	const name = "version"
	return func(ctx context.Context) []doctor.Check {
		at, err := p.filesAt(profile.Release)
		if err != nil {
			return []doctor.Check{doctor.Fault(name, err)}
		}
		m, _, err := p.manifest(ctx, at)
		switch {
		case errors.Is(err, store.ErrNotFound):
			return []doctor.Check{doctor.Fine(name, "%s is not public yet", p.Version)}
		case err != nil:
			return []doctor.Check{doctor.Doubt(name, "look at what lies there before the promotion, which writes over nothing", "not known whether %s is public: %v", p.Version, err)}
		case m.Version != p.Version:
			return []doctor.Check{doctor.Doubt(name, "look at the profile's release place", "%s holds the manifest of %s", at.URI(), m.Version)}
		case m.Withdrawn != nil:
			return []doctor.Check{doctor.Fault(name, verdict.Refuse(verdict.Withdrawn, at.URI(), "%s is public and was withdrawn: %s", p.Version, m.Withdrawn.Reason).Advise(newVersion))}
		case !isOf(m, p.invocationHere()):
			return []doctor.Check{doctor.Fault(name, verdict.Refuse(verdict.FileConflict, at.URI(),
				"%s is public, of commit %.12s, and another run than the one in %s made it", p.Version, m.Source.Commit, p.State).
				Advise(newVersion+"; or give the --state of the run that made it"))}
		}
		return []doctor.Check{doctor.Fine(name, "%s is public, of this very run: what holds is taken over", p.Version)}
	}
}

// isOf reports whether a run made a release.
func isOf(m manifest.Manifest, run string) bool {
	return slices.ContainsFunc(m.Runs, func(r manifest.Run) bool { return r.ID == run })
}
