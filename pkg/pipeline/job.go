package pipeline

import (
	"context"
	"crypto"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"

	releasemanifest "github.com/waybill-release/waybill/attestations/release-manifest/v1"
	"github.com/waybill-release/waybill/pkg/backend/git"
	"github.com/waybill-release/waybill/pkg/backend/store"
	"github.com/waybill-release/waybill/pkg/backend/tracing/carry"
	"github.com/waybill-release/waybill/pkg/backend/tracing/span"
	"github.com/waybill-release/waybill/pkg/backend/transport"
	"github.com/waybill-release/waybill/pkg/gate/profile"
	"github.com/waybill-release/waybill/pkg/judge/policy"
	"github.com/waybill-release/waybill/pkg/judge/verify"
	"github.com/waybill-release/waybill/pkg/produce/run"
	"github.com/waybill-release/waybill/pkg/produce/seal"
	"github.com/waybill-release/waybill/pkg/produce/sign"
	"github.com/waybill-release/waybill/pkg/produce/sign/token"
	"github.com/waybill-release/waybill/pkg/produce/workspace"
	"github.com/waybill-release/waybill/pkg/release/manifest"
	"github.com/waybill-release/waybill/pkg/release/plan"
	"github.com/waybill-release/waybill/pkg/value/trace"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// job is what stays the same while acts run: the release, its profile, and
// access to services. Only account is written to.
type job struct {
	Config
	Profile  profile.Profile
	verifier *verify.Verifier
	account  *account
}

// account collects what a run reports at its end. No act reads it.
type account struct {
	acts             []Summary // of the acts that signed, in order
	conflictReported bool      // the run was started in another trace than the release
}

// plan resolves the source and expands the release.yaml of that commit.
func (j *job) plan(ctx context.Context) (plan.Plan, run.Source, error) {
	planned, source, err := ReadPlan(ctx, j.Source, j.Version, j.Parameters)
	if err == nil {
		source.Commit, err = atOrigin(ctx, j, source.Commit)
	}
	return planned, source, err
}

// atOrigin gives a commit of a local clone the address that the clone's origin
// has, if the policy accepts that address and not the clone's. The clone only
// claims its origin: unless the trust root is that of a lab, the origin must
// have the same tag. Otherwise the commit stays one of the clone.
func atOrigin(ctx context.Context, j *job, c git.Commit) (git.Commit, error) {
	if strings.Contains(j.Source.Repository, "://") || j.Profile.Policy.NewSession().AllowsSource(c.Repository) == nil {
		return c, nil
	}
	at, err := git.Origin(ctx, j.Source.Repository)
	if err != nil || at == "" || j.Profile.Policy.NewSession().AllowsSource(at) != nil {
		return c, err
	}
	if j.Profile.TrustRoot.IsLab() {
		j.Report(ctx, "the source is recorded as %s, the origin of the clone, which was not asked: this is a lab", at)
		return c.At(at), nil
	}
	same, err := c.Published(ctx, at)
	switch {
	case context.Cause(ctx) != nil:
		return c, context.Cause(ctx)
	case err != nil:
		j.Report(ctx, "WARNING: the source is recorded as %s, because its origin did not answer: %v", c.Repository, err)
		return c, nil
	case !same:
		j.Report(ctx, "WARNING: the source is recorded as %s, because %s does not have %s as it is here; push it: git push origin %s", c.Repository, at, c.AskedFor(), c.AskedFor())
		return c, nil
	}
	return c.At(at), nil
}

// signer prepares a signer. If begun, work would be lost if the token had
// expired, so the signer waits for a fresh one.
func (j *job) signer(s signs, work sign.Work, begun bool) (*sign.Signer, error) {
	key, source := j.Keys[s.token], j.Tokens[s.token]
	if key == nil && source == nil {
		return nil, noToken(s.token)
	}
	if file, is := source.(token.File); is {
		source = &renewed{File: file, clock: j.Clock, work: work, begun: begun}
	}
	w := j.World
	w.Work = work
	return signers{w, j.Profile, j.verifier}.signer(s.role, key, source)
}

// servicesOf are the signing services that the profile names.
func servicesOf(j *job) (sign.Services, error) {
	return signers{j.World, j.Profile, j.verifier}.services()
}

// signers makes signers with the services that a profile names.
type signers struct {
	World
	profile  profile.Profile
	verifier *verify.Verifier
}

func (s signers) services() (sign.Services, error) {
	if len(s.profile.Signing) == 0 {
		return sign.Services{}, verdict.Refuse(verdict.ConfigParse, s.profile.Path, "signingConfig: missing, so nothing can be signed")
	}
	return sign.ParseServices(s.profile.Signing, s.Clock())
}

// signer prepares a signer for a role: with a key, which the policy must
// list, or else with a token.
func (s signers) signer(role policy.Role, key crypto.Signer, source token.Source) (*sign.Signer, error) {
	services, err := s.services()
	if err != nil {
		return nil, err
	}
	c := sign.Config{
		Role: role, Policy: s.profile.Policy, Verifier: s.verifier, Services: services, Transport: s.Transport, Clock: s.Clock, Work: s.Work,
	}
	if key != nil {
		return sign.NewKeyed(c, key)
	}
	c.Token = func(context.Context) (string, error) { return "", errors.New("no identity token was given") } // this signer only counts
	if source != nil {
		c.Token = source.Token
	}
	return sign.New(c)
}

// request is a read-only request about a release: it has no signer.
func (j *job) request(planned plan.Plan, w *workspace.Workspace) seal.Request {
	return seal.Request{Plan: planned, Workspace: w, Verifier: j.verifier, Policy: j.Profile.Policy, Clock: j.Clock, Report: j.Report, Hints: j.RecordOptions.Hint}
}

// invocationHere is the ID of the run in the state directory; empty if there
// is none.
func (j *job) invocationHere() string {
	w, err := workspace.Open(j.State)
	if err != nil {
		return ""
	}
	return w.Identity().Invocation
}

// parametersHere are the parameters of the build in the state directory,
// unless others are given now. In both cases the resulting plan must be the
// one that was built.
func (j *job) parametersHere() map[string]string {
	if len(j.Parameters) > 0 {
		return j.Parameters
	}
	raw, err := os.ReadFile(filepath.Join(j.State, "plan.json"))
	if err != nil {
		return nil
	}
	saved, err := plan.Parse(raw)
	if err != nil {
		return nil
	}
	return saved.Parameters
}

// withdrawn returns a finding for each withdrawal of the release in the lists
// of known defects; the gate refuses such a release.
func (j *job) withdrawn(m manifest.Manifest) []verdict.Finding {
	return j.Gate.Withdrawn(j.Version, m, j.Clock())
}

func (j *job) manifest(ctx context.Context, from store.Place) (manifest.Manifest, []byte, error) {
	raw, err := store.Read(ctx, from, releasemanifest.Name, verify.MaxBundle)
	if err != nil {
		return manifest.Manifest{}, nil, fmt.Errorf("reading the manifest of %s: %w", from.URI(), err)
	}
	e, err := j.verifier.Attestation(raw)
	if err != nil {
		return manifest.Manifest{}, nil, err
	}
	m, _, err := j.Profile.Policy.ManifestFrom(e, pagesAt(ctx, from))
	if err != nil {
		return manifest.Manifest{}, nil, err
	}
	return m, raw, nil
}

// ownManifest is the verified manifest of a place, which must be of this
// release.
func (j *job) ownManifest(ctx context.Context, from store.Place) (manifest.Manifest, []byte, error) {
	m, bundle, err := j.manifest(ctx, from)
	if err == nil && m.Version != j.Version {
		err = verdict.Refuse(verdict.Version, from.URI(), "the place has %s, not %s", m.Version, j.Version)
	}
	if err != nil {
		return manifest.Manifest{}, nil, err
	}
	return m, bundle, nil
}

// anyTime is a job that also reads a manifest which an identity of the release signed
// outside of its time window. It only reads what a later revision replaces or withdraws: a
// release that was signed with a stolen identity is repaired after that was revoked.
func anyTime(j *job) *job {
	reader := *j
	reader.Profile.Policy = policy.Release.AtAnyTime(j.Profile.Policy)
	return &reader
}

// promotable is the verified manifest of a place, which must exist and be of
// this release.
func (j *job) promotable(ctx context.Context, from store.Place) (manifest.Manifest, []byte, error) {
	m, bundle, err := j.ownManifest(ctx, from)
	if errors.Is(err, store.ErrNotFound) {
		err = verdict.Refuse(verdict.EvidenceMissing, from.URI(), "no signed manifest, so there is nothing to promote").Advise(missingManifestAdvice(from, j.State))
	}
	if err != nil {
		return manifest.Manifest{}, nil, err
	}
	return m, bundle, nil
}

// inTraceOf returns a context that continues the trace in which a release was
// made, as its own record says, whatever trace the run was started in. If the
// release does not record one, none is used. A conflict is reported once.
func (j *job) inTraceOf(ctx context.Context, of trace.IDs) context.Context {
	ctx, ids, conflict := span.Stamp(ctx, trace.Update, of)
	if conflict != nil && !j.account.conflictReported {
		j.account.conflictReported = true
		j.Report(ctx, "WARNING: %v", conflict)
	}
	return carry.WithInitial(ctx, ids.Initial)
}

// startSpan begins a span of the release.
func (j *job) startSpan(ctx context.Context, name span.Name, task string, more ...attribute.KeyValue) (context.Context, func(error)) {
	return span.Start(ctx, name, append(more, span.PipelineTaskName.String(task), span.ArtifactVersion.String(j.Version.String()))...)
}

// addSummary records what a signer did for an act, which may have failed, in
// addition to what the summary has already.
func (j *job) addSummary(s Summary, signer *sign.Signer, began time.Time) Summary {
	s.add(signer, j.Clock().Sub(began))
	j.account.acts = append(j.account.acts, s)
	return s
}

// tokenReadInterval is how often a token file is read again while the signer
// waits for a fresh token.
const tokenReadInterval = 2 * time.Second

// renewed is a token file whose token is replaced during a release, because
// steps can last longer than tokens. A finished step must not be lost because
// its provenance cannot be signed at that moment, and unsigned provenance is
// never written. Therefore the outputs of the step are kept, and the file is
// read until the patience of the signer ends.
type renewed struct {
	token.File
	clock func() time.Time
	work  sign.Work
	// begun means that finished work would be lost; before that, an expired
	// token is refused at once.
	begun bool
}

// Token reads the file until it contains a valid token.
func (r *renewed) Token(ctx context.Context) (string, error) {
	text, dead := r.read(ctx)
	switch {
	case dead == nil:
		r.begun = true
		return text, nil
	case !r.begun:
		return "", dead
	}
	pause := r.work.Pause
	if pause == nil {
		pause = transport.Sleep
	}
	began, told := r.clock(), time.Time{}
	for ; dead != nil; text, dead = r.read(ctx) {
		now := r.clock()
		left := r.work.Patience - now.Sub(began)
		if left <= 0 {
			return "", dead
		}
		if told.IsZero() || now.Sub(told) >= 30*time.Second {
			told = now
			r.work.Report(ctx, "waiting for a fresh token in %s, read every %s, for at most %s: %s",
				string(r.File), tokenReadInterval, left.Round(time.Second), verdict.FindingOf("", dead).Message)
		}
		if err := pause(ctx, min(tokenReadInterval, left)); err != nil {
			return "", err
		}
	}
	return text, nil
}

// read reads the token that is in the file now, and checks it.
func (r *renewed) read(ctx context.Context) (string, error) {
	text, err := r.File.Token(ctx)
	if err != nil {
		return "", err
	}
	said, err := token.Read(text)
	if err != nil {
		return "", err
	}
	return text, said.Check(r.clock())
}
