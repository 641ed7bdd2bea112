package pipeline

import (
	"context"
	"fmt"
	"runtime"

	"github.com/waybill-release/waybill/pkg/build"
	"github.com/waybill-release/waybill/pkg/doctor"
	"github.com/waybill-release/waybill/pkg/journal"
	"github.com/waybill-release/waybill/pkg/policy"
	"github.com/waybill-release/waybill/pkg/profile"
	"github.com/waybill-release/waybill/pkg/seal"
	"github.com/waybill-release/waybill/pkg/verdict"
	"github.com/waybill-release/waybill/pkg/workspace"
)

// Build runs the steps of the plan; the builder identity signs what came out.
func (p *Pipeline) Build(ctx context.Context) error {
	f, w, err := p.start(ctx)
	if err != nil {
		return err
	}
	mode, token := p.isolation(f.walls)
	signer, err := p.signer(policy.Builder, token)
	if err != nil {
		return err
	}
	if err := signer.Prepare(ctx); err != nil {
		return err
	}
	p.sayTag(f.source)
	p.Report("build %s %s from %.12s, steps run %s", f.plan.Name, f.plan.Version, f.source.Commit.Commit, mode)
	return p.journaled(ctx, w, "build", func() error {
		return build.Run(ctx, build.Request{
			Plan: f.plan, Source: f.source, Workspace: w, Signer: signer, Report: p.Report, Progress: p.Progress,
			Machine: build.Machine{Mode: mode, Jobs: runtime.GOMAXPROCS(0), Transport: p.Transport, Modules: p.Profile.ModuleProxy, Secrets: p.secrets()},
			Trust:   build.Trust{Verifier: p.verifier, Policy: p.Profile.Policy, Clock: p.Clock},
		})
	})
}

// secrets are the tokens of this release, which no log may hold.
func (p *Pipeline) secrets() (list []string) {
	for _, path := range p.Tokens {
		if token, err := readToken(path); err == nil && token != "" {
			list = append(list, token)
		}
	}
	return list
}

// Sign signs every planned file and image.
func (p *Pipeline) Sign(ctx context.Context) error {
	req, err := p.sealRequest(ctx)
	if err != nil {
		return err
	}
	return p.journaled(ctx, req.Workspace, "sign", func() error { return seal.Sign(ctx, req) })
}

// Seal signs the manifest: the closed list of everything in the release.
func (p *Pipeline) Seal(ctx context.Context) error {
	req, err := p.sealRequest(ctx)
	if err != nil {
		return err
	}
	return p.journaled(ctx, req.Workspace, "seal", func() error {
		_, err := seal.Run(ctx, req)
		return err
	})
}

// journaled does one act on a workspace, alone, and remembers that it was
// done. The journal is a hint for people; what resumes looks at the files.
func (p *Pipeline) journaled(ctx context.Context, w *workspace.Workspace, act string, do func() error) error {
	j, err := journal.Open(w.Journal())
	if err != nil {
		return err
	}
	defer j.Close()
	if err := do(); err != nil {
		return err
	}
	return j.Append(ctx, journal.Entry{Time: p.Clock().UTC(), Act: act, Subject: w.Identity().Name + " " + w.Identity().Version.String()})
}

func (p *Pipeline) sealRequest(ctx context.Context) (seal.Request, error) {
	planned, w, err := p.resume(ctx)
	if err != nil {
		return seal.Request{}, err
	}
	signer, err := p.signer(policy.Release, TokenRelease)
	if err != nil {
		return seal.Request{}, err
	}
	return seal.Request{
		Plan: planned, Workspace: w, Verifier: p.verifier, Policy: p.Profile.Policy, Signer: signer, Clock: p.Clock, Report: p.Report,
	}, nil
}

// Stage takes a ref to the staging place: plan, build, sbom, sign, seal,
// promotion to staging, and the gate's decision about what lies there. What it
// takes is looked at before the first of them.
func (p *Pipeline) Stage(ctx context.Context) (*verdict.Verdict, error) {
	if p.begun == nil {
		if err := p.Preflight(ctx, doctor.Stage); err != nil {
			return nil, err
		}
	}
	stages := []struct {
		name string
		run  func(context.Context) error
	}{
		{"build", p.Build},
		{"sbom", p.SBOM},
		{"sign", p.Sign},
		{"seal", p.Seal},
		{"promote to staging", p.PromoteToStaging},
	}
	for _, s := range stages {
		p.Report("— %s", s.name)
		if err := s.run(ctx); err != nil {
			return nil, fmt.Errorf("%s: %w", s.name, err)
		}
	}
	p.Report("— gate")
	return p.Gate(ctx, profile.Staging)
}

// Release takes a staged release to the public: the gate decides about what
// lies in staging, the promotion copies exactly that, and the release is
// verified where users will find it.
func (p *Pipeline) Release(ctx context.Context) (*verdict.Verdict, error) {
	p.Report("— gate")
	v, err := p.Gate(ctx, profile.Staging)
	if err != nil || v.Err() != nil {
		return v, err
	}
	p.Report("— promote")
	if err := p.PromoteToRelease(ctx); err != nil {
		return nil, fmt.Errorf("promote: %w", err)
	}
	p.Report("— verify")
	return p.Gate(ctx, profile.Release)
}
