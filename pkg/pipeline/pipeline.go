// Package pipeline takes one release its whole way: plan, build, sbom, sign,
// seal, staging, gate, promotion, verification, records, markers.
//
// What is done to a release is a list of acts, which are values (acts.go):
//
//	stage    build → sbom → sign → seal → promote to staging → gate
//	release  gate → promote → verify → record → markers
//
// The runner (run.go), the preflight, the forecast, the status and the history
// in a manifest all read that list. An act takes [facts] and returns them with
// what it found; what no act before it found is read from the state directory,
// so an interrupted release is continued by running the same acts again. An
// act keeps what still holds and makes only what is missing.
//
// To add an act, say a scan of the images between seal and staging, write it as
// one value, and put scan() into the steps of stageAct:
//
//	func scan() act {
//		return act{
//			name: "scan", run: "scan", span: span.Scan, // journal, manifest, trace
//			noted: inWorkspace,                         // journal begin, end and failure
//			needs: []need{built},                       // found before do is called
//			signs: signs{policy.Release, TokenRelease, oneOf("scan report")},
//			progress: countOf("scan", plan.Report), // its line in waybill status
//			do: func(ctx context.Context, t tools, in facts) (facts, error) {
//				return in, scanImages(ctx, in.w, t.signer)
//			},
//		}
//	}
//
// With signs, the preflight asks for the token, waybill stage without
// --confirm counts the signature, and the runner makes the signer, resumes what
// an earlier run signed, and sums up. Without it none of that happens.
//
// The caller sees none of this:
//
//	p, err := pipeline.New(config)
//	v, err := p.Stage(ctx)
//	v, err := p.Release(ctx)
package pipeline

import (
	"context"
	"crypto"
	"net/http"
	"time"

	"github.com/waybill-release/waybill/pkg/backend/store"
	"github.com/waybill-release/waybill/pkg/gate"
	"github.com/waybill-release/waybill/pkg/gate/profile"
	"github.com/waybill-release/waybill/pkg/produce/attest"
	"github.com/waybill-release/waybill/pkg/produce/run"
	"github.com/waybill-release/waybill/pkg/produce/sign"
	"github.com/waybill-release/waybill/pkg/produce/sign/token"
	"github.com/waybill-release/waybill/pkg/release/plan"
	"github.com/waybill-release/waybill/pkg/value/verdict"
	"github.com/waybill-release/waybill/pkg/value/version"
)

// Config binds a pipeline to a release.
type Config struct {
	// Gate decides about the release, and has the profile.
	Gate    gate.Gate
	Version version.Version
	Source  Source
	Hold
	Signing
	// Parameters are what the caller chose of the parameters that release.yaml
	// declares; the others have their defaults.
	Parameters map[string]string
	World
	// Report is told what is happening, for people, in the context of the act
	// that it happens in.
	Report func(ctx context.Context, format string, args ...any)
}

// Hold is what a run has to itself: the directory in which the release comes
// into being, and what keeps another run out while it is made public.
type Hold struct {
	State string
	Exclusion
}

// Signing says who signs, and in which forms.
type Signing struct {
	// Tokens are where identity tokens come from, by token name.
	Tokens map[string]token.Source
	// Keys sign in place of an identity, by the same names. The policy must
	// name them.
	Keys map[string]crypto.Signer
	// Legacy asks for signatures in the forms from before bundles, too. A
	// release that has them keeps them.
	Legacy bool
	// Maker is what records say of this program.
	Maker Maker
	// Ways are what is left out of what is signed and attached.
	Ways attest.Ways
}

// World is how a pipeline reaches what is outside of it.
type World struct {
	Transport http.RoundTripper
	// OpenPlace opens a place by its address; nil is [store.Open], which knows no
	// bucket that is not public.
	OpenPlace func(uri string) (store.Place, error)
	// OpenWriter opens the writer of a place by its address.
	OpenWriter func(uri string) (store.Writer, error)
	// Clock freezes nothing: signatures need the time that it is.
	Clock func() time.Time
	// Progress is shown the steps that run; nil shows nobody.
	Progress run.Progress
	// Work says how a signer bears services that are away, and what it keeps.
	Work sign.Work
	// Typed is the command that all this is for.
	Typed Typed
}

// Source is where the release is built from. An empty Ref is the version.
type Source struct {
	Repository string
	Ref        string
	// Signers is a file of those whose signatures of a tag are verified: see
	// [git.VerifyTag]. Without one no signer is named in provenance.
	Signers string
}

