package gate

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/waybill-release/waybill/pkg/identity"
	"github.com/waybill-release/waybill/pkg/promoter"
	"github.com/waybill-release/waybill/pkg/registry"
	"github.com/waybill-release/waybill/pkg/rekor"
	"github.com/waybill-release/waybill/pkg/slsa"
	"github.com/waybill-release/waybill/pkg/verdict"
	"github.com/waybill-release/waybill/pkg/verify"
)

// ManifestRequest asks what the provenance section of a promoter's manifest
// demands of its images. README.md of package promoter says how each of its
// fields is read.
type ManifestRequest struct {
	// Manifest is what the manifest is called.
	Manifest string
	Policy   *promoter.Policy
	Verifier *verify.Verifier
	Now      time.Time
	// Finder completes attestations in legacy forms.
	Finder rekor.Finder
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
	builders []promoter.Builder
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
		s, err := promoter.ParseSigner(spec)
		if err != nil {
			return nil, err
		}
		who, err := exactly(s)
		if err != nil {
			return nil, verdict.Wrap(verdict.ConfigParse, r.Manifest, err)
		}
		j.signers = append(j.signers, manifestSigner{who, r.Policy.Claimable(spec), r.Policy.Ceiling(spec)})
	}
	return j, nil
}

// exactly makes the matcher of one identity. An address of a workflow has an @,
// too, so what is an e-mail address is seen by its having no scheme.
func exactly(s promoter.Signer) (identity.Matcher, error) {
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
func (j *ManifestJudge) Image(ctx context.Context, image Image) *verdict.Verdict {
	image, done := remembered(image)
	defer done()
	v := verdict.New("image "+image.Name, j.Now)
	v.Policy, v.TrustRoot = j.Policy.Digest(), j.Verifier.Root().Digest()
	v.Scope.Checks = []string{fmt.Sprintf("provenance, as %s demands (%s)", j.Manifest, j.Policy.Mode)}
	v.Scope.Left = []string{"everything but provenance"}
	if j.Verifier.Root().IsLab() {
		v.Note("the trust root is an INSECURE LAB: anybody can have its keys")
	}
	v.Counts.Required = 1
	nodes, err := image.graph(ctx)
	if err != nil {
		v.AddError(image.Name, err)
		return v
	}
	v.Inputs = append(v.Inputs, verdict.Input{Name: image.Name, Place: image.Name, Digest: nodes[0].Descriptor.Digest})
	j.decide(ctx, v, manifestCase{image: image, nodes: nodes, level: j.Policy.LevelOf(image.Repository)})
	checkClock(v)
	return v
}

// manifestCase is an image with the level that is asked of it. The first of the
// nodes is the image, the others what is in it.
type manifestCase struct {
	image Image
	nodes []*registry.Node
	level int
}

// decide hears the image first, and then what is in it.
func (j *ManifestJudge) decide(ctx context.Context, v *verdict.Verdict, c manifestCase) {
	rulings := make([]manifestRuling, len(c.nodes))
	for i, n := range c.nodes {
		if err := registry.CheckPlatform(ctx, c.image.Source, c.image.Repository, n); err != nil {
			v.AddError(c.image.name(n.Descriptor), err)
			return
		}
		r, err := j.hear(ctx, c, n, i == 0 || !rulings[0].met() && !rulings[0].own)
		if err != nil {
			v.AddError(r.name, err)
			return
		}
		rulings[i] = r
	}
	j.conclude(v, rulings)
	for _, r := range rulings {
		if r.foreign > 0 {
			v.Note("%s: %d bundles that refer to it are of none of the policy's signers, or do not hold; they count for nothing", r.name, r.foreign)
		}
	}
}

// conclude counts what was found. Provenance of the image that a signer of the
// policy gave and that falls short is not outweighed by that of its parts.
func (j *ManifestJudge) conclude(v *verdict.Verdict, all []manifestRuling) {
	root, parts := all[0], all[1:]
	met := 0
	for _, r := range parts {
		if r.met() {
			met++
		}
	}
	through := !root.met() && !root.own && len(parts) > 0 && met == len(parts)
	switch {
	case root.met() && met < len(parts):
		v.Note("%s: its own provenance speaks for it; %d of the %d manifests in it have none of theirs that would do", root.name, len(parts)-met, len(parts))
		all = all[:1]
	case through:
		v.Note("%s: it has no provenance of its own; that of each of the %d manifests in it speaks for it", root.name, len(parts))
		all[0] = manifestRuling{name: root.name, level: lowest(parts), foreign: root.foreign}
	case !root.met() && (root.own || met == 0):
		all = all[:1] // the same would be said of each part
	}
	v.Counts.Required = len(all)
	for _, r := range all {
		v.Proofs = append(v.Proofs, r.proofs...)
		if r.met() {
			v.Counts.Verified++
			continue
		}
		if j.Policy.Mode == promoter.ModeRequire {
			v.Add(r.findings...)
			continue
		}
		v.Warn(r.findings...)
	}
	if v.Counts.Verified == v.Counts.Required {
		v.Least = &verdict.Least{Track: string(slsa.Build), Level: lowest(all), Artifacts: len(all), Path: []string{root.name}}
		v.Note("Build level %d of 3, as far as the manifest believes its builders", v.Least.Level)
		return
	}
	if j.Policy.Mode == promoter.ModeWarn {
		j.letThrough(v, all)
	}
}

// letThrough accepts what the manifest's owners only want to be warned about: an
// image that one of their signers signed something about, which falls short.
// About what nobody of them signed anything, only their own word lets through.
func (j *ManifestJudge) letThrough(v *verdict.Verdict, all []manifestRuling) {
	v.Scope.Left = append(v.Scope.Left, "provenance: the manifest only warns where it falls short")
	for _, r := range all {
		v.Proofs = append(v.Proofs, r.short...)
		if len(r.proofs)+len(r.short) > 0 {
			continue
		}
		if j.Policy.InsecureAcceptUnsigned {
			v.Basis = verdict.InsecureUnsigned
			continue
		}
		f := verdict.Find(verdict.NoProof, r.name, "none of the signers of %s signed anything about it, and mode warn does not stand for a signature", j.Manifest)
		f.Fix = "have it built where its provenance is signed; manifests that must let it through until then say insecureAcceptUnsigned: true"
		v.Add(f)
	}
	if len(v.Findings) == 0 {
		v.Counts = verdict.Counts{Verified: 1, Required: 1}
	}
}

func lowest(all []manifestRuling) int {
	level := all[0].level
	for _, r := range all[1:] {
		level = min(level, r.level)
	}
	return level
}
