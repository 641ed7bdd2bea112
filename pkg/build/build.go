// Package build runs the steps of a plan and signs what it saw.
//
// The order is one of trust. The control plane, this package, reads the
// configuration from a commit; each step runs where it can reach nothing; when
// every process of the step is dead, the control plane hashes the declared
// outputs itself, writes the provenance and has the builder identity sign it;
// only then do the outputs leave. A step never writes provenance, and no
// unsigned provenance is ever written.
//
//	err := build.Run(ctx, build.Request{Plan: p, Source: s, Workspace: w, …})
//
// A step whose provenance is there, holds, and still fits its files is not
// run again.
package build

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/waybill-release/waybill/pkg/digest"
	"github.com/waybill-release/waybill/pkg/plan"
	"github.com/waybill-release/waybill/pkg/policy"
	"github.com/waybill-release/waybill/pkg/provenance"
	"github.com/waybill-release/waybill/pkg/sandbox"
	"github.com/waybill-release/waybill/pkg/sign"
	"github.com/waybill-release/waybill/pkg/vcs"
	"github.com/waybill-release/waybill/pkg/verify"
	"github.com/waybill-release/waybill/pkg/workspace"
)

// Request says what to build, where, and who signs.
type Request struct {
	Plan      plan.Plan
	Source    Source
	Workspace *workspace.Workspace
	Mode      sandbox.Mode
	Signer    *sign.Signer
	Trust     Trust
	Transport http.RoundTripper
	Report    func(format string, args ...any)
}

// Trust is what finished steps are judged with before they are reused.
type Trust struct {
	Verifier *verify.Verifier
	Policy   policy.Policy
	Clock    func() time.Time
}

// run is one build under way.
type run struct {
	Request
	repo  *vcs.Repository // open once, so that a remote one is fetched once
	made  map[string]made
	tools map[string]provenance.Resource
}

// made is an output that has left its step.
type made struct {
	digests digest.Set
	size    int64
}

// Run builds every step of the plan, in order.
func Run(ctx context.Context, req Request) error {
	repo, err := vcs.Open(ctx, req.Source.Commit.Repository)
	if err != nil {
		return err
	}
	defer repo.Close()
	r := &run{Request: req, repo: repo, made: map[string]made{}}
	if err := r.publishConfig(ctx); err != nil {
		return err
	}
	if r.tools, err = pinnedTools(req.Source.Pins); err != nil {
		return err
	}
	for i, step := range req.Plan.Steps {
		reused, err := r.reuse(ctx, step)
		if err != nil {
			return err
		}
		if reused {
			r.Report("step %d of %d: %s is done already", i+1, len(req.Plan.Steps), step.Instance)
			continue
		}
		start := req.Trust.Clock()
		if err := r.step(ctx, step, start); err != nil {
			return fmt.Errorf("step %s: %w", step.Instance, err)
		}
		r.Report("step %d of %d: %s, done in %s", i+1, len(req.Plan.Steps), step.Instance, req.Trust.Clock().Sub(start).Round(time.Millisecond))
	}
	return nil
}

// publishConfig puts release.yaml and its lock among the files, as they are
// in the commit, so that a verifier can expand them itself.
func (r *run) publishConfig(ctx context.Context) error {
	files := map[string][]byte{plan.ConfigName: r.Source.Config}
	if r.Plan.Locked {
		files[plan.LockName] = r.Source.Lock
	}
	for name, raw := range files {
		if err := r.put(ctx, name, raw); err != nil {
			return err
		}
	}
	return nil
}

// step runs one step of any kind: make, sign, release the outputs.
func (r *run) step(ctx context.Context, step plan.Step, start time.Time) error {
	scratch, err := r.Workspace.Scratch(step.Instance)
	if err != nil {
		return err
	}
	defer removeAll(scratch)
	var out outputs
	switch {
	case step.Archive != nil:
		out, err = r.archive(ctx, step, scratch)
	case step.Checksums != nil:
		out, err = r.checksums(step, scratch)
	case step.Image != nil:
		out, err = r.image(ctx, step)
	default:
		out, err = r.command(ctx, step, scratch)
		out.inputs = append(r.toolsOf(step), out.inputs...)
	}
	if err != nil {
		return err
	}
	bundle, err := r.attest(ctx, step, out, start)
	if err != nil {
		return err
	}
	for _, o := range out.list {
		if err := o.release(ctx); err != nil {
			return fmt.Errorf("releasing %q: %w", o.name, err)
		}
		r.made[o.name] = made{digests: o.digests, size: o.size}
	}
	return r.put(ctx, plan.ProvenanceName(step.Instance), bundle)
}

// outputs is what a step made, hashed, and not yet released, with what went
// into it besides the source.
type outputs struct {
	list    []output
	inputs  []provenance.Resource
	command []string
	env     []string
}

type output struct {
	name    string
	digests digest.Set
	size    int64
	release func(context.Context) error
}
