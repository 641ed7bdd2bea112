package gate

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/waybill-release/waybill/pkg/backend/rekorv1"
	"github.com/waybill-release/waybill/pkg/document/spdx"
	"github.com/waybill-release/waybill/pkg/judge/policy"
	"github.com/waybill-release/waybill/pkg/judge/sbomcheck"
	"github.com/waybill-release/waybill/pkg/judge/slsa"
	"github.com/waybill-release/waybill/pkg/judge/verify"
	"github.com/waybill-release/waybill/pkg/release/plan"
	"github.com/waybill-release/waybill/pkg/tool/slice"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// PolicyRequest asks a policy about one artifact and its evidence. It needs no
// manifest, so it does not prove completeness.
type PolicyRequest struct {
	Policy   policy.Policy
	Verifier *verify.Verifier
	Stage    policy.Stage
	Version  string
	Commit   string // commit that provenance must name; empty accepts any
	Now      time.Time
	Waivers  Waivers
	// Sources are verified summaries of source revisions, and declarations: see
	// [PolicyRequest.AddSources].
	Sources []verify.Evidence
	// Finder completes signatures in legacy forms.
	Finder rekorv1.Finder
}

// JudgedFile is a file and its evidence.
type JudgedFile struct {
	Path string
	// Name is the artifact's name in the release, which the evidence must give.
	Name  string
	Class plan.Class
	// Bundles are the paths of signatures and attestations. Empty means the
	// file of the same name and [BundleSuffix].
	Bundles []string
	// SBOM is the path of an SPDX document, or empty.
	SBOM string
}

// begin starts a verdict with the policy's own checks. An exception applies to
// one destination: without a destination none applies.
func (r PolicyRequest) begin(question, destination string, classes ...plan.Class) *judge {
	if destination == "" {
		r.Waivers.Exceptions = nil
	}
	j := terms{r.Policy, r.Verifier.Root(), r.Waivers, r.Now, r.Sources}.begin(question)
	j.rule = byPolicyAlone{r.Policy, r.Sources}
	j.v.Scope.Checks = []string{"policy " + r.Policy.Name() + " at stage " + string(r.Stage)}
	j.v.Scope.Left = []string{"the rest of the release"}
	if _, judges := r.Policy.JudgesInputs(); judges {
		j.v.Scope.Left = append(j.v.Scope.Left, "inputs")
	}
	for _, lack := range r.Policy.Lacks(r.Stage, classes) {
		if lack != "plan" && !strings.HasPrefix(lack, "closed ") { // closure and plan concern the whole release
			j.v.Scope.Left = append(j.v.Scope.Left, lack)
			j.v.Scope.NotRequired = append(j.v.Scope.NotRequired, lack)
		}
	}
	return j
}

// byPolicyAlone is the policy as the [rule] for items that no manifest lists.
// An item of which the policy requires nothing is refused.
type byPolicyAlone struct {
	policy  policy.Policy
	sources []verify.Evidence
}

// Decide implements [rule].
func (b byPolicyAlone) Decide(i item) *verdict.Verdict {
	q, session := i.question, b.policy.NewSession(b.sources...)
	answer := session.Decide(i.evidence, q)
	if answer.Counts.Required == 0 && len(answer.Findings) == 0 {
		answer.Add(verdict.Find(verdict.PolicyEmpty, q.Subject, "the policy %q requires nothing of class %q at stage %q, so it accepts none", b.policy.Name(), q.Class, q.Stage).
			Advise("have the policy require a signature for this class, or name another class"))
	}
	noteTimestamps(answer, q.Subject, i.evidence)
	b.relied(answer, q, answer.Proofs)
	b.rate(session, answer, i)
	return answer
}

// rate adds the levels shown by the provenance that the policy counted for an
// item, and that shows the highest Build level; none if none shows a level.
func (b byPolicyAlone) rate(session *policy.Session, answer *verdict.Verdict, i item) {
	best := -1
	for _, e := range i.evidence {
		if !slices.ContainsFunc(answer.Proofs, func(p verdict.Proof) bool {
			return p.Role == string(policy.Builder) && p.Subject == i.question.Subject && p.Bundle.Equal(e.Bundle())
		}) {
			continue
		}
		report, err := session.Level(e, i.question, i.evidence...)
		if err != nil || report.Level(slsa.Build) <= best {
			continue
		}
		best, answer.Levels = report.Level(slsa.Build), slice.Map(tracks(), report.On)
	}
	if best >= 0 && (i.question.Class == plan.Image || i.question.Class == plan.ImageChild) {
		answer.Least = &verdict.Least{Track: string(slsa.Build), Level: best, Artifacts: 1, Path: []string{i.question.Subject}}
	}
}

func (r PolicyRequest) question(class plan.Class, name string, bytes digest.Set) policy.Question {
	return policy.Question{
		Stage: r.Stage, Class: class, Subject: name, Bytes: bytes, Version: r.Version, Commit: r.Commit, At: r.Now,
		Why: map[policy.Check]error{},
	}
}

// File decides about a file.
func (r PolicyRequest) File(ctx context.Context, f JudgedFile) *verdict.Verdict {
	j := r.begin(string(f.Class)+" "+f.Name+", "+f.Path, "", f.Class)
	bytes, err := File{Path: f.Path}.hash(ctx)
	if err != nil {
		return j.endUnknown(f.Path, err)
	}
	collected, strays := r.collectFile(f, bytes)
	j.addCounted(collected, "")
	if j.accepted[f.Name] && !j.refused() { // else the policy has already said what is missing or differs
		j.addFacts(strays)
	}
	j.v.Levels = joined(j.v.Levels)
	return j.endCounted()
}

