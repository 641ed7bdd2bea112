package seal

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/waybill-release/waybill/pkg/backend/store"
	"github.com/waybill-release/waybill/pkg/document/intoto"
	"github.com/waybill-release/waybill/pkg/document/provenance"
	"github.com/waybill-release/waybill/pkg/document/spdx"
	"github.com/waybill-release/waybill/pkg/judge/policy"
	"github.com/waybill-release/waybill/pkg/judge/slsa"
	"github.com/waybill-release/waybill/pkg/judge/verify"
	"github.com/waybill-release/waybill/pkg/release/plan"
	"github.com/waybill-release/waybill/pkg/tool/pathend"
	"github.com/waybill-release/waybill/pkg/tool/plural"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// carriedFiles is the evidence that another tool supplied with its files:
// provenance, SBOMs and checksums. It is not trusted, but evidence that
// contradicts the bytes beside it stops the seal.
type carriedFiles struct {
	Request
	nameInPlace map[string]string // the name in the place, by the name in the release
}

// inspect compares all supplied evidence with the imported bytes, and each
// program with its platform. Every disagreement is a finding.
func inspect(ctx context.Context, req Request) error {
	l := carriedFiles{req, map[string]string{}}
	for _, g := range append(req.Plan.Given, req.Plan.GivenImages...) {
		l.nameInPlace[g.Name] = g.From
	}
	var findings []verdict.Finding
	for _, look := range []func(context.Context) ([]verdict.Finding, error){l.lacking, l.provenances, l.sboms, l.checksums, l.programs, l.archives} {
		found, err := look(ctx)
		if err != nil {
			return err
		}
		findings = append(findings, found...)
	}
	return findingsError(req, findings)
}

// about lists the artifacts that name a piece of evidence.
func (l carriedFiles) about(evidence string) (list []plan.Artifact) {
	for _, a := range l.Plan.Artifacts {
		for _, e := range a.Evidence {
			if e.Name == evidence {
				list = append(list, a)
			}
		}
	}
	return list
}

// strictest is the strictest mode in which a check counts for any of the
// artifacts.
func (l carriedFiles) strictest(list []plan.Artifact, check policy.Check) policy.Mode {
	mode := policy.Off
	for _, a := range list {
		if m := l.Policy.Asks(policy.Published, a.Class, check); m == policy.Require || mode == policy.Off {
			mode = m
		}
	}
	return mode
}

// lacking refuses artifacts without evidence that the policy requires: no
// verifier would accept the release.
func (l carriedFiles) lacking(context.Context) (findings []verdict.Finding, err error) {
	for _, a := range l.Plan.Artifacts {
		if l.Policy.Asks(policy.Published, a.Class, policy.Provenance) == policy.Require && !a.Has(plan.KindProvenance) {
			findings = append(findings, verdict.Find(verdict.NoProvenance, a.Name, "the policy requires provenance, but release.yaml names none for this artifact"))
		}
		if l.Policy.Asks(policy.Published, a.Class, policy.SBOM) == policy.Require && !a.Has(plan.KindSBOM) {
			findings = append(findings, verdict.Find(verdict.NoSBOM, a.Name, "the policy requires an SBOM, but release.yaml names none for this artifact"))
		}
	}
	return findings, nil
}

// provenances reads the supplied provenance. Provenance by a signer that the
// policy lists is verified; other provenance is published unchanged, and the
// report says why it does not count. If the policy requires provenance, that
// stops the seal.
func (l carriedFiles) provenances(ctx context.Context) (findings []verdict.Finding, err error) {
	for _, a := range l.Plan.Artifacts {
		if a.Class != plan.Provenance {
			continue
		}
		raw, err := readFile(ctx, l.Request, a.Name)
		if err != nil {
			return nil, err
		}
		users := l.about(a.Name)
		said, e, unproven := l.read(raw)
		if said.IsZero() {
			findings = append(findings, findingFor(a.Name, unproven))
			continue
		}
		if _, err := provenance.Read(said); err != nil {
			findings = append(findings, findingFor(a.Name, err))
			continue
		}
		for _, user := range users {
			if err := l.namesBytesOf(said, user); err != nil {
				findings = append(findings, findingFor(user.Name, err))
			}
		}
		if unproven == nil {
			unproven = l.believe(e, users)
		}
		switch {
		case unproven == nil:
			l.Report(ctx, "%s: signed by %s and verified: %s", a.Name, e.Identity(), l.level(e, users))
		case l.strictest(users, policy.Provenance) == policy.Require:
			findings = append(findings, findingFor(a.Name, unproven))
		default:
			l.Report(ctx, "%s: published unchanged, but not counted as evidence: %s", a.Name, findingFor(a.Name, unproven).Message)
		}
	}
	return findings, nil
}

