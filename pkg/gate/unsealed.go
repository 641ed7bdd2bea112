package gate

import (
	"context"
	"errors"
	"iter"
	"slices"
	"strings"

	"github.com/waybill-release/waybill/pkg/backend/rekorv1"
	"github.com/waybill-release/waybill/pkg/judge/k8slayout"
	"github.com/waybill-release/waybill/pkg/judge/policy"
	"github.com/waybill-release/waybill/pkg/judge/waiver"
	"github.com/waybill-release/waybill/pkg/release/plan"
	"github.com/waybill-release/waybill/pkg/tool/plural"
	"github.com/waybill-release/waybill/pkg/tool/slice"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
	"github.com/waybill-release/waybill/pkg/value/version"
)

// unsignedAct is the next act for a file or image that is unsigned and that no
// manifest lists.
const unsignedAct = "do not use it until the project has signed it; the list of known defects names signatures that are known to be late or lost"

// UnsealedRequest asks about a release that is published without a manifest, as
// all of Kubernetes is today. The caller must know that: a manifest that is
// merely not found does not make a release unsealed.
type UnsealedRequest struct {
	Request
	// List is what the release should contain, by its source code. The zero
	// List means that the minor version has not been reviewed; the verdict says
	// so.
	List k8slayout.List
	// Finder completes the signatures, which come without a log entry.
	Finder rekorv1.Finder
	// Expect is called with the expected names before the files are read, and with
	// the claimed digests, which are zero where no document claims any. May be nil.
	Expect func(claimed map[string]digest.Set) error
}

// Decide decides about a release without a manifest. A file or image is
// accepted only if it has a signature that the policy accepts and the signed
// SBOM of the release binds it to its name and version: see
// [unsealed.readSBOM]. The expected contents are worked out from all documents
// that name parts of the release, which are compared with each other. Unsigned
// documents cause findings and prove nothing. Every file is hashed once and
// compared with all documents, its sidecars and its signature; every image, and
// each of its platforms, with its signature and the SBOM.
//
// The verdict names what cannot be proven about such a release, so it is never
// complete. Closing a place needs a signed list of its contents, which does not
// exist here. So under any policy, a file that no document names is EXTRA where
// the place can be listed; where it cannot, the verdict says that extra files
// were not looked for.
func (req UnsealedRequest) Decide(ctx context.Context) Decided {
	req.Options.AllDigests = true // some lists have only SHA-512, and unsigned lists could otherwise differ unnoticed
	j := req.terms().begin("release " + req.Version.String() + " at " + req.Files.URI() + ", which has no manifest")
	j.v.Subject = "Kubernetes " + req.Version.String()
	decided := Decided{
		Verdict: j.v, bad: j.bad,
		classOf: func(name string) plan.Class { return k8slayout.KindOf(name).Class },
	}
	if _, judges := req.Policy.JudgesInputs(); judges {
		j.addFacts(facts{left: []string{"inputs"}})
	}
	if !j.refused() {
		j.fail("scope", errors.Join(req.Options.Scope.fitsUnsealed(), ofRelease(req.Version)))
	}
	if j.refused() {
		return decided
	}
	u := unsealed{UnsealedRequest: req, rule: j.rule, once: &onceVerified{verifier: req.Verifier}}
	c := u.collect(ctx, j)
	for i, one := range c.judged {
		if d, is := c.files.digests[one.name]; is {
			c.judged[i].bytes = firstOf(d)
		}
	}
	if len(req.Options.Scope.Given) == 0 {
		j.group(u.required(c.judged))
	} else {
		j.v.Subject = subjectGiven(req.Options.Scope.Given, j.v.Subject)
	}
	j.count(u.required(c.judged))
	advise(j.v)
	explain(j.v, !u.List.IsZero())
	j.end(req.Version, c.subjects(req.Canon))
	decided.sums, decided.kept = c.verified(j.holds)
	return decided
}

// ofRelease refuses builds between two releases, as continuous integration of
// Kubernetes publishes them.
func ofRelease(v version.Version) error {
	if !v.IsBuild() {
		return nil
	}
	return verdict.Refuse(verdict.Unsigned, v.String(), "this is a build of continuous integration: such builds of Kubernetes have no signatures and no SBOM, so nothing about them can be verified").
		Advise("use a release, such as the one that stable names, or build the commit yourself")
}

// unsealed is a release without a manifest, and the request about it. All steps
// read it, and none changes it.
type unsealed struct {
	UnsealedRequest
	rule rule          // the same as the judge's
	once *onceVerified // for statements that refer to many images
}

// collected are the results of the steps.
type collected struct {
	judged []counted // items that need a signature, if the policy requires one
	files  hashedFiles
	signed []item // files, with the answers of the rule
	images []pulled
}

