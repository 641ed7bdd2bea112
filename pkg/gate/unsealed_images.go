package gate

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/sigstore/cosign/v2/pkg/oci"

	"github.com/waybill-release/waybill/pkg/digest"
	"github.com/waybill-release/waybill/pkg/expected"
	"github.com/waybill-release/waybill/pkg/legacy"
	"github.com/waybill-release/waybill/pkg/plan"
	"github.com/waybill-release/waybill/pkg/policy"
	"github.com/waybill-release/waybill/pkg/registry"
	"github.com/waybill-release/waybill/pkg/verdict"
	"github.com/waybill-release/waybill/pkg/verify"
	"github.com/waybill-release/waybill/pkg/waiver"
)

// pulled is one manifest as users pull it: a name of the release, and what the
// registry serves under it.
type pulled struct {
	name, repository string
	class            plan.Class
	digest           digest.Digest
	node             *registry.Node // of an index, and of each platform in it
	image            expected.Image // of a platform in an index
}

// checkImages walks every image of the release: the index under its tag, its
// platforms, and each platform by itself under the name with its architecture,
// which must be the same bytes. Each of them needs a signature of its own, and
// each platform must be what the SBOM, which is signed, describes. Layers are
// read last, when it is signed how large they are.
func (u *unsealed) checkImages(ctx context.Context) {
	if !u.hasImages() {
		return
	}
	for _, f := range u.set.CompareImages() {
		u.add(f)
	}
	if u.Images == nil {
		u.v.Add(verdict.Find(verdict.PlaceDown, u.Canon.Images, "the release has images, but no registry was given"))
		return
	}
	platforms := map[string][]expected.Image{}
	var names []string
	for _, i := range u.set.Images() { // sorted by name
		if platforms[i.Name] == nil {
			names = append(names, i.Name)
		}
		platforms[i.Name] = append(platforms[i.Name], i)
	}
	var all []pulled
	for _, name := range names {
		all = append(all, u.checkImage(ctx, name, platforms[name])...)
	}
	answers, unbound := make([]*verdict.Verdict, len(all)), make([]error, len(all))
	inParallel(len(all), func(i int) {
		if u.bad[all[i].name] {
			return
		}
		if answers[i] = u.judgeImage(ctx, all[i]); proves(answers[i]) && all[i].class == plan.ImageChild {
			unbound[i] = u.bindImage(ctx, all[i])
		}
	})
	for i, err := range unbound {
		if err != nil {
			u.fail(all[i].name, err)
		}
	}
	for i, p := range all {
		if p.class == plan.Image && p.node != nil && proves(answers[i]) {
			u.checkBlobs(ctx, p)
		}
	}
	for i, p := range all {
		u.judged(p.class, p.name, answers[i])
		u.images = append(u.images, waiver.Subject{Name: p.name, Digests: digest.Set{SHA256: p.digest}, Destination: u.Canon.Images})
	}
	u.again(ctx, all)
}

// hasImages reports whether there are images to look at. The SBOM must name
// those of the release: what names none has no image that could be accepted.
func (u *unsealed) hasImages() bool {
	platform := u.Options.Scope.Platform
	switch {
	case u.signed.Images() == 0:
		u.add(verdict.Find(verdict.EvidenceMissing, expected.ReleaseSBOM, "it names no image of %s, so no image is bound to the version", u.Version))
		return false
	case len(u.set.Images()) > 0:
		return true
	case u.Options.Scope.Only == policy.Images:
		u.v.AddError("scope", verdict.Refuse(verdict.Usage, "--platform", "the release has no image for %s", platform))
	default:
		u.v.Note("the release has no image for %s", platform)
	}
	return false
}

// checkImage resolves an image once, and each of its platforms by itself. It
// returns everything that needs a signature.
func (u *unsealed) checkImage(ctx context.Context, name string, platforms []expected.Image) []pulled {
	index := pulled{name: "oci/" + name, repository: name, class: plan.Image}
	all := []pulled{index}
	parts := map[string]*registry.Node{}
	node, err := u.pull(ctx, name)
	if err != nil {
		u.missing(index.name, name, err)
	} else {
		all[0].digest, all[0].node = node.Descriptor.Digest, u.partOf(node)
		for _, child := range all[0].node.Children {
			parts[child.Descriptor.Platform] = child
		}
	}
	for _, image := range platforms {
		part, there := parts[image.Platform]
		delete(parts, image.Platform)
		child := pulled{name: index.name + "/" + image.Platform, repository: name, class: plan.ImageChild, image: image, node: part}
		switch {
		case there:
			child.digest = part.Descriptor.Digest
		case err == nil:
			u.add(verdict.Find(verdict.Platform, index.name, "the index lacks platform %s", image.Platform))
			fallthrough
		default:
			u.bad[child.name] = true
		}
		all = append(all, child, u.checkAlone(ctx, image, child.digest))
	}
	for platform := range parts {
		u.add(verdict.Find(verdict.Platform, index.name, "the index has platform %q, which nobody names", platform))
	}
	return all
}

