// Package run runs the steps of a plan and signs what it observed.
//
// The order matters for trust. The control plane, this package, reads the
// configuration from a commit; each step runs isolated; when every process of
// the step has ended, the control plane itself hashes the declared outputs,
// writes the provenance and lets the builder identity sign it; only then are
// the outputs released to the workspace. A step never writes provenance, and
// unsigned provenance is never written.
//
//	err := run.Run(ctx, run.Request{Plan: p, Source: s, Workspace: w, …})
//
// Outputs stay in the step's scratch directory until the provenance is
// signed, however long the signer waits for a service or for a fresh token.
// They are not reused by a later run, because that run could not verify them.
//
// A step is not run again if its provenance is valid and still matches its
// inputs and outputs.
//
// Other projects should not import this package: it changes without notice.
package run

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/waybill-release/waybill/pkg/backend/git"
	"github.com/waybill-release/waybill/pkg/backend/tracing/span"
	"github.com/waybill-release/waybill/pkg/judge/policy"
	"github.com/waybill-release/waybill/pkg/judge/verify"
	"github.com/waybill-release/waybill/pkg/produce/checkout"
	"github.com/waybill-release/waybill/pkg/produce/fetch"
	"github.com/waybill-release/waybill/pkg/produce/sandbox"
	"github.com/waybill-release/waybill/pkg/produce/sign"
	"github.com/waybill-release/waybill/pkg/produce/workspace"
	"github.com/waybill-release/waybill/pkg/release/plan"
	"github.com/waybill-release/waybill/pkg/tool/slice"
)

// Request says what to build, where, and who signs.
type Request struct {
	Plan      plan.Plan
	Source    Source
	Workspace *workspace.Workspace
	Machine   Machine
	Signer    *sign.Signer
	Trust     Trust
	// Rebuild says that the outputs are only compared: nothing is signed.
	Rebuild bool
	// Report prints progress, one call at a time, in the context of the act
	// that reports: a log line has that act's trace IDs.
	Report func(ctx context.Context, format string, args ...any)
	// Progress shows the steps that run; nil shows nothing.
	Progress Progress
}

// Machine is what the steps run on.
type Machine struct {
	Mode sandbox.Mode
	// Jobs is how many steps run at a time, at least one. A step that
	// declares processors counts for as many.
	Jobs      int
	Transport http.RoundTripper
	// Modules is the address of the module proxy for Go modules.
	Modules string
	// Secrets are redacted from logs.
	Secrets []string
}

// Trust is used to judge finished steps before they are reused.
type Trust struct {
	Verifier *verify.Verifier
	Policy   policy.Policy
	Clock    func() time.Time
	// Inputs verifies what the lock pins, before the first step runs; nil if
	// nothing is required of it.
	Inputs func(ctx context.Context, pins plan.Lock) error
}

// run is a build in progress. Its steps run concurrently; they share and
// write only the products.
type run struct {
	Request
	repo    *git.Repository                       // open once, so a remote one is fetched once
	tree    func(context.Context) (string, error) // the source, read-only
	store   *fetch.Store
	version func() map[string]string // of the builder
	fetched fetched

	products products
}

// Run builds every step of the plan, each as soon as its inputs exist.
func Run(ctx context.Context, req Request) error {
	repo, err := req.Source.Commit.Open(ctx)
	if err != nil {
		return err
	}
	defer repo.Close()
	r := &run{Request: req, repo: repo, products: products{space: req.Workspace, made: map[string]made{}}}
	r.version = sync.OnceValue(version)
	r.Report = oneByOne(req.Report)
	if r.Progress == nil {
		r.Progress = silent{}
	}
	if err := r.Workspace.Sweep(ctx); err != nil {
		return err
	}
	if r.store, err = fetch.Open(r.Workspace.Fetched(), req.Machine.Transport, r.Report); err != nil {
		return err
	}
	defer r.store.Close()
	scratch, err := r.Workspace.Scratch("source")
	if err != nil {
		return err
	}
	defer removeAll(ctx, scratch)
	r.tree = r.checkout(scratch)
	r.store.Source = r.tree
	if err := r.publishConfig(ctx); err != nil {
		return err
	}
	if r.fetched, err = r.fetch(ctx); err != nil {
		return r.unfetched(err)
	}
	return r.all(ctx, r.runOrReuse)
}

