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
	"time"

	releasemanifest "github.com/waybill-release/waybill/attestations/release-manifest/v1"
	"github.com/waybill-release/waybill/pkg/backend/git"
	"github.com/waybill-release/waybill/pkg/backend/github"
	"github.com/waybill-release/waybill/pkg/backend/registry"
	"github.com/waybill-release/waybill/pkg/backend/store"
	"github.com/waybill-release/waybill/pkg/backend/tracing/span"
	"github.com/waybill-release/waybill/pkg/backend/transport"
	"github.com/waybill-release/waybill/pkg/gate/profile"
	"github.com/waybill-release/waybill/pkg/judge/policy"
	"github.com/waybill-release/waybill/pkg/pipeline/doctor"
	"github.com/waybill-release/waybill/pkg/pipeline/doctor/attack"
	"github.com/waybill-release/waybill/pkg/produce/run"
	"github.com/waybill-release/waybill/pkg/produce/sandbox"
	"github.com/waybill-release/waybill/pkg/produce/sign"
	"github.com/waybill-release/waybill/pkg/produce/workspace"
	"github.com/waybill-release/waybill/pkg/release/manifest"
	"github.com/waybill-release/waybill/pkg/release/plan"
	"github.com/waybill-release/waybill/pkg/tool/plural"
	"github.com/waybill-release/waybill/pkg/tool/slice"
	"github.com/waybill-release/waybill/pkg/value/identity"
	"github.com/waybill-release/waybill/pkg/value/verdict"
	"github.com/waybill-release/waybill/pkg/value/version"
)

// found is what the preflight found: what would be built, and how isolated.
type found struct {
	plan      plan.Plan
	source    run.Source
	isolation sandbox.Report
	// builder is the name of the token that signs provenance.
	builder string
	// built says that another account, such as a build service, has run all
	// steps: their provenance is in the state directory, and no builder
	// identity was given.
	built bool
}

func (f found) identity(invocation string) workspace.Identity {
	return workspace.Identity{
		Name: f.plan.Name, Version: f.plan.Version, Commit: f.source.Commit, Plan: f.plan.Digest(), Invocation: invocation,
	}
}

// checkup checks everything that a purpose needs.
type checkup struct{ *job }

// preflight checks the needs of every release before the first step of any,
// and reports all problems of all of them. It creates nothing and writes to
// no log. The sources that it found are the ones that are built afterwards.
func preflight(ctx context.Context, purpose doctor.Purpose, jobs ...*job) (all []found, err error) {
	ctx, end := jobs[0].startSpan(ctx, span.Preflight, "preflight: "+string(purpose))
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

// Examine checks everything that a purpose needs. With confirm it also makes
// the checks that require a write, and undoes them.
func (p *Pipeline) Examine(ctx context.Context, purpose doctor.Purpose, confirm bool) doctor.Report {
	report, _ := checkup{p.job}.examine(ctx, purpose, confirm)
	return report
}

// ExamineMachine makes the checks that need no profile, for a profile that
// could not be read.
func ExamineMachine(ctx context.Context, purpose doctor.Purpose, c Config, unread error) doctor.Report {
	asks := []doctor.Ask{answered(doctor.Fault("profile", unread)), doctor.Disk{Dir: c.State}.Ask()}
	if purpose == doctor.Build || purpose == doctor.Stage {
		asks = append(asks, answered(doctor.Program("git")), answered(doctor.Isolation(sandbox.Examine(ctx), c.Tokens[TokenUnisolated] != nil)...))
	}
	return doctor.Examine(ctx, purpose, c.Clock(), asks...)
}

// Attack attacks the steps of this machine, with the network that the steps of a
// release declare, if a version is given.
func Attack(ctx context.Context, from Source, v []version.Version, parameters map[string]string, at time.Time) (doctor.Report, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Minute)
	defer cancel()
	b := attack.Builder{Isolation: sandbox.Examine(ctx), Run: sandbox.Run}
	if len(v) > 0 {
		p, _, err := ReadPlan(ctx, from, v[0], parameters)
		if err != nil {
			return doctor.Report{}, err
		}
		for _, s := range p.Steps {
			b.Network = append(b.Network, s.Network...)
		}
	}
	checks := b.Try(ctx)
	return doctor.Examine(ctx, "attack-builder", at, answered(doctor.Isolation(b.Isolation, true)[:1]...), answered(checks...)), ctx.Err()
}

