package attacks

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sigstore/cosign/v2/pkg/oci"
	"github.com/sigstore/cosign/v2/pkg/oci/static"

	"github.com/waybill-release/waybill/pkg/backend/registry"
	"github.com/waybill-release/waybill/pkg/backend/store"
	"github.com/waybill-release/waybill/pkg/document/intoto"
	"github.com/waybill-release/waybill/pkg/document/legacy"
	"github.com/waybill-release/waybill/pkg/gate"
	"github.com/waybill-release/waybill/pkg/judge/policy"
	"github.com/waybill-release/waybill/pkg/pipeline/promote"
	"github.com/waybill-release/waybill/pkg/release/manifest"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
	"github.com/waybill-release/waybill/test/lab"
)

// TestGateImages attacks the registry, whose manifest is genuine.
func TestGateImages(t *testing.T) {
	child := func(r *attacked, t *testing.T) *registry.Node { return r.graph(t).Children[0] }
	decide(t, []attack{
		{"the tag moved to another image", func(t *testing.T, r *attacked) {
			accepted(t, r.images.Tag(t.Context(), repository, r.version.String(), child(r, t).Descriptor))
		}, codes(verdict.TagMoved)},
		{"the tag went", func(t *testing.T, r *attacked) {
			r.index(t, func(e indexEntry) bool { return e.Annotations["org.opencontainers.image.ref.name"] == "" })
		}, codes(verdict.Missing)},
		{"one tag more", func(t *testing.T, r *attacked) { r.tag(t, r.version.String()+"-debug") }, codes(verdict.Extra)},
		{"the tag of another version", func(t *testing.T, r *attacked) { r.tag(t, "v0.1.0-rc.1") }, nil},
		{"a tag beside another version", func(t *testing.T, r *attacked) { r.tag(t, "v0.1.0-rc.1-debug") }, nil},
		{"the tag of the next version", func(t *testing.T, r *attacked) { r.tag(t, "v0.1.01") }, nil},
		{"a tag of nobody's version", func(t *testing.T, r *attacked) { r.tag(t, "latest") }, nil},
		{"an image under the tag for its signature", func(t *testing.T, r *attacked) {
			r.tag(t, registry.AttachedTag(r.graph(t).Descriptor.Digest, registry.SuffixSignatures))
		}, codes(verdict.Extra)},
		{"an image under the tag for an attestation of a platform", func(t *testing.T, r *attacked) {
			r.tag(t, registry.AttachedTag(child(r, t).Descriptor.Digest, registry.SuffixAttestations))
		}, codes(verdict.Extra)},
		{"an image under the tag for an SBOM", func(t *testing.T, r *attacked) {
			r.tag(t, registry.AttachedTag(r.graph(t).Descriptor.Digest, ".sbom"))
		}, codes(verdict.Extra)},
		{"a program under the tag for its signature", func(t *testing.T, r *attacked) { r.attachByTag(t, "#!/bin/sh") }, codes(verdict.Extra)},
		{"a payload under the tag for its signature", func(t *testing.T, r *attacked) {
			r.attachByTag(t, `{"critical":{"identity":{"docker-reference":""},"image":{"docker-manifest-digest":"`+r.graph(t).Descriptor.Digest.String()+`"},"type":"cosign container image signature"}}`)
		}, nil},
		{"a program as the configuration of its signature", func(t *testing.T, r *attacked) {
			r.attachWith(t, "#!/bin/sh", 9)
		}, codes(verdict.Extra)},
		{"a configuration without end", func(t *testing.T, r *attacked) { r.attachWith(t, "{}", 65<<20) }, codes(verdict.Extra)},
		{"a configuration that says nothing", func(t *testing.T, r *attacked) { r.attachWith(t, "{}", 2) }, nil},
		{"an image under the tag for what refers to it", func(t *testing.T, r *attacked) {
			r.tag(t, registry.AttachedTag(r.graph(t).Descriptor.Digest, ""))
		}, codes(verdict.Extra)},
		{"a list of images there", func(t *testing.T, r *attacked) { r.lists(t, child(r, t).Descriptor) }, codes(verdict.Extra)},
		{"a list of signatures there", func(t *testing.T, r *attacked) {
			r.lists(t, must[[]registry.Descriptor](t)(r.images.Referrers(t.Context(), repository, r.graph(t).Descriptor.Digest))...)
		}, nil},
		{"an image under a suffix of nobody's", func(t *testing.T, r *attacked) {
			r.tag(t, registry.AttachedTag(r.graph(t).Descriptor.Digest, ".cosign"))
		}, codes(verdict.Extra)},
		{"an image under the tag for its signature, in another case", func(t *testing.T, r *attacked) {
			r.tag(t, strings.ToUpper(registry.AttachedTag(r.graph(t).Descriptor.Digest, registry.SuffixSignatures)))
		}, codes(verdict.Extra)},
		{"a longer name that begins alike", func(t *testing.T, r *attacked) {
			r.tag(t, registry.AttachedTag(r.graph(t).Descriptor.Digest, "0"))
		}, nil},
		{"no platform's manifest", func(t *testing.T, r *attacked) { os.Remove(r.blob(child(r, t).Descriptor.Digest)) }, codes(verdict.Missing)},
		{"no layer", func(t *testing.T, r *attacked) { os.Remove(r.blob(child(r, t).Layers[0].Digest)) }, codes(verdict.Missing)},
		{"no configuration", func(t *testing.T, r *attacked) { os.Remove(r.blob(child(r, t).Config.Digest)) }, codes(verdict.Missing)},
		{"a changed layer", func(t *testing.T, r *attacked) { r.flipBlob(t, child(r, t).Layers[0].Digest) }, codes(verdict.Tampered)},
		{"a changed configuration", func(t *testing.T, r *attacked) { r.flipBlob(t, child(r, t).Config.Digest) }, codes(verdict.Tampered)},
		{"a changed index", func(t *testing.T, r *attacked) { r.flipBlob(t, r.graph(t).Descriptor.Digest) }, codes(verdict.Tampered)},
		{"no signature", func(t *testing.T, r *attacked) { r.dropReferrers(t, intoto.CosignSignature) }, codes(verdict.Unsigned)},
		{"no provenance attached", func(t *testing.T, r *attacked) { r.dropReferrers(t, "https://slsa.dev/provenance/v1") }, nil},
		{"a stranger's signature instead", func(t *testing.T, r *attacked) {
			r.dropReferrers(t, intoto.CosignSignature)
			r.attach(t, r.signImage(t, "mallory@evil.example"))
		}, codes(verdict.Unsigned)},
		{"the verifier's signature instead", func(t *testing.T, r *attacked) {
			r.dropReferrers(t, intoto.CosignSignature)
			r.attach(t, r.signImage(t, lab.RoleVerifier))
		}, codes(verdict.Unsigned)},
		{"another genuine signature instead", func(t *testing.T, r *attacked) {
			r.dropReferrers(t, intoto.CosignSignature)
			r.attach(t, r.signImage(t, lab.RoleRelease))
		}, codes(verdict.Unsigned)},
		{"a stranger's signature beside it", func(t *testing.T, r *attacked) { r.attach(t, r.signImage(t, "mallory@evil.example")) }, nil},
		{"a stranger's nonsense beside it", func(t *testing.T, r *attacked) { r.attach(t, []byte("nonsense")) }, nil},
		{"a flood of strangers' bundles", func(t *testing.T, r *attacked) {
			genuine := r.signImage(t, "mallory@evil.example")
			for i := range 50 {
				r.attach(t, fmt.Appendf(nil, "%s%*s", genuine, i, ""))
			}
		}, nil},
		{"F29 the platforms exchanged in the manifest", func(t *testing.T, r *attacked) {
			r.reseal(t, func(m *manifest.Manifest) {
				a, b := entry(t, m, imageName+"/linux/amd64"), entry(t, m, imageName+"/linux/arm64")
				a.Digests, b.Digests, a.Size, b.Size, a.Signature, b.Signature = b.Digests, a.Digests, b.Size, a.Size, b.Signature, a.Signature
			})
		}, codes(verdict.Platform)},
		{"F29 a platform less in the manifest", func(t *testing.T, r *attacked) {
			r.reseal(t, func(m *manifest.Manifest) { drop(t, m, imageName+"/linux/arm64") })
		}, codes(verdict.Platform, verdict.PlanMissing)},
		{"another signature named in the manifest", func(t *testing.T, r *attacked) {
			r.reseal(t, func(m *manifest.Manifest) { entry(t, m, imageName).Signature = digest.Of(digest.SHA256, nil).String() })
		}, codes(verdict.Unsigned)},
		{"no images in the manifest", func(t *testing.T, r *attacked) {
			r.reseal(t, func(m *manifest.Manifest) {
				drop(t, m, imageName)
				drop(t, m, imageName+"/linux/amd64")
				drop(t, m, imageName+"/linux/arm64")
			})
		}, codes(verdict.PlanMissing)},
	})
}

