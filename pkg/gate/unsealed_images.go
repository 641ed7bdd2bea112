package gate

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/sigstore/cosign/v2/pkg/oci"

	"github.com/waybill-release/waybill/pkg/backend/registry"
	"github.com/waybill-release/waybill/pkg/document/legacy"
	"github.com/waybill-release/waybill/pkg/judge/k8slayout"
	"github.com/waybill-release/waybill/pkg/judge/policy"
	"github.com/waybill-release/waybill/pkg/judge/verify"
	"github.com/waybill-release/waybill/pkg/release/plan"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// pulled is one manifest as users pull it: a name of the release, and what the
// registry serves under it.
type pulled struct {
	name, repository string
	class            plan.Class
	digest           digest.Digest   // zero if the registry has none
	node             *registry.Node  // of an index, and of each platform in it
	image            k8slayout.Image // of a platform in an index
}

// resolveImages resolves every image of the release: the index under its tag,
// its platforms, and the repository of each single platform, which must serve
// the same bytes. It returns everything that needs a signature.
func (u unsealed) resolveImages(ctx context.Context, sbom signedSBOM, asked k8slayout.Set) (all []pulled, f facts) {
	if !u.hasImages(sbom, asked, &f) {
		return nil, f
	}
	f.refuse(asked.CompareImages()...)
	if u.Images == nil {
		f.refuse(verdict.Find(verdict.PlaceDown, u.Canon.Images, "the release has images, but no registry was given"))
		return nil, f
	}
	platforms := map[string][]k8slayout.Image{}
	var names []string
	for _, i := range asked.Images() { // sorted by name
		if platforms[i.Name] == nil {
			names = append(names, i.Name)
		}
		platforms[i.Name] = append(platforms[i.Name], i)
	}
	p := u.Options.watch(Progress{What: "resolving", Unit: "images", OfFiles: len(names)})
	for _, name := range names {
		all = append(all, u.resolveIndex(ctx, name, platforms[name], &f)...)
		p.add(0, 1)
	}
	return all, f
}

// hasImages reports whether there are images to check. The SBOM must list those
// of the release: otherwise no image could be accepted.
func (u unsealed) hasImages(sbom signedSBOM, asked k8slayout.Set, f *facts) bool {
	platform := u.Options.Scope.Platform
	switch {
	case sbom.Images() == 0:
		f.refuse(verdict.Find(verdict.EvidenceMissing, k8slayout.ReleaseSBOM, "the SBOM lists no image of %s, so no image is bound to the version", u.Version))
		return false
	case len(asked.Images()) > 0:
		return true
	case u.Options.Scope.Only == policy.Images:
		f.fail("scope", verdict.Refuse(verdict.Usage, "--platform", "the release has no image for %s", platform))
	default:
		f.note("the release has no image for %s", platform)
	}
	return false
}

// resolveIndex resolves an image once, and the repository of each of its
// platforms.
func (u unsealed) resolveIndex(ctx context.Context, name string, platforms []k8slayout.Image, f *facts) []pulled {
	index := pulled{name: "oci/" + name, repository: name, class: plan.Image}
	parts := map[string]*registry.Node{}
	node, err := u.pull(ctx, name)
	f.fail(index.name, u.missing(index.name, name, err))
	if err == nil {
		index.digest, index.node = node.Descriptor.Digest, u.Options.Scope.partOf(node)
		for _, child := range index.node.Children {
			parts[child.Descriptor.Platform] = child
		}
	}
	all := []pulled{index}
	for _, image := range platforms {
		child := pulled{name: index.name + "/" + image.Platform, repository: name, class: plan.ImageChild, image: image, node: parts[image.Platform]}
		delete(parts, image.Platform)
		switch {
		case child.node != nil:
			child.digest = child.node.Descriptor.Digest
		case err == nil:
			f.refuse(verdict.Find(verdict.Platform, index.name, "the index lacks platform %s", image.Platform))
		}
		all = append(all, child, u.resolveAlone(ctx, image, child.digest, f))
	}
	for platform := range parts {
		f.refuse(verdict.Find(verdict.Platform, index.name, "the index has platform %q, which no document names", platform))
	}
	return all
}

// resolveAlone resolves the repository of a single platform, which must serve
// the same manifest as the index.
func (u unsealed) resolveAlone(ctx context.Context, image k8slayout.Image, want digest.Digest, f *facts) pulled {
	p := pulled{name: "oci/" + image.Alone(), repository: image.Alone(), class: plan.Image}
	node, err := u.pull(ctx, image.Alone())
	if err != nil {
		f.fail(p.name, u.missing(p.name, p.repository, err))
		return p
	}
	if p.digest = node.Descriptor.Digest; !want.IsZero() && !want.Equal(p.digest) {
		f.refuse(verdict.Find(verdict.TagMoved, p.name, "tag %s names another image than the index of %s for %s", u.Version, image.Name, image.Platform).
			Differ(want.String(), p.digest.String()))
	}
	return p
}

// pull resolves the tag of the version once, and reads the manifests under it.
func (u unsealed) pull(ctx context.Context, repository string) (*registry.Node, error) {
	return registry.Target{Source: u.Images, Repository: repository}.Graph(ctx, u.Version.String())
}

