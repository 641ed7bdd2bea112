// Package pipeline takes one release from its source to its users: plan,
// build, sbom, sign, seal, staging, gate, promotion, verification, records,
// markers.
//
// The work on a release is a list of acts, which are values (acts.go):
//
//	stage    build → sbom → sign → seal → promote to staging → gate
//	release  gate → promote → verify → record → markers
//
// The runner (run.go), the preflight, the forecast, the status and the
// history in a manifest all read that list. An act takes [facts] and returns
// them with what it found. Facts that no earlier act found are read from the
// state directory, so an interrupted release continues when the same acts run
// again. An act reuses what is still valid and makes only what is missing.
//
// To add an act, for example a scan of the images between seal and staging,
// write it as one value and add scan() to the steps of stageAct:
//
//	func scan() act {
//		return act{
//			name: "scan", run: "scan", span: span.Scan, // journal, manifest, trace
//			journaled: journalWorkspace,                // journal begin, end and failure
//			needs: []need{built},                       // obtained before do is called
//			signs: signs{policy.Release, TokenRelease, oneOf("scan report")},
//			progress: countOf("scan", plan.Report), // its line in waybill status
//			do: func(ctx context.Context, t tools, in facts) (facts, error) {
//				return in, scanImages(ctx, in.w, t.signer)
//			},
//		}
//	}
//
// If signs is set, the preflight asks for the token, waybill stage without
// --confirm counts the signature, and the runner makes the signer, reuses the
// signatures of an earlier run, and prints a summary.
//
// The caller sees none of this:
//
//	p, err := pipeline.New(config)
//	v, err := p.Stage(ctx)
//	v, err := p.Release(ctx)
//
// Other projects should not import this package: it changes without notice.
package pipeline

import (
	"context"
	"crypto"
	"errors"
	"net/http"
	"time"

	releasemanifest "github.com/waybill-release/waybill/attestations/release-manifest/v1"
	"github.com/waybill-release/waybill/pkg/backend/store"
	"github.com/waybill-release/waybill/pkg/gate"
	"github.com/waybill-release/waybill/pkg/gate/profile"
	"github.com/waybill-release/waybill/pkg/judge/verify"
	"github.com/waybill-release/waybill/pkg/produce/attest"
	"github.com/waybill-release/waybill/pkg/produce/run"
	"github.com/waybill-release/waybill/pkg/produce/sign"
	"github.com/waybill-release/waybill/pkg/produce/sign/token"
	"github.com/waybill-release/waybill/pkg/release/plan"
	"github.com/waybill-release/waybill/pkg/value/verdict"
	"github.com/waybill-release/waybill/pkg/value/version"
)

// Config configures a pipeline for one release.
type Config struct {
	// Gate decides about the release and supplies the profile.
	Gate    gate.Gate
	Version version.Version
	Source  Source
	RunState
	Signing
	// Parameters are the chosen values of parameters that release.yaml
	// declares; the others have their defaults.
	Parameters map[string]string
	World
	// Report prints a progress message for people. Its context is that of the
	// act that reports.
	Report func(ctx context.Context, format string, args ...any)
}

// RunState is the directory in which a run prepares the release, and the
// lease that excludes other runs while the release is published.
type RunState struct {
	State string
	Exclusion
}

// Signing configures who signs, and in which forms.
type Signing struct {
	// Tokens are the sources of identity tokens, by token name.
	Tokens map[string]token.Source
	// Keys sign instead of an identity, by the same names. The policy must
	// list them.
	Keys map[string]crypto.Signer
	// Legacy also asks for the signature forms that predate bundles. A
	// release that has them keeps them.
	Legacy bool
	// Maker describes this program in records.
	Maker Maker
	// RecordOptions switches off parts of what is signed and attached.
	RecordOptions attest.Options
}

// World is how a pipeline reaches services and places.
type World struct {
	Transport http.RoundTripper
	// OpenPlace opens a place by its address. The default is [store.Open],
	// which supports public buckets only.
	OpenPlace func(uri string) (store.Place, error)
	// OpenWriter opens the writer of a place by its address.
	OpenWriter func(uri string) (store.Writer, error)
	// Clock is the current time. It must not be frozen: signatures need the
	// real time.
	Clock func() time.Time
	// Progress shows the steps that run; nil shows nothing.
	Progress run.Progress
	// Work configures retries, reuse and reports of signers.
	Work sign.Work
	// Typed is the command line of this run.
	Typed Typed
}

// Source is what the release is built from. An empty Ref means the version.
type Source struct {
	Repository string
	Ref        string
	// Signers is a file of the keys with which tags may be signed: see
	// [git.VerifyTag]. Without it provenance names no signer of the tag.
	Signers string
}

// Token names: the release identity, and one builder identity for each
// isolation mode, because one identity must not sign for two builders.
const (
	TokenBuilder    = "builder"
	TokenUnisolated = "builder-unisolated"
	TokenRelease    = "release"
	TokenVerifier   = "verifier" // of records
	TokenPolicy     = "policy"   // of the policy officer, who works on no release
)

