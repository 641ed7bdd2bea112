package gate

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/waybill-release/waybill/pkg/backend/rekorv1"
	"github.com/waybill-release/waybill/pkg/judge/policy"
	"github.com/waybill-release/waybill/pkg/judge/slsa"
	"github.com/waybill-release/waybill/pkg/judge/verify"
	"github.com/waybill-release/waybill/pkg/release/promoterfile"
	"github.com/waybill-release/waybill/pkg/tool/plural"
	"github.com/waybill-release/waybill/pkg/value/identity"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// ManifestRequest asks what the provenance section of a promoter's manifest
// demands of its images. README.md of package promoterfile says how each of its
// fields is read.
type ManifestRequest struct {
	// Manifest is what the manifest is called.
	Manifest string
	Policy   *promoterfile.Policy
	Verifier *verify.Verifier
	Now      time.Time
	// Finder completes attestations in legacy forms.
	Finder rekorv1.Finder
}

// ManifestJudge decides about images as a promoter's manifest demands. It is
// made by [ManifestRequest.Judge] and safe for use by several goroutines.
type ManifestJudge struct {
	ManifestRequest
	signers []manifestSigner
}

// manifestSigner is a signer of the policy, and what is believed of it.
type manifestSigner struct {
	who      identity.Matcher
	builders []promoterfile.Builder
	ceiling  int
}

// fixNoPolicy is the next act where a manifest demands nothing.
const fixNoPolicy = "name a policy with --policy FILE, or have the manifest demand provenance: mode require, with signers, builders and sources"

// Judge prepares to judge. A manifest that demands nothing is refused: whatever
// it lists would be let through, and nobody has said that it may be.
func (r ManifestRequest) Judge() (*ManifestJudge, error) {
	if !r.Policy.Demands() {
		why := "the manifest demands nothing of its images"
		if r.Policy != nil {
			why = "the manifest's policy is off"
		}
		return nil, verdict.Refuse(verdict.PolicyEmpty, r.Manifest, "%s, so nothing could be decided about them", why).Advise(fixNoPolicy)
	}
	j := &ManifestJudge{ManifestRequest: r}
	for _, spec := range r.Policy.Signers {
		s, err := promoterfile.ParseSigner(spec)
		if err != nil {
			return nil, err
		}
		who, err := exactSigner(s)
		if err != nil {
			return nil, verdict.Wrap(verdict.ConfigParse, r.Manifest, err)
		}
		j.signers = append(j.signers, manifestSigner{who, r.Policy.Claimable(spec), r.Policy.Ceiling(spec)})
	}
	return j, nil
}

// exactSigner makes the matcher of one identity. An address of a workflow has an @,
// too, so what is an e-mail address is seen by its having no scheme.
func exactSigner(s promoterfile.Signer) (identity.Matcher, error) {
	kind := identity.Email
	if strings.Contains(s.Subject, "://") || !strings.Contains(s.Subject, "@") {
		kind = identity.URI
	}
	return identity.Exact(identity.Identity{Issuer: s.Issuer, Subject: s.Subject, Type: kind})
}

// Image decides about an image: by the provenance of the index itself or, where
// it has none, by that of every manifest in it. What strangers attach counts
// for nothing and does not block. Where the policy only warns, what it finds
// are warnings; bytes that are not what they are called, and a registry that
// does not answer, are findings all the same.
func (m *ManifestJudge) Image(ctx context.Context, image Image) *verdict.Verdict {
	image, done := remembered(image)
	defer done()
	all, collected := m.collect(ctx, image)
	by, concluded := m.conclude(all)
	j := terms{root: m.Verifier.Root(), now: m.Now}.beginBy("image "+image.Name, by)
	j.v.Policy = m.Policy.Digest()
	j.v.Scope.Checks = []string{fmt.Sprintf("provenance, as %s demands (%s)", m.Manifest, m.Policy.Mode)}
	j.v.Scope.Left = []string{"everything but provenance"}
	j.takeCounted(collected, "")
	j.takeCounted(concluded, "")
	return j.endCounted()
}

// collect reads the image first, and then what is in it, and rules on each.
func (m *ManifestJudge) collect(ctx context.Context, image Image) (all []manifestRuling, f facts) {
	manifests, _, err := image.manifests(ctx, "")
	if err != nil {
		f.unknown(image.Name, err)
		return nil, f
	}
	f.read(verdict.Input{Name: image.Name, Place: image.Name, Digest: manifests[0].Descriptor.Digest})
	for i, one := range manifests {
		if one.platform != nil {
			f.unknown(one.name, one.platform)
			return nil, f
		}
		r, err := m.judgeManifest(ctx, image, one, i == 0 || !all[0].met() && !all[0].own)
		if err != nil {
			f.unknown(one.subject, err)
			return nil, f
		}
		all = append(all, r)
	}
	return all, f
}

