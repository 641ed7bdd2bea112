package gate

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/waybill-release/waybill/pkg/backend/registry"
	"github.com/waybill-release/waybill/pkg/backend/rekorv1"
	"github.com/waybill-release/waybill/pkg/judge/policy"
	"github.com/waybill-release/waybill/pkg/judge/verify"
	"github.com/waybill-release/waybill/pkg/tool/plural"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// imageManifest is one manifest of an image: the index, or one that the index
// lists.
type imageManifest struct {
	*registry.Node
	name     string // of the index entry, with its platform
	subject  string // repository and digest
	platform error  // why it is not for the platform of its index entry
}

// manifests resolves an image once and reads every manifest in it, once for
// each platform that lists it. The index is the first. A platform narrows an
// index to one of its platforms; left are the others.
func (i Image) manifests(ctx context.Context, platform string) (kept []imageManifest, left []string, err error) {
	d, err := i.resolve(ctx)
	if err != nil {
		return nil, nil, err
	}
	root, err := registry.Graph(ctx, i.Source, i.Repository, d)
	if err != nil {
		return nil, nil, err
	}
	seen := map[string]bool{}
	err = root.Walk(func(n *registry.Node) error {
		d := n.Descriptor
		// The index can list one image for several platforms; check each entry.
		key := d.Digest.String() + " " + d.Platform
		switch {
		case seen[key]:
		case platform != "" && n.IsBuildEvidence():
		case platform != "" && n != root && d.Platform != platform:
			left = append(left, d.Platform)
		default:
			kept = append(kept, imageManifest{
				Node: n, name: i.nameOf(d), subject: i.Repository + "@" + d.Digest.String(),
				platform: registry.CheckPlatform(ctx, i.Source, i.Repository, n),
			})
		}
		seen[key] = true
		return nil
	})
	return kept, left, err
}

// platforms are the index and the platforms in it: not the evidence that the
// build tool lists beside them.
func platforms(all []imageManifest, f *facts) (kept []imageManifest) {
	kept = slices.DeleteFunc(slices.Clone(all), func(m imageManifest) bool { return m.IsBuildEvidence() })
	if n := len(all) - len(kept); n > 0 {
		f.note("%s: %s of the build tool, which the index lists: evidence and no platform, not judged", all[0].name, plural.Of(n, "attestation manifest"))
	}
	return kept
}

// listed is the fact about a manifest that a verified index lists by its digest.
// It is proven with the index, unless that itself was not asked: then the index's
// answer is this one's.
func (m imageManifest) listed(answer *verdict.Verdict) (f facts) {
	q := policy.Question{Subject: m.name, Bytes: digest.Set{SHA256: m.Descriptor.Digest}}
	f.items = []item{{question: q, answer: answer, follows: answer == nil, err: m.platform}}
	return f
}

// noteFile says which file a manifest holds that is no image but a file promoted
// as an OCI artifact: an empty configuration, and the file as the only layer.
// What is proven of the manifest is then proven of the file with these digests.
func (m imageManifest) noteFile(f *facts) {
	if m.Config.MediaType != "application/vnd.oci.empty.v1+json" || len(m.Layers) != 1 {
		return
	}
	layer, sums := m.Layers[0], m.Layers[0].Digest.String()
	for _, key := range slices.Sorted(maps.Keys(layer.Annotations)) {
		if !strings.HasSuffix(key, ".sha512") {
			continue
		}
		if sum, err := digest.ParseHex(digest.SHA512, layer.Annotations[key]); err == nil {
			sums += ", by its annotation " + sum.String()
		}
	}
	f.note("%s: the manifest holds the file %.200q: %s", m.name, layer.Annotations["org.opencontainers.image.title"], sums)
}

// resolve asks the registry once for the digest.
func (i Image) resolve(ctx context.Context) (registry.Descriptor, error) {
	if i.Digest.IsZero() || i.Tag == "" {
		return i.Source.Resolve(ctx, i.Repository, i.Reference())
	}
	tagged, err := i.Source.Resolve(ctx, i.Repository, i.Tag)
	if err != nil {
		return registry.Descriptor{}, err
	}
	if !tagged.Digest.Equal(i.Digest) {
		return registry.Descriptor{}, &verdict.Error{Finding: verdict.Find(verdict.TagMoved, i.Name, "tag %s names another image", i.Tag).
			Differ(i.Digest.String(), tagged.Digest.String())}
	}
	return tagged, nil
}

// nameOf is the name of one manifest of the image in findings.
func (i Image) nameOf(d registry.Descriptor) string {
	if d.Platform == "" {
		return i.Name
	}
	return i.Name + " " + d.Platform
}

func (i Image) target(m imageManifest) registry.Target {
	return registry.Target{Source: i.Source, Repository: i.Repository, Digest: m.Descriptor.Digest}
}

// remembered returns the image with a registry client that makes each request
// once. A caller that already has such a client keeps it.
func remembered(i Image) (Image, func()) {
	remote, is := i.Source.(*registry.Remote)
	if !is {
		return i, func() {}
	}
	m := registry.Remember(remote, false)
	i.Source = m
	return i, m.Close
}

// ahead has such a client make all requests about the image now.
func (i Image) ahead(ctx context.Context) (end func()) {
	if m, is := i.Source.(*registry.Memory); is && !i.Digest.IsZero() {
		return m.Ahead(ctx, i.Repository, i.Digest)
	}
	return func() {}
}

// evidenceReader reads the evidence about manifests in a registry.
type evidenceReader struct {
	signer Signer // has the verifier
	finder rekorv1.Finder
	kinds  []string // predicate types to read; empty reads all
}

// imageEvidence is the evidence about one manifest: its referrers, and the
// layers of its legacy tags.
type imageEvidence struct {
	attached
	legacy      []verify.Evidence
	invalid     []error          // errors of the invalid layers of legacy tags
	unavailable map[string]error // by the suffix of the tag
}

func (e imageEvidence) all() []verify.Evidence { return slices.Concat(e.holds, e.legacy) }

// read reads the referrers of a manifest, and then those legacy tags for whose
// suffix lacking returns true, given the evidence of the referrers.
func (r evidenceReader) read(ctx context.Context, of registry.Target, lacking func(suffix string, found []verify.Evidence) bool) (e imageEvidence, err error) {
	if e.attached, err = readAttached(ctx, r.signer.verifier, of, r.kinds...); err != nil {
		return imageEvidence{}, err
	}
	e.unavailable = map[string]error{}
	for _, suffix := range []string{registry.SuffixSignatures, registry.SuffixAttestations} {
		if !lacking(suffix, e.holds) {
			continue
		}
		found, invalid, down := r.readLegacy(ctx, of, suffix)
		e.legacy, e.invalid = append(e.legacy, found...), append(e.invalid, invalid...)
		if down != nil {
			e.unavailable[suffix] = down
		}
	}
	return e, nil
}
