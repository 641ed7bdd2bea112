package gate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/waybill-release/waybill/pkg/backend/rekorv1"
	"github.com/waybill-release/waybill/pkg/backend/store"
	"github.com/waybill-release/waybill/pkg/judge/policy"
	"github.com/waybill-release/waybill/pkg/judge/slsa"
	"github.com/waybill-release/waybill/pkg/judge/verify"
	"github.com/waybill-release/waybill/pkg/release/manifest"
	"github.com/waybill-release/waybill/pkg/release/promoterfile"
	"github.com/waybill-release/waybill/pkg/tool/plural"
	"github.com/waybill-release/waybill/pkg/tool/slice"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/identity"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// ManifestRequest asks for what the provenance section of a promoter's manifest
// requires of its images. README.md of package promoterfile specifies each
// field.
type ManifestRequest struct {
	// Manifest is the name of the manifest, for messages.
	Manifest string
	Policy   *promoterfile.Policy
	Verifier *verify.Verifier
	Now      time.Time
	// Finder completes attestations in legacy forms.
	Finder rekorv1.Finder
}

// ManifestJudge decides about images by the requirements of a promoter's
// manifest. [ManifestRequest.Judge] makes it. Several goroutines may use it.
type ManifestJudge struct {
	ManifestRequest
	signers []manifestSigner
}

// manifestSigner is a signer of the policy. One who signed, by the signers that
// match, has the builders and the level that the policy trusts them for.
type manifestSigner struct {
	spec     string
	who      identity.Matcher
	builders []promoterfile.Builder
	ceiling  int
}

// fixNoPolicy is the next act where a manifest has no policy.
const fixNoPolicy = "name a policy with --policy FILE, or have the manifest require provenance: mode require, with signers, builders and sources"

// Judge prepares the judgement. A manifest without requirements is refused, because
// it would accept every image that it lists.
func (r ManifestRequest) Judge() (*ManifestJudge, error) {
	if !r.Policy.Demands() {
		why := "the manifest has no policy for its images"
		if r.Policy != nil {
			why = "the manifest's policy is off"
		}
		return nil, verdict.Refuse(verdict.PolicyEmpty, r.Manifest, "%s, so no image can be judged by it", why).Advise(fixNoPolicy)
	}
	j := &ManifestJudge{ManifestRequest: r}
	for _, spec := range r.Policy.Signers {
		s, err := promoterfile.ParseSigner(spec)
		if err != nil {
			return nil, err
		}
		who, err := s.Matcher()
		if err != nil {
			return nil, err
		}
		j.signers = append(j.signers, manifestSigner{spec: spec, who: who})
	}
	return j, nil
}

// Image decides about an image: by the provenance of the index itself or, where
// it has none, by that of every manifest in it. Evidence by unlisted signers is
// ignored and does not block. If the policy only warns, its findings are
// warnings; a digest mismatch and an unreachable registry are findings in
// either mode.
func (m *ManifestJudge) Image(ctx context.Context, image Image) *verdict.Verdict {
	image, done := remembered(image)
	defer done()
	all, collected := m.collect(ctx, image)
	by, concluded := m.conclude(all)
	j := terms{root: m.Verifier.Root(), now: m.Now}.beginBy("image "+image.Name, by)
	j.v.Policy = m.Policy.Digest()
	j.v.Scope.Checks = []string{fmt.Sprintf("provenance, as %s demands (%s)", m.Manifest, m.Policy.Mode)}
	j.v.Scope.Left = []string{"everything but provenance"}
	j.addCounted(collected, "")
	j.addCounted(concluded, "")
	return j.endCounted()
}