// collectFile verifies every bundle of a file. An invalid bundle is a finding
// even if another one is sufficient, because the caller named it. Valid
// attestations of something else are strays: a file is not accepted together
// with them. A bundle may only be absent if the policy accepts unsigned files.
func (r PolicyRequest) collectFile(f JudgedFile, bytes digest.Set) (found, strays facts) {
	found.addInputs(verdict.Input{Name: f.Name, Place: f.Path, Digest: bytes.SHA256})
	paths, one := f.Bundles, File{Path: f.Path}
	if len(paths) == 0 {
		paths = []string{f.Path + BundleSuffix}
	}
	i := item{question: r.question(f.Class, f.Name, bytes)}
	named := false
	for _, path := range paths {
		raw, err := one.read(path, verify.MaxBundle)
		if len(f.Bundles) == 0 && r.Policy.InsecureUnsigned() && verdict.FindingOf(path, err).Code == verdict.EvidenceMissing {
			found.note("there is no %s, and no other bundle was named", path)
			break
		}
		var e verify.Evidence
		if err == nil {
			e, err = r.verify(raw, bytes)
		}
		if err != nil {
			i.differences = append(i.differences, difference{Finding: verdict.FindingOf(path, err), mode: policy.Require})
			continue
		}
		switch {
		case e.Statement().IsZero():
		case e.Covers(f.Name, bytes):
			named = true
		default:
			strays.refuse(verdict.Find(verdict.NotBound, path, "the attestation is valid, but not for %s with these bytes; its subjects: %s", f.Name, subjects(e)).
				Advise("pass the attestations of this file with --bundle, and the name that they use with --name"))
		}
		found.addInputs(verdict.Input{Name: path, Digest: e.Bundle()})
		i.evidence = append(i.evidence, e)
	}
	if f.SBOM != "" {
		document, err := documentIn(one, f.SBOM)
		_, i.question.SBOM = document.Describes()
		i.question.Why[policy.SBOM], i.question.Omitted = err, sbomcheck.Omitted(document)
		i.question.Lacks = lacking(r.Policy, i.question, document)
	}
	if !named {
		found.leave("its name: the verified evidence names only bytes")
	}
	found.items = []item{i}
	return found, strays
}

// verify verifies a bundle as the kind that it declares; the policy counts it
// as nothing else.
func (r PolicyRequest) verify(raw []byte, bytes digest.Set) (verify.Evidence, error) {
	said, err := verify.Read(raw)
	if err != nil {
		return verify.Evidence{}, err
	}
	if said.IsAttestation() {
		return r.Verifier.Attestation(raw)
	}
	return r.Verifier.Blob(raw, bytes)
}

// Counts reports whether a bundle is about an artifact, and by a signer that the
// policy names for it.
func (r PolicyRequest) Counts(raw []byte, q policy.Question) bool {
	e, err := r.verify(raw, q.Bytes)
	if err == nil {
		_, err = r.Policy.Acts(e, q)
	}
	return err == nil && (e.Statement().IsZero() || e.CoversBytes(q.Bytes.SHA256))
}

// lacking compares a document with the profile that the policy demands.
func lacking(p policy.Policy, q policy.Question, document spdx.Document) map[string][]string {
	_, profile := p.SBOMs(q.Stage, q.Class)
	return map[string][]string{profile: sbomcheck.Lacks(document, profile)}
}

func documentIn(f File, path string) (spdx.Document, error) {
	raw, err := f.read(path, maxDocument)
	if err != nil {
		return spdx.Document{}, err
	}
	document, err := spdx.Parse(raw)
	if err != nil {
		return spdx.Document{}, verdict.Refuse(verdict.NoSBOM, path, "the SBOM does not parse: %v", err)
	}
	return document, nil
}

// PlacedFile is a file in a remote place, with the digests of its bytes and the
// bundle beside it. Its name comes from a reviewed list, so evidence is bound
// by digest.
type PlacedFile struct {
	Name    string
	Class   plan.Class
	Digests digest.Set
	Bundle  []byte // empty if there is none
}

// Placed decides about a file in a remote place. Without evidence it is
// refused, even if the policy requires none of its class.
func (r PolicyRequest) Placed(f PlacedFile) *verdict.Verdict {
	j := r.begin(string(f.Class)+" "+f.Name, "", f.Class)
	j.addCounted(r.collectPlaced(f), "")
	return j.endCounted()
}

func (r PolicyRequest) collectPlaced(file PlacedFile) (f facts) {
	i := item{question: r.question(file.Class, file.Name, file.Digests)}
	f.addInputs(verdict.Input{Name: file.Name, Digest: file.Digests.SHA256})
	e, err := r.readBeside(file)
	if err == nil {
		f.addInputs(verdict.Input{Name: file.Name + BundleSuffix, Digest: e.Bundle()})
		i.question.ByDigest = !e.Statement().IsZero() // a plain signature gives no name
	}
	i.evidence, i.err = []verify.Evidence{e}, err
	f.items = []item{i}
	return f
}

// readBeside verifies the bundle beside the file.
func (r PolicyRequest) readBeside(f PlacedFile) (verify.Evidence, error) {
	if len(f.Bundle) == 0 {
		return verify.Evidence{}, verdict.Refuse(verdict.EvidenceMissing, f.Name, "no bundle is beside the file, so it is unsigned")
	}
	e, err := r.verify(f.Bundle, f.Digests)
	if err == nil && !e.Statement().IsZero() && !e.CoversBytes(f.Digests.SHA256) {
		err = verdict.Refuse(verdict.NotBound, f.Name, "the attestation beside the file is valid, but for other bytes; its subjects: %s", subjects(e))
	}
	return e, err
}
