package gate

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/waybill-release/waybill/pkg/digest"
	"github.com/waybill-release/waybill/pkg/plan"
	"github.com/waybill-release/waybill/pkg/policy"
	"github.com/waybill-release/waybill/pkg/rekor"
	"github.com/waybill-release/waybill/pkg/spdx"
	"github.com/waybill-release/waybill/pkg/verdict"
	"github.com/waybill-release/waybill/pkg/verify"
	"github.com/waybill-release/waybill/pkg/waiver"
)

// PolicyRequest asks a policy about one artifact, with whatever evidence there
// is about it. No manifest is needed; then no completeness is proven either.
type PolicyRequest struct {
	Policy   policy.Policy
	Verifier *verify.Verifier
	Stage    policy.Stage
	Version  string
	Commit   string // asked of provenance; empty asks for none
	Now      time.Time
	Waivers  Waivers
	// Finder completes signatures in legacy forms.
	Finder rekor.Finder
}

// JudgedFile is a file and what came with it.
type JudgedFile struct {
	Path string
	// Name is the artifact's name in the release; evidence must give it.
	Name  string
	Class plan.Class
	// Bundles are the paths of signatures and attestations, each counted for
	// what it is. None means the file of the same name and [BundleSuffix].
	Bundles []string
	// SBOM is the path of an SPDX document; may be empty.
	SBOM string
}

// start begins a verdict with what the policy asks of the question itself.
func (r PolicyRequest) start(question string, classes ...plan.Class) *verdict.Verdict {
	v := verdict.New(question, r.Now)
	v.Policy, v.Features, v.TrustRoot = r.Policy.Digest(), r.Policy.Features(), r.Verifier.Root().Digest()
	v.Scope.Checks = []string{"policy " + r.Policy.Name() + " at stage " + string(r.Stage)}
	v.Scope.Left = []string{"the rest of the release"}
	for _, lack := range r.Policy.Lacks(r.Stage, classes) {
		if lack != "plan" && !strings.HasPrefix(lack, "closed ") { // those are of the rest
			v.Scope.Left = append(v.Scope.Left, lack)
		}
	}
	if r.Verifier.Root().IsLab() {
		v.Note("the trust root is an INSECURE LAB: anybody can have its keys")
	}
	v.AddError("policy "+r.Policy.Name(), errors.Join(r.Policy.Life(r.Now), r.Policy.Root(r.Verifier.Root().IsLab())))
	return v
}

// take adds the policy's answer about one artifact.
func (r PolicyRequest) take(v *verdict.Verdict, q policy.Question, evidence []verify.Evidence) {
	answer := r.Policy.Decide(evidence, q)
	if answer.Counts.Required == 0 && len(answer.Findings) == 0 {
		f := verdict.Find(verdict.PolicyEmpty, q.Subject, "the policy %q requires nothing of %q at stage %q, so by it none is accepted", r.Policy.Name(), q.Class, q.Stage)
		f.Fix = "have the policy require a signature of this class, or ask about the file as one of another class"
		answer.Add(f)
	}
	v.Counts.Required++
	if answer.Outcome() == verdict.Accepted {
		v.Counts.Verified++
	}
	v.Include(*answer)
	v.Add(answer.Findings...)
	v.Warn(answer.Warnings...)
	v.Proofs = append(v.Proofs, answer.Proofs...)
	r.relied(v, q, answer.Proofs)
}

func (r PolicyRequest) question(class plan.Class, name string, bytes digest.Set) policy.Question {
	return policy.Question{
		Stage: r.Stage, Class: class, Subject: name, Bytes: bytes, Version: r.Version, Commit: r.Commit, At: r.Now,
		Why: map[policy.Check]error{},
	}
}

