package pipeline

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/waybill-release/waybill/pkg/backend/store"
	"github.com/waybill-release/waybill/pkg/document/intoto"
	"github.com/waybill-release/waybill/pkg/document/provenance"
	"github.com/waybill-release/waybill/pkg/document/rebuildrecord"
	"github.com/waybill-release/waybill/pkg/gate/profile"
	"github.com/waybill-release/waybill/pkg/judge/policy"
	"github.com/waybill-release/waybill/pkg/judge/verify"
	"github.com/waybill-release/waybill/pkg/produce/run"
	"github.com/waybill-release/waybill/pkg/produce/sandbox"
	"github.com/waybill-release/waybill/pkg/produce/workspace"
	"github.com/waybill-release/waybill/pkg/release/manifest"
	"github.com/waybill-release/waybill/pkg/release/plan"
	"github.com/waybill-release/waybill/pkg/tool/plural"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// rebuild is a rebuild in progress.
type rebuild struct {
	*job
	v         *verdict.Verdict
	published copyOf
	m         manifest.Manifest
	wanted    []manifest.Artifact
	said      map[string]provenance.Provenance // by the name of its file
	found     found
}

// Rebuild builds artifacts again from their provenance alone, and compares the
// bytes: those of what was found, or artifacts of a public release, all of them if
// none is named. What cannot be had again is reported before any step runs. The
// verdict accepts if all bytes are equal; it refuses if some differ, and is
// unavailable if the build could not be repeated.
func Rebuild(ctx context.Context, p *Pipeline, one *Found, names ...string) (*verdict.Verdict, Rebuilt, error) {
	r := &rebuild{job: p.job, v: verdict.New("rebuild of release "+p.Version.String(), p.Clock()), said: map[string]provenance.Provenance{}}
	r.v.Scope.Checks = []string{"provenance", "rebuild"}
	for _, act := range []func(context.Context) error{
		func(ctx context.Context) error { return r.find(ctx, one) }, func(ctx context.Context) error { return r.read(ctx, names) }, r.readSource, r.checkTools,
	} {
		if err := act(ctx); err != nil {
			r.v.AddError("release", err)
		}
		if len(r.v.Findings) > 0 {
			return r.v, Rebuilt{}, ctx.Err()
		}
	}
	same, err := r.buildAndCompare(ctx)
	if err != nil {
		r.v.AddError("release", err)
	}
	r.v.Counts.Required, r.v.Counts.Verified = len(r.wanted), len(same)
	made := Rebuilt{same, rebuildrecord.Predicate{
		Source: rebuildrecord.Source{Repository: r.m.Source.Repository, Commit: r.m.Source.Commit}, Isolation: string(r.found.isolation.Mode), FinishedOn: r.Clock().UTC().Truncate(time.Second),
	}}
	for _, p := range r.v.Proofs {
		if hex := p.Bundle.Hex(); !slices.Contains(made.said.Provenance, hex) {
			made.said.Provenance = append(made.said.Provenance, hex)
		}
	}
	return r.v, made, ctx.Err()
}

// Rebuilt are the artifacts that a rebuild made again with the same bytes.
type Rebuilt struct {
	subjects []intoto.Subject
	said     rebuildrecord.Predicate
}

// DraftRebuilt drafts the statement of a rebuilder. It is judged as a policy that
// lists the rebuilder judges it.
func (o Officer) DraftRebuilt(of Rebuilt, id string) (Draft, error) {
	of.said.Rebuilder.ID = id
	s, err := rebuildrecord.New(of.subjects, of.said)
	return o.DraftAs(rebuildrecord.Role, s), err
}

// PublishRebuilt signs a statement and writes it beside the manifest of the release
// of a pipeline, under the first name that is free.
func (o Officer) PublishRebuilt(ctx context.Context, p *Pipeline, d Draft) (string, verdict.Proof, error) {
	m, _, err := published(ctx, p.job, p.Version)
	if err != nil {
		return "", verdict.Proof{}, err
	}
	for _, s := range d.Statement.Subjects() { // verifiers refuse a release with a statement about others
		if a, is := m.Find(s.Name); !is || !s.Binds(a.Digests) {
			return "", verdict.Proof{}, verdict.Refuse(verdict.NotBound, s.Name, "built again with the same bytes, and no artifact of the release %s: nothing is signed", p.Version)
		}
	}
	_, at, err := o.filesOf(p.Version.String())
	for n := 1; err == nil; n++ {
		if _, err = o.read(ctx, Target{at, rebuildrecord.Name(n)}); errors.Is(err, store.ErrNotFound) {
			proof, err := o.Sign(ctx, d, Target{at, rebuildrecord.Name(n)})
			return rebuildrecord.Name(n), proof, err
		}
	}
	return "", verdict.Proof{}, err
}

