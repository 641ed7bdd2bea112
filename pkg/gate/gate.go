// Package gate decides about a whole release: is everything there that the
// signed manifest lists, untampered, with its evidence, by the right roles,
// and nothing else?
//
// The same function serves the promotion gate, the downstream verifier and the
// producer's own last look; only the places differ.
//
//	g, err := gate.Open(ctx, "profile.yaml", gate.Opening{})
//	v, err := g.Verify(ctx, "v1.2.3")
//	err = v.Err()
//
// Everything is looked at and reported before the verdict falls. What cannot
// be reached is unavailable, never fine.
//
// # How a question is answered
//
// A collector reads the places and verifies signatures, in steps. What a step
// needs is in its arguments, and what it found is a value: [facts]. One judge
// takes the facts of all steps, the policy, the waivers and the time, and makes
// the verdict. Releases with and without a manifest, files, images and promotions
// have a collector each; the judge is the same.
//
// # How a check is added
//
// A check of releases with a manifest is one function and one row of checks():
//
//	func readmeIsListed(_ context.Context, g gathered) (f facts) {
//		if _, listed := g.release.manifest.Find("README.md"); !listed {
//			f.refuse(verdict.Find(verdict.Missing, "README.md", "the release has none"))
//		}
//		return f
//	}
//
// All commands, the pipeline, the service and the library then make it.
package gate

import (
	"context"
	"errors"
	"fmt"
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
	Images   registry.Source // nil when the release can have no images
	Canon    Canonical
	Verifier *verify.Verifier
	Policy   policy.Policy
	// Stage is where on its way the release is judged.
	Stage   policy.Stage
	Now     time.Time
	Options Options
	Waivers Waivers
	// Switches, if there are any, say how far the policy counts.
	Switches Switches
}

// Waivers are what is said about findings: which are known, and which the
// policy's officer or the user sets aside.
type Waivers struct {
	Lists      []waiver.List
	Accept     []string // known defects, by ID
	Exceptions []waiver.Exception
}

// Canonical are the addresses that the manifest must name.
type Canonical struct{ Files, Images string }

// Inside holds SBOMs against the files, modules and packages that are found in
// the artifacts themselves. What understands so many formats is large, and no
// part of the small verifier.
type Inside interface {
	File(ctx context.Context, a sbomcheck.Artifact, body io.Reader) (sbomcheck.Found, error)
	Image(ctx context.Context, a sbomcheck.Artifact, src registry.Source, repo string, node *registry.Node) (sbomcheck.Found, error)
}

// Options narrow or watch a decision.
type Options struct {
	// AllDigests compares the bytes of files by every digest that is listed.
	// SHA-256 alone binds every byte; the policy may ask for all, and what is
	// staged, or has no signed manifest, is always compared by all.
	AllDigests bool
	// Inside looks into the artifacts, if it is not nil: each is read once more.
	Inside Inside
	// Checkout, if it names a repository, must hold the commit of the release.
	Checkout Checkout
	// Scope says what is asked.
	Scope Scope
	// AcceptSummaries takes the summary of a verifier, where one counts by the
	// policy, in place of evaluating provenance.
	AcceptSummaries bool
	// Finder completes signatures that do not say when they were made; without a
	// log it asks the profile's.
	Finder rekorv1.Finder
	// Progress is told how much of how much has been hashed.
	Progress func(Progress)
}

// terms are by what the request is judged.
func (r Request) terms() terms {
	return terms{policy: r.Policy, root: r.Verifier.Root(), waivers: r.Waivers, now: r.Now}
}

// Decide decides, and keeps what it verified.
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
	if j.refused() {
		j.take(facts{counted: []counted{{name: releasemanifest.Name, asked: true}}})
		j.count()
		return Decided{Verdict: j.v}
	}
	m, found, err := readManifest(ctx, req)
	found.fail(releasemanifest.Name, err) // also where the error names something else, as a page
	j.take(found)
	if err != nil {
		j.count()
		return Decided{Verdict: j.end(req.Version, subjectsOf(m.Manifest))}
	}
	j.v.Question = fmt.Sprintf("release %s %s at %s", m.Name, m.Version, req.Files.URI())
	s, found, err := narrow(ctx, req, m)
	if err != nil {
		j.fail("request", err)
		return Decided{Verdict: j.v}
	}
	j.rule = byPolicy{s.hearing}
	j.take(found)
	s.decide(ctx, j)
	for _, lacks := range req.Policy.Lacks(req.Stage, s.manifest.classes()) {
		if !slices.Contains(j.v.Scope.Left, lacks) {
			j.take(facts{left: []string{lacks}})
		}
	}
	j.group(s.counted())
	if len(s.Options.Scope.Given) == 0 {
		j.count(s.counted())
	} else {
		j.count(s.countedHand())
	}
	v := j.end(s.Version, subjectsOf(s.manifest.Manifest))
	return Decided{Verdict: v, sums: s.sums(j.holds), bad: j.bad, classOf: s.manifest.classOf}
}

// itemsAtOnce is how many artifacts have their evidence in memory.
const itemsAtOnce = 512

