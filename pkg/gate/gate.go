// Package gate decides about a whole release: is everything there that the
// signed manifest lists, untampered, with its evidence, by the right roles,
// and nothing else?
//
// The same function serves the promotion gate, the downstream verifier and the
// producer's own last look; only the places differ.
//
//	d := gate.Decide(ctx, gate.Request{Files: place, Images: source, …})
//	err := d.Verdict.Err()
//
// Everything is looked at and reported before the verdict falls. What cannot
// be reached is unavailable, never fine.
package gate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	releasemanifest "github.com/waybill-release/waybill/attestations/release-manifest/v1"
	"github.com/waybill-release/waybill/pkg/digest"
	"github.com/waybill-release/waybill/pkg/plan"
	"github.com/waybill-release/waybill/pkg/policy"
	"github.com/waybill-release/waybill/pkg/registry"
	"github.com/waybill-release/waybill/pkg/rekor"
	"github.com/waybill-release/waybill/pkg/release"
	"github.com/waybill-release/waybill/pkg/sbom/crosscheck"
	"github.com/waybill-release/waybill/pkg/store"
	"github.com/waybill-release/waybill/pkg/verdict"
	"github.com/waybill-release/waybill/pkg/verify"
	"github.com/waybill-release/waybill/pkg/version"
	"github.com/waybill-release/waybill/pkg/waiver"
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
	File(ctx context.Context, a crosscheck.Artifact, body io.Reader) (crosscheck.Found, error)
	Image(ctx context.Context, a crosscheck.Artifact, src registry.Source, repo string, node *registry.Node) (crosscheck.Found, error)
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
	Finder rekor.Finder
	// Progress is told how much of how much has been hashed.
	Progress func(Progress)
}

// Decide decides, and keeps what it verified.
func Decide(ctx context.Context, req Request) Decided {
	v := verdict.New("release "+req.Version.String()+" at "+req.Files.URI(), req.Now)
	effective, err := Effective(req.Switches, req.Policy, req.Canon.places()...)
	if err != nil {
		v.AddError("features", err)
		return Decided{Verdict: v}
	}
	req.Policy = effective
	v.Policy, v.Features, v.TrustRoot = req.Policy.Digest(), req.Policy.Features(), req.Verifier.Root().Digest()
	if req.Verifier.Root().IsLab() {
		v.Note("the trust root is an INSECURE LAB: anybody can have its keys")
	}
	d := &decision{Request: req, v: v, bad: map[string]bool{}, hearing: req.Policy.Hear()}
	v.Counts.Required = 1
	if err := errors.Join(req.Policy.Life(req.Now), req.Policy.Root(req.Verifier.Root().IsLab())); err != nil {
		v.AddError("policy "+req.Policy.Name(), err)
		return Decided{Verdict: v}
	}
	if err := d.readManifest(ctx); err != nil {
		v.AddError(releasemanifest.Name, err)
		d.waive()
		return Decided{Verdict: v}
	}
	v.Counts.Verified = 1
	v.Question = fmt.Sprintf("release %s %s at %s", d.manifest.Name, d.manifest.Version, req.Files.URI())
	if err := errors.Join(d.vouching(), d.narrow()); err != nil {
		v.AddError("request", err)
		return Decided{Verdict: v}
	}
	d.look(ctx)
	for _, lacks := range req.Policy.Lacks(req.Stage, d.classes()) {
		if !slices.Contains(v.Scope.Left, lacks) {
			d.leave(lacks)
		}
	}
	d.count()
	checkClock(v)
	d.waive()
	slices.SortStableFunc(v.Findings, byWeight)
	return Decided{Verdict: v, sums: d.sums(), bad: d.bad, classOf: d.classOf}
}

