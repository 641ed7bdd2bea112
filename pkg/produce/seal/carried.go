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
	"github.com/waybill-release/waybill/pkg/tool/plural"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// luggage is what came along with the files of another tool: provenance, SBOMs
// and checksums. Nothing of it is believed for being there, but what
// contradicts the bytes that it came with is sealed by nobody.
type luggage struct {
	Request
	from map[string]string // the name in the place, by that in the release
}

// inspect holds everything that came along against the bytes that were taken
// over, and each program against its platform. Every disagreement is listed.
func inspect(ctx context.Context, req Request) error {
	l := luggage{req, map[string]string{}}
	for _, g := range append(req.Plan.Given, req.Plan.GivenImages...) {
		l.from[g.Name] = g.From
	}
	var findings []verdict.Finding
	for _, look := range []func(context.Context) ([]verdict.Finding, error){l.lacking, l.provenances, l.sboms, l.checksums, l.programs, l.archives} {
		found, err := look(ctx)
		if err != nil {
			return err
		}
		findings = append(findings, found...)
	}
	return all(req, findings)
}

// about lists the artifacts that name a piece of evidence.
func (l luggage) about(evidence string) (list []plan.Artifact) {
	for _, a := range l.Plan.Artifacts {
		for _, e := range a.Evidence {
			if e.Name == evidence {
				list = append(list, a)
			}
		}
	}
	return list
}

// asked says how much a check counts, at most, for any of the artifacts.
func (l luggage) asked(list []plan.Artifact, check policy.Check) policy.Mode {
	mode := policy.Off
	for _, a := range list {
		if m := l.Policy.Asks(policy.Published, a.Class, check); m == policy.Require || mode == policy.Off {
			mode = m
		}
	}
	return mode
}

// lacking refuses what the policy requires and nothing that came along could
// be: no verifier would accept the release.
func (l luggage) lacking(context.Context) (findings []verdict.Finding, err error) {
	for _, a := range l.Plan.Artifacts {
		if l.Policy.Asks(policy.Published, a.Class, policy.Provenance) == policy.Require && !a.Has(plan.KindProvenance) {
			findings = append(findings, verdict.Find(verdict.NoProvenance, a.Name, "the policy requires provenance, and release.yaml names none that came with it"))
		}
		if l.Policy.Asks(policy.Published, a.Class, policy.SBOM) == policy.Require && !a.Has(plan.KindSBOM) {
			findings = append(findings, verdict.Find(verdict.NoSBOM, a.Name, "the policy requires an SBOM, and release.yaml names none that came with it"))
		}
	}
	return findings, nil
}

// provenances reads the provenance that came along. What a signer that the
// policy knows says is verified; anything else is carried, and the report says
// why it counts for nothing. Where the policy requires provenance, that stops
// the seal.
func (l luggage) provenances(ctx context.Context) (findings []verdict.Finding, err error) {
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
			findings = append(findings, of(a.Name, unproven))
			continue
		}
		if _, err := provenance.Read(said); err != nil {
			findings = append(findings, of(a.Name, err))
			continue
		}
		for _, user := range users {
			if err := l.speaks(said, user); err != nil {
				findings = append(findings, of(user.Name, err))
			}
		}
		if unproven == nil {
			unproven = l.believe(e, users)
		}
		switch {
		case unproven == nil:
			l.Report(ctx, "%s: signed by %s, and verified: %s", a.Name, e.Identity(), l.level(e, users))
		case l.asked(users, policy.Provenance) == policy.Require:
			findings = append(findings, of(a.Name, unproven))
		default:
			l.Report(ctx, "%s: carried, and believed by nobody: %s", a.Name, of(a.Name, unproven).Message)
		}
	}
	return findings, nil
}

// of is the finding of an error, about the file that was looked at.
func of(name string, err error) verdict.Finding {
	f := verdict.FindingOf(name, err)
	if f.Subject != name && f.Subject != "" {
		f.Message = f.Subject + ": " + f.Message
	}
	f.Subject = name
	return f
}

// read reads what some provenance says, and proves who said it, or why not.
// The statement is zero if there is none.
func (l luggage) read(raw []byte) (intoto.Statement, verify.Evidence, error) {
	if bundle, err := verify.Read(raw); err == nil && bundle.IsAttestation() {
		e, err := l.Verifier.Attestation(raw)
		if err == nil {
			return e.Statement(), e, nil
		}
		said, parsed := intoto.ParseOpen(bundle.Payload)
		return said, verify.Evidence{}, errors.Join(parsed, err)
	}
	unsigned := verdict.Refuse(verdict.NoProvenance, "", "nobody signed it")
	if envelope, err := intoto.ParseEnvelope(raw); err == nil {
		said, err := envelope.Statement()
		unsigned = verdict.Refuse(verdict.NoProvenance, "", "it is an envelope without a certificate: who signed it cannot be found out")
		return said, verify.Evidence{}, errors.Join(err, unsigned)
	}
	said, err := intoto.ParseOpen(raw)
	if err != nil {
		return intoto.Statement{}, verify.Evidence{}, err
	}
	return said, verify.Evidence{}, unsigned
}