// checkBlobs reads the blobs of an index that is signed, and all of whose
// platforms are what they should be: so far as it goes, sizes are signed.
func (u *unsealed) checkBlobs(ctx context.Context, index pulled) {
	for _, child := range index.node.Children {
		if u.bad[index.name+"/"+child.Descriptor.Platform] {
			return
		}
	}
	if u.bad[index.name] {
		return
	}
	if _, err := registry.VerifyBlobs(ctx, u.Images, index.repository, index.node); err != nil {
		u.missing(index.name, index.repository, err)
	}
}

// checkAlone resolves a platform by itself: whoever pulls it so must get what
// the index names.
func (u *unsealed) checkAlone(ctx context.Context, image expected.Image, want digest.Digest) pulled {
	p := pulled{name: "oci/" + image.Alone(), repository: image.Alone(), class: plan.Image}
	node, err := u.pull(ctx, image.Alone())
	if err != nil {
		u.missing(p.name, image.Alone(), err)
		return p
	}
	if p.digest = node.Descriptor.Digest; !want.IsZero() && !want.Equal(p.digest) {
		u.add(verdict.Find(verdict.TagMoved, p.name, "tag %s names another image than the index of %s does for %s", u.Version, image.Name, image.Platform).
			Differ(want.String(), p.digest.String()))
	}
	return p
}

// pull resolves the tag of the version once, and reads what it names.
func (u *unsealed) pull(ctx context.Context, repository string) (*registry.Node, error) {
	d, err := u.Images.Resolve(ctx, repository, u.Version.String())
	if err != nil {
		return nil, err
	}
	return registry.Graph(ctx, u.Images, repository, d)
}

func (u *unsealed) missing(name, repository string, err error) {
	if errors.Is(err, registry.ErrNotFound) {
		u.add(verdict.Find(verdict.Missing, name, "%s:%s, or a part of it, is not in the registry", repository, u.Version))
		return
	}
	u.fail(name, err)
}

// again resolves every tag once more: what was judged must be what the tag
// still names.
func (u *unsealed) again(ctx context.Context, all []pulled) {
	all = slices.DeleteFunc(slices.Clone(all), func(p pulled) bool { return p.class != plan.Image || u.bad[p.name] })
	errs := make([]error, len(all))
	inParallel(len(all), func(i int) {
		d, err := u.Images.Resolve(ctx, all[i].repository, u.Version.String())
		if err == nil && !d.Digest.Equal(all[i].digest) {
			err = &verdict.Error{Finding: verdict.Find(verdict.TagMoved, all[i].name, "the tag moved while it was judged").Differ(all[i].digest.String(), d.Digest.String())}
		}
		errs[i] = err
	})
	for i, err := range errs {
		if err != nil {
			u.fail(all[i].name, err)
		}
	}
}

// judgeImage asks the policy about one manifest, with every signature that is
// attached to it. What strangers attach is not counted and does not block.
func (u *unsealed) judgeImage(ctx context.Context, p pulled) *verdict.Verdict {
	q := u.question(p.class, p.name, digest.Set{SHA256: p.digest})
	q.ByDigest = true
	layers, err := registry.AttachedTo(ctx, u.Images, p.repository, p.digest, registry.SuffixSignatures)
	var evidence []verify.Evidence
	for _, layer := range layers {
		e, why := u.imageSignature(ctx, layer, p)
		switch {
		case why == nil:
			evidence = append(evidence, e)
		case err == nil || verdict.OutcomeOf(why) == verdict.Unavailable: // who did not answer may have the one that holds
			err = why
		}
	}
	switch {
	case len(evidence) > 0: // one that holds is enough
	case err != nil:
		q.Why[policy.Signature] = about(p.name, err)
	default:
		q.Why[policy.Signature] = verdict.Refuse(verdict.Unsigned, p.name, "no signature is attached to it").Advise(unsignedAct)
	}
	return u.hearing.Decide(evidence, q)
}

// imageSignature proves one attached signature. It must name the image by the
// name under which it lies: registries move images between hosts, and nobody
// moves them between names.
func (u *unsealed) imageSignature(ctx context.Context, l oci.Signature, p pulled) (verify.Evidence, error) {
	m, err := legacy.ParseLayer(legacy.Certificate, l)
	if err != nil {
		return verify.Evidence{}, err
	}
	e, err := u.finder.Prove(ctx, m, func(bundle []byte) (verify.Evidence, error) {
		return u.Verifier.Image(bundle, m.Payload(), p.digest)
	})
	if err != nil {
		return verify.Evidence{}, err
	}
	payload, err := legacy.ParsePayload(m.Payload())
	if err != nil {
		return verify.Evidence{}, err
	}
	if said := payload.Reference[strings.LastIndexByte(payload.Reference, '/')+1:]; said != p.repository {
		return verify.Evidence{}, &verdict.Error{Finding: verdict.Find(verdict.NotBound, p.name, "the signature is genuine, but of an image by another name").
			Differ(p.repository, said).Citing(e.Bundle())}
	}
	return e, nil
}
