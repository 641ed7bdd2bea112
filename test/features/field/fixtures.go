package field

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/waybill-release/waybill/pkg/backend/registry"
	"github.com/waybill-release/waybill/pkg/document/intoto"
	"github.com/waybill-release/waybill/pkg/document/vsa"
	"github.com/waybill-release/waybill/pkg/govern/feature"
	"github.com/waybill-release/waybill/pkg/govern/feature/known"
	"github.com/waybill-release/waybill/pkg/testing/lifecycle"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/test/lab"
)

// lantern is the repository of the fixtures.
const lantern = "prod/lantern"

// checked is the kind of the fixtures' statements.
const checked = "https://example.test/checked/v1"

// Fixtures are those of the features that leave something in registries. Each
// has a registry of its own, of the kind that was asked for.
func Fixtures(t testing.TB, l *lab.Lab, kind Kind) map[feature.Key]lifecycle.Fixture {
	t.Helper()
	all := map[feature.Key]lifecycle.Fixture{}
	for name, make := range map[string]func(testing.TB, *Field) lifecycle.Fixture{
		known.TraceAnnotations: annotated, known.EmitVSA: summarized, known.BundleReferrers: referring,
	} {
		key := feature.Key{Namespace: feature.CoreNamespace, Name: name}
		f := On(t, l, kind)
		fixture := make(t, f)
		fixture.Deeds = f.Sweeps(t, lantern).Deeds()[key]
		all[key] = fixture
	}
	return all
}

// annotated is an image whose evidence is attached as without the feature, and
// once more with it, as one does who goes on with an earlier run.
func annotated(t testing.TB, f *Field) lifecycle.Fixture {
	image := f.Image(t, lantern, "v1")
	bundle := f.Sign(t, lab.RoleRelease, Log2, About(t, image.Digest, checked, map[string]bool{"checked": true}))
	f.Attach(t, lantern, image, Evidence{Kind: checked, Bundle: bundle})
	return lifecycle.Fixture{
		Use:      func(ctx context.Context) error { return f.attach(ctx, image, Evidence{checked, bundle, Hints()}) },
		Snapshot: func(ctx context.Context) ([]byte, error) { return f.Snapshot(ctx, lantern) },
	}
}

// summarized is an image for which a verifier vouches; the summary holds until
// people delete it.
func summarized(t testing.TB, f *Field) lifecycle.Fixture {
	image := f.Image(t, lantern, "v1")
	bundle := f.Sign(t, lab.RoleVerifier, Log2, Summary(t, image.Digest, time.Now()))
	d, _, _ := registry.HintedManifest(image, bundle, vsa.PredicateType, nil)
	return lifecycle.Fixture{
		Use: func(ctx context.Context) error {
			return f.attach(ctx, image, Evidence{Kind: vsa.PredicateType, Bundle: bundle})
		},
		Remove: func(ctx context.Context) error {
			return f.unlist(ctx, image, d)
		},
	}
}

// unlist has somebody take a referrer away, and from the list under a tag, too.
func (f *Field) unlist(ctx context.Context, image, d registry.Descriptor) error {
	r := f.Remote
	if err := r.Delete(ctx, lantern, d.Digest); err != nil {
		return err
	}
	tag := registry.AttachedTag(image.Digest, "")
	switch _, err := r.Resolve(ctx, lantern, tag); {
	case errors.Is(err, registry.ErrNotFound):
		return nil // it keeps no list
	case err != nil:
		return err
	}
	raw := fmt.Appendf(nil, `{"schemaVersion":2,"mediaType":%q,"manifests":[]}`, registry.MediaTypeIndex)
	list := registry.Descriptor{MediaType: registry.MediaTypeIndex, Digest: digest.Of(digest.SHA256, raw), Size: int64(len(raw))}
	return r.TagManifest(ctx, lantern, tag, list, raw)
}

// referring is an image with evidence that older clients can be given, too.
func referring(t testing.TB, f *Field) lifecycle.Fixture {
	image := f.Image(t, lantern, "v1")
	bundle := f.Sign(t, lab.RoleRelease, Log1, About(t, image.Digest, checked, map[string]bool{"checked": true}))
	return lifecycle.Fixture{
		Use: func(ctx context.Context) error { return f.attach(ctx, image, Evidence{Kind: checked, Bundle: bundle}) },
	}
}

// attach is [Field.Attach] while no test may end.
func (f *Field) attach(ctx context.Context, image registry.Descriptor, e Evidence) error {
	d, raw, blobs := registry.HintedManifest(image, e.Bundle, e.Kind, e.Hints)
	return registry.Parcel{Descriptor: d, Raw: raw, Blobs: blobs}.PushTo(ctx, f.Remote, lantern)
}

// Verifier is who judges in summaries.
const Verifier = "https://verifier.example.test"

// Summary is a verifier's word about an image, as of a time.
func Summary(t testing.TB, image digest.Digest, at time.Time) intoto.Statement {
	t.Helper()
	return About(t, image, vsa.PredicateType, map[string]any{
		"verifier": map[string]string{"id": Verifier}, "timeVerified": at.UTC().Format(time.RFC3339), "resourceUri": "pkg:oci/lantern",
		"policy":             map[string]any{"uri": "https://example.test/policy", "digest": map[string]string{"sha256": digest.Of(digest.SHA256, nil).Hex()}},
		"verificationResult": "PASSED", "verifiedLevels": []string{"SLSA_BUILD_LEVEL_1"},
	})
}