// collect runs the steps. Each step gets the results of those before it.
func (u unsealed) collect(ctx context.Context, j *judge) (c collected) {
	sbom, found := u.readSBOM(ctx)
	j.addFacts(found)
	if len(found.items) > 0 { // else it is one of the files below
		c.judged = judgedFiles(k8slayout.ReleaseSBOM)
	}
	c.files = sbom.file()
	if !sbom.holds {
		return c
	}
	witnesses, found := u.readWitnesses(ctx, sbom)
	j.addFacts(found)
	sbom.provenance = witnesses.provenance
	whole, err := k8slayout.Of(witnesses.all...)
	if err != nil {
		j.fail("expected set", err)
		return c
	}
	part, found, err := u.narrow(whole, sbom)
	j.addFacts(found)
	if err != nil {
		j.fail("scope", err)
		return c
	}
	j.addFacts(facts{checks: u.checks()})
	scope := u.Options.Scope
	if len(scope.Given) > 0 {
		c.files, found = u.checkGiven(ctx, sbom, whole)
		j.addFacts(found)
	} else if scope.Only != policy.Images {
		c.files, found = u.checkFiles(ctx, sbom, witnesses.read, part)
		j.addFacts(found)
	}
	if scope.Only != policy.Images {
		names := c.files.needSignatures(part.asked)
		c.judged = append(c.judged, judgedFiles(names...)...)
		c.signed = u.checkSignatures(ctx, sbom, c.files, names, j.holds)
		j.addFacts(facts{items: c.signed})
	}
	if scope.Only != policy.Files && len(scope.Given) == 0 {
		c.images, found = u.resolveImages(ctx, sbom, part.asked)
		j.addFacts(found)
		c.judged = append(c.judged, judgedImages(c.images)...)
		j.addFacts(u.checkImages(ctx, sbom, c.images, j.holds))
		j.addFacts(u.resolveAgain(ctx, c.images, j.holds))
	}
	j.addFacts(u.limits(part.asked, c))
	return c
}

// checks are the names of the checks that are made.
func (u unsealed) checks() []string {
	list := []string{"signed SBOM", "expected set"}
	switch s := u.Options.Scope; {
	case len(s.Given) > 0:
		return append(list, "given files", "signatures")
	case s.Only == policy.Images:
		return append(list, "images", "signatures")
	case s.Only == policy.Files:
		return append(list, "files", "hash sidecars", "signatures")
	}
	return append(list, "files", "hash sidecars", "signatures", "images")
}

// judgedFiles counts the files that are judged by the policy.
func judgedFiles(names ...string) []counted {
	return slice.Map(names, func(name string) counted {
		return counted{name: name, class: k8slayout.KindOf(name).Class, asked: true}
	})
}

// judgedImages counts the images that are judged by the policy.
func judgedImages(images []pulled) []counted {
	return slice.Map(images, func(p pulled) counted { return counted{name: p.name, class: p.class, bytes: p.digest, asked: true} })
}

// required leaves those of a class for which the policy requires a signature.
func (u unsealed) required(judged []counted) iter.Seq[counted] {
	return func(yield func(counted) bool) {
		for _, one := range judged {
			if u.requiresSignature(one.class) && !yield(one) {
				return
			}
		}
	}
}

func (u unsealed) requiresSignature(class plan.Class) bool {
	return u.Policy.Asks(u.Stage, class, policy.Signature) == policy.Require
}

// answered returns an item with the answer of the rule.
func (u unsealed) answered(i item) item {
	i.answer = u.rule.Decide(i)
	return i
}

// isProven reports whether the policy accepts an item by evidence.
func (i item) isProven() bool {
	return i.answer != nil && i.answer.Outcome() == verdict.Accepted && len(i.answer.Proofs) > 0
}

// differ adds an error that was found by comparing the item with other
// documents, if there is one.
func (i *item) differ(err error) {
	if err != nil {
		i.differences = append(i.differences, difference{Finding: verdict.FindingOf(i.question.Subject, err), mode: policy.Require})
	}
}

// question makes the policy's question about one part of the release.
func (u unsealed) question(class plan.Class, name string, bytes digest.Set) policy.Question {
	return policy.Question{
		Stage: u.Stage, Class: class, Subject: name, Bytes: bytes, Version: u.Version.String(), At: u.Now,
		Why: map[policy.Check]error{},
	}
}

// subjects returns what a list of known defects or an exception can be about.
func (c collected) subjects(canon Canonical) (all []waiver.Subject) {
	all = slice.Map(c.images, func(p pulled) waiver.Subject {
		return waiver.Subject{Name: p.name, Digests: digest.Set{SHA256: p.digest}, Destination: canon.Images}
	})
	for name, digests := range c.files.digests {
		all = append(all, waiver.Subject{Name: name, Digests: digests, Destination: canon.Files})
	}
	return all
}

