package gate

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/waybill-release/waybill/pkg/backend/registry"
	"github.com/waybill-release/waybill/pkg/document/intoto"
	"github.com/waybill-release/waybill/pkg/judge/policy"
	"github.com/waybill-release/waybill/pkg/judge/verify"
	"github.com/waybill-release/waybill/pkg/release/manifest"
	"github.com/waybill-release/waybill/pkg/release/plan"
	"github.com/waybill-release/waybill/pkg/tool/plural"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
	"github.com/waybill-release/waybill/pkg/value/version"
)

func (s *sealed) asksImages() bool { return slices.ContainsFunc(s.manifest.Images(), s.covers) }

// checkImages reads every image of the release from the registry: tag, index,
// platforms, blobs.
func (g gathered) checkImages(ctx context.Context) (f facts) {
	switch {
	case !g.release.asksImages():
		return f
	case g.release.Images == nil:
		f.refuse(verdict.Find(verdict.PlaceDown, g.release.manifest.ImagesURI, "the release has images, but no registry was given"))
		return f
	}
	answers := g.readImages(ctx)
	for _, a := range g.release.manifest.Images() {
		if g.release.covers(a) && a.Class == plan.Image {
			g.checkIndex(a, answers[a.Name], &f)
		}
	}
	return f
}

// images are the images in scope. An index comes before its platforms.
func (g gathered) images() []manifest.Artifact {
	if g.release.Images == nil {
		return nil
	}
	return slices.DeleteFunc(g.release.manifest.Images(), func(a manifest.Artifact) bool { return !g.release.covers(a) })
}

// image collects the evidence of one image, if the policy requires any. A
// platform of an index with a finding is not judged: its evidence would prove
// nothing.
func (g gathered) image(ctx context.Context, a manifest.Artifact) (f facts) {
	switch {
	case a.Of != "" && !g.holds(a.Of):
		f.spoiled = []string{a.Name}
	case g.holds(a.Name) && g.release.asks(a.Class):
		f.items = []item{g.item(ctx, a)}
	}
	return f
}

// checkIndex compares tag and graph of one image with the manifest.
func (g gathered) checkIndex(a manifest.Artifact, l imageAnswer, f *facts) {
	if l.node == nil {
		f.fail(a.Name, l.err)
		return
	}
	g.sboms.images[a.Name] = l.node
	f.fail(a.Name, l.err)
	f.fail(a.Name, g.release.manifest.checkChildren(a, l.node))
}