// Token names: the release identity, and one builder identity for each mode
// of isolation, because one identity must not speak for two builders.
const (
	TokenBuilder    = "builder"
	TokenUnisolated = "builder-unisolated"
	TokenRelease    = "release"
	TokenVerifier   = "verifier" // of records
	TokenPolicy     = "policy"   // of the officer, who works on no release
)

// TokenNames lists the token names of a release, for help texts.
func TokenNames() []string {
	return []string{TokenBuilder, TokenUnisolated, TokenRelease, TokenVerifier, TokenChannel}
}

// KeyNames lists the names under which a key may sign in place of an identity.
// A builder has none: a key tells nothing of the run that used it.
func KeyNames() []string { return []string{TokenRelease, TokenVerifier, TokenChannel} }

// Pipeline is one release under one profile. It holds what does not change
// while acts are done, and the facts that they start from.
type Pipeline struct {
	*job
	from facts
}

// New prepares a pipeline. Nothing is read from the source yet.
func New(c Config) (*Pipeline, error) {
	if c.Gate.Verifier() == nil {
		return nil, verdict.Refuse(verdict.Usage, "profile", "none was opened, so nothing can be decided")
	}
	if c.Source.Ref == "" {
		c.Source.Ref = c.Version.String()
	}
	return &Pipeline{job: &job{Config: c, Profile: c.Gate.Profile(), verifier: c.Gate.Verifier(), account: &account{}}}, nil
}

// After returns a pipeline that goes on from a verdict about staging: only the
// manifest that was accepted is released, and the gate is not asked again.
func (p *Pipeline) After(v *verdict.Verdict) *Pipeline {
	from := p.from
	if v.Err() == nil {
		from.accepted = manifestIn(v)
	}
	return &Pipeline{p.job, from}
}

// Plan resolves the source and expands release.yaml as it is in the commit.
func (p *Pipeline) Plan(ctx context.Context) (plan.Plan, run.Source, error) { return p.plan(ctx) }

// Build runs the steps of the plan; the builder identity signs what came out.
func (p *Pipeline) Build(ctx context.Context) error { return alone(ctx, p, buildAct()) }

// SBOM writes the SBOM of every artifact, and of the release. Equal input
// gives equal documents, so doing it again changes nothing.
func (p *Pipeline) SBOM(ctx context.Context) error { return alone(ctx, p, sbomAct()) }

// Sign signs every planned file and image.
func (p *Pipeline) Sign(ctx context.Context) error { return alone(ctx, p, signAct()) }

// Seal signs the manifest: the closed list of everything in the release.
func (p *Pipeline) Seal(ctx context.Context) error { return alone(ctx, p, sealAct()) }

// PromoteToStaging copies the sealed release from the workspace to staging.
func (p *Pipeline) PromoteToStaging(ctx context.Context) error { return alone(ctx, p, toStaging()) }

// PromoteToRelease copies the release from staging to where users find it, if
// the gate accepts it there: what was decided about before (see
// [Pipeline.After]), or what is there now. A withdrawal, which no gate accepts,
// goes where the release is public already, and brings nothing new.
func (p *Pipeline) PromoteToRelease(ctx context.Context) error { return alone(ctx, p, toRelease()) }

// Stage takes a ref to the staging place: plan, build, sbom, sign, seal,
// promotion to staging, and the gate's decision about what lies there. What it
// takes is looked at before the first of them. A refusal is a verdict and an
// error.
func (p *Pipeline) Stage(ctx context.Context) (*verdict.Verdict, error) {
	return decided(runner{p.job}.perform(ctx, stageAct(), p.from))
}

// Release takes a staged release to the public: the gate decides about what
// lies in staging, the promotion copies exactly that, the release is verified
// where users will find it, the verifier records that, and the markers move.
// Each step asks what is there already, so that a run that was interrupted
// anywhere is gone on with by running it again. A refusal is a verdict and an
// error.
func (p *Pipeline) Release(ctx context.Context) (*verdict.Verdict, error) {
	return decided(runner{p.job}.perform(ctx, releaseAct(), p.from))
}

// Decide asks the gate about the release at a stage.
func (p *Pipeline) Decide(ctx context.Context, s profile.Stage) (*verdict.Verdict, error) {
	v, err := decided(runner{p.job}.perform(ctx, decide(s), p.from))
	if v != nil {
		return v, nil
	}
	return nil, err
}

// alone does one act by itself.
func alone(ctx context.Context, p *Pipeline, a act) error {
	_, err := runner{p.job}.perform(ctx, a, p.from)
	return err
}