// attachByTag puts what is called the payload of a signature under the tag for
// signatures of the image.
func (r *attacked) attachByTag(t *testing.T, payload string) {
	t.Helper()
	parcel := must[registry.Parcel](t)(registry.AttachedManifest([]oci.Signature{must[oci.Signature](t)(static.NewSignature([]byte(payload), ""))}))
	accepted(t, parcel.PushTo(t.Context(), r.images, repository))
	accepted(t, r.images.Tag(t.Context(), repository, registry.AttachedTag(r.graph(t).Descriptor.Digest, registry.SuffixSignatures), parcel.Descriptor))
}

// attachWith puts the payload of a signature there, with a configuration that
// has these bytes and says this size.
func (r *attacked) attachWith(t *testing.T, config string, size int) {
	t.Helper()
	payload := []byte(`{"critical":{"identity":{"docker-reference":""},"image":{"docker-manifest-digest":"` + r.graph(t).Descriptor.Digest.String() + `"},"type":"cosign container image signature"}}`)
	raw := fmt.Appendf(nil, `{"schemaVersion":2,"mediaType":%q,"config":{"mediaType":"application/vnd.oci.image.config.v1+json","digest":%q,"size":%d},"layers":[{"mediaType":%q,"digest":%q,"size":%d}]}`,
		registry.MediaTypeManifest, digest.Of(digest.SHA256, []byte(config)), size, legacy.MediaPayload, digest.Of(digest.SHA256, payload), len(payload))
	for _, b := range [][]byte{[]byte(config), payload} {
		d := registry.Descriptor{Digest: digest.Of(digest.SHA256, b), Size: int64(len(b))}
		accepted(t, r.images.PushBlob(t.Context(), repository, d, func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(b)), nil }))
	}
	r.put(t, registry.MediaTypeManifest, raw, registry.SuffixSignatures)
}