// findingFor is the finding of an error, about a file.
func findingFor(name string, err error) verdict.Finding {
	f := verdict.FindingOf(name, err)
	if f.Subject != name && f.Subject != "" {
		f.Message = f.Subject + ": " + f.Message
	}
	f.Subject = name
	return f
}

// read parses provenance, and verifies its signer, or says why not. The
// statement is zero if there is none.
func (l carriedFiles) read(raw []byte) (intoto.Statement, verify.Evidence, error) {
	if bundle, err := verify.Read(raw); err == nil && bundle.IsAttestation() {
		e, err := l.Verifier.Attestation(raw)
		if err == nil {
			return e.Statement(), e, nil
		}
		said, parsed := intoto.ParseOpen(bundle.Payload)
		return said, verify.Evidence{}, errors.Join(parsed, err)
	}
	unsigned := verdict.Refuse(verdict.NoProvenance, "", "unsigned")
	if envelope, err := intoto.ParseEnvelope(raw); err == nil {
		said, err := envelope.Statement()
		unsigned = verdict.Refuse(verdict.NoProvenance, "", "the envelope has no certificate, so its signer is unknown")
		return said, verify.Evidence{}, errors.Join(err, unsigned)
	}
	said, err := intoto.ParseOpen(raw)
	if err != nil {
		return intoto.Statement{}, verify.Evidence{}, err
	}
	return said, verify.Evidence{}, unsigned
}

// believe judges verified provenance as a verifier will: the builder, its
// source, the commit of this release, and the name of everything for which it
// counts.
func (l carriedFiles) believe(e verify.Evidence, users []plan.Artifact) error {
	if err := l.Policy.Provenance(e, l.Plan.Version.String()); err != nil {
		return err
	}
	claim, err := provenance.Read(e.Statement())
	if err != nil {
		return err
	}
	if want := l.Workspace.Identity().Commit.Commit; claim.Source.Commit != want {
		return &verdict.Error{Finding: verdict.Find(verdict.SourceCommit, "", "built from a different commit than this release").Differ(want, claim.Source.Commit)}
	}
	for _, a := range users {
		ask := policy.Ask{Role: policy.Builder, Kind: e.Kind(), Subject: a.Name, Bytes: l.imported[a.Name], InRegistry: a.IsImage()}
		if _, err := l.Policy.Judge(e, ask); err != nil {
			return err
		}
	}
	return nil
}

// level is the build level that verified provenance gives its subjects.
func (l carriedFiles) level(e verify.Evidence, users []plan.Artifact) string {
	session, lowest := l.Policy.NewSession(), -1
	for _, a := range users {
		report, err := session.Level(e, policy.Question{
			Stage: policy.Published, Class: a.Class, Subject: a.Name, Bytes: l.imported[a.Name], ByDigest: a.IsImage(),
			Version: l.Plan.Version.String(), Commit: l.Workspace.Identity().Commit.Commit, At: l.Clock(),
		})
		if err != nil {
			return "no level: " + err.Error()
		}
		if level := report.On(slsa.Build).Level; lowest < 0 || level < lowest {
			lowest = level
		}
	}
	return fmt.Sprintf("SLSA Build Level %d for %s", max(lowest, 0), plural.Of(len(users), "artifact"))
}

