// Package gate decides about a whole release: does it contain exactly what the
// signed manifest lists, unchanged, and with evidence by the right roles?
//
// The promotion gate, the downstream verifier and the producer's own last check
// use the same function; only the places differ.
//
//	g, err := gate.Open(ctx, "profile.yaml", gate.Opening{})
//	v, err := g.Verify(ctx, "v1.2.3")
//	err = v.Err()
//
// Everything is checked and reported before the verdict. A place that cannot be
// reached makes the verdict unavailable, never accepted.
//
// # How a question is answered
//
// A collector reads the places and verifies signatures, in steps. A step gets
// its input as arguments and returns its results as a value: [facts]. One judge
// makes the verdict from the facts of all steps, the policy, the waivers and the
// time. Releases with and without a manifest, files, images and promotions have
// a collector each, and share the judge.
//
// # How a check is added
//
// A check of releases with a manifest is one function and one row of checks(),
// as docs/architecture.md shows. All commands, the pipeline, the service and the
// library then make the check.
package gate

import (
	"context"
	"errors"
	"io"
	"iter"
	"slices"
	"time"

	releasemanifest "github.com/waybill-release/waybill/attestations/release-manifest/v1"
	"github.com/waybill-release/waybill/pkg/backend/registry"
	"github.com/waybill-release/waybill/pkg/backend/rekorv1"
	"github.com/waybill-release/waybill/pkg/backend/store"
	"github.com/waybill-release/waybill/pkg/judge/policy"
	"github.com/waybill-release/waybill/pkg/judge/sbomcheck"
	"github.com/waybill-release/waybill/pkg/judge/verify"
	"github.com/waybill-release/waybill/pkg/judge/waiver"
	"github.com/waybill-release/waybill/pkg/release/manifest"
	"github.com/waybill-release/waybill/pkg/release/plan"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
	"github.com/waybill-release/waybill/pkg/value/version"
)

// Request asks about one release.
type Request struct {
	Version  version.Version
	Files    store.Place
	Images   registry.Source // nil if the release has no images
	Canon    Canonical
	Verifier *verify.Verifier
	Policy   policy.Policy
	// Stage is the stage at which the release is judged.
	Stage   policy.Stage
	Now     time.Time
	Options Options
	Waivers Waivers
	// Switches say which requirements of the policy are in force; may be nil.
	Switches Switches
	// Sources are verified summaries of source revisions, and declarations,
	// which count as far as the policy trusts their signers.
	Sources []verify.Evidence
	// FindSources also looks for summaries in git notes: in the checkout of the
	// options, or in the repository of the current directory.
	FindSources bool
	// Earlier is the [Decided.Evidence] of remembered releases; nil without memory.
	Earlier map[version.Version][]string
	world   *Opening // how to read what is elsewhere; nil if no [Gate] made the request
}

// Waivers are the lists of known defects, and what the policy's officer or the
// user sets aside.
type Waivers struct {
	Lists      []waiver.List
	Accept     []string // known defects, by ID
	Exceptions []waiver.Exception
}

// Canonical are the addresses that the manifest must name.
type Canonical struct{ Files, Images string }

// Inside compares SBOMs with the files, modules and packages inside the
// artifacts. It understands many formats and is therefore no part of the small
// verifier.
type Inside interface {
	File(ctx context.Context, a sbomcheck.Artifact, body io.Reader) (sbomcheck.Found, error)
	Image(ctx context.Context, a sbomcheck.Artifact, src registry.Source, repo string, node *registry.Node) (sbomcheck.Found, error)
}

// Options narrow or watch a decision.
type Options struct {
	// AllDigests compares files by every listed digest. SHA-256 alone binds
	// every byte. The policy may require all; staged releases and releases
	// without a manifest are always compared by all.
	AllDigests bool
	// Inside compares SBOMs with the contents of the artifacts, if not nil:
	// each artifact is read once more.
	Inside Inside
	// Checkout, if it names a repository, must contain the commit of the
	// release.
	Checkout Checkout
	// Scope says what is checked.
	Scope Scope
	// AcceptSummaries accepts a verifier's summary, if the policy counts it, in
	// place of evaluating provenance.
	AcceptSummaries bool
	// Finder completes signatures that carry no time; without a log it uses the
	// log of the profile.
	Finder rekorv1.Finder
	// Expected is the file of the list of what a release without a manifest
	// should contain; empty for the embedded list.
	Expected string
	// Progress is called with how far each long part of the decision has come.
	Progress func(Progress)
}

func (r Request) terms() terms {
	return terms{policy: r.Policy, root: r.Verifier.Root(), waivers: r.Waivers, now: r.Now, sources: r.Sources}
}