// lists puts a list of manifests where clients list what refers to the image.
func (r *attacked) lists(t *testing.T, manifests ...registry.Descriptor) {
	t.Helper()
	var entries []string
	for _, d := range manifests {
		entries = append(entries, fmt.Sprintf(`{"mediaType":%q,"digest":%q,"size":%d}`, d.MediaType, d.Digest, d.Size))
	}
	if len(entries) == 0 {
		t.Fatal("nothing to list")
	}
	r.put(t, registry.MediaTypeIndex, fmt.Appendf(nil, `{"schemaVersion":2,"mediaType":%q,"manifests":[%s]}`, registry.MediaTypeIndex, strings.Join(entries, ",")), "")
}

// put puts a manifest under a tag about the image.
func (r *attacked) put(t *testing.T, mediaType string, raw []byte, suffix string) {
	t.Helper()
	d := registry.Descriptor{MediaType: mediaType, Digest: digest.Of(digest.SHA256, raw), Size: int64(len(raw))}
	accepted(t, r.images.PushManifest(t.Context(), repository, d, raw))
	accepted(t, r.images.Tag(t.Context(), repository, registry.AttachedTag(r.graph(t).Descriptor.Digest, suffix), d))
}

// TestGateRegistry decides about a real registry, where the release was
// promoted to: as it is, with one tag more, and with the registry away.
func TestGateRegistry(t *testing.T) {
	r := theWorld(t).attacked(t)
	remote := must[*registry.Remote](t)(registry.OpenRemote(r.Lab.Registry+"/attacks/lantern", http.DefaultTransport))
	files := filepath.Join(t.TempDir(), "files")
	to := promote.To{Files: must[store.Place](t)(store.Open(files, nil)), Writer: must[store.Writer](t)(store.OpenWriter(files)), Images: remote}
	from := promote.From{Files: must[store.Place](t)(store.Open(filepath.Join(r.dir, "files"), nil)), Images: r.images}
	if err := os.MkdirAll(files, 0o755); err != nil {
		t.Fatal(err)
	}
	accepted(t, promote.Apply(t.Context(), promote.Make(r.manifest(t), r.read(t, "release.manifest.sigstore.json")), from, to))
	published := func(q *gate.Request) { q.Files, q.Images = to.Files, remote }
	accepted(t, r.gate(t, published).Err())

	index := must[registry.Descriptor](t)(remote.Resolve(t.Context(), repository, r.version.String()))
	d, manifest, blobs := registry.BundleManifest(index, r.signImage(t, "mallory@evil.example"), intoto.CosignSignature)
	push(t, remote, d, manifest, blobs)
	accepted(t, r.gate(t, published).Err())
	accepted(t, remote.Tag(t.Context(), repository, r.version.String()+"-debug", index))
	refused(t, r.gate(t, published).Err(), verdict.Extra)
	// Who does not ask for a closed registry is told that nobody looked.
	open := func(q *gate.Request) { q.Policy = r.policy(t, "images: require}", "images: \"off\"}") }
	v := r.gate(t, published, open)
	accepted(t, v.Err())
	if v.Complete() || !slices.Contains(v.Scope.Left, "closed images") {
		t.Errorf("headline %q, left %v", v.Headline(), v.Scope.Left)
	}
	nowhere := must[*registry.Remote](t)(registry.OpenRemote("127.0.0.1:1/attacks/lantern", http.DefaultTransport))
	refused(t, r.gate(t, published, func(q *gate.Request) { q.Images = nowhere }).Err(), verdict.PlaceDown)
	empty := must[*registry.Remote](t)(registry.OpenRemote(r.Lab.Registry+"/attacks/nothing", http.DefaultTransport))
	refused(t, r.gate(t, published, func(q *gate.Request) { q.Images = empty }).Err(), verdict.Missing)
}