// find reads and verifies the manifest, unless one artifact was found without it.
func (r *rebuild) find(ctx context.Context, one *Found) (err error) {
	if one != nil {
		r.m, r.published = one.m, one.published
		return nil
	}
	if r.published.files, err = r.filesAt(profile.Release); err != nil {
		return err
	}
	if prefix, err := r.Profile.Images(profile.Release, r.Version); err == nil && prefix != "" {
		if r.published.images, err = openImages(prefix, r.Transport); err != nil {
			return err
		}
	}
	r.m, _, err = published(ctx, r.job, r.Version)
	return verdict.AdviseOn("", err, "name a version that is public there, or the profile of the place where this one is", verdict.EvidenceMissing)
}

// read reads and verifies the provenance of what is wanted.
func (r *rebuild) read(ctx context.Context, names []string) (err error) {
	r.v.Subject, r.v.Source = r.m.Name+" "+r.Version.String(), r.m.Source.Repository+"@"+r.m.Source.Commit
	if err := r.choose(names); err != nil {
		return err
	}
	evidence := map[string]verify.Evidence{}
	for _, a := range r.wanted {
		e, there := evidence[a.Provenance]
		if !there {
			if e, err = r.readProvenance(ctx, a.Provenance); err != nil {
				return err
			}
			evidence[a.Provenance] = e
		}
		proof, err := r.Profile.Policy.Judge(e, policy.Ask{Role: policy.Builder, Kind: provenance.PredicateType, Subject: a.Name, Bytes: a.Digests})
		if err != nil {
			return err
		}
		r.v.Proofs = append(r.v.Proofs, proof)
	}
	return nil
}

// choose finds the artifacts that are to be built again: those with these names and
// what belongs to them, or all that were built.
func (r *rebuild) choose(names []string) error {
	for _, a := range r.m.Artifacts {
		if a.Provenance != "" && (len(names) == 0 || slices.Contains(names, a.Name) || slices.Contains(names, a.Of)) {
			r.wanted = append(r.wanted, a)
		}
	}
	for _, name := range names {
		if !slices.ContainsFunc(r.wanted, func(a manifest.Artifact) bool { return a.Name == name }) {
			return verdict.Refuse(verdict.Usage, name, "the release has no artifact of this name that was built").Advise("name artifacts as waybill inspect lists them in the manifest")
		}
	}
	if len(r.wanted) == 0 {
		return verdict.Refuse(run.RebuildFailed, "release", "nothing in it was built with provenance, so there is nothing to build again")
	}
	return nil
}

// readProvenance verifies the provenance in a file, and compares what it says
// with the manifest and with that of the other steps.
func (r *rebuild) readProvenance(ctx context.Context, name string) (e verify.Evidence, err error) {
	raw, err := store.Read(ctx, r.published.files, name, verify.MaxBundle)
	if err != nil {
		return e, err
	}
	if listed, _ := r.m.Find(name); !listed.Digests.SHA256.Equal(digest.Of(digest.SHA256, raw)) {
		return e, verdict.Refuse(verdict.Tampered, name, "not the bytes that the manifest lists")
	}
	if e, err = r.verifier.Attestation(raw); err != nil {
		return e, err
	}
	if err := r.Profile.Policy.Provenance(e, r.Version.String()); err != nil {
		return e, err
	}
	said, err := provenance.Parse(e.Statement())
	if err != nil {
		return e, &verdict.Error{Finding: verdict.Find(run.RebuildFailed, name, "no build of Waybill's, so nothing says how to repeat it: %v", err), Cause: err}
	}
	if found, differs := r.m.Source.Differs(name, said); differs {
		return e, &verdict.Error{Finding: found}
	}
	asked := said.BuildDefinition.ExternalParameters
	for other, one := range r.said {
		if before := one.BuildDefinition.ExternalParameters; asked.Config != before.Config || !maps.Equal(asked.Parameters, before.Parameters) {
			return e, verdict.Refuse(run.RebuildClaim, name, "it names another configuration or other parameters than %s", other)
		}
	}
	if asked.Version != r.Version.String() {
		return e, &verdict.Error{Finding: verdict.Find(run.RebuildClaim, name, "it is of another version").Differ(r.Version.String(), asked.Version)}
	}
	r.said[name] = said
	return e, nil
}