// checkChildren requires exactly the platforms of the manifest, each with
// exactly its bytes.
func (m signedManifest) checkChildren(a manifest.Artifact, node *registry.Node) error {
	want := map[string]digest.Digest{}
	for _, c := range m.Children(a.Name) {
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

// imageSignatureOf finds the signature that the manifest names among the
// bundles that refer to the image. Foreign bundles are not counted and do not
// block.
func (g gathered) imageSignatureOf(ctx context.Context, a manifest.Artifact) (verify.Evidence, error) {
	refers, err := g.release.reader.evidenceOf(ctx, a.Repository, a.Digests.SHA256)
	if err != nil {
		return verify.Evidence{}, err
	}
	ask := policy.Ask{
		Role: policy.Release, Kind: intoto.CosignSignature, Stage: g.release.Stage, Class: a.Class, Subject: a.Name,
		Bytes: digest.Set{SHA256: a.Digests.SHA256}, InRegistry: true,
	}
	foreign := refers.failed
	for _, e := range refers.holds {
		if _, err := g.release.Policy.Judge(e, ask); err == nil && e.Bundle().String() == a.Signature {
			return e, nil
		}
		if _, err := g.release.Policy.Acts(e, g.release.question(a)); err != nil {
			foreign++
		}
	}
	return verify.Evidence{}, verdict.Refuse(verdict.Unsigned, a.Name, "no signature by the release identity among %s (%d foreign)", plural.Of(foreign+len(refers.holds), "attached bundle"), foreign)
}

// checkTags refuses tags in the release's scope that the manifest does not
// list. The policy says whether the registry is closed.
func checkTags(ctx context.Context, g gathered) (f facts) {
	mode := g.release.Policy.Closes(policy.Images)
	if mode == policy.Off || !g.release.asksImages() || g.release.Images == nil {
		return f
	}
	for _, repo := range g.release.manifest.Repositories() {
		tags, err := g.release.Images.Tags(ctx, repo)
		if err != nil { // refused in every mode: the tags are unknown
			f.fail("oci/"+repo, err)
			continue
		}
		for _, tag := range tags {
			if g.release.manifest.inScope(tag) && !g.release.manifest.listsTag(repo, tag) {
				f.weigh(mode, verdict.Find(verdict.Extra, "oci/"+repo+":"+tag, "in the registry, not listed in the manifest"))
			}
		}
		g.checkAttachedTags(ctx, repo, tags, &f)
	}
	return f
}

func (m signedManifest) listsTag(repo, tag string) bool {
	return slices.ContainsFunc(m.Images(), func(a manifest.Artifact) bool {
		return a.Repository == repo && slices.Contains(a.Tags, tag)
	})
}

// checkAttachedTags refuses a tag for evidence about an image of the release
// that has no evidence in it: clients that look for evidence would get unknown
// content under the release's own name.
func (g gathered) checkAttachedTags(ctx context.Context, repo string, tags []string, f *facts) {
	ours := map[string]bool{}
	for _, a := range g.release.manifest.Images() {
		if a.Repository == repo {
			ours[registry.AttachedTag(a.Digests.SHA256, "")] = true
		}
	}
	for _, tag := range tags {
		about, suffix, is := cutAttachedTag(tag)
		if !is || !ours[about] {
			continue
		}
		at, err := g.release.Images.Resolve(ctx, repo, tag)
		switch {
		case err != nil:
		case suffix == "":
			err = registry.ReferrersTag(ctx, g.release.Images, repo, at)
		default:
			_, err = registry.AttachedEvidence(ctx, g.release.Images, repo, at)
		}
		var no *registry.NoEvidenceError
		switch {
		case errors.As(err, &no):
			f.weigh(g.release.Policy.Closes(policy.Images), verdict.Find(verdict.Extra, "oci/"+repo+":"+tag, "the tag is for evidence, but names an image without any: %s", no.Why))
		case err != nil:
			f.fail("oci/"+repo+":"+tag, err)
		}
	}
}

// inScope reports whether a tag belongs to the release: its version, or its
// version with a suffix (v1.2.3-debug). The longest version that a tag begins
// with owns it: v1.2.3-rc.1-debug belongs to v1.2.3-rc.1.
func (m signedManifest) inScope(tag string) bool {
	for end := len(tag); end > 0; end-- {
		if end < len(tag) && isWord(tag[end]) {
			continue // within a number or a word
		}
		if owner, err := versionIn(tag[:end]); err == nil {
			return owner == m.Version
		}
	}
	return false
}

// versionIn is the version that an image's tag is: see [version.Version.ImageTag].
func versionIn(tag string) (version.Version, error) {
	return version.Parse(strings.Replace(tag, "_", "+", 1))
}

func isWord(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}

// cutAttachedTag splits a tag that belongs to a manifest into its
// [registry.AttachedTag] without a suffix, and the suffix. Clients find evidence by such tags and, in
// registries without referrers, the list of referrers. Any suffix and any case
// counts: who pulls by such a tag takes it for a part of the image.
func cutAttachedTag(tag string) (about, suffix string, is bool) {
	const length = len("sha256-") + 64
	if len(tag) < length || len(tag) > length && strings.IndexByte(".-_", tag[length]) < 0 {
		return "", "", false
	}
	return strings.ToLower(tag[:length]), tag[length:], true
}
