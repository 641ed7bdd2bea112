// Package seal signs what was planned and proven, and nothing else.
//
// The entries of the release manifest come from the plan, and each is bound
// to verified provenance or was made by the seal itself. The build directory
// is listed only to refuse unplanned files. A planned artifact without file
// or provenance, or a file that is not planned, stops the seal before the
// manifest is signed.
//
//	o, err := seal.Look(ctx, req)         // what would be signed
//	done, err := seal.Sign(ctx, req)      // sums, file and image signatures
//	m, err := seal.Run(ctx, req)          // the signed manifest, written last
//
// Other projects should not import this package: it changes without notice.
package seal

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	releasemanifest "github.com/waybill-release/waybill/attestations/release-manifest/v1"
	"github.com/waybill-release/waybill/pkg/backend/store"
	"github.com/waybill-release/waybill/pkg/document/provenance"
	"github.com/waybill-release/waybill/pkg/judge/policy"
	"github.com/waybill-release/waybill/pkg/judge/sbomcheck"
	"github.com/waybill-release/waybill/pkg/judge/verify"
	"github.com/waybill-release/waybill/pkg/produce/sign"
	"github.com/waybill-release/waybill/pkg/produce/workspace"
	"github.com/waybill-release/waybill/pkg/release/plan"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/trace"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// Request says what to seal and who signs.
type Request struct {
	Plan      plan.Plan
	Workspace *workspace.Workspace
	Verifier  *verify.Verifier
	Policy    policy.Policy
	Signer    *sign.Signer
	Clock     func() time.Time
	Report    func(ctx context.Context, format string, args ...any)
	// Examined is what this run has examined already; nil if nothing.
	Examined *sbomcheck.Examined
	History  History
	// Hints reports whether attachments to images name, in their annotations,
	// the run that made them; nil means yes. It is called for each
	// attachment.
	Hints func() bool

	imported map[string]digest.Set // digests of the files imported by From
}

// proven is what verified provenance proves.
type proven struct {
	bytes      map[string]digest.Set
	config     map[string]digest.Set // the configuration files in the workspace
	hashed     map[string]digest.Set // files that this act has read
	ran        map[string]trace.IDs  // the run of each step by its provenance, by step name
	invocation string
}

// checkExtra refuses every file that is not planned, before anything is
// signed.
func checkExtra(ctx context.Context, req Request) error {
	objects, err := req.Workspace.Files().List(ctx)
	if err != nil {
		return fmt.Errorf("listing the build directory: %w", err)
	}
	var findings []verdict.Finding
	for _, o := range objects {
		a, planned := req.Plan.Find(o.Name)
		if o.Name == releasemanifest.Name || strings.HasPrefix(o.Name, releasemanifest.PageDir) || planned && !a.IsImage() || store.IsStaging(o.Name) {
			continue // temporary files are incomplete, and removed before anything is signed
		}
		findings = append(findings, verdict.Find(verdict.SealExtra, o.Name, "the file is in the build directory, but not planned in release.yaml"))
	}
	return findingsError(req, findings)
}

// provenances verifies the provenance of every step and collects what it
// proves: exactly the planned outputs, all of one run and one commit.
func provenances(ctx context.Context, req Request) (proven, error) {
	if req.Plan.IsGiven() {
		return imported(req)
	}
	p := proven{bytes: map[string]digest.Set{}, hashed: map[string]digest.Set{}, ran: map[string]trace.IDs{}, invocation: req.Workspace.Identity().Invocation}
	var err error
	if p.config, err = configuration(ctx, req); err != nil {
		return proven{}, err
	}
	var findings []verdict.Finding
	for _, step := range req.Plan.Steps {
		name := plan.ProvenanceName(step.Instance)
		raw, err := readFile(ctx, req, name)
		if errors.Is(err, store.ErrNotFound) {
			findings = append(findings, verdict.Find(verdict.SealMissing, name, "step %s has no provenance", step.Instance))
			continue
		}
		if err != nil {
			return proven{}, err
		}
		said, err := p.verifyStep(req, step, raw)
		if err != nil {
			findings = append(findings, verdict.FindingOf(name, err))
			continue
		}
		p.ran[step.Instance], _ = provenance.TraceOf(said.Predicate) // malformed IDs are ignored
		if err := p.madeOf(step, said); err != nil {
			findings = append(findings, verdict.FindingOf(name, err))
		}
		if err := checkV02(ctx, req, step, said); err != nil {
			findings = append(findings, verdict.FindingOf(plan.ProvenanceV02Name(step.Instance), err))
		}
	}
	return p, findingsError(req, findings)
}

