package gate

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"

	upstream "github.com/sigstore/sigstore-go/pkg/sign"

	"github.com/waybill-release/waybill/pkg/backend/registry"
	"github.com/waybill-release/waybill/pkg/document/intoto"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/test/bench/bundles"
	"github.com/waybill-release/waybill/test/bench/bundles/mint"
	"github.com/waybill-release/waybill/test/lab"
)

// Set is images of one kind.
type Set struct {
	name   string
	shared bool     // one certificate for each signer, as a release has it
	says   []string // what is signed of each
}

// sets are all that there are.
func sets() []Set {
	both := []string{intoto.CosignSignature, provenanceV1}
	return []Set{
		{"attested", false, both},
		{"attested-shared", true, both},
		{"signed", false, both[:1]},
	}
}

// Kinds name the sets: images with a signature and a provenance, each with a
// certificate of its own; the same, with one certificate for each signer; and
// images with a signature alone.
func Kinds() []string {
	var names []string
	for _, s := range sets() {
		names = append(names, s.name)
	}
	return names
}

func setOf(name string) (Set, error) {
	for _, s := range sets() {
		if s.name == name {
			return s, nil
		}
	}
	return Set{}, fmt.Errorf("no images are called %q; there are %v", name, Kinds())
}

// cryptography is what the signatures of a set are made of, for who does
// nothing but check those.
func (s Set) cryptography() bundles.Set {
	return bundles.Set{Shape: bundles.RekorV1, Shared: s.shared}
}

// Names in a directory of images.
const (
	rootName    = bundles.RootName
	storageName = "lab/state/registry"
	profileName = "profile.yaml"
	staging     = "bench"
	// perRepository is how many images are in one repository.
	perRepository = 50
	provenanceV1  = "https://slsa.dev/provenance/v1"
	builder       = "https://example.test/builder"
	source        = "https://example.test/source"
)

// image is where one lies.
type image struct {
	Repository string `json:"repository"` // below the registry
	Digest     string `json:"digest"`
}

func listName(s Set) string   { return s.name + ".json" }
func policyName(s Set) string { return s.name + ".yaml" }

// bundlePath is where a bundle of an image lies too, for who reads no registry.
func bundlePath(dir string, s Set, i, k int) string {
	return filepath.Join(dir, "bundles-"+s.name, fmt.Sprintf("%05d-%d%s", i, k, bundles.BundleExt))
}

// Seed makes n images of each kind, of one manifest each, in a lab whose
// authorities have keys as the public ones do, and leaves in dir what it takes
// to decide about them.
func Seed(ctx context.Context, dir string, n int) (err error) {
	world := filepath.Join(dir, "lab")
	if err := mint.Authorities(filepath.Join(world, "state")); err != nil {
		return err
	}
	l, err := lab.Start(ctx, lab.Options{Dir: world})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	if err := os.WriteFile(filepath.Join(dir, rootName), l.TrustedRoot, 0o600); err != nil {
		return err
	}
	for _, s := range sets() {
		if err := s.seed(ctx, l, dir, n); err != nil {
			return fmt.Errorf("making images, %s: %w", s.name, err)
		}
	}
	return nil
}

func (s Set) seed(ctx context.Context, l *lab.Lab, dir string, n int) error {
	if err := errors.Join(
		os.MkdirAll(filepath.Dir(bundlePath(dir, s, 0, 0)), 0o755),
		os.WriteFile(filepath.Join(dir, policyName(s)), []byte(s.policy(l)), 0o600)); err != nil {
		return err
	}
	to, err := registry.OpenRemote(l.Registry, http.DefaultTransport)
	if err != nil {
		return err
	}
	roles := []string{lab.RoleRelease, lab.RoleBuilder}
	var signers []*mint.Signer
	for k := range s.says {
		signer, err := mint.NewSigner(ctx, l, s.cryptography(), roles[k])
		if err != nil {
			return err
		}
		signers = append(signers, signer)
	}
	var list []image
	for i := range n {
		at := image{Repository: fmt.Sprintf("%s/%s-%03d", staging, s.name, i/perRepository)}
		d, err := push(ctx, to, at.Repository, fmt.Sprint(s.name, " ", i))
		if err != nil {
			return err
		}
		at.Digest = d.Digest.String()
		for k, kind := range s.says {
			raw, err := sign(signers[k], d.Digest, kind)
			if err != nil {
				return err
			}
			about, manifest, blobs := registry.BundleManifest(d, raw, kind)
			if err := pushAll(ctx, to, at.Repository, part{about, manifest, blobs}); err != nil {
				return err
			}
			if err := os.WriteFile(bundlePath(dir, s, i, k), raw, 0o600); err != nil {
				return err
			}
		}
		list = append(list, at)
	}
	raw, err := json.Marshal(list)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, listName(s)), raw, 0o600)
}

// part is a manifest with the blobs that it names.
type part struct {
	registry.Descriptor
	raw   []byte
	blobs []registry.Blob
}

