package lineage

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"

	releasemanifest "github.com/waybill-release/waybill/attestations/release-manifest/v1"
	"github.com/waybill-release/waybill/pkg/backend/atonce"
	"github.com/waybill-release/waybill/pkg/backend/registry"
	"github.com/waybill-release/waybill/pkg/backend/store"
	"github.com/waybill-release/waybill/pkg/document/vsa"
	"github.com/waybill-release/waybill/pkg/judge/verify"
	"github.com/waybill-release/waybill/pkg/release/manifest"
	"github.com/waybill-release/waybill/pkg/release/plan"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/trace"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// readers is how many pieces of evidence are read at once, and maxSummaries how
// many summaries are looked for.
const (
	readers      = 16
	maxSummaries = 100
)

// Published is a place with a release.
type Published struct {
	// Name is the name of the place in the output.
	Name  string
	Files store.Place
	// Images is the place of its images; nil if it has none.
	Images registry.Source
}

// Published reads the evidence of a release at a place. Unreachable places and
// invalid evidence are no errors here: [Trail.Of] reports them.
func (t *Trail) Published(ctx context.Context, p Published) error {
	m, h, err := t.manifestAt(ctx, p)
	if isGone(err) {
		t.Note("no manifest at %s (%s)", p.Name, p.Files.URI())
		return nil
	}
	if err != nil {
		return t.failed(ctx, p.Name, err)
	}
	t.seal(p.Name, m, h)
	if err := t.listed(ctx, p, m); err != nil {
		return err
	}
	if err := t.summaries(ctx, p); err != nil {
		return err
	}
	return t.Registry(ctx, p.Name, p.Images)
}

func (t *Trail) manifestAt(ctx context.Context, p Published) (manifest.Manifest, markedBundle, error) {
	raw, err := store.Read(ctx, p.Files, releasemanifest.Name, verify.MaxBundle)
	if err != nil {
		return manifest.Manifest{}, markedBundle{}, err
	}
	h, err := t.who.readBundle(raw)
	if err != nil {
		return manifest.Manifest{}, markedBundle{}, inFile(releasemanifest.Name, err)
	}
	m, err := manifest.ReadManifest(h.said, func(name string) ([]byte, error) { return store.Read(ctx, p.Files, name, manifest.MaxPage) })
	return m, h, err
}

// inFile adds to a finding the file that it is about.
func inFile(name string, err error) error {
	f := verdict.FindingOf(name, err)
	if !strings.Contains(f.Subject, name) {
		f.Subject = name + " " + f.Subject
	}
	return &verdict.Error{Finding: f, Cause: err}
}

func (t *Trail) listed(ctx context.Context, p Published, m manifest.Manifest) error {
	signs := map[string]manifest.Artifact{}
	for _, a := range m.Files() {
		if a.Signature != "" {
			signs[a.Signature] = a
		}
	}
	return atonce.Try(ctx, readers, m.Files(), func(ctx context.Context, _ int, a manifest.Artifact) error {
		if a.MediaType != plan.MediaBundle {
			return nil
		}
		if err := t.file(ctx, p, a, signs[a.Name]); err != nil {
			return t.failed(ctx, p.Name, err)
		}
		return nil
	})
}

// file reads one bundle of a place: a statement, or the signature of an
// artifact.
func (t *Trail) file(ctx context.Context, p Published, bundle, signed manifest.Artifact) error {
	raw, err := store.Read(ctx, p.Files, bundle.Name, verify.MaxBundle)
	if err != nil {
		return err
	}
	if got := digest.Of(digest.SHA256, raw); !got.Equal(bundle.Digests.SHA256) {
		return &verdict.Error{Finding: verdict.Find(verdict.Tampered, bundle.Name, "the bytes are not the ones that were signed").Differ(bundle.Digests.SHA256.String(), got.String())}
	}
	return t.bundle(p.Name, bundle.Name, raw, artifactOf(signed))
}

// bundle adds the bundle in a file. The artifact is the file that a plain
// signature signs.
func (t *Trail) bundle(where, name string, raw []byte, signed Artifact) error {
	h, err := t.who.readBundle(raw)
	if err != nil {
		return inFile(name, err)
	}
	if h.of.IsZero() {
		a, err := h.act(name)
		if err != nil {
			return inFile(name, err)
		}
		t.add(where, a)
		return nil
	}
	of := Artifact{Name: signed.Name, SHA256: h.of}
	if h.of.Algorithm() == digest.SHA512 {
		of = Artifact{Name: signed.Name, SHA512: h.of}
	}
	if !signed.SHA256.IsZero() {
		if !signed.is(of) {
			return verdict.Refuse(verdict.NotBound, name, "the signature is for other bytes than those of %s", signed.Name)
		}
		of = signed
	}
	t.add(where, Act{Kind: Signature, Signer: h.Signer, Artifacts: []Artifact{of}})
	return nil
}