// verified lists the files with valid signatures, named by their given paths or
// by their names in the release, and the names of all files that a download of
// the release contains.
func (c collected) verified(holds func(name string) bool) (sums []Sum, kept []string) {
	kept = c.files.kept
	for _, i := range c.signed {
		name := i.question.Subject
		if !i.isProven() || !holds(name) {
			continue
		}
		kept = append(kept, name+k8slayout.SignatureSuffix, name+k8slayout.CertificateSuffix)
		sum := Sum{name, c.files.digests[name]}
		if path, given := c.files.given[name]; given {
			sum.Name = path
		}
		sums = append(sums, sum)
	}
	return sums, kept
}

// advise replaces next acts that mention a manifest, which the release does not
// have.
func advise(v *verdict.Verdict) {
	acts := map[verdict.Code]string{
		verdict.Missing:         "fetch the file again from where the project publishes it; do not use this copy of the release",
		verdict.Extra:           "do not use it: no document of the release names it; find out who put it there",
		verdict.Version:         "verify it against its own version, or fetch the one of this release from where the project publishes it",
		verdict.EvidenceMissing: "fetch it again from where the project publishes it; this copy does not describe the release",
		verdict.VersionUnbound:  "do not use it as part of this version, although it is signed; ask the project to list it in its SBOM",
		verdict.TagMoved:        "find out who moved the tag; until then use the image by a signed digest",
	}
	for i, f := range v.Findings {
		if act, other := acts[f.Code]; other && f.Fix == f.Code.Fix() {
			v.Findings[i].Fix = act
		}
	}
	for i, f := range v.Warnings {
		if f.Code == verdict.Unsigned {
			v.Warnings[i].Fix = "do not use it as evidence about other objects: this policy requires no signature of it"
		}
	}
}

// explain says in a few sentences what the acceptance of a release without a
// manifest means, for readers who know nothing of signatures and provenance.
func explain(v *verdict.Verdict, listed bool) {
	if v.Outcome() != verdict.Accepted || len(v.Objects) == 0 {
		return
	}
	files, images := 0, 0
	for _, o := range v.Objects {
		if strings.HasPrefix(o.Class, string(plan.Image)) {
			images++
		} else {
			files++
		}
	}
	var signed []string
	if files > 0 {
		signed = append(signed, plural.Of(files, "file"))
	}
	if images > 0 {
		signed = append(signed, plural.Of(images, "image"))
	}
	v.Tell("The %s are the ones that Kubernetes signed.", strings.Join(signed, " and "))
	switch {
	case slices.Contains(v.Scope.Left, policy.Files):
		v.Tell("Files were not checked, except the signed list that names them.")
	case !listed || files == 0:
		v.Tell("A missing file could go unnoticed, because Kubernetes signs no list of them.")
	default:
		v.Tell("No expected file is missing, although Kubernetes signs no list of them.")
	}
	if slices.Contains(v.Scope.Left, "provenance of binary") {
		v.Tell("Who built them is not proven, because Kubernetes signs no build records.")
	}
	v.Tell("All Kubernetes releases are published like this; you need not do anything.")
}

// limits reports what the verdict does not cover, and why.
func (u unsealed) limits(asked k8slayout.Set, c collected) (f facts) {
	f.leave("a signed list of the release's contents (none exists)")
	var classes []plan.Class
	for _, one := range c.judged {
		if !slices.Contains(classes, one.class) {
			classes = append(classes, one.class)
		}
	}
	f.leaveUnrequired(u.Policy.Lacks(u.Stage, classes)...)
	if !asked.Independent() {
		f.leave("expected set: not independent of the build")
		f.note("expected set: not independent: the contents of %d.%d were never derived from its source code, so a file that the build left out would not be noticed", u.Version.Major(), u.Version.Minor())
	}
	if len(c.images) > 0 {
		f.leave("other addresses of the images")
	}
	if path := u.Options.Expected; path != "" {
		f.addInputs(verdict.Input{Name: "list of " + u.List.Minor(), Place: path, Digest: u.List.Digest()})
		f.note("expected set: the list of %s is that of %s, and not the one in this program", u.List.Minor(), path)
	}
	for _, source := range u.List.Sources() {
		f.addInputs(verdict.Input{Name: "list of " + u.List.Minor() + ", " + source.Name, Place: source.Repository + "/blob/" + source.Commit + "/" + source.Path})
	}
	f.note("expected set: %d files, by %s", len(asked.Names()), strings.Join(slice.Map(asked.Witnesses(), describe), ", "))
	return f
}