// collect reads the image and then each manifest in it, and judges each.
func (m *ManifestJudge) collect(ctx context.Context, image Image) (all []manifestRuling, f facts) {
	manifests, _, err := image.manifests(ctx, "")
	if err != nil {
		f.unknown(image.Name, err)
		return nil, f
	}
	f.addInputs(verdict.Input{Name: image.Name, Place: image.Name, Digest: manifests[0].Descriptor.Digest})
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

// conclude chooses the manifests that count. If a listed signer signed
// insufficient provenance of the image itself, that of its platforms does not
// replace it.
func (m *ManifestJudge) conclude(all []manifestRuling) (by byManifest, f facts) {
	by = byManifest{m, map[string]manifestRuling{}}
	if len(all) == 0 {
		return by, f
	}
	root, parts := all[0], all[1:]
	met := slice.Count(parts, manifestRuling.met)
	asked, rest := all, []manifestRuling{}
	switch {
	case root.met() && met < len(parts):
		f.note("%s: accepted by the provenance of the index; %d of its %d manifests have no sufficient provenance of their own", root.name, len(parts)-met, len(parts))
		asked = all[:1]
	case !root.met() && !root.own && len(parts) > 0 && met == len(parts):
		f.note("%s: the index has no provenance; accepted by the provenance of each of the %s in it", root.name, plural.Of(len(parts), "manifest"))
		asked, rest = []manifestRuling{ofParts(root.name, parts)}, parts
	case !root.met() && (root.own || met == 0):
		asked = all[:1] // each platform would repeat the same finding
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
		f.note("Build level %d of 3, at most the level that the manifest trusts its builders for", lowest(asked))
	case m.Policy.Mode == promoterfile.ModeWarn:
		f.leave("provenance: the manifest only warns if it is insufficient")
	}
	for _, r := range all {
		if r.foreign > 0 {
			f.note("%s: ignored %s, invalid or not by a signer of the policy", r.name, plural.Of(r.foreign, "attached bundle"))
		}
	}
	return by, f
}

// byManifest is the [rule] of a promoter's manifest.
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

// letThrough accepts, with warnings, a manifest for which a listed signer
// signed something insufficient: mode warn asks for that. Without any such
// signature, only insecureAcceptUnsigned accepts.
func (m *ManifestJudge) letThrough(v *verdict.Verdict, r manifestRuling) {
	v.Warn(r.findings...)
	v.Counts.Verified, v.Proofs = 1, slices.Concat(r.proofs, r.short)
	switch {
	case len(v.Proofs) > 0:
	case m.Policy.InsecureAcceptUnsigned:
		v.Basis = verdict.InsecureUnsigned
	default:
		v.Add(verdict.Find(verdict.NoProof, r.name, "no signer of %s signed anything about this image; mode warn still requires some signature", m.Manifest).
			Advise("build the image where its provenance is signed; to promote it before that, set insecureAcceptUnsigned: true in the manifest"))
	}
}

// ofParts is the ruling on an index that is accepted by the provenance of its
// platforms.
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

// pagesIn opens the pages of the manifest, beside it.
func pagesIn(ctx context.Context, place store.Place) manifest.Opener {
	return func(name string) ([]byte, error) { return store.Read(ctx, place, name, manifest.MaxPage) }
}

// withoutPages takes the manifest's own verified pages out of the listing, and
// those of the revisions that it supersedes, if their bytes match their names.
// Any other file among them is extra.
func (s *sealed) withoutPages(ctx context.Context, objects []store.Object, f *facts) []store.Object {
	own := slice.Set(s.manifest.Pages, func(p manifest.Page) string { return p.Name })
	return slices.DeleteFunc(objects, func(o store.Object) bool {
		return own[o.Name] || slices.Contains(s.manifest.Former, o.Name) && s.isPage(ctx, o.Name, f)
	})
}

func (s *sealed) isPage(ctx context.Context, name string, f *facts) bool {
	raw, err := pagesIn(ctx, s.Files)(name)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		f.fail(name, err)
		return true // unreadable, and already reported
	}
	return err != nil || manifest.PageName(digest.Of(digest.SHA256, raw)) == name
}