// readSource fetches the commit, and compares it with what the provenance says
// of it.
func (r *rebuild) readSource(ctx context.Context) (err error) {
	first := r.said[slices.Min(slices.Collect(maps.Keys(r.said)))]
	asked, ref := first.BuildDefinition.ExternalParameters, first.SourceCommit()
	for _, one := range first.BuildDefinition.ResolvedDependencies {
		if one.Name == "release commit" {
			ref = one.Digest["gitCommit"]
		}
	}
	from := Source{Repository: cmp.Or(r.Source.Repository, r.m.Source.Repository), Ref: ref}
	if r.found.plan, r.found.source, err = ReadPlan(ctx, from, r.Version, asked.Parameters); err != nil {
		code := run.SourceGone
		if slices.Contains([]verdict.Code{verdict.LockStale, verdict.ConfigParse}, verdict.FindingOf("", err).Code) {
			code = run.RebuildClaim
		}
		return &verdict.Error{Finding: verdict.Find(code, from.Repository, "commit %.12s: %v", ref, err), Cause: err}
	}
	r.found.plan.Steps = run.Needs(r.found.plan.Steps, func(s plan.Step) bool {
		return slices.ContainsFunc(slices.Collect(maps.Values(r.said)), func(said provenance.Provenance) bool { return isOfStep(said, s) })
	})
	for _, name := range slices.Sorted(maps.Keys(r.said)) {
		if err := r.compareClaim(name, r.said[name]); err != nil {
			return err
		}
	}
	for i, a := range r.wanted {
		n := slices.IndexFunc(r.found.plan.Artifacts, func(planned plan.Artifact) bool { return planned.Name == a.Name })
		if n < 0 {
			return verdict.Refuse(run.RebuildClaim, a.Name, "the source makes no artifact of this name")
		}
		r.wanted[i].Artifact = r.found.plan.Artifacts[n]
	}
	return nil
}

// isOfStep reports whether provenance says that it is of a step.
func isOfStep(said provenance.Provenance, s plan.Step) bool {
	asked := said.BuildDefinition.ExternalParameters
	return asked.Step == s.Name && maps.Equal(asked.Each, s.Each)
}

// compareClaim refuses provenance that says something else of its source than the
// source does: another commit, configuration, lock, command, environment or network.
func (r *rebuild) compareClaim(name string, said provenance.Provenance) error {
	i := slices.IndexFunc(r.found.plan.Steps, func(s plan.Step) bool { return isOfStep(said, s) })
	if i < 0 {
		return verdict.Refuse(run.RebuildClaim, name, "the release.yaml that it names has no such step")
	}
	commit, inside := r.found.source.Commit, said.BuildDefinition.InternalParameters
	step, lock, network := r.found.plan.Steps[i].At(commit.Commit, commit.Epoch()), digest.Set{}, []string(nil)
	if inside.Walls != nil {
		network = inside.Walls.Network
	}
	if len(step.Run) == 0 { // no command has it
		step.Env, step.Network = nil, nil
	}
	if r.found.plan.Locked {
		lock = digest.SetOf(r.found.source.Lock)
	}
	for _, claim := range []struct{ what, want, got string }{
		{"commit", commit.Commit, said.SourceCommit()},
		{plan.ConfigName, digest.Of(digest.SHA256, r.found.source.Config).Hex(), said.BuildDefinition.ExternalParameters.Config.SHA256},
		{plan.LockName, lock.SHA256.Hex(), said.Used(plan.LockName).SHA256.Hex()},
		{"command", fmt.Sprintf("%q", step.Run), fmt.Sprintf("%q", inside.Command)},
		{"environment", fmt.Sprintf("%q", step.Env), fmt.Sprintf("%q", inside.Env)},
		{"network", fmt.Sprintf("%q", step.Network), fmt.Sprintf("%q", network)},
	} {
		if claim.want != claim.got {
			return &verdict.Error{Finding: verdict.Find(run.RebuildClaim, name, "the source that it names has another %s", claim.what).Differ(claim.want, claim.got)}
		}
	}
	if len(step.Network) > 0 {
		return verdict.Refuse(run.InputGone, step.Instance, "the step could reach %s, and what it read there is not recorded", strings.Join(step.Network, ", "))
	}
	return nil
}

