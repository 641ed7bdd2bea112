package promote_test

import (
	"context"
	"io"
	"slices"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/sigstore/cosign/v2/pkg/oci"
	"github.com/sigstore/cosign/v2/pkg/oci/static"

	"github.com/waybill-release/waybill/pkg/backend/registry"
	"github.com/waybill-release/waybill/pkg/document/legacy"
	"github.com/waybill-release/waybill/pkg/pipeline/promote"
	"github.com/waybill-release/waybill/pkg/produce/attest"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// unsigning makes no records.
type unsigning struct{}

func (unsigning) Image(context.Context, attest.Promoted) ([]attest.Signed, error) {
	return nil, &verdict.UnavailableError{Place: "the authority", Op: "signing", Err: io.EOF}
}

// TestImagesNeed: without a judge, a way to open registries, or images there is no
// promotion (USAGE).
func TestImagesNeed(t *testing.T) {
	for name, change := range map[string]func(*promote.Images){
		"no judge": func(p *promote.Images) { p.Judge = nil }, "no registries": func(p *promote.Images) { p.Open = nil },
		"no images": func(p *promote.Images) { p.Plan.Edges = nil },
	} {
		p := twoPlatforms(t, 1).Images
		change(&p)
		if _, err := p.Apply(t.Context()); verdict.FindingOf("", err).Code != verdict.Usage || err == nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestImagesMoveTag: who may move a tag is asked from which image to which, and
// the verdict names on whose word it was moved. Without that it stays (TAG_CONFLICT).
func TestImagesMoveTag(t *testing.T) {
	for _, may := range []bool{true, false} {
		m := twoPlatforms(t, 1)
		ref, err := name.NewTag(m.to[0].name + "/prod/demo:v1")
		if err != nil {
			t.Fatal(err)
		}
		other, err := random.Image(10, 1)
		if err != nil {
			t.Fatal(err)
		}
		if err := remote.Write(ref, other); err != nil {
			t.Fatal(err)
		}
		held, err := other.Digest()
		if err != nil {
			t.Fatal(err)
		}
		m.Open = func(prefix string) (*registry.Remote, error) { return m.open(prefix), nil }
		m.Rights.MayMove = func(tag string, from, to digest.Digest) (verdict.Waiver, bool) {
			if tag != ref.String() || from.String() != held.String() || !to.Equal(m.image.Digest) {
				t.Errorf("%s may move from %s to %s?", tag, from, to)
			}
			return verdict.Waiver{Kind: verdict.ByException, ID: "an exception", Reason: "a bad release", By: "officer@example.test", Finding: verdict.Find(verdict.TagConflict, tag, "the tag names another image")}, may
		}
		done := m.apply()
		if !may {
			if got := codesOf(done.Verdict); got != "TAG_CONFLICT" {
				t.Errorf("it may not: %s", got)
			}
			continue
		}
		if err := done.Verdict.Err(); err != nil || !m.tagged(m.to[0]) || len(done.Verdict.Waived) != 1 {
			t.Errorf("it may: %v, %v", err, done.Verdict.Waived)
		}
	}
}

// TestImagesBringOlderEvidence: evidence by a tag, as older clients attach it, goes
// along, also where the judge did not read it; other tags stay.
func TestImagesBringOlderEvidence(t *testing.T) {
	m := twoPlatforms(t, 1)
	src := m.open(m.from.name + "/staging")
	of := m.children[1].Digest
	payload := `{"critical":{"identity":{"docker-reference":"demo"},"image":{"docker-manifest-digest":"` + of.String() + `"},"type":"cosign container image signature"},"optional":null}`
	layer, err := static.NewSignature([]byte(payload), "AA==", static.WithLayerMediaType(legacy.MediaPayload))
	if err != nil {
		t.Fatal(err)
	}
	parcel, err := registry.AttachedManifest([]oci.Signature{layer})
	if err != nil {
		t.Fatal(err)
	}
	tag := registry.AttachedTag(of, registry.SuffixSignatures)
	for _, err := range []error{parcel.PushTo(t.Context(), src, "demo"), src.Tag(t.Context(), "demo", tag, parcel.Descriptor)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	m.Open = func(prefix string) (*registry.Remote, error) { return m.open(prefix), nil }
	if err := m.apply().Verdict.Err(); err != nil {
		t.Fatal(err)
	}
	tags, err := m.open(m.to[0].name+"/prod").Tags(t.Context(), "demo")
	slices.Sort(tags)
	if want := []string{tag, "v1"}; err != nil || !slices.Equal(tags, want) {
		t.Errorf("the tags are %q, want %q: %v", tags, want, err)
	}
}