// File decides about a file.
func (r PolicyRequest) File(ctx context.Context, f JudgedFile) *verdict.Verdict {
	v := r.start(string(f.Class)+" "+f.Name+", "+f.Path, f.Class)
	v.Counts.Required = 0
	one := File{Path: f.Path}
	bytes, err := one.hash(ctx)
	if err != nil {
		v.Counts.Required++
		v.AddError(f.Path, err)
		return v
	}
	v.Inputs = append(v.Inputs, verdict.Input{Name: f.Name, Place: f.Path, Digest: bytes.SHA256})
	q := r.question(f.Class, f.Name, bytes)
	evidence, unbound := r.readBundles(v, f, bytes)
	if f.SBOM != "" {
		q.SBOM, q.Why[policy.SBOM] = describedIn(one, f.SBOM)
	}
	r.take(v, q, evidence)
	if v.Outcome() == verdict.Accepted { // else the policy said what is missing, or differs
		v.Add(unbound...)
	}
	if !slices.ContainsFunc(evidence, func(e verify.Evidence) bool { return !e.Statement().IsZero() && e.Covers(f.Name, bytes) }) {
		v.Scope.Left = append(v.Scope.Left, "its name: what was verified names bytes alone")
	}
	checkClock(v)
	r.waive(v, waiver.Subject{Name: f.Name, Digests: bytes})
	return v
}

// waive explains what is known, and what of the subjects is withdrawn. An
// exception is for a place: where nothing goes anywhere, none is looked at.
func (r PolicyRequest) waive(v *verdict.Verdict, subjects ...waiver.Subject) {
	c := waiver.Case{Policy: r.Policy, Subjects: subjects, Lists: r.Waivers.Lists, Accept: r.Waivers.Accept}
	if len(subjects) > 0 && subjects[0].Destination != "" {
		c.Exceptions = r.Waivers.Exceptions
	}
	waiver.Apply(v, c)
}

// readBundles verifies every bundle for what it is. One that does not hold is a
// finding even where another would do: the caller named it. Attestations of
// something else are returned as findings, too: nothing is accepted beside them.
// Only where the policy accepts what is unsigned need there be no bundle.
func (r PolicyRequest) readBundles(v *verdict.Verdict, f JudgedFile, bytes digest.Set) (evidence []verify.Evidence, unbound []verdict.Finding) {
	paths, one := f.Bundles, File{Path: f.Path}
	if len(paths) == 0 {
		paths = []string{f.Path + BundleSuffix}
	}
	for _, path := range paths {
		raw, err := one.read(path, verify.MaxBundle)
		if len(f.Bundles) == 0 && r.Policy.InsecureUnsigned() && verdict.FindingOf(path, err).Code == verdict.EvidenceMissing {
			v.Note("there is no %s, and no other bundle was named", path)
			break
		}
		var e verify.Evidence
		if err == nil {
			e, err = r.prove(raw, bytes)
		}
		if err != nil {
			v.AddError(path, err)
			continue
		}
		if !e.Statement().IsZero() && !e.Covers(f.Name, bytes) {
			stray := verdict.Find(verdict.NotBound, path, "the attestation is genuine, and not of %s with these bytes; its subjects: %s", f.Name, subjects(e))
			stray.Fix = "name with --bundle the attestations of this file, and with --name what they call it"
			unbound = append(unbound, stray)
		}
		v.Inputs = append(v.Inputs, verdict.Input{Name: path, Digest: e.Bundle()})
		evidence = append(evidence, e)
	}
	return evidence, unbound
}

// prove verifies a bundle as what it says that it is; the policy then counts
// it for nothing else.
func (r PolicyRequest) prove(raw []byte, bytes digest.Set) (verify.Evidence, error) {
	said, err := verify.Read(raw)
	if err != nil {
		return verify.Evidence{}, err
	}
	if said.IsAttestation() {
		return r.Verifier.Attestation(raw)
	}
	return r.Verifier.Blob(raw, bytes)
}

func describedIn(f File, path string) (digest.Digest, error) {
	raw, err := f.read(path, maxDocument)
	if err != nil {
		return digest.Digest{}, err
	}
	document, err := spdx.Parse(raw)
	if err != nil {
		return digest.Digest{}, verdict.Refuse(verdict.NoSBOM, path, "the SBOM does not parse: %v", err)
	}
	_, described := document.Describes()
	return described, nil
}