// checkTools reports each tool that this machine has not, or that the lock pins
// with another digest than the provenance.
func (r *rebuild) checkTools(context.Context) error {
	checked := map[string]bool{}
	for _, name := range slices.Sorted(maps.Keys(r.said)) {
		for _, one := range r.said[name].BuildDefinition.ResolvedDependencies {
			tool, is := strings.CutPrefix(one.Name, "tool ")
			key := fmt.Sprint(one.Name, one.Digest)
			if !is || checked[key] {
				continue
			}
			checked[key] = true
			pin := r.found.source.Pins.Tools[tool]
			if want := pin.Digest; !want.IsZero() && want.Hex() != one.Digest["sha256"] {
				r.v.Add(verdict.Find(run.RebuildClaim, name, "%s is not what the lock of its source pins", one.Name).Differ(want.String(), "sha256:"+one.Digest["sha256"]))
			} else if pin.Image == "" {
				if err := run.HasTool(cmp.Or(pin.Program, tool), one); err != nil {
					r.v.AddError(one.Name, err)
				}
			}
		}
	}
	return nil
}

// buildAndCompare builds in a directory of its own, and compares.
func (r *rebuild) buildAndCompare(ctx context.Context) (same []intoto.Subject, err error) {
	dir, remove, err := scratch(ctx, r.job, &r.found)
	if err != nil {
		return nil, err
	}
	defer remove()
	built, err := buildUnsigned(ctx, r.job, filepath.Join(dir, "build"), r.found, runtime.GOMAXPROCS(0))
	if err != nil {
		return nil, err
	}
	if same, err = (comparison{want: r.published, got: built, tag: r.Version.ImageTag()}).judge(ctx, r.v, r.wanted); err != nil {
		return same, err
	}
	r.v.Tell("%d of %s built again from commit %.12s with the same bytes.", len(same), plural.Of(len(r.wanted), "artifact"), r.m.Source.Commit)
	return same, nil
}

// scratch is a directory for builds that are only compared, and finds out how
// their steps are isolated.
func scratch(ctx context.Context, j *job, f *found) (dir string, remove func(), err error) {
	f.isolation = sandbox.Examine(ctx)
	warnUnisolated(ctx, j, f.isolation)
	dir, err = os.MkdirTemp("", "waybill-rebuild-")
	return dir, func() { _ = sandbox.Remove(context.WithoutCancel(ctx), dir) }, err // it is temporary
}

// buildUnsigned runs steps, jobs at a time, without signing what they make.
func buildUnsigned(ctx context.Context, j *job, dir string, f found, jobs int) (copyOf, error) {
	w, err := workspace.Create(dir, f.identity(invocation()))
	if err != nil {
		return copyOf{}, err
	}
	err = run.Run(ctx, run.Request{
		Plan: f.plan, Source: f.source, Workspace: w, Rebuild: true, Report: j.Report, Progress: j.Progress,
		Machine: run.Machine{Mode: f.isolation.Mode, Jobs: jobs, Transport: j.Transport, Modules: j.Profile.ModuleProxy},
		Trust:   run.Trust{Verifier: j.verifier, Policy: j.Profile.Policy, Clock: j.Clock},
	})
	if err != nil && ctx.Err() == nil {
		err = unbuilt(err)
	}
	return copyOf{w.Files(), w.Images()}, err
}

// unbuilt says why a build could not be repeated. No reason for that says anything
// about the release, so none is a refusal.
func unbuilt(err error) error {
	if slices.Contains([]verdict.Code{run.InputGone, run.ToolchainUnavailable}, verdict.FindingOf("", err).Code) {
		return err
	}
	return &verdict.Error{Finding: verdict.Find(run.RebuildFailed, "build", "%v", err), Cause: err}
}