// Decide decides about a release with a manifest, and keeps the list of
// verified files.
func Decide(ctx context.Context, req Request) Decided {
	question := "release " + req.Version.String() + " at " + req.Files.URI()
	effective, err := Effective(req.Switches, req.Policy, req.Canon.places()...)
	if err != nil {
		v := verdict.New(question, req.Now)
		v.AddError("features", err)
		return Decided{Verdict: v}
	}
	req.Policy = effective
	j := req.terms().begin(question)
	j.v.Subject = req.Version.String()
	if j.refused() {
		j.addFacts(facts{counted: []counted{{name: releasemanifest.Name, asked: true}}})
		j.count()
		return Decided{Verdict: j.v}
	}
	m, found, err := readManifest(ctx, req)
	found.fail(releasemanifest.Name, err) // also if the error is about a page of the manifest
	j.addFacts(found)
	if err != nil {
		j.count()
		return Decided{Verdict: j.end(req.Version, subjectsOf(m.Manifest))}
	}
	j.v.Subject = m.Name + " " + m.Version.String()
	j.v.Question = "release " + j.v.Subject + " at " + req.Files.URI()
	j.v.Source = m.Source.Repository + " at commit " + m.Source.Commit
	s, found, err := narrow(ctx, req, m)
	if err != nil {
		j.fail("request", err)
		return Decided{Verdict: j.v}
	}
	j.rule = byPolicy{s.session}
	j.addFacts(found)
	s.decide(ctx, j)
	lines, found := compareEarlier(s, j)
	j.addFacts(found)
	for _, lacks := range req.Policy.Lacks(req.Stage, s.manifest.classes()) {
		if !slices.Contains(j.v.Scope.Left, lacks) {
			j.addFacts(facts{left: []string{lacks}, notRequired: []string{lacks}})
		}
	}
	if len(s.Options.Scope.Given) == 0 {
		j.group(s.counted())
		j.count(s.counted())
	} else {
		j.v.Subject = subjectGiven(s.Options.Scope.Given, j.v.Subject)
		j.count(s.countedGiven())
	}
	v := j.end(s.Version, subjectsOf(s.manifest.Manifest))
	return Decided{Verdict: v, Evidence: lines, sums: s.sums(j.holds), bad: j.bad, classOf: s.manifest.classOf, verified: verifiedOf(s, j.holds)}
}

// itemsAtOnce is how many artifacts have their evidence in memory at once.
const itemsAtOnce = 512

// decide runs the steps. Each step gets the results of those before it.
func (s *sealed) decide(ctx context.Context, j *judge) {
	late, found := s.checkFiles(ctx)
	vex := found.vexFiles
	j.addFacts(found)
	if len(late) == 0 && s.Options.AcceptSummaries { // the listing had none, or there was none
		late, found = s.fetchSummaries(ctx)
		j.addFacts(found)
	}
	vouched, found := s.vouch(ctx, late)
	j.addFacts(found)
	planned, found := s.checkPlan(ctx, vouched)
	j.addFacts(found)
	g := gathered{release: s, late: late, vex: vex, vouched: vouched, planned: planned, sboms: s.prepareDocuments(ctx), list: readSBOMList(ctx, s), holds: j.holds, tooLow: j.tooLow}
	due := g.filesToJudge()
	p := s.Options.watch(Progress{What: "reading the evidence of", Unit: "files", OfFiles: len(due)})
	for some := range slices.Chunk(due, itemsAtOnce) {
		j.addFacts(g.items(ctx, some, p))
	}
	j.addFacts(g.checkImages(ctx))
	for _, a := range g.images() {
		j.addFacts(g.image(ctx, a))
	}
	for _, c := range checks() {
		j.addFacts(c(ctx, g))
	}
}

// gathered are the results of the first steps, from which the checks start.
type gathered struct {
	release *sealed
	late    lateEvidence
	vex     []vexDocument // among the files
	vouched vouching
	planned plan.Plan // the expanded release.yaml; zero if it does not expand
	sboms   *documents
	list    sbomList
	// holds reports whether an artifact has no finding so far. Consequences of
	// a finding are not reported again.
	holds func(artifact string) bool
	// tooLow reports whether its level is reported as too low already.
	tooLow func(artifact string) bool
}

type check func(context.Context, gathered) facts

// checks are made for every release with a manifest. No check sees the results
// of another.
func checks() []check {
	return []check{
		checkRuns, checkSource, checkPlaceTag, checkTags, checkDocuments, checkSBOMList, checkSums, checkStatement, checkSignoff, checkLegacy, checkAncestry, checkVEX,
	}
}

// sealed is a release with a verified manifest, and the request about it. All
// steps read it, and none changes it.
type sealed struct {
	Request  // its policy is the one in force in this scope
	manifest signedManifest
	session  *policy.Session
	builds   provenances
	reader   *imageReader
	asked    map[string]bool // names of the artifacts in scope; nil for all
	given    []givenFile     // the given files, if the scope names files
}