// decide takes the steps, each with what the ones before it found out.
func (s *sealed) decide(ctx context.Context, j *judge) {
	late, found := s.checkFiles(ctx)
	j.take(found)
	if len(late) == 0 && s.Options.AcceptSummaries { // no listing named any
		late, found = s.fetchSummaries(ctx)
		j.take(found)
	}
	vouched, found := s.vouch(ctx, late)
	j.take(found)
	planned, found := s.checkPlan(ctx, vouched)
	j.take(found)
	g := gathered{release: s, late: late, vouched: vouched, planned: planned, sboms: s.prepareDocuments(ctx), holds: j.holds}
	for some := range slices.Chunk(g.filesToJudge(), itemsAtOnce) {
		j.take(g.items(ctx, some))
	}
	j.take(g.checkImages(ctx))
	for _, a := range g.images() {
		j.take(g.image(ctx, a))
	}
	for _, c := range checks() {
		j.take(c(ctx, g))
	}
}

// gathered is what the steps before found out about a release: what its checks
// start from.
type gathered struct {
	release *sealed
	late    lateEvidence
	vouched vouching
	planned plan.Plan // what the published release.yaml expands to, if it does
	sboms   *documents
	// holds reports whether nothing was found against an artifact so far. What
	// follows from a finding is not reported once more.
	holds func(artifact string) bool
}

// check is something that a release is held against.
type check func(context.Context, gathered) facts

// checks are made of every release with a manifest. None sees what another one
// found.
func checks() []check {
	return []check{
		checkRuns, checkSource, checkTags, checkDocuments, checkSums, checkStatement, checkSignoff, checkLegacy, checkAncestry,
	}
}

// sealed is a release whose manifest was verified, and what is asked about it.
// All steps read it, and none changes it.
type sealed struct {
	Request  // its policy as far as it counts for what is asked
	manifest signedManifest
	hearing  *policy.Session
	builds   provenances
	reader   *imageReader
	asked    map[string]bool // what the scope covers; nil for everything
	hand     []atHand        // the files that alone are asked about
}

// signedManifest is the manifest, and the bundle that it was read from.
type signedManifest struct {
	manifest.Manifest
	bundle   digest.Set
	evidence verify.Evidence
}

// classes are the classes of artifacts that the release has.
func (m signedManifest) classes() []plan.Class {
	var all []plan.Class
	for _, a := range m.Artifacts {
		if !slices.Contains(all, a.Class) {
			all = append(all, a.Class)
		}
	}
	return all
}

// subjectsOf are the artifacts that a list or an exception can be about.
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

// counted are the artifacts that are asked about.
func (s *sealed) counted() iter.Seq[counted] {
	return func(yield func(counted) bool) {
		for _, a := range s.manifest.Artifacts {
			if s.covers(a) && !yield(counted{name: a.Name, class: a.Class}) {
				return
			}
		}
	}
}

// readManifest fetches and verifies the manifest, and holds it against what was
// asked: version, places, life.
func readManifest(ctx context.Context, req Request) (m signedManifest, f facts, err error) {
	f.counted = []counted{{name: releasemanifest.Name}}
	raw, err := store.Read(ctx, req.Files, releasemanifest.Name, verify.MaxBundle)
	if errors.Is(err, store.ErrNotFound) {
		return m, f, verdict.Refuse(verdict.EvidenceMissing, releasemanifest.Name, "the place answers, but holds no release manifest; nothing can be proven without one").Advise(fixManifest)
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
	if err := m.isNamed(req.Options.Scope.Manifest); err != nil {
		return m, f, err
	}
	if err := req.Policy.Fresh(releasemanifest.Name, proof.SignedAt, req.Now); err != nil {
		return m, f, err
	}
	f.prove(proof)
	f.read(verdict.Input{Name: releasemanifest.Name, Place: req.Files.URI(), Digest: m.bundle.SHA256})
	if m.Revision > 1 {
		f.note("revision %d of the manifest, which supersedes %s: %s", m.Revision, m.Supersedes, m.Change)
	}
	return m, f, m.isOf(req)
}

// fixManifest is the next act where a place has no manifest.
const fixManifest = "check version, profile and address; a release that is published without a manifest needs a profile that says so, and a sealed one that has lost it is to be fetched again"

// isOf holds the manifest against what was asked.
func (m signedManifest) isOf(req Request) error {
	differ := func(code verdict.Code, message, want, got string) error {
		return &verdict.Error{Finding: verdict.Find(code, releasemanifest.Name, "%s", message).Differ(want, got)}
	}
	switch {
	case m.Version != req.Version:
		return differ(verdict.Version, "the manifest is of another version", req.Version.String(), m.Version.String())
	case m.FilesURI != req.Canon.Files:
		return differ(verdict.PlaceOther, "the manifest is of another file place", req.Canon.Files, m.FilesURI)
	case m.ImagesURI != "" && m.ImagesURI != req.Canon.Images:
		return differ(verdict.PlaceOther, "the manifest is of another registry", req.Canon.Images, m.ImagesURI)
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
