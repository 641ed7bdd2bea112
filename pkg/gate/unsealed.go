package gate

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/waybill-release/waybill/pkg/digest"
	"github.com/waybill-release/waybill/pkg/expected"
	"github.com/waybill-release/waybill/pkg/plan"
	"github.com/waybill-release/waybill/pkg/policy"
	"github.com/waybill-release/waybill/pkg/rekor"
	"github.com/waybill-release/waybill/pkg/verdict"
	"github.com/waybill-release/waybill/pkg/waiver"
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
	List expected.List
	// Finder completes signatures, which carry no log entry along.
	Finder rekor.Finder
	// Expect is told what is expected, before it is read: by name, the bytes as
	// they are claimed, zero where nobody does. May be nil.
	Expect func(claimed map[string]digest.Set) error
}

// Unsealed decides about a release without a manifest. Accepted is only what a
// signature covers that the policy believes, and what the SBOM of the release,
// which is signed, binds to its name and version: see [unsealed.anchor]. What
// belongs to the release is worked out from all that speak of it, and each is
// held against the others; documents that nobody signed give findings, and
// prove nothing. Every file is hashed once and held against all of them, against
// its sidecars and its signature; every image, and each of its platforms,
// against its signature and what the SBOM says of it.
//
// It says what nobody can prove of such a release, and so never calls one
// complete. A place that closes is a place with a list of all that belongs to
// it, which there is not here: whatever a policy closes, a file that nobody
// names is EXTRA where the place can be listed, and where it can not, the
// verdict says that nobody looked.
func Unsealed(ctx context.Context, req UnsealedRequest) Decided {
	u := decideUnsealed(ctx, req)
	return Decided{
		Verdict: u.v, sums: u.proven, kept: u.kept, bad: u.bad,
		classOf: func(name string) plan.Class { return expected.KindOf(name).Class },
	}
}

func decideUnsealed(ctx context.Context, req UnsealedRequest) *unsealed {
	v := verdict.New("release "+req.Version.String()+" at "+req.Files.URI()+", which has no manifest", req.Now)
	v.Policy, v.Features, v.TrustRoot = req.Policy.Digest(), req.Policy.Features(), req.Verifier.Root().Digest()
	if req.Verifier.Root().IsLab() {
		v.Note("the trust root is an INSECURE LAB: anybody can have its keys")
	}
	u := &unsealed{
		decision: decision{Request: req.Request, v: v, bad: map[string]bool{}, hearing: req.Policy.Hear()},
		finder:   req.Finder, list: req.List, expect: req.Expect, read: map[string]digest.Digest{}, digests: map[string]digest.Set{},
	}
	u.Options.AllDigests = true // some of its lists say SHA-512 alone, and nobody signed one that would bind the others
	if err := errors.Join(req.Policy.Life(req.Now), req.Policy.Root(req.Verifier.Root().IsLab())); err != nil {
		v.AddError("policy "+req.Policy.Name(), err)
		return u
	}
	if err := req.Options.Scope.fitsUnsealed(); err != nil {
		v.AddError("scope", err)
		return u
	}
	if u.anchor(ctx) {
		u.decide(ctx)
	}
	v.Groups = groups(v.Groups).sorted()
	checkClock(v)
	u.advise()
	u.waive()
	slices.SortStableFunc(v.Findings, byWeight)
	return u
}

// decide looks at everything that is asked about.
func (u *unsealed) decide(ctx context.Context) {
	if err := u.gather(ctx); err != nil {
		u.v.AddError("expected set", err)
		return
	}
	if err := u.narrow(); err != nil {
		u.v.AddError("scope", err)
		return
	}
	u.v.Scope.Checks = u.checks()
	if len(u.Options.Scope.Given) > 0 {
		u.checkGiven(ctx)
		u.checkSignatures(ctx)
	} else {
		u.checkPlaces(ctx)
	}
	u.say()
}