// configuration hashes the configuration files as they will be published.
func configuration(ctx context.Context, req Request) (map[string]digest.Set, error) {
	sets := map[string]digest.Set{}
	for _, a := range req.Plan.Artifacts {
		if a.Class != plan.ConfigFile {
			continue
		}
		set, _, err := hashFile(ctx, req.Workspace.Files(), a.Name)
		if errors.Is(err, store.ErrNotFound) {
			return nil, findingsError(req, []verdict.Finding{verdict.Find(verdict.SealMissing, a.Name, "planned, but missing in the build directory")})
		}
		if err != nil {
			return nil, err
		}
		sets[a.Name] = set
	}
	return sets, nil
}

// verifyStep verifies the provenance of one step and stores what it proves.
func (p proven) verifyStep(req Request, step plan.Step, raw []byte) (provenance.Provenance, error) {
	e, err := req.Verifier.Attestation(raw)
	if err != nil {
		return provenance.Provenance{}, err
	}
	said, err := provenance.Parse(e.Statement())
	if err != nil {
		return provenance.Provenance{}, err
	}
	if err := req.Policy.Provenance(e, req.Plan.Version.String()); err != nil {
		return provenance.Provenance{}, err
	}
	return said, p.addOutputs(req, step, said, e)
}

// addOutputs stores the outputs that a step's provenance names, if it is of this
// run and every one is planned there.
func (p proven) addOutputs(req Request, step plan.Step, said provenance.Provenance, e verify.Evidence) error {
	found, differs := sourceOf(req).Differs(step.Instance, said)
	switch {
	case differs:
		return &verdict.Error{Finding: found}
	case said.RunDetails.Metadata.InvocationID != p.invocation:
		return &verdict.Error{Finding: verdict.Find(verdict.BuildMix, step.Instance, "built by another run").Differ(p.invocation, said.RunDetails.Metadata.InvocationID)}
	}
	if err := p.builtFrom(said); err != nil {
		return err
	}
	for _, s := range said.Subjects {
		if !slices.Contains(step.Outputs, s.Name) {
			return verdict.Refuse(verdict.SealExtra, s.Name, "the provenance of step %s names this file, but release.yaml does not plan it there", step.Instance)
		}
		ask := policy.Ask{Role: policy.Builder, Kind: provenance.PredicateType, Subject: s.Name, Bytes: s.Digests}
		if _, err := req.Policy.Judge(e, ask); err != nil {
			return err
		}
		p.bytes[s.Name] = s.Digests
	}
	return nil
}

// madeOf demands that the inputs that a step took from earlier steps are the
// ones to be published: otherwise two builds are mixed.
func (p proven) madeOf(step plan.Step, said provenance.Provenance) error {
	for _, name := range step.Inputs() {
		made, used := p.bytes[name], said.Used(name)
		if !made.IsZero() && !used.Equal(made) { // a missing digest is a finding of its own
			f := verdict.Find(verdict.BuildMix, step.Instance, "built from a different %s than the one in the release; run waybill build again", name)
			return &verdict.Error{Finding: f.Differ(made.SHA256.String(), used.SHA256.String())}
		}
	}
	return nil
}

// builtFrom demands that the configuration to be published is the one from
// which the step was built.
func (p proven) builtFrom(said provenance.Provenance) error {
	for name, set := range p.config {
		same := slices.ContainsFunc(said.BuildDefinition.ResolvedDependencies, func(r provenance.Resource) bool {
			return r.Name == name && maps.Equal(r.Digest, set.Map())
		})
		if !same {
			return verdict.Refuse(verdict.NotBound, name, "the bytes differ from those from which the release was built")
		}
	}
	return nil
}

// findingsError turns findings into one error that has all of them.
func findingsError(req Request, findings []verdict.Finding) error {
	if len(findings) == 0 {
		return nil
	}
	v := verdict.New(fmt.Sprintf("release %s %s", req.Plan.Name, req.Plan.Version), req.Clock())
	v.Scope.Checks = []string{"plan", "provenance"}
	v.Counts.Required = len(req.Plan.Artifacts)
	v.Add(findings...)
	return v.Err()
}

func readFile(ctx context.Context, req Request, name string) ([]byte, error) {
	return store.Read(ctx, req.Workspace.Files(), name, verify.MaxBundle)
}