func pushAll(ctx context.Context, to *registry.Remote, repo string, p part) error {
	for _, b := range p.blobs {
		open := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(b.Bytes)), nil }
		if err := to.PushBlob(ctx, repo, b.Descriptor, open); err != nil {
			return err
		}
	}
	return to.PushManifest(ctx, repo, p.Descriptor, p.raw)
}

// push makes an image of one manifest.
func push(ctx context.Context, to *registry.Remote, repo, content string) (registry.Descriptor, error) {
	blob := func(kind string, raw []byte) registry.Blob {
		return registry.Blob{Descriptor: registry.Descriptor{MediaType: kind, Digest: digest.Of(digest.SHA256, raw), Size: int64(len(raw))}, Bytes: raw}
	}
	config := blob("application/vnd.oci.image.config.v1+json", []byte(`{"architecture":"amd64","os":"linux","rootfs":{"type":"layers","diff_ids":[]}}`))
	layer := blob("application/vnd.oci.image.layer.v1.tar", []byte(content))
	entry := func(b registry.Blob) map[string]any {
		return map[string]any{"mediaType": b.Descriptor.MediaType, "digest": b.Descriptor.Digest.String(), "size": b.Descriptor.Size}
	}
	raw, err := json.Marshal(map[string]any{
		"schemaVersion": 2, "mediaType": registry.MediaTypeManifest, "config": entry(config), "layers": []any{entry(layer)},
	})
	if err != nil {
		return registry.Descriptor{}, err
	}
	d := blob(registry.MediaTypeManifest, raw).Descriptor
	return d, pushAll(ctx, to, repo, part{d, raw, []registry.Blob{config, layer}})
}

// sign says one thing about an image.
func sign(s *mint.Signer, d digest.Digest, kind string) ([]byte, error) {
	var predicate any = struct{}{}
	if kind == provenanceV1 {
		predicate = provenance()
	}
	statement, err := intoto.New(kind, []intoto.Subject{{Digests: digest.Set{SHA256: d}}}, predicate)
	if err != nil {
		return nil, err
	}
	return s.Sign(&upstream.DSSEData{Data: statement.Raw(), PayloadType: intoto.PayloadType})
}

// provenance is as a workflow's, and as short.
func provenance() map[string]any {
	const ref = "refs/tags/v1.0.0"
	return map[string]any{
		"buildDefinition": map[string]any{
			"buildType":          "https://actions.github.io/buildtypes/workflow/v1",
			"externalParameters": map[string]any{"workflow": map[string]any{"repository": source, "ref": ref, "path": ".ci/release.yaml"}},
			"resolvedDependencies": []any{
				map[string]any{"uri": "git+" + source + "@" + ref, "digest": map[string]any{"gitCommit": "1f0c3e9a4b7d2c5e8f9a0b1c2d3e4f5061728394"}},
			},
		},
		"runDetails": map[string]any{"builder": map[string]any{"id": builder}, "metadata": map[string]any{"invocationId": source + "/runs/1"}},
	}
}

// policy asks for all that the images of the set have.
func (s Set) policy(l *lab.Lab) string {
	identity := func(role string) string {
		issuer, subject := l.Identity(role)
		return fmt.Sprintf("{issuer: %q, subject: %q, type: email}", issuer, subject)
	}
	origin, listed := `"off"`, `"off"`
	if len(s.says) > 1 {
		origin, listed = "require", "require"
	}
	return fmt.Sprintf(`apiVersion: waybill/v1
kind: Policy
name: bench
roles:
  release: [%s]
  policy: [%s]
builders:
- {id: %s, level: 1, signers: [%s]}
source: {repository: "git+%s", ref: "refs/tags/{version}"}
build:
  types: ["https://actions.github.io/buildtypes/workflow/v1"]
  parameters:
  - {name: workflow.repository, is: "%[5]s"}
  - {name: workflow.ref, is: "{ref}"}
  - {name: workflow.path, is: .ci/release.yaml}
require:
- {stages: [staging, release], classes: [binary, archive, file], checks: {signature: require, provenance: "off", sbom: "off"}}
- {stages: [staging, release], classes: [image], checks: {signature: require, provenance: %[6]s, sbom: "off"}}
- {stages: [staging, release], classes: [image-child], checks: {signature: require, provenance: %[6]s}}
- {stages: [staging, release], classes: [sums], checks: {signature: require}}
plan: %[7]s
closed: {files: "off", images: "off"}
`, identity(lab.RoleRelease), identity(lab.RolePolicy), builder, identity(lab.RoleBuilder), source, origin, listed)
}

// read reads which images there are, of which there must be n at least.
func (s Set) read(dir string, n int) ([]image, error) {
	raw, err := os.ReadFile(filepath.Join(dir, listName(s)))
	if err != nil {
		return nil, err
	}
	var list []image
	if err := json.Unmarshal(raw, &list); err != nil {
		return nil, err
	}
	if len(list) < n {
		return nil, fmt.Errorf("there are %d images, %s, want %d", len(list), s.name, n)
	}
	return list, nil
}