// checks are the names of what is looked at.
func (u *unsealed) checks() []string {
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

// unsealed is one release without a manifest being decided about.
type unsealed struct {
	decision
	finder  rekor.Finder
	list    expected.List
	expect  func(map[string]digest.Set) error
	set     expected.Set
	signed  expected.Witness         // the SBOM, once its signature holds
	said    []plan.Class             // classes of what is there
	read    map[string]digest.Digest // documents, as they were read
	digests map[string]digest.Set    // what was hashed, by name
	images  []waiver.Subject
	given   map[string]string // files that alone are asked about, and where they lie; nil asks about all
	whole   expected.Set      // before it was narrowed to what is asked
	proven  []Sum             // files with a signature that holds
	kept    []string          // what a download of it is
}

// judged counts one thing that the policy answered for.
func (u *unsealed) judged(class plan.Class, name string, answer *verdict.Verdict) {
	if !slices.Contains(u.said, class) {
		u.said = append(u.said, class)
	}
	if u.Policy.Asks(u.Stage, class, policy.Signature) == policy.Require {
		good := answer != nil && answer.Outcome() == verdict.Accepted && !u.bad[name]
		if u.v.Counts.Required++; good {
			u.v.Counts.Verified++
		}
		u.v.Groups = groups(u.v.Groups).count(class, good)
	}
	if answer == nil { // what is wrong with it was said
		return
	}
	for _, f := range answer.Findings {
		u.add(f)
	}
	u.v.Warn(answer.Warnings...)
	u.v.Proofs = append(u.v.Proofs, answer.Proofs...)
}

// question asks the policy about one thing of the release.
func (u *unsealed) question(class plan.Class, name string, bytes digest.Set) policy.Question {
	return policy.Question{
		Stage: u.Stage, Class: class, Subject: name, Bytes: bytes, Version: u.Version.String(), At: u.Now,
		Why: map[policy.Check]error{},
	}
}

// advise names the next act where the usual one speaks of a manifest, which
// there is not.
func (u *unsealed) advise() {
	acts := map[verdict.Code]string{
		verdict.Missing:         "fetch it again where the project publishes it; do not use this copy as a whole",
		verdict.Extra:           "find out who put it there, and do not use it: nothing of the release speaks of it",
		verdict.Version:         "ask for the version that it is of, or fetch the one of this release where the project publishes it",
		verdict.EvidenceMissing: "fetch it again where the project publishes it; as it is, it says nothing of the release",
		verdict.VersionUnbound:  "do not use it as a part of this version, whoever signed it; ask the project to have it in its SBOM",
		verdict.TagMoved:        "find out who moved the tag; until then name the image by a digest that is signed",
	}
	for i, f := range u.v.Findings {
		if act, other := acts[f.Code]; other && f.Fix == f.Code.Fix() {
			u.v.Findings[i].Fix = act
		}
	}
}

// waive explains what is known of this version.
func (u *unsealed) waive() {
	c := waiver.Case{
		Policy: u.Policy, Version: u.Version, Subjects: u.images,
		Lists: u.Waivers.Lists, Accept: u.Waivers.Accept, Exceptions: u.Waivers.Exceptions,
	}
	for name := range u.digests {
		c.Subjects = append(c.Subjects, waiver.Subject{Name: name, Digests: u.digests[name], Destination: u.Canon.Files})
	}
	waiver.Apply(u.v, c)
}

// say names what this verdict could not cover, and why.
func (u *unsealed) say() {
	left := func(what string) { u.v.Scope.Left = append(u.v.Scope.Left, what) }
	left("a signed list of what belongs to the release: nobody signs one")
	for _, lack := range u.Policy.Lacks(u.Stage, u.said) {
		left(lack)
	}
	if !u.set.Independent() {
		left("expected set: not independent of the build")
		u.v.Note("expected set: not independent: nobody has read in the source what a release of %d.%d has, so what the build left out is missed by nobody", u.Version.Major(), u.Version.Minor())
	}
	if len(u.images) > 0 {
		left("other addresses of the images")
	}
	for _, source := range u.list.Sources() {
		u.v.Inputs = append(u.v.Inputs, verdict.Input{Name: "list of " + u.list.Minor() + ", " + source.Name, Place: source.Repository + "/blob/" + source.Commit + "/" + source.Path})
	}
	var words []string
	for _, w := range u.set.Witnesses() {
		words = append(words, witnessed(w))
	}
	u.v.Note("expected set: %d files, by %s", len(u.set.Names()), strings.Join(words, ", "))
}