// summaries reads the summaries that verifiers added beside a manifest later.
func (t *Trail) summaries(ctx context.Context, p Published) error {
	for n := 1; n <= maxSummaries; n++ {
		raw, err := store.Read(ctx, p.Files, vsa.Name(n), verify.MaxBundle)
		if isGone(err) {
			return nil
		}
		if err == nil {
			err = t.bundle(p.Name, vsa.Name(n), raw, Artifact{})
		}
		if err != nil {
			if err := t.failed(ctx, p.Name, err); err != nil {
				return err
			}
		}
	}
	return nil
}

// Registry reads what refers to the images of all found releases in a registry.
func (t *Trail) Registry(ctx context.Context, name string, from registry.Source) error {
	if from == nil {
		return nil
	}
	asked := map[string]manifest.Artifact{}
	for _, m := range t.sealed {
		for _, a := range m.Images() {
			asked[a.Repository+a.Digests.SHA256.String()] = a
		}
	}
	return atonce.Try(ctx, readers, slices.Collect(maps.Values(asked)), func(ctx context.Context, _ int, a manifest.Artifact) error {
		return t.referrers(ctx, name, from, a.Repository, a.Digests.SHA256)
	})
}

// Image reads what refers to an image and to each of its platforms, and returns
// their digests.
func (t *Trail) Image(ctx context.Context, name string, from registry.Source, repo, reference string) (all []digest.Digest, err error) {
	root, err := registry.Target{Source: from, Repository: repo}.Graph(ctx, reference)
	if err != nil {
		return nil, err
	}
	err = root.Walk(func(n *registry.Node) error {
		if slices.ContainsFunc(all, n.Descriptor.Digest.Equal) {
			return nil // one image can be for several platforms
		}
		all = append(all, n.Descriptor.Digest)
		return t.referrers(ctx, name, from, repo, n.Descriptor.Digest)
	})
	return all, err
}

// referrers reads the bundles that refer to a manifest, with the hints in their
// annotations.
func (t *Trail) referrers(ctx context.Context, where string, from registry.Source, repo string, d digest.Digest) error {
	type attached struct {
		annotations map[string]string
		raw         []byte
	}
	var bundles []attached
	heard, err := registry.EachBundle(ctx, registry.Target{Source: from, Repository: repo, Digest: d}, func(referrer registry.Descriptor, raw []byte) {
		bundles = append(bundles, attached{referrer.Annotations, raw})
	})
	if errors.Is(err, registry.ErrNotFound) {
		return nil
	}
	if err == nil && heard.Unread > 0 {
		err = verdict.Refuse(verdict.Limit, repo, "the bundles attached to %s are together too large; not read: the largest %d", d, heard.Unread)
	}
	if err != nil {
		return t.failed(ctx, where, err)
	}
	for _, b := range bundles {
		h, err := t.who.readBundle(b.raw)
		var a Act
		if err == nil {
			a, err = h.act("")
		}
		if err != nil { // anyone may attach anything
			t.Note("%s: ignored an invalid bundle attached to %s/%s (%s)", where, repo, d, verdict.FindingOf("", err).Code)
			continue
		}
		if !slices.ContainsFunc(a.Artifacts, func(o Artifact) bool { return o.SHA256.Equal(d) }) {
			t.Note("%s: ignored a statement about another artifact attached to %s/%s", where, repo, d)
			continue
		}
		t.annotate(&a, trace.FromAnnotations(b.annotations), where)
		t.add(where, a)
	}
	return nil
}

// loose reads every bundle in a place that has no manifest yet.
func (t *Trail) loose(ctx context.Context, p Published) error {
	objects, err := p.Files.List(ctx)
	if err != nil {
		return t.failed(ctx, p.Name, err)
	}
	for _, o := range objects {
		of, is := strings.CutSuffix(o.Name, ".sigstore.json")
		if !is {
			continue
		}
		raw, err := store.Read(ctx, p.Files, o.Name, verify.MaxBundle)
		if err == nil {
			err = t.bundle(p.Name, o.Name, raw, Artifact{Name: of})
		}
		if err != nil {
			if err := t.failed(ctx, p.Name, err); err != nil {
				return err
			}
		}
	}
	return nil
}