// look looks at everything that is asked about.
func (d *decision) look(ctx context.Context) {
	d.v.Scope.Checks = d.checks()
	d.planAttested(ctx)
	d.checkFiles(ctx)
	d.vouch(ctx)
	d.checkPlan(ctx)
	d.prepareDocuments(ctx)
	d.checkRuns()
	d.checkSource(ctx)
	d.checkFileEvidence(ctx)
	d.checkImages(ctx)
	d.checkDocuments(ctx)
	d.checkSums(ctx)
	d.checkStatement(ctx)
	d.checkSignoff(ctx)
	d.checkLegacy(ctx)
	d.checkAncestry()
}

// clockSkew is how far the clock may be behind an authority's.
const clockSkew = 5 * time.Minute

// checkClock refuses to judge by a time at which what was proven had not been
// signed yet: such a clock is wrong, and no life of anything can be held
// against it.
func checkClock(v *verdict.Verdict) {
	for _, p := range v.Proofs {
		if p.SignedAt.After(v.Time.Add(clockSkew)) {
			v.Add(verdict.Find(verdict.Clock, p.Subject, "signed after the time of judgement").
				Differ("a clock at or after "+p.SignedAt.Format(time.RFC3339), v.Time.Format(time.RFC3339)))
			return
		}
	}
}

// first are the codes that say what happened to the release; what follows from
// it comes after them.
var first = []verdict.Code{
	verdict.Tampered, verdict.NameSwap, verdict.Missing, verdict.Extra, verdict.TagMoved, verdict.Platform, verdict.PlanExtra, verdict.PlanMissing,
}

func byWeight(a, b verdict.Finding) int {
	return cmp.Or(cmp.Compare(weight(a.Code), weight(b.Code)), strings.Compare(a.Subject, b.Subject))
}

func weight(c verdict.Code) int {
	if i := slices.Index(first, c); i >= 0 {
		return i
	}
	return len(first)
}

// decision is one release being decided about.
type decision struct {
	Request
	v        *verdict.Verdict
	manifest release.Manifest
	hearing  *policy.Hearing
	attested map[string]func() attested          // provenance, by file name
	late     map[digest.Digest][]verify.Evidence // added after sealing, by what it speaks of
	vouched  map[string]vouched                  // whose provenance is not evaluated
	bad      map[string]bool                     // artifacts with a finding
	planned  plan.Plan                           // what the published release.yaml expands to, if it does
	sboms    documents
	bundle   digest.Set      // of the manifest
	sealed   verify.Evidence // the manifest
	asked    map[string]bool // what the scope covers; nil for everything
	hand     []atHand
	left     *atomic.Int64 // bytes of files that may still be read, where nobody signed their sizes

	referrers referrers
}

// add records a finding against an artifact of the manifest.
func (d *decision) add(f verdict.Finding) {
	d.bad[f.Subject] = true
	d.v.Add(f)
}

// weigh records a finding as much as its check counts.
func (d *decision) weigh(mode policy.Mode, f verdict.Finding) {
	switch mode {
	case policy.Require:
		d.add(f)
	case policy.Warn:
		d.v.Warn(f)
	}
}

// fail records an error against an artifact.
func (d *decision) fail(artifact string, err error) {
	f := verdict.FindingOf(artifact, err)
	d.bad[artifact] = true
	d.add(f)
}

func (d *decision) prove(p verdict.Proof) { d.v.Proofs = append(d.v.Proofs, p) }

// classes are the classes of artifacts that the release has.
func (d *decision) classes() []plan.Class {
	var all []plan.Class
	for _, a := range d.manifest.Artifacts {
		if !slices.Contains(all, a.Class) {
			all = append(all, a.Class)
		}
	}
	return all
}

// waive explains what is known and sets aside what the policy's officer, or
// the user, does not hold against the release.
func (d *decision) waive() {
	waiver.Apply(d.v, waiver.Case{
		Policy: d.Policy, Version: d.Version, Subjects: subjectsOf(d.manifest),
		Lists: d.Waivers.Lists, Accept: d.Waivers.Accept, Exceptions: d.Waivers.Exceptions,
	})
}