// believe asks the policy about verified provenance, as a verifier will: the
// builder, its source, the commit of this release, and the name of everything
// that it is to count for.
func (l luggage) believe(e verify.Evidence, users []plan.Artifact) error {
	if err := l.Policy.Provenance(e, l.Plan.Version.String()); err != nil {
		return err
	}
	claim, err := provenance.Read(e.Statement())
	if err != nil {
		return err
	}
	if want := l.Workspace.Identity().Commit.Commit; claim.Source.Commit != want {
		return &verdict.Error{Finding: verdict.Find(verdict.SourceCommit, "", "built from another commit than this release").Differ(want, claim.Source.Commit)}
	}
	for _, a := range users {
		ask := policy.Ask{Role: policy.Builder, Kind: e.Kind(), Subject: a.Name, Bytes: l.taken[a.Name], InRegistry: a.IsImage()}
		if _, err := l.Policy.Judge(e, ask); err != nil {
			return err
		}
	}
	return nil
}

// level says how far verified provenance takes what it is about.
func (l luggage) level(e verify.Evidence, users []plan.Artifact) string {
	hearing, lowest := l.Policy.NewSession(), -1
	for _, a := range users {
		report, err := hearing.Level(e, policy.Question{
			Stage: policy.Published, Class: a.Class, Subject: a.Name, Bytes: l.taken[a.Name], ByDigest: a.IsImage(),
			Version: l.Plan.Version.String(), Commit: l.Workspace.Identity().Commit.Commit, At: l.Clock(),
		})
		if err != nil {
			return "no level can be read from it: " + err.Error()
		}
		if level := report.On(slsa.Build).Level; lowest < 0 || level < lowest {
			lowest = level
		}
	}
	return fmt.Sprintf("Build level %d of 3 for %s", max(lowest, 0), plural.Of(len(users), "artifact"))
}

// speaks demands that a statement gives an artifact the very bytes that were
// taken over. Others name things by their whole address: of all subjects those
// count whose names end most like the artifact's.
func (l luggage) speaks(said intoto.Statement, a plan.Artifact) error {
	set := l.taken[a.Name]
	if a.IsImage() {
		if said.Binds(digest.Set{SHA256: set.SHA256}) {
			return nil
		}
		return verdict.Refuse(verdict.NotBound, a.Name, "the provenance that came with it speaks of another image")
	}
	most, nearest := 0, []intoto.Subject(nil)
	for _, s := range said.Subjects() {
		n := max(sameEnd(s.Name, a.Name), sameEnd(s.Name, l.from[a.Name]))
		if n > most {
			most, nearest = n, nil
		}
		if n == most && n > 0 {
			nearest = append(nearest, s)
		}
	}
	if len(nearest) == 0 {
		return verdict.Refuse(verdict.NotBound, a.Name, "the provenance that came with it does not speak of it")
	}
	for _, s := range nearest {
		if s.Binds(set) {
			return nil
		}
	}
	return &verdict.Error{Finding: verdict.Find(verdict.NotBound, a.Name, "the provenance that came with it gives other bytes to %.200q", nearest[0].Name).
		Differ(set.SHA256.String(), nearest[0].Digests.SHA256.String())}
}

// sameEnd counts the parts in which two paths end alike.
func sameEnd(a, b string) (n int) {
	x, y := strings.Split(a, "/"), strings.Split(b, "/")
	for n < len(x) && n < len(y) && x[len(x)-1-n] == y[len(y)-1-n] {
		n++
	}
	return n
}

// sboms holds the SBOMs that came along against what they are of. A document
// of another kind is carried and compared with nothing, unless the policy
// requires one that can be read.
func (l luggage) sboms(ctx context.Context) (findings []verdict.Finding, err error) {
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
		case l.asked(users, policy.SBOM) == policy.Require || looksSPDX(string(text)):
			findings = append(findings, of(a.Name, err))
		default:
			l.Report(ctx, "%s: carried, and compared with nothing: %s", a.Name, of(a.Name, err).Message)
		}
	}
	return findings, nil
}

// readTheirs reads a document of another tool: poor ones too, if they can not
// be misread.
func readTheirs(text string) (spdx.Document, error) {
	document, report := spdx.Validate(text)
	for _, f := range report.Faults {
		if f.Code() != verdict.SBOMInvalid {
			return spdx.Document{}, verdict.Wrap(f.Code(), "", f)
		}
	}
	if document.IsZero() {
		return spdx.Document{}, verdict.Refuse(verdict.StatementParse, "", "it is no SPDX document")
	}
	return document, nil
}

// looksSPDX tells a broken SPDX document from one of another kind.
func looksSPDX(text string) bool {
	return strings.Contains(text, "SPDXVersion:") || strings.Contains(text, `"spdxVersion"`)
}

// describes demands that a document gives each artifact that it is of its very
// bytes, as what it describes or among what it lists.
func (l luggage) describes(document spdx.Document, name string, users []plan.Artifact) (findings []verdict.Finding) {
	_, whole := document.Describes()
	for _, a := range users {
		set := l.taken[a.Name]
		if whole.Equal(set.SHA256) {
			continue
		}
		got := whole.String()
		most, found := 0, false
		for _, thing := range things(document) {
			n := max(sameEnd(thing.name, a.Name), sameEnd(thing.name, l.from[a.Name]))
			if n > most {
				most, found, got = n, false, thing.digests.SHA256.String()
			}
			if n == most && n > 0 {
				found = found || thing.digests.SHA256.Equal(set.SHA256)
			}
		}
		if !found {
			findings = append(findings, verdict.Find(verdict.SBOMSubject, a.Name, "the SBOM that came with it, %s, describes other bytes", name).
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
