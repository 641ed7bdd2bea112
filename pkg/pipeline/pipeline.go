// Package pipeline takes one release its whole way: plan, build, sbom, sign,
// seal, staging, gate, promotion, verification, records, markers.
//
// A [Pipeline] is bound to one project profile, one version and one state
// directory. Each stage is a method, and the two composites call exactly the
// same methods:
//
//	p, err := pipeline.New(config)
//	v, err := p.Stage(ctx)      // plan → build → sbom → sign → seal → staging → gate
//	v, err := p.Release(ctx)    // gate → promote → verify → record → markers
//
// A stage that was interrupted is run again as it is: it takes over what holds
// and makes only what is missing.
package pipeline

import (
	"context"
	"crypto"
	"crypto/rand"
	"encoding/hex"
	"net/http"
	"time"

	"github.com/waybill-release/waybill/pkg/build"
	"github.com/waybill-release/waybill/pkg/digest"
	"github.com/waybill-release/waybill/pkg/doctor"
	"github.com/waybill-release/waybill/pkg/gate"
	"github.com/waybill-release/waybill/pkg/plan"
	"github.com/waybill-release/waybill/pkg/policy"
	"github.com/waybill-release/waybill/pkg/profile"
	"github.com/waybill-release/waybill/pkg/record"
	"github.com/waybill-release/waybill/pkg/sandbox"
	"github.com/waybill-release/waybill/pkg/sbom/crosscheck"
	"github.com/waybill-release/waybill/pkg/sign"
	"github.com/waybill-release/waybill/pkg/sign/token"
	"github.com/waybill-release/waybill/pkg/store"
	"github.com/waybill-release/waybill/pkg/vcs"
	"github.com/waybill-release/waybill/pkg/verdict"
	"github.com/waybill-release/waybill/pkg/verify"
	"github.com/waybill-release/waybill/pkg/version"
	"github.com/waybill-release/waybill/pkg/workspace"
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
	Ways record.Ways
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
	Progress build.Progress
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
	// [vcs.VerifyTag]. Without one no signer is named in provenance.
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

// Pipeline is one release on its way.
type Pipeline struct {
	Config
	Profile  profile.Profile
	verifier *verify.Verifier
	begun    *found        // by the preflight: what will be built
	done     []Summary     // of the acts that signed, in order
	decided  digest.Digest // the manifest in staging that was decided about: no other is released
	examined crosscheck.Examined
	diary    diary // of the act that is under way
	told     bool  // that a run came with another beginning than the release has
}

// New prepares a pipeline. Nothing is read from the source yet.
func New(c Config) (*Pipeline, error) {
	if c.Gate.Verifier() == nil {
		return nil, verdict.Refuse(verdict.Usage, "profile", "none was opened, so nothing can be decided")
	}
	if c.Source.Ref == "" {
		c.Source.Ref = c.Version.String()
	}
	return &Pipeline{Config: c, Profile: c.Gate.Profile(), verifier: c.Gate.Verifier()}, nil
}

// Plan resolves the source and expands release.yaml as it is in the commit.
func (p *Pipeline) Plan(ctx context.Context) (plan.Plan, build.Source, error) {
	return ReadPlan(ctx, p.Source, p.Version, p.Parameters)
}

// start opens the workspace that fits what the preflight found.
func (p *Pipeline) start(ctx context.Context) (found, *workspace.Workspace, error) {
	if p.begun == nil {
		if err := p.Preflight(ctx, doctor.Build); err != nil {
			return found{}, nil, err
		}
	}
	f := *p.begun
	if f.plan.IsGiven() {
		return found{}, nil, anotherTool()
	}
	id := f.identity(invocation())
	id.Trace = origin(ctx)
	w, err := workspace.Create(p.State, id)
	if err != nil {
		return found{}, nil, err
	}
	return f, w, w.SavePlan(f.plan)
}

// resume opens a workspace that a build has made, with the plan that its
// commit gives.
func (p *Pipeline) resume(ctx context.Context) (plan.Plan, *workspace.Workspace, error) {
	w, err := workspace.Open(p.State)
	if err != nil {
		return plan.Plan{}, nil, err
	}
	id := w.Identity()
	if id.Version != p.Version {
		return plan.Plan{}, nil, verdict.Refuse(verdict.Usage, p.State, "it holds %s, not %s", id.Version, p.Version).
			Advise("name that version, or with --state the directory of this one")
	}
	raw, err := vcs.ReadFile(ctx, id.Commit, plan.ConfigName)
	if err != nil {
		return plan.Plan{}, nil, err
	}
	config, err := plan.ParseConfig(raw)
	if err != nil {
		return plan.Plan{}, nil, err
	}
	planned, err := config.ExpandWith(p.Version, p.resumed())
	if err != nil {
		return plan.Plan{}, nil, err
	}
	if planned.Digest() != id.Plan {
		return plan.Plan{}, nil, verdict.Refuse(verdict.PlanStale, p.State, "release.yaml expands to another plan than the one that was built")
	}
	planned, err = p.inForms(planned, w)
	return planned, w, err
}

// signer prepares a signer for an act.
func (p *Pipeline) signer(a act, kept *sign.Kept) (*sign.Signer, error) {
	w := p.World
	w.Work.Kept = kept
	if key := p.Keys[a.token]; key != nil {
		return w.keyedSigner(p.Profile, p.verifier, a.role, key)
	}
	source := p.Tokens[a.token]
	if source == nil {
		return nil, noToken(a.token)
	}
	return w.signer(p.Profile, p.verifier, a.role, p.renewing(source))
}

// services are the signing services that a profile names.
func (w World) services(prof profile.Profile) (sign.Services, error) {
	if len(prof.Signing) == 0 {
		return sign.Services{}, verdict.Refuse(verdict.ConfigParse, "profile", "it names no signingConfig, so nothing can be signed")
	}
	return sign.ParseServices(prof.Signing, w.Clock())
}

// signer prepares a signer for a role with the services that a profile names.
func (w World) signer(prof profile.Profile, v *verify.Verifier, role policy.Role, source token.Source) (*sign.Signer, error) {
	c, err := w.signConfig(prof, v, role)
	if err != nil {
		return nil, err
	}
	c.Token = source.Token
	return sign.New(c)
}

// keyedSigner prepares a signer with a key that the policy must name.
func (w World) keyedSigner(prof profile.Profile, v *verify.Verifier, role policy.Role, key crypto.Signer) (*sign.Signer, error) {
	c, err := w.signConfig(prof, v, role)
	if err != nil {
		return nil, err
	}
	return sign.NewKeyed(c, key)
}

func (w World) signConfig(prof profile.Profile, v *verify.Verifier, role policy.Role) (sign.Config, error) {
	services, err := w.services(prof)
	if err != nil {
		return sign.Config{}, err
	}
	return sign.Config{
		Role: role, Policy: prof.Policy, Verifier: v, Services: services, Transport: w.Transport, Clock: w.Clock, Work: w.Work,
	}, nil
}

// isolation says how steps will run, and with whose identity.
func (p *Pipeline) isolation(ctx context.Context, walls sandbox.Report) (sandbox.Mode, string) {
	if walls.Mode == sandbox.Isolated {
		for _, line := range walls.Loud() {
			p.Report(ctx, "WARNING: %s", line)
		}
		return walls.Mode, TokenBuilder
	}
	p.Report(ctx, "WARNING: steps run %s (%s); the builder id is that of unisolated builds and no level 3 can be claimed", walls.Mode, walls.Reason())
	return walls.Mode, TokenUnisolated
}

func invocation() string {
	id := make([]byte, 16)
	_, _ = rand.Read(id) // never fails: crypto/rand ends the program instead
	return hex.EncodeToString(id)
}