// subjectsOf are the artifacts that a list or an exception can be about.
func subjectsOf(m release.Manifest) (all []waiver.Subject) {
	for _, a := range m.Artifacts {
		place := m.FilesURI
		if a.IsImage() {
			place = m.ImagesURI
		}
		all = append(all, waiver.Subject{Name: a.Name, Digests: a.Digests, Destination: place})
	}
	return all
}

// count turns what has no finding into what is verified.
func (d *decision) count() {
	d.v.Groups = d.groups()
	if len(d.Options.Scope.Given) > 0 {
		d.countHand()
		return
	}
	for _, a := range d.manifest.Artifacts {
		if !d.covers(a) {
			continue
		}
		if d.v.Counts.Required++; !d.bad[a.Name] {
			d.v.Counts.Verified++
		}
	}
}

// readManifest fetches and verifies the manifest, and holds it against what
// was asked: version, places, life.
func (d *decision) readManifest(ctx context.Context) error {
	raw, err := store.Read(ctx, d.Files, releasemanifest.Name, verify.MaxBundle)
	if errors.Is(err, store.ErrNotFound) {
		return verdict.Refuse(verdict.EvidenceMissing, releasemanifest.Name, "the place answers, but holds no release manifest; nothing can be proven without one").Advise(fixManifest)
	}
	if err != nil {
		return err
	}
	e, err := d.Verifier.Attestation(raw)
	if err != nil {
		return inBundle(releasemanifest.Name, releasemanifest.Name, err)
	}
	m, proof, err := d.Policy.ManifestFrom(e, d.page(ctx))
	if err != nil {
		return err
	}
	d.manifest, d.bundle, d.sealed = m, digest.SetOf(raw), e
	if err := d.named(raw); err != nil {
		return err
	}
	if err := d.Policy.Fresh(releasemanifest.Name, proof.SignedAt, d.Now); err != nil {
		return err
	}
	d.prove(proof)
	d.v.Inputs = append(d.v.Inputs, verdict.Input{Name: releasemanifest.Name, Place: d.Files.URI(), Digest: digest.Of(digest.SHA256, raw)})
	if m.Revision > 1 {
		d.v.Note("revision %d of the manifest, which supersedes %s: %s", m.Revision, m.Supersedes, m.Change)
	}
	return d.checkManifest()
}

// fixManifest is the next act where a place has no manifest.
const fixManifest = "check version, profile and address; a release that is published without a manifest needs a profile that says so, and a sealed one that has lost it is to be fetched again"

func (d *decision) checkManifest() error {
	m := d.manifest
	differ := func(code verdict.Code, message, want, got string) error {
		return &verdict.Error{Finding: verdict.Find(code, releasemanifest.Name, "%s", message).Differ(want, got)}
	}
	switch {
	case m.Version != d.Version:
		return differ(verdict.Version, "the manifest is of another version", d.Version.String(), m.Version.String())
	case m.FilesURI != d.Canon.Files:
		return differ(verdict.PlaceOther, "the manifest is of another file place", d.Canon.Files, m.FilesURI)
	case m.ImagesURI != "" && m.ImagesURI != d.Canon.Images:
		return differ(verdict.PlaceOther, "the manifest is of another registry", d.Canon.Images, m.ImagesURI)
	case m.Withdrawn != nil:
		return withdrawn(*m.Withdrawn)
	case !m.Expires.IsZero() && d.Now.After(m.Expires):
		return differ(verdict.Expired, "the manifest has expired", "a manifest valid at "+d.Now.Format(time.RFC3339), m.Expires.Format(time.RFC3339))
	}
	return nil
}

func withdrawn(w release.Withdrawal) error {
	if w.Use == "" {
		return verdict.Refuse(verdict.Withdrawn, releasemanifest.Name, "withdrawn: %s", w.Reason)
	}
	return verdict.Refuse(verdict.Withdrawn, releasemanifest.Name, "withdrawn: %s; use %s instead", w.Reason, w.Use)
}