// signedManifest is the manifest with the digests and evidence of its bundle.
type signedManifest struct {
	manifest.Manifest
	bundle   digest.Set
	evidence verify.Evidence
}

// classes returns the classes of artifacts in the release.
func (m signedManifest) classes() (all []plan.Class) {
	for _, a := range m.Artifacts {
		if !slices.Contains(all, a.Class) {
			all = append(all, a.Class)
		}
	}
	return all
}

// subjectsOf returns what a list or an exception can be about.
func subjectsOf(m manifest.Manifest) (all []waiver.Subject) {
	for _, a := range m.Artifacts {
		place := m.FilesURI
		if a.IsImage() {
			place = m.ImagesURI
		}
		all = append(all, waiver.Subject{Name: a.Name, Digests: a.Digests, Destination: place})
	}
	return all
}

// counted are the artifacts in scope.
func (s *sealed) counted() iter.Seq[counted] {
	return func(yield func(counted) bool) {
		for _, a := range s.manifest.Artifacts {
			if s.covers(a) && !yield(counted{name: a.Name, class: a.Class, bytes: firstOf(a.Digests)}) {
				return
			}
		}
	}
}

// readManifest fetches and verifies the manifest, and compares it with the
// request: version, places, expiry.
func readManifest(ctx context.Context, req Request) (m signedManifest, f facts, err error) {
	f.counted = []counted{{name: releasemanifest.Name, class: classManifest}}
	raw, err := store.Read(ctx, req.Files, releasemanifest.Name, verify.MaxBundle)
	if errors.Is(err, store.ErrNotFound) {
		return m, f, verdict.Refuse(verdict.EvidenceMissing, releasemanifest.Name, "the place answers, but has no release manifest, so the release cannot be verified").Advise(fixManifest)
	}
	if err != nil {
		return m, f, err
	}
	e, err := req.Verifier.Attestation(raw)
	if err != nil {
		return m, f, inBundle(releasemanifest.Name, releasemanifest.Name, err)
	}
	read, proof, err := req.Policy.ManifestFrom(e, pagesIn(ctx, req.Files))
	if err != nil {
		return m, f, err
	}
	m = signedManifest{Manifest: read, bundle: digest.SetOf(raw), evidence: e}
	f.counted[0].bytes = m.bundle.SHA256
	if err := m.isNamed(req.Options.Scope.Manifest); err != nil {
		return m, f, err
	}
	if err := req.Policy.Fresh(releasemanifest.Name, proof.SignedAt, req.Now); err != nil {
		return m, f, err
	}
	f.prove(proof)
	f.addInputs(verdict.Input{Name: releasemanifest.Name, Place: req.Files.URI(), Digest: m.bundle.SHA256})
	if m.Revision > 1 {
		f.tell("Revision %d of the manifest, which supersedes %s: %s", m.Revision, m.Supersedes, m.Change)
	}
	return m, f, m.isOf(req)
}

// Manifest returns the manifest of a release, which the policy accepts, before what it
// lists is judged.
func (g Gate) Manifest(ctx context.Context, r Request) (manifest.Manifest, error) {
	m, _, err := readManifest(ctx, r)
	return m.Manifest, err
}

// fixManifest is the next act where a place has no manifest.
const fixManifest = "check version, profile and address; if the release is published without a manifest, use a profile that says so; if it is sealed, fetch it again"

func (m signedManifest) isOf(req Request) error {
	differ := func(code verdict.Code, message, want, got string) error {
		return &verdict.Error{Finding: verdict.Find(code, releasemanifest.Name, "%s", message).Differ(want, got)}
	}
	switch {
	case m.Version != req.Version:
		return differ(verdict.Version, "the manifest is for another version", req.Version.String(), m.Version.String())
	case m.FilesURI != req.Canon.Files:
		return differ(verdict.PlaceOther, "the manifest is for another file place", req.Canon.Files, m.FilesURI)
	case m.ImagesURI != "" && m.ImagesURI != req.Canon.Images:
		return differ(verdict.PlaceOther, "the manifest is for another registry", req.Canon.Images, m.ImagesURI)
	case m.Withdrawn != nil:
		return withdrawn(*m.Withdrawn)
	case !m.Expires.IsZero() && req.Now.After(m.Expires):
		return differ(verdict.Expired, "the manifest has expired", "a manifest valid at "+req.Now.Format(time.RFC3339), m.Expires.Format(time.RFC3339))
	}
	return nil
}

func withdrawn(w manifest.Withdrawal) error {
	if w.Use == "" {
		return verdict.Refuse(verdict.Withdrawn, releasemanifest.Name, "withdrawn: %s", w.Reason)
	}
	return verdict.Refuse(verdict.Withdrawn, releasemanifest.Name, "withdrawn: %s; use %s instead", w.Reason, w.Use)
}
