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
	"time"

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

// sourceFor resolves the source in a preflight, which also checks everything
// else that the purpose needs before anything is done.
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

// begun is the workspace for the source; it is created if there is none.
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
		warnUnisolated(ctx, j, f.isolation)
	}
	return in, err
}

// create makes the workspace for f, or opens the existing one.
func create(ctx context.Context, j *job, f found) (*workspace.Workspace, error) {
	id := f.identity(invocation())
	_, id.Trace, _ = span.Stamp(ctx, trace.Create, trace.IDs{}) // recorded as the trace of a release that this run begins
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

// warnUnisolated reports how steps will run.
func warnUnisolated(ctx context.Context, j *job, report sandbox.Report) {
	if report.Mode != sandbox.Isolated {
		j.Report(ctx, "WARNING: steps run %s (%s); the build uses the builder id of unisolated builds and cannot claim level 3", report.Mode, report.Reason())
		return
	}
	for _, line := range report.Loud() {
		j.Report(ctx, "WARNING: %s", line)
	}
}

// opened is the existing workspace.
func opened(_ context.Context, j *job, in facts) (_ facts, err error) {
	if in.w == nil {
		in.w, err = workspace.Open(j.State)
	}
	return in, err
}

// built is a workspace in which a build has run, with the plan that its
// commit gives, in the forms in which the release is signed.
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
		return in, verdict.Refuse(verdict.Usage, j.State, "the state directory has %s, not %s", id.Version, j.Version).
			Advise("give that version, or with --state the directory of this one")
	}
	if in.source != nil && id.Commit.Commit != in.source.source.Commit.Commit {
		return in, otherRecord(j, "commit", in.source.source.Commit.Commit, id.Commit.Commit) // it fitted in the preflight
	}
	raw, err := readConfig(ctx, j, id.Commit)
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
	if older := planned.WithoutSBOMList(); older.Digest() == id.Plan {
		planned = older // begun before lists of SBOMs were planned: it keeps its plan
	}
	if planned.Digest() != id.Plan {
		return in, verdict.Refuse(verdict.PlanStale, j.State, "release.yaml expands to a different plan than the one that was built")
	}
	if planned, err = (forms{j}).planned(planned, w); err != nil {
		return in, err
	}
	in.w, in.plan = w, planned
	return in, nil
}

// ownClone refuses to sign for a commit that the record of the workspace reads
// from another clone than this command does. Another account may have written
// the record, and its clone proves nothing about the address that it names.
func ownClone(_ context.Context, j *job, in facts) (facts, error) {
	w, err := workspace.Open(j.State)
	if err != nil {
		return in, err
	}
	clone := w.Identity().Commit.Clone
	here, err := filepath.Abs(j.Source.Repository)
	if err != nil || clone == "" || j.Source.Repository != "" && clone == "git+file://"+filepath.ToSlash(here) {
		return in, err
	}
	return in, verdict.Refuse(verdict.SourceRepo, j.State, "it was built from the clone %q, and this command does not work in it", clone).
		Advise("name that clone with --source, if it is yours, or build again with --source " + w.Identity().Commit.Repository)
}

// readConfig reads release.yaml of the commit that a workspace records. Another
// account may have written the record: what it says of the commit has to be so.
func readConfig(ctx context.Context, j *job, recorded git.Commit) ([]byte, error) {
	r, err := recorded.Open(ctx)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	is, err := r.Resolve(ctx, recorded.Commit)
	switch {
	case err != nil:
		return nil, err
	case is.Tree != recorded.Tree:
		return nil, otherRecord(j, "tree", is.Tree, recorded.Tree)
	case !is.Time.Equal(recorded.Time):
		return nil, otherRecord(j, "time", is.Time.Format(time.RFC3339), recorded.Time.Format(time.RFC3339))
	}
	return r.ReadFile(ctx, is, plan.ConfigName)
}

func otherRecord(j *job, what, want, got string) error {
	return verdict.Refuse(verdict.SourceCommit, j.State, "the state directory records another %s than that of the source", what).Differ(want, got).
		Advise("find out who changed the state directory, and build again in another one")
}

// legacyLog requires a log for the legacy forms, if they are asked for.
func legacyLog(_ context.Context, j *job, in facts) (facts, error) { return in, forms{j}.requireLog() }

// accepted is the manifest in staging that may be published: the gate accepts
// it, or refuses it only because it is a withdrawal, and it adds nothing new.
func accepted(ctx context.Context, j *job, in facts) (facts, error) {
	if !in.accepted.IsZero() {
		return in, nil
	}
	out, err := runner{j}.perform(ctx, gateAct(profile.Staging), in)
	if v := out.verdict; err != nil && (v == nil || v == in.verdict || !refusedAsWithdrawn(v) || !(publishing{j}).onlyWithdraws(ctx)) {
		return in, err
	}
	in.accepted = manifestIn(out.verdict)
	return in, nil
}

// refusedAsWithdrawn reports whether all findings are withdrawals.
func refusedAsWithdrawn(v *verdict.Verdict) bool {
	return v.Outcome() == verdict.Refused && !slices.ContainsFunc(v.Findings, func(f verdict.Finding) bool { return f.Code != verdict.Withdrawn })
}

// legacyName is a file in the workspace: the release is also signed in the
// legacy forms, so those signatures are listed in the manifest, whoever seals
// it.
const legacyName = "legacy"

// forms are the forms in which a release is signed.
type forms struct{ *job }

// planned adds the forms that the workspace records to a plan; without a
// workspace, the ones that were asked for.
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

// requireLog refuses early if the legacy forms could not be signed. It
// contacts no service.
func (f forms) requireLog() error {
	if !f.Legacy {
		return nil
	}
	services, err := servicesOf(f.job)
	if err != nil {
		return err
	}
	return sign.NeedLegacy(services)
}

// remember writes to the workspace in which forms the release is signed.
func (f forms) remember(w *workspace.Workspace) error {
	if !f.Legacy {
		return nil
	}
	return w.Keep(legacyName, []byte("sha256-<digest>.sig, .att; <file>.sig, .cert\n"))
}
