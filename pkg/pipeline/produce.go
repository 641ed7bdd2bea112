package pipeline

import (
	"context"
	"runtime"
	"slices"
	"time"

	"github.com/waybill-release/waybill/pkg/backend/git"
	"github.com/waybill-release/waybill/pkg/produce/run"
	"github.com/waybill-release/waybill/pkg/produce/seal"
	"github.com/waybill-release/waybill/pkg/produce/sign/token"
	"github.com/waybill-release/waybill/pkg/release/plan"
)

// runSteps runs the steps of the plan. It does not return the plan: the next
// act reads it from the state directory, as a continued run does.
func runSteps(ctx context.Context, t tools, in facts) (facts, error) {
	if err := t.signer.Prepare(ctx); err != nil {
		return in, err
	}
	f := in.source
	warnOfLife(ctx, t.job, f.builder, f.plan)
	reportTag(ctx, t.job, f.source)
	t.Report(ctx, "build %s %s from %.12s, steps run %s", f.plan.Name, f.plan.Version, f.source.Commit.Commit, f.isolation.Mode)
	err := run.Run(ctx, run.Request{
		Plan: f.plan, Source: f.source, Workspace: in.w, Signer: t.signer, Report: t.Report, Progress: t.Progress,
		Machine: run.Machine{Mode: f.isolation.Mode, Jobs: runtime.GOMAXPROCS(0), Transport: t.Transport, Modules: t.Profile.ModuleProxy, Secrets: secrets(t.Tokens)},
		Trust:   run.Trust{Verifier: t.verifier, Policy: t.Profile.Policy, Clock: t.Clock, Inputs: t.verifyInputs},
	})
	if err == nil {
		t.summary.Reused = len(provenances(f.plan)) - t.signer.Tally().Made
	}
	return in, err
}

func (t tools) verifyInputs(ctx context.Context, pins plan.Lock) error {
	lines, err := t.Gate.Inputs(ctx, pins, t.Clock())
	for _, line := range lines {
		t.Report(ctx, "%s", line)
	}
	return err
}

// provenances are the artifacts that the builder signs, in all planned forms.
func provenances(planned plan.Plan) (list []plan.Artifact) {
	return slices.DeleteFunc(slices.Clone(planned.Artifacts), func(a plan.Artifact) bool {
		return a.Class != plan.Provenance && a.Class != plan.ProvenanceV02
	})
}

// secrets are the tokens of this release, which are redacted from logs.
func secrets(tokens map[string]token.Source) (list []string) {
	for _, source := range tokens {
		file, is := source.(token.File)
		if !is {
			continue // given to this process only
		}
		if text, err := file.Token(context.Background()); err == nil && text != "" {
			list = append(list, text)
		}
	}
	return list
}

// reportTag reports what provenance will say about the tag.
func reportTag(ctx context.Context, j *job, s run.Source) {
	switch {
	case s.Tag.Signer != "":
		j.Report(ctx, "%s is signed by %s", s.Commit.Ref, s.Tag.Signer)
	case s.Tag != (git.Tag{}):
		j.Report(ctx, "%s: the tag's signer is not verified: %s", s.Commit.Ref, s.Tag.NotVerified)
	}
	if s.Commit.Release != "" {
		j.Report(ctx, "%s is the empty commit %.12s; building its parent", s.Commit.Ref, s.Commit.Release)
	}
}

// warnOfLife warns if a token may expire during a step.
func warnOfLife(ctx context.Context, j *job, name string, planned plan.Plan) {
	file, is := j.Tokens[name].(token.File)
	if !is {
		return
	}
	longest, step := time.Duration(0), ""
	for _, s := range planned.Steps {
		if s.Limits == nil {
			continue
		}
		if limit := time.Duration(s.Limits.Seconds) * time.Second; limit > longest {
			longest, step = limit, s.Instance
		}
	}
	text, err := file.Token(ctx)
	if err != nil {
		return // signing reports the error
	}
	said, err := token.Read(text)
	if left := said.Expires.Sub(j.Clock()); err == nil && left < longest {
		j.Report(ctx, "WARNING: the token in %s expires in %s, but step %s may take up to %s: write a fresh token to the file in time; after the step, the build waits up to %s for it",
			string(file), left.Round(time.Second), step, longest, j.Work.Patience)
	}
}

// sealing runs do on a built release as the release identity. do returns how
// many signatures existed already.
func sealing(do func(context.Context, seal.Request) (held int, err error)) func(context.Context, tools, facts) (facts, error) {
	return func(ctx context.Context, t tools, in facts) (facts, error) {
		if err := (forms{t.job}).remember(in.w); err != nil {
			return in, err
		}
		req := t.request(in.plan, in.w)
		req.Signer, req.Examined, req.History = t.signer, in.examined, historyOf(in.w, t.Typed)
		held, err := do(ctx, req)
		t.summary.Reused += held
		return in, err
	}
}

func signAll(ctx context.Context, req seal.Request) (int, error) {
	done, err := seal.Sign(ctx, req)
	return done.Held, err
}

func sealAll(ctx context.Context, req seal.Request) (int, error) {
	_, err := seal.Run(ctx, req)
	return 0, err
}