// answered is an Ask whose answer is known already.
func answered(checks ...doctor.Check) doctor.Ask {
	return func(context.Context) []doctor.Check { return checks }
}

// examine resolves the source first: the other checks depend on the plan.
func (p checkup) examine(ctx context.Context, purpose doctor.Purpose, confirm bool) (doctor.Report, found) {
	var f found
	now := p.Clock()
	asks := []doctor.Ask{answered(doctor.Root(p.Profile.TrustRoot, now), doctor.Policy(p.Profile.Policy, p.Profile.TrustRoot, now))}
	makes := purpose == doctor.Build || purpose == doctor.Stage
	if makes {
		asks = append(asks, p.examineSource(ctx, purpose, &f))
		asks = append(asks, p.examineBuild(ctx, purpose, &f)...)
		asks = append(asks, p.examineTokens(purpose, f)...)
	}
	asks = append(asks, p.examineServices(makes))
	for _, f := range p.withdrawn(manifest.Manifest{}) {
		asks = append(asks, answered(doctor.Fault("version", &verdict.Error{Finding: f})))
	}
	if p.Version.IsZero() {
		return doctor.Examine(ctx, purpose, now, append(asks, answered(noVersion("places")))...), f
	}
	if makes {
		asks = append(asks, p.examinePublic(), p.examineNames(f.plan))
	}
	for _, at := range placesOf(actsFor(purpose)) {
		asks = append(asks, p.examinePlace(ctx, at, f.plan, confirm)...)
	}
	return doctor.Examine(ctx, purpose, now, asks...), f
}

// examineBuild checks what the steps need, unless all were run already.
func (p checkup) examineBuild(ctx context.Context, purpose doctor.Purpose, f *found) []doctor.Ask {
	disk := doctor.Disk{Dir: p.State, Need: doctor.Estimate(f.plan)}.Ask()
	if f.built = purpose == doctor.Stage && p.isBuilt(ctx, *f); f.built {
		return []doctor.Ask{answered(doctor.Fine("build", "%s was built before, and no builder identity was given: no step runs", p.Version)), disk}
	}
	f.isolation = sandbox.Examine(ctx)
	f.builder = builderToken(ctx, p.job, f.isolation.Mode, true)
	return []doctor.Ask{
		answered(doctor.Isolation(f.isolation, p.Tokens[f.builder] != nil)...),
		doctor.Tools(f.plan, f.source.Pins), doctor.Bases(f.source.Pins, p.Transport), disk,
	}
}

// isBuilt reports whether the state directory has the provenance of every step
// and no builder identity was given. Whether the provenance is genuine is
// checked before anything is signed.
func (p checkup) isBuilt(ctx context.Context, f found) bool {
	for _, name := range []string{TokenBuilder, TokenUnisolated} {
		if p.Tokens[name] != nil || p.Keys[name] != nil {
			return false
		}
	}
	w, err := runner(p).workspaceHere()
	if err != nil || w == nil || w.Identity().Plan != f.plan.Digest() {
		return false
	}
	objects, err := w.Files().List(ctx)
	if err != nil {
		return false
	}
	return !slices.ContainsFunc(provenances(f.plan), func(a plan.Artifact) bool {
		return !slices.ContainsFunc(objects, func(o store.Object) bool { return o.Name == a.Name })
	})
}

