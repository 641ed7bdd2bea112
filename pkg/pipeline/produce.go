package pipeline

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"

	"github.com/waybill-release/waybill/pkg/build"
	"github.com/waybill-release/waybill/pkg/doctor"
	"github.com/waybill-release/waybill/pkg/journal"
	"github.com/waybill-release/waybill/pkg/plan"
	"github.com/waybill-release/waybill/pkg/policy"
	"github.com/waybill-release/waybill/pkg/profile"
	"github.com/waybill-release/waybill/pkg/seal"
	"github.com/waybill-release/waybill/pkg/sign"
	"github.com/waybill-release/waybill/pkg/sign/token"
	"github.com/waybill-release/waybill/pkg/trace"
	"github.com/waybill-release/waybill/pkg/trace/carry"
	"github.com/waybill-release/waybill/pkg/verdict"
	"github.com/waybill-release/waybill/pkg/workspace"
)

// Build runs the steps of the plan; the builder identity signs what came out.
func (p *Pipeline) Build(ctx context.Context) error {
	f, w, err := p.start(ctx)
	if err != nil {
		return err
	}
	mode, name := p.isolation(ctx, f.walls)
	return p.signing(ctx, w, act{ActBuild, policy.Builder, name}, func(ctx context.Context, signer *sign.Signer, s *Summary) error {
		if err := signer.Prepare(ctx); err != nil {
			return err
		}
		p.warnOfLife(ctx, name, f.plan)
		p.sayTag(ctx, f.source)
		p.Report(ctx, "build %s %s from %.12s, steps run %s", f.plan.Name, f.plan.Version, f.source.Commit.Commit, mode)
		err := build.Run(ctx, build.Request{
			Plan: f.plan, Source: f.source, Workspace: w, Signer: signer, Report: p.Report, Progress: p.Progress,
			Machine: build.Machine{Mode: mode, Jobs: runtime.GOMAXPROCS(0), Transport: p.Transport, Modules: p.Profile.ModuleProxy, Secrets: p.secrets()},
			Trust:   build.Trust{Verifier: p.verifier, Policy: p.Profile.Policy, Clock: p.Clock},
		})
		if err == nil {
			s.Reused = provenances(f.plan) - signer.Tally().Made
		}
		return err
	})
}

// provenances is how many a plan has, in all forms.
func provenances(planned plan.Plan) (n int) {
	for _, a := range planned.Artifacts {
		if a.Class == plan.Provenance || a.Class == plan.ProvenanceV02 {
			n++
		}
	}
	return n
}

// secrets are the tokens of this release, which no log may hold.
func (p *Pipeline) secrets() (list []string) {
	for _, source := range p.Tokens {
		file, is := source.(token.File)
		if !is {
			continue // it is given to this process alone
		}
		if text, err := file.Token(context.Background()); err == nil && text != "" {
			list = append(list, text)
		}
	}
	return list
}

// Sign signs every planned file and image.
func (p *Pipeline) Sign(ctx context.Context) error {
	return p.sealing(ctx, ActSign, func(ctx context.Context, req seal.Request, s *Summary) error {
		done, err := seal.Sign(ctx, req)
		s.Reused += done.Held
		return err
	})
}

// Seal signs the manifest: the closed list of everything in the release.
func (p *Pipeline) Seal(ctx context.Context) error {
	return p.sealing(ctx, ActSeal, func(ctx context.Context, req seal.Request, _ *Summary) error {
		_, err := seal.Run(ctx, req)
		return err
	})
}

// act is something that is done to a release and signed for.
type act struct {
	verb  string
	role  policy.Role
	token string // the name of the token that it takes
}

// signing does one act on a workspace, alone, with a signer that finishes what
// an earlier run has begun to sign. What it did is summed up, however it ends.
func (p *Pipeline) signing(ctx context.Context, w *workspace.Workspace, a act, do func(context.Context, *sign.Signer, *Summary) error) error {
	return p.journaled(ctx, w, a.verb, func(ctx context.Context) (err error) {
		defer p.count(a.verb)()
		j, err := journal.Open(w.Signatures())
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, j.Close()) }()
		kept, err := sign.Keep(j)
		if err != nil {
			return err
		}
		signer, err := p.signer(a, kept)
		if err != nil {
			return err
		}
		s := Summary{Act: a.verb}
		began := p.Clock()
		err = do(ctx, signer, &s)
		s = p.sum(s, signer, began)
		if err == nil || s.Signed+s.Reused+s.Retries > 0 { // else it was refused before anything
			p.Report(ctx, "%s", s)
		}
		return err
	})
}

// sealing does one act on a built release as the release identity.
func (p *Pipeline) sealing(ctx context.Context, verb string, do func(context.Context, seal.Request, *Summary) error) error {
	if err := p.needLegacy(); err != nil {
		return err
	}
	planned, w, err := p.resume(ctx)
	if err != nil {
		return err
	}
	return p.signing(ctx, w, act{verb, policy.Release, TokenRelease}, func(ctx context.Context, signer *sign.Signer, s *Summary) error {
		if err := p.noteLegacy(w); err != nil {
			return err
		}
		req := p.request(planned, w)
		req.Signer, req.Examined, req.History = signer, &p.examined, p.history(w)
		return do(ctx, req, s)
	})
}

// journaled does one act on a workspace, alone, and remembers that it was
// done. The journal is a hint for people; what resumes looks at the files.
func (p *Pipeline) journaled(ctx context.Context, w *workspace.Workspace, act string, do func(context.Context) error) (err error) {
	ctx, end := p.acting(ctx, w, act)
	defer func() { end(err) }()
	j, err := journal.Open(w.Journal())
	if err != nil {
		return err
	}
	defer j.Close()
	now := carry.From(ctx)
	detail, err := json.Marshal(begun{p.Typed, trace.IDs{Trace: now.Trace, Span: now.Span, Initial: now.Initial}})
	if err != nil {
		return err
	}
	if err := j.Append(ctx, journal.Entry{Time: p.Clock().UTC(), Act: actBegin, Subject: act, Detail: detail}); err != nil {
		return err
	}
	p.diary = diary{journal: j, act: act, typed: detail}
	defer func() { p.diary = diary{} }()
	if err := do(ctx); err != nil {
		why, _ := json.Marshal(verdict.FindingOf("", err).Code) // a word
		return errors.Join(err, j.Append(context.WithoutCancel(ctx), journal.Entry{Time: p.Clock().UTC(), Act: actFailed, Subject: act, Detail: why}))
	}
	done := journal.Entry{Time: p.Clock().UTC(), Act: act, Subject: w.Identity().Name + " " + w.Identity().Version.String()}
	if p.diary.left != "" {
		done.Detail, _ = json.Marshal(p.diary.left) // a word
	}
	return j.Append(ctx, done)
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
		{ActBuild, p.Build},
		{actSBOM, p.SBOM},
		{ActSign, p.Sign},
		{ActSeal, p.Seal},
		{actToStaging, p.PromoteToStaging},
	}
	for _, s := range stages {
		p.Report(ctx, "— %s", s.name)
		if err := s.run(ctx); err != nil {
			return nil, fmt.Errorf("%s: %w", s.name, err)
		}
	}
	p.Report(ctx, "— gate")
	return p.Decide(ctx, profile.Staging)
}