// oneByOne serializes the reports of concurrent steps.
func oneByOne(report func(context.Context, string, ...any)) func(context.Context, string, ...any) {
	var mu sync.Mutex
	return func(ctx context.Context, format string, args ...any) {
		mu.Lock()
		defer mu.Unlock()
		report(ctx, format, args...)
	}
}

// checkout writes the source once for all steps that read it. The commit ID
// authenticates it, and no step can change it.
func (r *run) checkout(scratch string) func(context.Context) (string, error) {
	var once sync.Once
	var err error
	dir := filepath.Join(scratch, "tree")
	return func(ctx context.Context) (string, error) {
		once.Do(func() { err = checkout.Checkout(ctx, r.Machine.Mode, r.repo, r.Source.Commit, dir) })
		return dir, err
	}
}

// publishConfig adds the commit's release.yaml and lock to the files, so a
// verifier can expand them itself.
func (r *run) publishConfig(ctx context.Context) error {
	files := map[string][]byte{plan.ConfigName: r.Source.Config}
	if r.Plan.Locked {
		files[plan.LockName] = r.Source.Lock
	}
	for name, raw := range files {
		if err := r.products.put(ctx, name, raw); err != nil {
			return err
		}
	}
	return nil
}

// runOrReuse reuses a finished step, or runs it.
func (r *run) runOrReuse(ctx context.Context, number int, step plan.Step) error {
	of := fmt.Sprintf("step %d of %d: %s", number, len(r.Plan.Steps), step.Instance)
	reused, err := (&earlierTry{r, step}).isDone(ctx)
	if err != nil {
		return err
	}
	if reused {
		r.Report(ctx, "%s is done already, reused", of)
		return nil
	}
	start := r.Trust.Clock()
	r.Progress.Began(step.Instance)
	ctx, end := span.Start(ctx, span.BuildStep, span.PipelineTaskName.String(step.Instance), span.PipelineTaskType.String("build"),
		span.HeadRevision.String(r.Source.Commit.Commit))
	err = r.step(ctx, step, start)
	end(err)
	r.Progress.Ended(step.Instance)
	if err != nil {
		return fmt.Errorf("step %s: %w", step.Instance, err)
	}
	r.Report(ctx, "%s, done in %s", of, r.Trust.Clock().Sub(start).Round(time.Millisecond))
	return nil
}

// step runs one step of any kind: make, sign, release the outputs. Its
// provenance is written last: outputs without it do not count.
func (r *run) step(ctx context.Context, step plan.Step, start time.Time) error {
	scratch, err := r.Workspace.Scratch(step.Instance)
	if err != nil {
		return err
	}
	defer removeAll(ctx, scratch)
	var out outputs
	switch {
	case step.Archive != nil:
		out, err = r.archive(ctx, step, scratch)
	case step.Checksums != nil:
		out, err = r.checksums(step, scratch)
	case step.Image != nil:
		out, err = r.image(ctx, step, scratch)
	default:
		out, err = r.command(ctx, step, scratch)
	}
	if err != nil {
		return err
	}
	if out.done != nil {
		defer out.done() //nolint:errcheck // the file was only read
	}
	signed, err := r.attest(ctx, step, out, start)
	if err != nil {
		return err
	}
	for _, o := range out.list {
		if err := o.release(ctx); err != nil {
			return fmt.Errorf("releasing %q: %w", o.name, err)
		}
		r.products.keep(o.name, made{digests: o.digests, size: o.size})
	}
	return slice.Check(signed, func(bundle signedBundle) error { return r.products.put(ctx, bundle.name, bundle.raw) })
}

func removeAll(ctx context.Context, dir string) {
	_ = sandbox.Remove(ctx, dir) // the next run removes a remaining scratch directory
}

// openLog creates the log of a step, replacing that of an earlier attempt.
func (r *run) openLog(step plan.Step) (*os.File, error) {
	path := r.Workspace.Log(step.Instance)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, fmt.Errorf("making the log: %w", err)
	}
	log, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o644) // only this process writes the log, whatever the mask allows
	if err != nil {
		return nil, fmt.Errorf("making the log: %w", err)
	}
	return log, nil
}
