package pipeline

import (
	"context"
	"fmt"

	"github.com/waybill-release/waybill/pkg/build"
	"github.com/waybill-release/waybill/pkg/policy"
	"github.com/waybill-release/waybill/pkg/profile"
	"github.com/waybill-release/waybill/pkg/release"
	"github.com/waybill-release/waybill/pkg/sandbox"
	"github.com/waybill-release/waybill/pkg/seal"
	"github.com/waybill-release/waybill/pkg/verdict"
)

// Build runs the steps of the plan; the builder identity signs what came out.
func (p *Pipeline) Build(ctx context.Context) error {
	planned, source, w, err := p.start(ctx)
	if err != nil {
		return err
	}
	mode, token := p.isolation()
	if _, given := p.Tokens[token]; !given && mode != sandbox.Isolated {
		return verdict.Refuse(verdict.NotIsolated, "build", "steps cannot be isolated here, and no identity for an unisolated builder was given; use --identity-token %s=FILE", token)
	}
	signer, err := p.signer(policy.Builder, token)
	if err != nil {
		return err
	}
	p.Report("build %s %s from %.12s, steps run %s", planned.Name, planned.Version, source.Commit.Commit, mode)
	return build.Run(ctx, build.Request{
		Plan: planned, Source: source, Workspace: w, Mode: mode, Signer: signer, Transport: p.Transport, Report: p.Report,
		Trust: build.Trust{Verifier: p.verifier, Policy: p.Profile.Policy, Clock: p.Clock},
	})
}

// Sign signs every planned file and image.
func (p *Pipeline) Sign(ctx context.Context) error {
	req, err := p.sealRequest(ctx)
	if err != nil {
		return err
	}
	return seal.Sign(ctx, req)
}

// Seal signs the manifest: the closed list of everything in the release.
func (p *Pipeline) Seal(ctx context.Context) (release.Manifest, error) {
	req, err := p.sealRequest(ctx)
	if err != nil {
		return release.Manifest{}, err
	}
	return seal.Run(ctx, req)
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
// promotion to staging, and the gate's decision about what lies there.
func (p *Pipeline) Stage(ctx context.Context) (*verdict.Verdict, error) {
	stages := []struct {
		name string
		run  func(context.Context) error
	}{
		{"build", p.Build},
		{"sbom", p.SBOM},
		{"sign", p.Sign},
		{"seal", func(ctx context.Context) error { _, err := p.Seal(ctx); return err }},
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
