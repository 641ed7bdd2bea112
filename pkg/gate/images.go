package gate

import (
	"context"
	"errors"
	"slices"

	"github.com/waybill-release/waybill/pkg/digest"
	"github.com/waybill-release/waybill/pkg/intoto"
	"github.com/waybill-release/waybill/pkg/plan"
	"github.com/waybill-release/waybill/pkg/policy"
	"github.com/waybill-release/waybill/pkg/registry"
	"github.com/waybill-release/waybill/pkg/release"
	"github.com/waybill-release/waybill/pkg/verdict"
	"github.com/waybill-release/waybill/pkg/verify"
	"github.com/waybill-release/waybill/pkg/version"
	"github.com/waybill-release/waybill/pkg/vsa"
)

// checkImages walks every image of the release in the registry: tag, index,
// platforms, layers' descriptors, evidence, and tags that nobody listed.
func (d *decision) checkImages(ctx context.Context) {
	if !slices.ContainsFunc(d.manifest.Images(), d.covers) {
		return
	}
	if d.Images == nil {
		d.v.Add(verdict.Find(verdict.PlaceDown, d.manifest.ImagesURI, "the release has images, but no registry was given"))
		return
	}
	looked := d.lookAtImages(ctx)
	for _, a := range d.manifest.Images() { // an index stands before its platforms
		if !d.covers(a) {
			continue
		}
		if a.Class == plan.Image {
			d.checkIndex(a, looked[a.Name])
		}
		if d.bad[a.Name] || d.bad[a.Of] {
			d.bad[a.Name] = true // evidence of what is not the image proves nothing
			continue
		}
		if d.asks(a.Class) {
			d.take(a, d.judge(ctx, a))
		}
	}
	for _, repo := range d.manifest.Repositories() {
		d.checkTags(ctx, repo)
	}
}

// checkIndex holds tag and graph of one image against the manifest.
func (d *decision) checkIndex(a release.Artifact, l looked) {
	if l.node == nil {
		d.fail(a.Name, l.err)
		return
	}
	d.sboms.images[a.Name] = l.node
	if l.err != nil {
		d.fail(a.Name, l.err)
	}
	if err := d.checkChildren(a, l.node); err != nil {
		d.fail(a.Name, err)
	}
}

// checkChildren demands exactly the platforms of the manifest, each with
// exactly its bytes.
func (d *decision) checkChildren(a release.Artifact, node *registry.Node) error {
	want := map[string]digest.Digest{}
	for _, c := range d.manifest.Children(a.Name) {
		want[c.Platform] = c.Digests.SHA256
	}
	for _, child := range node.Children {
		platform := child.Descriptor.Platform
		if !want[platform].Equal(child.Descriptor.Digest) {
			return &verdict.Error{Finding: verdict.Find(verdict.Platform, a.Name, "platform %q of the index is not the one listed", platform).
				Differ(want[platform].String(), child.Descriptor.Digest.String())}
		}
		delete(want, platform)
	}
	for platform := range want {
		return verdict.Refuse(verdict.Platform, a.Name, "the index lacks platform %s", platform)
	}
	return nil
}

// imageSignatureOf looks among everything that refers to the image for the
// signature that the manifest names. What strangers attach is not counted and
// does not block.
func (d *decision) imageSignatureOf(ctx context.Context, a release.Artifact) (verify.Evidence, error) {
	refers, err := d.evidenceOf(ctx, a.Repository, a.Digests.SHA256)
	if err != nil {
		return verify.Evidence{}, err
	}
	ask := policy.Ask{
		Role: policy.Release, Kind: intoto.CosignSignature, Stage: d.Stage, Class: a.Class, Subject: a.Name,
		Bytes: digest.Set{SHA256: a.Digests.SHA256}, InRegistry: true,
	}
	foreign := refers.failed
	for _, e := range refers.holds {
		if _, err := d.Policy.Judge(e, ask); err == nil && e.Bundle().String() == a.Signature {
			return e, nil
		}
		if _, err := d.Policy.Acts(e, d.question(a)); err != nil {
			foreign++
		}
	}
	return verify.Evidence{}, verdict.Refuse(verdict.Unsigned, a.Name, "among %d bundles that refer to it, %d of them foreign, none is the release identity's signature", foreign+len(refers.holds), foreign)
}

// summariesOf are the summaries that refer to an image.
func (d *decision) summariesOf(ctx context.Context, a release.Artifact) ([]verify.Evidence, error) {
	refers, err := d.evidenceOf(ctx, a.Repository, a.Digests.SHA256)
	if err != nil {
		return nil, err
	}
	var summaries []verify.Evidence
	for _, e := range refers.holds {
		if e.Kind() == vsa.PredicateType {
			summaries = append(summaries, e)
		}
	}
	return summaries, nil
}

// checkTags refuses a tag in the release's scope that the manifest does not
// list. Policy says whether the registry is closed.
func (d *decision) checkTags(ctx context.Context, repo string) {
	mode := d.Policy.Closes(policy.Images)
	if mode == policy.Off {
		return
	}
	tags, err := d.Images.Tags(ctx, repo)
	if err != nil { // and not weighed: nobody knows which tags there are
		d.v.AddError("oci/"+repo, err)
		return
	}
	for _, tag := range tags {
		if !d.inScope(tag) {
			continue
		}
		listed := slices.ContainsFunc(d.manifest.Images(), func(a release.Artifact) bool {
			return a.Repository == repo && slices.Contains(a.Tags, tag)
		})
		if !listed {
			d.weigh(mode, verdict.Find(verdict.Extra, "oci/"+repo+":"+tag, "in the registry, not listed in the manifest"))
		}
	}
	d.checkAttachedTags(ctx, mode, repo, tags)
}

// checkAttachedTags refuses a tag about an image of the release that holds no
// evidence: clients that look for evidence there get whatever it is, under the
// release's own name.
func (d *decision) checkAttachedTags(ctx context.Context, mode policy.Mode, repo string, tags []string) {
	ours := map[string]bool{}
	for _, a := range d.manifest.Images() {
		if a.Repository == repo {
			ours[registry.AttachedTag(a.Digests.SHA256, "")] = true
		}
	}
	for _, tag := range tags {
		about, suffix, is := registry.CutAttachedTag(tag)
		if !is || !ours[about] {
			continue
		}
		at, err := d.Images.Resolve(ctx, repo, tag)
		switch {
		case err != nil:
		case suffix == "":
			err = registry.ReferrersTag(ctx, d.Images, repo, at)
		default:
			_, err = registry.AttachedEvidence(ctx, d.Images, repo, at)
		}
		var no *registry.NoEvidenceError
		switch {
		case errors.As(err, &no):
			d.weigh(mode, verdict.Find(verdict.Extra, "oci/"+repo+":"+tag, "a tag for evidence that holds none: %s", no.Why))
		case err != nil:
			d.v.AddError("oci/"+repo+":"+tag, err)
		}
	}
}

// inScope reports whether a tag belongs to the release: its version, or its
// version with something appended (v1.2.3-debug). The longest version that a
// tag begins with owns it: v1.2.3-rc.1-debug belongs to v1.2.3-rc.1.
func (d *decision) inScope(tag string) bool {
	for end := len(tag); end > 0; end-- {
		if end < len(tag) && isWord(tag[end]) {
			continue // in the middle of a number or a word
		}
		if owner, err := version.Parse(tag[:end]); err == nil {
			return owner == d.manifest.Version
		}
	}
	return false
}

func isWord(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}