// policy is the scene's policy with one thing changed.
func (w *world) policy(t testing.TB, old, with string) policy.Policy {
	t.Helper()
	return must[policy.Policy](t)(policy.Parse(replaceOne(t, must[[]byte](t)(os.ReadFile(w.Path("policy.yaml"))), old, with), nil))
}

func (r *attacked) tag(t testing.TB, tag string) {
	t.Helper()
	accepted(t, r.images.Tag(t.Context(), repository, tag, r.graph(t).Descriptor))
}

// signImage is a signature of the image by a role or an address.
func (r *attacked) signImage(t testing.TB, as string) []byte {
	t.Helper()
	subject := intoto.Subject{Digests: digest.Set{SHA256: r.graph(t).Descriptor.Digest}}
	st := must[intoto.Statement](t)(intoto.New(intoto.CosignSignature, []intoto.Subject{subject}, struct{}{}))
	return r.sign(t, as, st.Raw())
}

// attach has bytes refer to the image as if they were its signature.
func (r *attacked) attach(t testing.TB, bundle []byte) {
	t.Helper()
	d, manifest, blobs := registry.BundleManifest(r.graph(t).Descriptor, bundle, intoto.CosignSignature)
	push(t, r.images, d, manifest, blobs)
}

func (r *attacked) flipBlob(t testing.TB, d digest.Digest) {
	t.Helper()
	body := must[[]byte](t)(os.ReadFile(r.blob(d)))
	body[len(body)/2] ^= 1
	if err := os.WriteFile(r.blob(d), body, 0o644); err != nil {
		t.Fatal(err)
	}
}

// indexEntry is what is read of an entry of a layout's index.
type indexEntry struct {
	MediaType   string            `json:"mediaType"`
	Digest      string            `json:"digest"`
	Size        int64             `json:"size"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

// index keeps only some entries of the layout's index.
func (r *attacked) index(t testing.TB, keep func(indexEntry) bool) {
	t.Helper()
	path := filepath.Join(r.dir, "images", "index.json")
	var index struct {
		SchemaVersion int          `json:"schemaVersion"`
		Manifests     []indexEntry `json:"manifests"`
	}
	if err := json.Unmarshal(must[[]byte](t)(os.ReadFile(path)), &index); err != nil {
		t.Fatal(err)
	}
	before := len(index.Manifests)
	index.Manifests = slices.DeleteFunc(index.Manifests, func(e indexEntry) bool { return !keep(e) })
	if len(index.Manifests) == before {
		t.Fatal("nothing was dropped from the index")
	}
	if err := os.WriteFile(path, must[[]byte](t)(json.Marshal(index)), 0o644); err != nil {
		t.Fatal(err)
	}
}

// dropReferrers forgets what is attached to the image's index with a
// predicate type.
func (r *attacked) dropReferrers(t testing.TB, predicateType string) {
	t.Helper()
	var gone []string
	for _, d := range must[[]registry.Descriptor](t)(r.images.Referrers(t.Context(), repository, r.graph(t).Descriptor.Digest)) {
		if d.Annotations["dev.sigstore.bundle.predicateType"] == predicateType {
			gone = append(gone, d.Digest.String())
		}
	}
	r.index(t, func(e indexEntry) bool { return !slices.Contains(gone, e.Digest) })
}