// conclude chooses the manifests that count. Provenance of the image by a signer
// of the policy that falls short is not outweighed by that of its parts.
func (m *ManifestJudge) conclude(all []manifestRuling) (by byManifest, f facts) {
	by = byManifest{m, map[string]manifestRuling{}}
	if len(all) == 0 {
		return by, f
	}
	root, parts := all[0], all[1:]
	met := 0
	for _, r := range parts {
		if r.met() {
			met++
		}
	}
	asked, rest := all, []manifestRuling{}
	switch {
	case root.met() && met < len(parts):
		f.note("%s: its own provenance speaks for it; %d of the %d manifests in it have none of theirs that would do", root.name, len(parts)-met, len(parts))
		asked = all[:1]
	case !root.met() && !root.own && len(parts) > 0 && met == len(parts):
		f.note("%s: it has no provenance of its own; that of each of the %s in it speaks for it", root.name, plural.Of(len(parts), "manifest"))
		asked, rest = []manifestRuling{ofParts(root.name, parts)}, parts
	case !root.met() && (root.own || met == 0):
		asked = all[:1] // the same would be said of each part
	}
	for _, r := range asked {
		by.rulings[r.name] = r
		f.items = append(f.items, item{question: policy.Question{Subject: r.name}})
	}
	for _, r := range rest {
		f.items = append(f.items, item{question: policy.Question{Subject: r.name}, follows: true})
	}
	switch {
	case !slices.ContainsFunc(asked, func(r manifestRuling) bool { return !r.met() }):
		f.note("Build level %d of 3, as far as the manifest believes its builders", lowest(asked))
	case m.Policy.Mode == promoterfile.ModeWarn:
		f.leave("provenance: the manifest only warns where it falls short")
	}
	for _, r := range all {
		if r.foreign > 0 {
			f.note("%s: %d bundles that refer to it are of none of the policy's signers, or do not hold; they count for nothing", r.name, r.foreign)
		}
	}
	return by, f
}

// byManifest is what a promoter's manifest demands as the rule for items.
type byManifest struct {
	judge   *ManifestJudge
	rulings map[string]manifestRuling
}

// Decide implements [rule].
func (b byManifest) Decide(i item) *verdict.Verdict {
	r := b.rulings[i.question.Subject]
	v := verdict.New(i.question.Subject, b.judge.Now)
	v.Counts.Required, v.Proofs = 1, r.proofs
	switch {
	case r.met():
		v.Counts.Verified = 1
		v.Least = &verdict.Least{Track: string(slsa.Build), Level: r.level, Artifacts: 1 + r.parts, Path: []string{r.name}}
	case b.judge.Policy.Mode == promoterfile.ModeWarn:
		b.judge.letThrough(v, r)
	default:
		v.Add(r.findings...)
	}
	return v
}

// letThrough accepts what the manifest's owners only want to be warned about: a
// manifest that one of their signers signed something about, which falls short.
// Without that, only their own word lets it through.
func (m *ManifestJudge) letThrough(v *verdict.Verdict, r manifestRuling) {
	v.Warn(r.findings...)
	v.Counts.Verified, v.Proofs = 1, slices.Concat(r.proofs, r.short)
	switch {
	case len(v.Proofs) > 0:
	case m.Policy.InsecureAcceptUnsigned:
		v.Basis = verdict.InsecureUnsigned
	default:
		f := verdict.Find(verdict.NoProof, r.name, "none of the signers of %s signed anything about it, and mode warn does not stand for a signature", m.Manifest)
		f.Fix = "have it built where its provenance is signed; manifests that must let it through until then say insecureAcceptUnsigned: true"
		v.Add(f)
	}
}

// ofParts is the ruling on an image for which that of its parts speaks.
func ofParts(name string, parts []manifestRuling) manifestRuling {
	r := manifestRuling{name: name, level: lowest(parts), parts: len(parts)}
	for _, part := range parts {
		r.proofs = append(r.proofs, part.proofs...)
	}
	return r
}

func lowest(all []manifestRuling) int {
	level := all[0].level
	for _, r := range all[1:] {
		level = min(level, r.level)
	}
	return level
}