// namesBytesOf demands that a statement names an artifact with its imported bytes.
// Other tools use complete addresses as names: only the subjects whose names
// match the end of the artifact's name best are compared.
func (l carriedFiles) namesBytesOf(said intoto.Statement, a plan.Artifact) error {
	set := l.imported[a.Name]
	if a.IsImage() {
		if said.Binds(digest.Set{SHA256: set.SHA256}) {
			return nil
		}
		return verdict.Refuse(verdict.NotBound, a.Name, "the supplied provenance is of another image")
	}
	most, nearest := 0, []intoto.Subject(nil)
	for _, s := range said.Subjects() {
		n := max(pathend.Common(s.Name, a.Name), pathend.Common(s.Name, l.nameInPlace[a.Name]))
		if n > most {
			most, nearest = n, nil
		}
		if n == most && n > 0 {
			nearest = append(nearest, s)
		}
	}
	if len(nearest) == 0 {
		return verdict.Refuse(verdict.NotBound, a.Name, "the supplied provenance does not name this artifact")
	}
	for _, s := range nearest {
		if s.Binds(set) {
			return nil
		}
	}
	return &verdict.Error{Finding: verdict.Find(verdict.NotBound, a.Name, "the supplied provenance has another digest for %.200q", nearest[0].Name).
		Differ(set.SHA256.String(), nearest[0].Digests.SHA256.String())}
}

// sboms compares the supplied SBOMs with their artifacts. A document in
// another format is published without a comparison, unless the policy
// requires a readable one.
func (l carriedFiles) sboms(ctx context.Context) (findings []verdict.Finding, err error) {
	for _, a := range l.Plan.Artifacts {
		if a.Class != plan.SBOM {
			continue
		}
		text, err := store.Read(ctx, l.Workspace.Files(), a.Name, spdx.MaxSize)
		if err != nil {
			return nil, err
		}
		users := l.about(a.Name)
		document, err := readTheirs(string(text))
		switch {
		case err == nil:
			findings = append(findings, l.describes(document, a.Name, users)...)
		case l.strictest(users, policy.SBOM) == policy.Require || looksSPDX(string(text)):
			findings = append(findings, findingFor(a.Name, err))
		default:
			l.Report(ctx, "%s: published unchanged, without a comparison: %s", a.Name, findingFor(a.Name, err).Message)
		}
	}
	return findings, nil
}

// readTheirs reads a document of another tool, incomplete ones too, if they
// are not ambiguous.
func readTheirs(text string) (spdx.Document, error) {
	document, report := spdx.Validate(text)
	for _, f := range report.Faults {
		if f.Code() != verdict.SBOMInvalid {
			return spdx.Document{}, verdict.Wrap(f.Code(), "", f)
		}
	}
	if document.IsZero() {
		return spdx.Document{}, verdict.Refuse(verdict.StatementParse, "", "not an SPDX document")
	}
	return document, nil
}

// looksSPDX distinguishes a broken SPDX document from one in another format.
func looksSPDX(text string) bool {
	return strings.Contains(text, "SPDXVersion:") || strings.Contains(text, `"spdxVersion"`)
}

// describes demands that a document contains the digest of each of its
// artifacts, as its subject or in its list.
func (l carriedFiles) describes(document spdx.Document, name string, users []plan.Artifact) (findings []verdict.Finding) {
	_, whole := document.Describes()
	for _, a := range users {
		set := l.imported[a.Name]
		if whole.Equal(set.SHA256) {
			continue
		}
		got := whole.String()
		most, found := 0, false
		for _, thing := range things(document) {
			n := max(pathend.Common(thing.name, a.Name), pathend.Common(thing.name, l.nameInPlace[a.Name]))
			if n > most {
				most, found, got = n, false, thing.digests.SHA256.String()
			}
			if n == most && n > 0 {
				found = found || thing.digests.SHA256.Equal(set.SHA256)
			}
		}
		if !found {
			findings = append(findings, verdict.Find(verdict.SBOMSubject, a.Name, "the supplied SBOM %s describes other bytes", name).
				Differ(set.SHA256.String(), got))
		}
	}
	return findings
}

// thing is something that a document names.
type thing struct {
	name    string
	digests digest.Set
}

func things(document spdx.Document) (list []thing) {
	for _, p := range document.Packages() {
		for _, name := range []string{p.Name, p.FileName} {
			if name != "" && !p.Digests.IsZero() {
				list = append(list, thing{strings.TrimPrefix(name, "./"), p.Digests})
			}
		}
	}
	for _, f := range document.Files() {
		list = append(list, thing{strings.TrimPrefix(f.Name, "./"), f.Digests})
	}
	return list
}