// missing refuses an image that is not in the registry; other errors are
// returned unchanged.
func (u unsealed) missing(name, repository string, err error) error {
	if errors.Is(err, registry.ErrNotFound) {
		return verdict.Refuse(verdict.Missing, name, "%s:%s or a part of it is not in the registry", repository, u.Version).
			Advise(registry.NextActMissing)
	}
	return err
}

// checkImages judges each image and each platform by its attached signatures.
// Each platform in an index must also be the one that the signed SBOM
// describes. Blobs are read last, when their sizes are known to be signed.
func (u unsealed) checkImages(ctx context.Context, sbom signedSBOM, images []pulled, holds func(name string) bool) (f facts) {
	due := slices.DeleteFunc(slices.Clone(images), func(p pulled) bool { return p.digest.IsZero() || !holds(p.name) })
	items := make([]item, len(due))
	watched := u.Options.watch(Progress{What: "reading", Unit: "images", OfFiles: len(due)})
	inParallel(len(due), func(i int) {
		defer watched.add(0, 1)
		items[i] = u.answered(u.imageItem(ctx, due[i]))
		if due[i].class == plan.ImageChild && items[i].isProven() {
			items[i].differ(u.bindImage(ctx, sbom, due[i]))
		}
	})
	another := map[string]bool{} // platforms that differ from the SBOM
	for i, p := range due {
		another[p.name] = len(items[i].differences) > 0
	}
	for i, p := range due {
		if p.node == nil || p.class != plan.Image || !items[i].isProven() {
			continue
		}
		if !slices.ContainsFunc(p.node.Children, func(n *registry.Node) bool { return another[p.name+"/"+n.Descriptor.Platform] }) {
			_, err := registry.VerifyBlobs(ctx, u.Images, p.repository, p.node)
			items[i].differ(u.missing(p.name, p.repository, err))
		}
	}
	f.items = items
	countAttached(u.Policy, due, items).note(&f)
	return f
}

// resolveAgain resolves every tag once more: it must still name what was
// judged.
func (u unsealed) resolveAgain(ctx context.Context, images []pulled, holds func(name string) bool) (f facts) {
	due := slices.DeleteFunc(slices.Clone(images), func(p pulled) bool { return p.class != plan.Image || !holds(p.name) })
	errs := make([]error, len(due))
	inParallel(len(due), func(i int) {
		d, err := u.Images.Resolve(ctx, due[i].repository, u.Version.String())
		if err == nil && !d.Digest.Equal(due[i].digest) {
			err = &verdict.Error{Finding: verdict.Find(verdict.TagMoved, due[i].name, "the tag moved while the image was judged").Differ(due[i].digest.String(), d.Digest.String())}
		}
		errs[i] = err
	})
	for i, err := range errs {
		f.fail(due[i].name, err)
	}
	return f
}

// imageItem is one manifest with all its attached signatures and statements.
// Foreign signatures are not counted and do not block.
func (u unsealed) imageItem(ctx context.Context, p pulled) item {
	i := item{question: u.question(p.class, p.name, digest.Set{SHA256: p.digest})}
	i.question.ByDigest, i.question.Image = true, p.repository+"@"+p.digest.String()
	layers, err := registry.AttachedTo(ctx, u.Images, p.repository, p.digest, registry.SuffixSignatures)
	for _, layer := range layers {
		e, why := u.imageSignature(ctx, layer, p)
		switch {
		case why == nil:
			i.evidence = append(i.evidence, e)
		case err == nil || verdict.OutcomeOf(why) == verdict.Unavailable: // an unreachable place may have the valid one
			err = why
		}
	}
	switch {
	case len(i.evidence) > 0: // one valid signature is enough
	case err != nil:
		i.question.Why[policy.Signature] = about(p.name, err)
	default:
		i.question.Why[policy.Signature] = verdict.Refuse(verdict.Unsigned, p.name, "no signature is attached to the image").Advise(unsignedAct)
	}
	i.attached = u.readReferrers(ctx, p, &i)
	return i
}

// imageSignature verifies one attached signature. It must name the repository
// in which it is: images are moved between hosts, but never to another
// repository name.
func (u unsealed) imageSignature(ctx context.Context, l oci.Signature, p pulled) (verify.Evidence, error) {
	m, err := legacy.ParseLayer(legacy.Certificate, l)
	if err != nil {
		return verify.Evidence{}, err
	}
	e, err := u.Finder.Prove(ctx, m, func(bundle []byte) (verify.Evidence, error) {
		return u.Verifier.Image(bundle, m.Payload(), p.digest)
	})
	if err != nil {
		return verify.Evidence{}, err
	}
	payload, err := legacy.ParsePayload(m.Payload())
	if err != nil {
		return verify.Evidence{}, err
	}
	if name := payload.Reference[strings.LastIndexByte(payload.Reference, '/')+1:]; name != p.repository {
		return verify.Evidence{}, &verdict.Error{Finding: verdict.Find(verdict.NotBound, p.name, "the signature is valid, but for an image of another name").
			Differ(p.repository, name).Citing(e.Bundle())}
	}
	return e, nil
}
