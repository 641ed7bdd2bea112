package gate

import (
	"context"
	"iter"
	"slices"
	"strings"

	"github.com/waybill-release/waybill/pkg/backend/rekorv1"
	"github.com/waybill-release/waybill/pkg/judge/k8slayout"
	"github.com/waybill-release/waybill/pkg/judge/policy"
	"github.com/waybill-release/waybill/pkg/judge/waiver"
	"github.com/waybill-release/waybill/pkg/release/plan"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// unsignedAct is what to do with something that its project has not signed, and
// that no manifest lists.
const unsignedAct = "do not use it before the project has signed it; the list of known defects says which signatures are known to be late or lost"

// UnsealedRequest asks about a release that is published without a manifest,
// as all of Kubernetes is today. That it is such a one is for the caller to
// say: a manifest that is not found makes no release unsealed.
type UnsealedRequest struct {
	Request
	// List is what the source says that the release has. The zero List is of a
	// minor version that nobody has read; that is said in the verdict.
	List k8slayout.List
	// Finder completes signatures, which carry no log entry along.
	Finder rekorv1.Finder
	// Expect is told what is expected, before it is read: by name, the bytes as
	// they are claimed, zero where nobody does. May be nil.
	Expect func(claimed map[string]digest.Set) error
}

// Unsealed decides about a release without a manifest. Accepted is only what a
// signature covers that the policy believes, and what the SBOM of the release,
// which is signed, binds to its name and version: see [unsealed.readSBOM]. What
// belongs to the release is worked out from all documents that name parts of it,
// and each is compared with the others; unsigned documents give findings, and
// prove nothing. Every file is hashed once and compared with all of them, with
// its sidecars and its signature; every image, and each of its platforms, with
// its signature and with what the SBOM says of it.
//
// The verdict names what can not be proven of such a release, and so is never
// complete. A place that closes is a place with a list of all that belongs to
// it, which there is not here: whatever a policy closes, a file that no document
// names is EXTRA where the place can be listed, and where it can not, the
// verdict says that extra files were not looked for.
func Unsealed(ctx context.Context, req UnsealedRequest) Decided {
	req.Options.AllDigests = true // some of its lists say SHA-512 alone, and no signed one would bind the others
	j := req.terms().begin("release " + req.Version.String() + " at " + req.Files.URI() + ", which has no manifest")
	decided := Decided{
		Verdict: j.v, bad: j.bad,
		classOf: func(name string) plan.Class { return k8slayout.KindOf(name).Class },
	}
	if !j.refused() {
		j.fail("scope", req.Options.Scope.fitsUnsealed())
	}
	if j.refused() {
		return decided
	}
	u := unsealed{UnsealedRequest: req, rule: j.rule}
	c := u.collect(ctx, j)
	j.group(u.required(c.judged))
	j.count(u.required(c.judged))
	advise(j.v)
	j.end(req.Version, c.subjects(req.Canon))
	decided.sums, decided.kept = c.verified(j.holds)
	return decided
}

// unsealed is a release without a manifest, and what is asked about it. All
// steps read it, and none changes it.
type unsealed struct {
	UnsealedRequest
	rule rule // which the judge asks, too
}

// collected is what the steps looked at.
type collected struct {
	judged []counted // what needs a signature, if the policy requires one
	files  hashedFiles
	signed []item // files, with the answers of the policy
	images []pulled
}

// collect takes the steps, each with what the ones before it found out.
func (u unsealed) collect(ctx context.Context, j *judge) (c collected) {
	sbom, found := u.readSBOM(ctx)
	j.take(found)
	if len(found.items) > 0 { // else it is one of the files below
		c.judged = judgedFiles(k8slayout.ReleaseSBOM)
	}
	c.files = sbom.file()
	if !sbom.holds {
		return c
	}
	witnesses, found := u.readWitnesses(ctx, sbom)
	j.take(found)
	whole, err := k8slayout.Of(witnesses.all...)
	if err != nil {
		j.fail("expected set", err)
		return c
	}
	part, found, err := u.narrow(whole, sbom)
	j.take(found)
	if err != nil {
		j.fail("scope", err)
		return c
	}
	j.take(facts{checks: u.checks()})
	scope := u.Options.Scope
	if len(scope.Given) > 0 {
		c.files, found = u.checkGiven(ctx, sbom, whole)
		j.take(found)
	} else if scope.Only != policy.Images {
		c.files, found = u.checkFiles(ctx, sbom, witnesses.read, part)
		j.take(found)
	}
	if scope.Only != policy.Images {
		names := c.files.needSignatures(part.asked)
		c.judged = append(c.judged, judgedFiles(names...)...)
		c.signed = u.checkSignatures(ctx, sbom, c.files, names, j.holds)
		j.take(facts{items: c.signed})
	}
	if scope.Only != policy.Files && len(scope.Given) == 0 {
		c.images, found = u.resolveImages(ctx, sbom, part.asked)
		j.take(found)
		c.judged = append(c.judged, judgedImages(c.images)...)
		j.take(facts{items: u.checkImages(ctx, sbom, c.images, j.holds)})
		j.take(u.resolveAgain(ctx, c.images, j.holds))
	}
	j.take(u.limits(part.asked, c))
	return c
}

// checks are the names of what is looked at.
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

// judgedFiles counts files that the policy is asked about.
func judgedFiles(names ...string) (all []counted) {
	for _, name := range names {
		all = append(all, counted{name: name, class: k8slayout.KindOf(name).Class, asked: true})
	}
	return all
}

// judgedImages counts images that the policy is asked about.
func judgedImages(images []pulled) (all []counted) {
	for _, p := range images {
		all = append(all, counted{name: p.name, class: p.class, asked: true})
	}
	return all
}

// required are those of a class for which the policy requires a signature.
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

// answered is an item with the answer of the policy.
func (u unsealed) answered(i item) item {
	i.answer = u.rule.Decide(i)
	return i
}

// isProven reports whether the policy accepts an item by evidence.
func (i item) isProven() bool {
	return i.answer != nil && i.answer.Outcome() == verdict.Accepted && len(i.answer.Proofs) > 0
}

// differ adds an error that was found when the item was compared with other
// documents, if there is one.
func (i *item) differ(err error) {
	if err != nil {
		i.differences = append(i.differences, difference{Finding: verdict.FindingOf(i.question.Subject, err), mode: policy.Require})
	}
}

// question asks the policy about one part of the release.
func (u unsealed) question(class plan.Class, name string, bytes digest.Set) policy.Question {
	return policy.Question{
		Stage: u.Stage, Class: class, Subject: name, Bytes: bytes, Version: u.Version.String(), At: u.Now,
		Why: map[policy.Check]error{},
	}
}

// subjects are the parts of the release that a list of known defects or an
// exception can be about.
func (c collected) subjects(canon Canonical) (all []waiver.Subject) {
	for _, p := range c.images {
		all = append(all, waiver.Subject{Name: p.name, Digests: digest.Set{SHA256: p.digest}, Destination: canon.Images})
	}
	for name, digests := range c.files.digests {
		all = append(all, waiver.Subject{Name: name, Digests: digests, Destination: canon.Files})
	}
	return all
}

// verified lists the files whose signatures hold, under the names that they were
// given by, and the names of all files that a download of the release has.
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

// advise names the next act where the usual one is about a manifest, which the
// release does not have.
func advise(v *verdict.Verdict) {
	acts := map[verdict.Code]string{
		verdict.Missing:         "fetch it again where the project publishes it; do not use this copy as a whole",
		verdict.Extra:           "find out who put it there, and do not use it: nothing of the release speaks of it",
		verdict.Version:         "ask for the version that it is of, or fetch the one of this release where the project publishes it",
		verdict.EvidenceMissing: "fetch it again where the project publishes it; as it is, it says nothing of the release",
		verdict.VersionUnbound:  "do not use it as a part of this version, whoever signed it; ask the project to have it in its SBOM",
		verdict.TagMoved:        "find out who moved the tag; until then name the image by a digest that is signed",
	}
	for i, f := range v.Findings {
		if act, other := acts[f.Code]; other && f.Fix == f.Code.Fix() {
			v.Findings[i].Fix = act
		}
	}
}

// limits names what the verdict does not cover, and why.
func (u unsealed) limits(asked k8slayout.Set, c collected) (f facts) {
	f.leave("a signed list of what belongs to the release: nobody signs one")
	var classes []plan.Class
	for _, one := range c.judged {
		if !slices.Contains(classes, one.class) {
			classes = append(classes, one.class)
		}
	}
	f.leave(u.Policy.Lacks(u.Stage, classes)...)
	if !asked.Independent() {
		f.leave("expected set: not independent of the build")
		f.note("expected set: not independent: nobody has read in the source what a release of %d.%d has, so what the build left out is missed by nobody", u.Version.Major(), u.Version.Minor())
	}
	if len(c.images) > 0 {
		f.leave("other addresses of the images")
	}
	for _, source := range u.List.Sources() {
		f.read(verdict.Input{Name: "list of " + u.List.Minor() + ", " + source.Name, Place: source.Repository + "/blob/" + source.Commit + "/" + source.Path})
	}
	var words []string
	for _, w := range asked.Witnesses() {
		words = append(words, describe(w))
	}
	f.note("expected set: %d files, by %s", len(asked.Names()), strings.Join(words, ", "))
	return f
}