// placesOf merges the places that acts use, in order.
func placesOf(acts []act) (list []placeUse) {
	for _, a := range acts {
		for _, v := range a.places {
			if i := slices.IndexFunc(list, func(l placeUse) bool { return l.stage == v.stage }); i < 0 {
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
		return answered(checks...)
	case p.Version.IsZero():
		return answered(append(checks, noVersion("source"))...)
	}
	var err error
	if f.plan, f.source, err = p.plan(ctx); err != nil {
		return answered(append(checks, faultsOf(err)...)...)
	}
	if purpose == doctor.Stage { // a build alone is judged by whoever uses it
		checks = append(checks, p.policyFaults(f)...)
	}
	if f.source.Tag, err = p.Source.tag(ctx, f.source.Commit); err != nil {
		checks = append(checks, doctor.Fault("tag", err))
	}
	if err := errors.Join(git.CheckClean(ctx, p.Source.Repository), workspace.Check(p.State, f.identity(""))); err != nil {
		return answered(append(checks, doctor.Fault("source", err))...)
	}
	checks = append(checks, doctor.Fine("source", "%s is commit %.12s, planned artifacts: %d", f.source.Commit.AskedFor(), f.source.Commit.Commit, len(f.plan.Artifacts)))
	if f.plan.Locked {
		checks = append(checks, doctor.Fine("lock", "covers release.yaml: bases %d, tools %d, modules %d",
			len(f.source.Pins.Bases), len(f.source.Pins.Tools), len(f.source.Pins.Modules)))
	}
	return answered(checks...)
}

// faultsOf returns one check for each fault of a configuration.
func faultsOf(err error) (checks []doctor.Check) {
	var faults plan.Faults
	if !errors.As(err, &faults) {
		return []doctor.Check{doctor.Fault("source", err)}
	}
	return slice.Map(faults, func(fault plan.Fault) doctor.Check {
		return doctor.Fault("source", verdict.Wrap(verdict.ConfigParse, plan.ConfigName, fault))
	})
}

// policyFaults finds what the seal and the gate would refuse whatever is
// built: a source that the policy does not accept, and places that differ
// from the profile's.
func (p checkup) policyFaults(f *found) (checks []doctor.Check) {
	if err := p.Profile.Policy.NewSession().AllowsSource(f.source.Commit.Repository); err != nil {
		checks = append(checks, doctor.Fault("policy, source", err))
	}
	if commit := f.source.Commit.Commit; !p.Version.Of(commit) {
		checks = append(checks, doctor.Fault("source, version", verdict.Refuse(verdict.SourceCommit, "VERSION", "the version of the build names another commit than the one to build").Differ("the commit in "+p.Version.String(), commit).
			Advise("name the commit of the version with --source REPOSITORY@COMMIT, or give the version of this commit")))
	}
	files, images := p.Profile.Canonical(p.Version)
	for _, place := range []struct{ name, planned, profile string }{{"files", f.plan.Files, files}, {"images", f.plan.Images, images}} {
		if place.planned == place.profile || place.name == "images" && place.planned == "" {
			continue
		}
		finding := verdict.Find(verdict.PlaceOther, plan.ConfigName, "release.yaml and the profile name different places for the %s", place.name)
		checks = append(checks, doctor.Fault("places, "+place.name, &verdict.Error{Finding: finding.Differ(place.profile, place.planned)}))
	}
	return checks
}

func noVersion(what string) doctor.Check {
	return doctor.Doubt(what, "give a VERSION", "not checked: no version was given")
}

// examineKey checks whether the policy lists a key in its role.
func (p checkup) examineKey(name string, role policy.Role, key crypto.Signer) doctor.Check {
	v, err := p.verifier.Key(key.Public())
	if err != nil {
		return doctor.Fault("key "+name, err)
	}
	who := identity.OfKey(v.Digest())
	if err := p.Profile.Policy.CheckIdentity(who, role, p.Clock()); err != nil && verdict.FindingOf("", err).Code == verdict.IdentityWindow {
		return doctor.Fault("key "+name, err)
	} else if err != nil {
		return doctor.Fault("key "+name, verdict.Refuse(verdict.SignedAsElse, "key", "the policy does not list this key in the %s role", role).Differ(strings.Join(p.Profile.Policy.Expected(role), " or "), who.String()).
			Advise(sign.OtherKey))
	}
	return doctor.Fine("key "+name, "%s", who)
}

func noToken(name string) error {
	return verdict.Refuse(verdict.Usage, "identity token", "no token was given for %s; use --identity-token %s=FILE or --identity %s=SOURCE", name, name, name).
		Advise("get a token, write it to a file that only you can read, and add the flag")
}

// examineServices checks the signing services if the purpose signs, and
// otherwise only the clocks of the places.
func (p checkup) examineServices(signs bool) doctor.Ask {
	world := doctor.World{Transport: p.Transport, Clock: p.Clock}
	if !signs {
		return world.Services(p.clocks())
	}
	services, err := servicesOf(p.job)
	if err == nil {
		err = forms(p).requireLog()
	}
	if err != nil {
		return answered(doctor.Fault("signing services", err))
	}
	return world.Services(doctor.Signing(services))
}

// clocks are the hosts of the release place: every HTTP answer has a date.
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

// examinePlace checks the places of one stage.
func (p checkup) examinePlace(ctx context.Context, at placeUse, planned plan.Plan, confirm bool) []doctor.Ask {
	uri, err := p.Profile.Files(at.stage, p.Version)
	if err != nil {
		return []doctor.Ask{answered(doctor.Fault(string(at.stage)+" files", err))}
	}
	files := doctor.Place{Name: string(at.stage), Closed: p.Profile.Policy.Closes(policy.Files) == policy.Require, Confirm: confirm}
	if files.Place, err = p.openPlace(uri); err == nil && at.write {
		files.Writer, err = p.OpenWriter(uri)
	}
	if err != nil {
		return []doctor.Ask{answered(doctor.Fault(files.Name+" files", err))}
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
		return append(asks, answered(doctor.Fault(files.Name+" registry", err)))
	}
	return append(asks, images.Ask())
}

// examineNames checks that the places can have the planned files: assets of a
// release on GitHub have no directories.
func (p checkup) examineNames(planned plan.Plan) doctor.Ask {
	names := []string{releasemanifest.Name}
	for _, a := range planned.Artifacts {
		if !a.IsImage() {
			names = append(names, a.Name)
		}
	}
	var checks []doctor.Check
	for _, stage := range []profile.Stage{profile.Staging, profile.Release} {
		uri, err := p.Profile.Files(stage, p.Version)
		if err != nil || !github.Is(uri) {
			continue
		}
		if name := string(stage) + " files, names"; github.CheckNames(names) != nil {
			checks = append(checks, doctor.Fault(name, github.CheckNames(names)))
		} else {
			checks = append(checks, doctor.Fine(name, "%s can be assets of %s", plural.Of(len(names), "planned file"), uri))
		}
	}
	return answered(checks...)
}

// repositories are those of the planned images; without a plan, those of the
// plan that is saved in the state directory.
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

// newVersion is the advice for a version that cannot be reused.
const newVersion = "a public release never changes, so release a new version: tag it, then run waybill stage"

// examinePublic checks whether the version is public already. No promotion
// overwrites what another run published under it, so nothing is built for it.
// A place that does not answer decides nothing.
func (p checkup) examinePublic() doctor.Ask {
	const name = "version"
	return func(ctx context.Context) []doctor.Check {
		at, err := p.filesAt(profile.Release)
		if err != nil {
			return []doctor.Check{doctor.Fault(name, err)}
		}
		m, _, err := p.manifest(ctx, at)
		switch {
		case errors.Is(err, store.ErrNotFound), isAbsent(at, err):
			return []doctor.Check{doctor.Fine(name, "%s is not public yet", p.Version)}
		case err != nil:
			return []doctor.Check{doctor.Doubt(name, "check the release place before you promote; promotion never overwrites files", "could not check whether %s is public: %v", p.Version, err)}
		case m.Version != p.Version:
			return []doctor.Check{doctor.Doubt(name, "check the release place in the profile", "%s has the manifest of %s", at.URI(), m.Version)}
		case m.Withdrawn != nil:
			return []doctor.Check{doctor.Fault(name, verdict.Refuse(verdict.Withdrawn, at.URI(), "%s is public and was withdrawn: %s", p.Version, m.Withdrawn.Reason).Advise(newVersion))}
		case !isOf(m, p.invocationHere()):
			return []doctor.Check{doctor.Fault(name, verdict.Refuse(verdict.FileConflict, at.URI(),
				"%s is public, built from commit %.12s by another run than the one in %s", p.Version, m.Source.Commit, p.State).
				Advise(newVersion+"; or give the --state directory of the run that published it"))}
		}
		return []doctor.Check{doctor.Fine(name, "%s is public, published by this run: valid results are reused", p.Version)}
	}
}

// isOf reports whether the manifest lists the run.
func isOf(m manifest.Manifest, run string) bool {
	return slices.ContainsFunc(m.Runs, func(r manifest.Run) bool { return r.ID == run })
}
