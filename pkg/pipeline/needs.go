package pipeline

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/waybill-release/waybill/pkg/backend/git"
	"github.com/waybill-release/waybill/pkg/backend/tracing/span"
	"github.com/waybill-release/waybill/pkg/gate/profile"
	"github.com/waybill-release/waybill/pkg/pipeline/doctor"
	"github.com/waybill-release/waybill/pkg/produce/sandbox"
	"github.com/waybill-release/waybill/pkg/produce/sign"
	"github.com/waybill-release/waybill/pkg/produce/workspace"
	"github.com/waybill-release/waybill/pkg/release/plan"
	"github.com/waybill-release/waybill/pkg/value/trace"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// sourceFor is what a preflight found of the source; before anything is done
// everything else that the purpose needs is looked at, too.
func sourceFor(purpose doctor.Purpose) need {
	return func(ctx context.Context, j *job, in facts) (facts, error) {
		if in.source != nil {
			return in, nil
		}
		all, err := preflight(ctx, purpose, j)
		if err == nil {
			in.source = &all[0]
		}
		return in, err
	}
}

// begun is the workspace that fits the source, made if there is none.
func begun(ctx context.Context, j *job, in facts) (_ facts, err error) {
	if in.w != nil {
		return in, nil
	}
	f := *in.source
	if f.plan.IsGiven() {
		return in, anotherTool()
	}
	in.w, err = create(ctx, j, f)
	if err == nil {
		warnOfWalls(ctx, j, f.walls)
	}
	return in, err
}

// create makes the workspace of what was found, or opens the one that fits.
func create(ctx context.Context, j *job, f found) (*workspace.Workspace, error) {
	id := f.identity(invocation())
	_, id.Trace, _ = span.Stamp(ctx, trace.Create, trace.IDs{}) // what a release that begins in this run remembers of it
	w, err := workspace.Create(j.State, id)
	if err != nil {
		return nil, err
	}
	return w, w.SavePlan(f.plan)
}

func invocation() string {
	id := make([]byte, 16)
	_, _ = rand.Read(id) // never fails: crypto/rand ends the program instead
	return hex.EncodeToString(id)
}

// warnOfWalls says how steps will run.
func warnOfWalls(ctx context.Context, j *job, walls sandbox.Report) {
	if walls.Mode != sandbox.Isolated {
		j.Report(ctx, "WARNING: steps run %s (%s); the builder id is that of unisolated builds and no level 3 can be claimed", walls.Mode, walls.Reason())
		return
	}
	for _, line := range walls.Loud() {
		j.Report(ctx, "WARNING: %s", line)
	}
}

// opened is the workspace that is there.
func opened(_ context.Context, j *job, in facts) (_ facts, err error) {
	if in.w == nil {
		in.w, err = workspace.Open(j.State)
	}
	return in, err
}

// built is a workspace that a build has made, with the plan that its commit
// gives, in the forms in which the release is signed.
func built(ctx context.Context, j *job, in facts) (facts, error) {
	if in.plan.Name != "" {
		return in, nil
	}
	w, err := workspace.Open(j.State)
	if err != nil {
		return in, err
	}
	id := w.Identity()
	if id.Version != j.Version {
		return in, verdict.Refuse(verdict.Usage, j.State, "it holds %s, not %s", id.Version, j.Version).
			Advise("name that version, or with --state the directory of this one")
	}
	raw, err := git.ReadFile(ctx, id.Commit, plan.ConfigName)
	if err != nil {
		return in, err
	}
	config, err := plan.ParseConfig(raw)
	if err != nil {
		return in, err
	}
	planned, err := config.ExpandWith(j.Version, j.parametersHere())
	if err != nil {
		return in, err
	}
	if planned.Digest() != id.Plan {
		return in, verdict.Refuse(verdict.PlanStale, j.State, "release.yaml expands to another plan than the one that was built")
	}
	if planned, err = (forms{j}).planned(planned, w); err != nil {
		return in, err
	}
	in.w, in.plan = w, planned
	return in, nil
}

// legacyLog is a log for the legacy forms, if they are asked for.
func legacyLog(_ context.Context, j *job, in facts) (facts, error) { return in, forms{j}.need() }

// accepted is the manifest in staging that may go out: the gate accepts it, or
// refuses it for nothing but a withdrawal, and it brings nothing new.
func accepted(ctx context.Context, j *job, in facts) (facts, error) {
	if !in.accepted.IsZero() {
		return in, nil
	}
	out, err := runner{j}.perform(ctx, decide(profile.Staging), in)
	if v := out.verdict; err != nil && (v == nil || v == in.verdict || !refusedAsWithdrawn(v) || !(publishing{j}).onlyWithdraws(ctx)) {
		return in, err
	}
	in.accepted = manifestIn(out.verdict)
	return in, nil
}

// refusedAsWithdrawn reports whether a withdrawal is all that was found.
func refusedAsWithdrawn(v *verdict.Verdict) bool {
	return v.Outcome() == verdict.Refused && !slices.ContainsFunc(v.Findings, func(f verdict.Finding) bool { return f.Code != verdict.Withdrawn })
}

// legacyName is the file of a workspace that says that its release is signed in
// the legacy forms, too: what was signed so is listed, whoever seals it.
const legacyName = "legacy"

// forms are those in which a release is signed.
type forms struct{ *job }

// planned is a plan with the forms of a workspace; without one those that are asked
// for.
func (f forms) planned(planned plan.Plan, w *workspace.Workspace) (plan.Plan, error) {
	if f.Legacy {
		return planned.WithLegacy()
	}
	if w == nil {
		return planned, nil
	}
	_, err := os.Stat(filepath.Join(w.Dir(), legacyName))
	if errors.Is(err, fs.ErrNotExist) {
		return planned, nil
	}
	if err != nil {
		return plan.Plan{}, err
	}
	return planned.WithLegacy()
}

// need refuses to begin what could not be signed in the legacy forms. It asks
// nobody.
func (f forms) need() error {
	if !f.Legacy {
		return nil
	}
	services, err := servicesOf(f.job)
	if err != nil {
		return err
	}
	return sign.NeedLegacy(services)
}

// remember writes down in which forms a workspace's release is signed.
func (f forms) remember(w *workspace.Workspace) error {
	if !f.Legacy {
		return nil
	}
	return w.Keep(legacyName, []byte("sha256-<digest>.sig, .att; <file>.sig, .cert\n"))
}