// TokenNames lists the token names of a release, for help texts.
func TokenNames() []string {
	return []string{TokenBuilder, TokenUnisolated, TokenRelease, TokenVerifier, TokenChannel}
}

// KeyNames lists the names under which a key may sign instead of an identity.
// A builder has none: a key does not identify the run that used it.
func KeyNames() []string { return []string{TokenRelease, TokenVerifier, TokenChannel} }

// Pipeline is one release under one profile. It has what does not change
// while acts run, and the facts from which they start.
type Pipeline struct {
	*job
	from facts
}

// New prepares a pipeline. It does not read the source yet.
func New(c Config) (*Pipeline, error) {
	if c.Gate.Verifier() == nil {
		return nil, verdict.Refuse(verdict.Usage, "profile", "no profile was loaded, so nothing can be decided")
	}
	if c.Source.Ref == "" {
		c.Source.Ref = c.Version.String()
	}
	return &Pipeline{job: &job{Config: c, Profile: c.Gate.Profile(), verifier: c.Gate.Verifier(), account: &account{}}}, nil
}

// After returns a pipeline that continues from a verdict about staging: it
// releases only the manifest that was accepted, and does not ask the gate
// again.
func (p *Pipeline) After(v *verdict.Verdict) *Pipeline {
	from := p.from
	if v.Err() == nil {
		from.accepted = manifestIn(v)
	}
	return &Pipeline{p.job, from}
}

// Plan resolves the source and expands the release.yaml of that commit.
func (p *Pipeline) Plan(ctx context.Context) (plan.Plan, run.Source, error) { return p.plan(ctx) }

// Build runs the steps of the plan; the builder identity signs the outputs.
func (p *Pipeline) Build(ctx context.Context) error { return performOne(ctx, p, buildAct()) }

// SBOM writes the SBOM of every artifact, and of the release. Equal input
// gives equal documents, so repeating it changes nothing.
func (p *Pipeline) SBOM(ctx context.Context) error { return performOne(ctx, p, sbomAct()) }

// Sign signs every planned file and image.
func (p *Pipeline) Sign(ctx context.Context) error { return performOne(ctx, p, signAct()) }

// Seal signs the manifest, which is the complete list of what is in the
// release.
func (p *Pipeline) Seal(ctx context.Context) error { return performOne(ctx, p, sealAct()) }

// PromoteToStaging copies the sealed release from the workspace to staging.
func (p *Pipeline) PromoteToStaging(ctx context.Context) error {
	return performOne(ctx, p, toStaging())
}

// PromoteToRelease copies the release from staging to the public place, if
// the gate accepts it: the manifest accepted before (see [Pipeline.After]),
// or the one in staging now. A withdrawal, which the gate always refuses, is
// copied if the release is public already and the withdrawal adds nothing
// new.
func (p *Pipeline) PromoteToRelease(ctx context.Context) error {
	return performOne(ctx, p, toRelease())
}

// Stage takes a commit to the staging place: plan, build, sbom, sign, seal,
// promotion to staging, and the gate's decision about the staged release. A
// preflight checks what all steps need before the first one runs. A refusal
// is both a verdict and an error.
func (p *Pipeline) Stage(ctx context.Context) (*verdict.Verdict, error) {
	return decided(runner{p.job}.perform(ctx, stageAct(), p.from))
}

// Release publishes a staged release: the gate decides about staging, the
// promotion copies exactly what was accepted, the release is verified at its
// public place, the verifier records the result, and the markers move. Each
// step first checks what is done already, so an interrupted run is continued
// by running it again. A refusal is both a verdict and an error.
func (p *Pipeline) Release(ctx context.Context) (*verdict.Verdict, error) {
	return decided(runner{p.job}.perform(ctx, releaseAct(), p.from))
}

// Unstaged reports whether a release is neither staged nor public: whether the
// manifest is at neither place.
func Unstaged(ctx context.Context, p *Pipeline) (bool, error) {
	for _, s := range []profile.Stage{profile.Staging, profile.Release} {
		at, err := p.filesAt(s)
		if err != nil {
			return false, err
		}
		_, err = store.Read(ctx, at, releasemanifest.Name, verify.MaxBundle)
		if err == nil || !errors.Is(err, store.ErrNotFound) {
			return false, err
		}
	}
	return true, nil
}

// StageAndRelease stages a release, and then publishes it.
func StageAndRelease(ctx context.Context, p *Pipeline) (*verdict.Verdict, error) {
	v, err := p.Stage(ctx)
	if err != nil {
		return v, err
	}
	return (&Pipeline{job: p.job}).Release(ctx)
}

// Decide asks the gate about the release at a stage.
func (p *Pipeline) Decide(ctx context.Context, s profile.Stage) (*verdict.Verdict, error) {
	v, err := decided(runner{p.job}.perform(ctx, gateAct(s), p.from))
	if v != nil {
		return v, nil
	}
	return nil, err
}

func performOne(ctx context.Context, p *Pipeline, a act) error {
	_, err := runner{p.job}.perform(ctx, a, p.from)
	return err
}
