// Package features takes every feature of Waybill, and those of a third party,
// through its life in a world that is served: a registry over HTTP, signatures
// that hold, and releases where a profile says.
package features

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	releasemanifest "github.com/waybill-release/waybill/attestations/release-manifest/v1"
	releasesignoff "github.com/waybill-release/waybill/attestations/release-signoff/v1"
	"github.com/waybill-release/waybill/pkg/backend/registry"
	"github.com/waybill-release/waybill/pkg/backend/store"
	"github.com/waybill-release/waybill/pkg/backend/transport"
	"github.com/waybill-release/waybill/pkg/document/intoto"
	"github.com/waybill-release/waybill/pkg/document/provenance"
	"github.com/waybill-release/waybill/pkg/gate"
	"github.com/waybill-release/waybill/pkg/gate/profile"
	"github.com/waybill-release/waybill/pkg/judge/policy"
	"github.com/waybill-release/waybill/pkg/judge/verify"
	"github.com/waybill-release/waybill/pkg/release/manifest"
	"github.com/waybill-release/waybill/pkg/release/plan"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/version"
	"github.com/waybill-release/waybill/test/features/field"
	"github.com/waybill-release/waybill/test/lab"
)

const (
	builder   = "https://builder.example.test/hosted"
	source    = "git+https://example.test/lantern"
	signatory = "signatory@example.test"
)

// world is a field on the lab's own registry, with a policy that demands
// provenance of images and a sign-off of releases.
type world struct {
	*field.Field
	t       *testing.T
	dir     string
	profile profile.Profile
	rt      http.RoundTripper
}

func must[T any](t testing.TB) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func openWorld(t *testing.T) *world {
	t.Helper()
	t.Setenv("DOCKER_CONFIG", t.TempDir()) // nobody's credentials
	l := lab.New(t)
	remote := must[*registry.Remote](t)(registry.OpenRemote(l.Registry, http.DefaultTransport))
	w := &world{t: t, dir: t.TempDir(), rt: transport.New(transport.Config{Patience: time.Second})}
	w.Field = &field.Field{Lab: l, Host: l.Registry, Remote: remote}
	w.write("trusted_root.json", w.Lab.TrustedRoot)
	w.write("policy.yaml", []byte(w.policyText()))
	w.write("profile.yaml", fmt.Appendf(nil, `apiVersion: waybill/v1
kind: Profile
name: lantern
policy: policy.yaml
trustedRoot: trusted_root.json
places:
  files: {canonical: "https://dl.example.test/lantern/{version}/", release: "%s/public/{version}/"}
`, w.dir))
	w.profile = must[profile.Profile](t)(profile.Load(filepath.Join(w.dir, "profile.yaml"), profile.Reader{Now: time.Now()}))
	w.Verifier = must[*verify.Verifier](t)(verify.New(w.profile.TrustRoot))
	return w
}

func (w *world) policyText() string {
	identity := func(as string) string {
		issuer, subject := w.Lab.Identity(as)
		return fmt.Sprintf("{issuer: %q, subject: %q, type: email}", issuer, subject)
	}
	return fmt.Sprintf(`apiVersion: waybill/v1
kind: Policy
name: lantern
roles: {release: [%s], verifier: [%s], signoff: [%s]}
builders: [{id: %q, level: 3, signers: [%s]}]
source: {repository: %q}
require:
- {stages: [staging, release], classes: [binary, archive, file, image], checks: {provenance: require, signature: "off", sbom: "off"}}
- {stages: [staging, release], classes: [image-child], checks: {provenance: require, signature: "off"}}
- {stages: [staging, release], classes: [sums], checks: {signature: require}}
signoff: {stages: [staging, release]}
plan: require
closed: {files: require, images: require}
`, identity(lab.RoleRelease), identity(lab.RoleVerifier), identity(signatory), builder, identity(lab.RoleBuilder), source)
}

func (w *world) write(name string, body []byte) {
	w.t.Helper()
	path := filepath.Join(w.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		w.t.Fatal(err)
	}
	if err := os.WriteFile(path, body, 0o644); err != nil {
		w.t.Fatal(err)
	}
}

// by is what decisions under the profile rest on.
func (w *world) by() gate.Gate { return gate.Under(w.profile, w.Verifier, gate.Waivers{}, nil) }

// asked is what the gate is asked by: the policy as it is written.
func (w *world) asked() gate.PolicyRequest {
	return gate.PolicyRequest{Policy: w.profile.Policy, Verifier: w.Verifier, Stage: policy.Staging}
}

// image pushes an image, under a tag.
func (w *world) image(repository, tag string) registry.Descriptor {
	w.t.Helper()
	return w.Image(w.t, repository, tag)
}

// attest says how an image was built, and has that refer to it.
func (w *world) attest(repository string, image registry.Descriptor) {
	w.t.Helper()
	said := field.About(w.t, image.Digest, provenance.PredicateType, map[string]any{
		"buildDefinition": map[string]any{
			"buildType": "https://example.test/script", "externalParameters": map[string]any{},
			"resolvedDependencies": []any{map[string]any{"uri": source + "@refs/tags/v0.1.0", "digest": map[string]string{"gitCommit": commit}}},
		},
		"runDetails": map[string]any{"builder": map[string]any{"id": builder}},
	})
	w.Attach(w.t, repository, image, field.Evidence{Kind: provenance.PredicateType, Bundle: w.Sign(w.t, lab.RoleBuilder, field.Log2, said)})
}

// commit is what the releases were built from.
var commit = strings.Repeat("a", 40)

// release puts a sealed manifest where the release is public.
func (w *world) release(v version.Version, edits ...func(*manifest.Manifest)) {
	w.t.Helper()
	config := []byte("release: " + v.String())
	files, images := w.profile.Canonical(v)
	m := manifest.Manifest{
		Name: "lantern", Version: v, Revision: 1, SealedOn: time.Now().UTC().Truncate(time.Second), FilesURI: files, ImagesURI: images,
		Source:    manifest.Source{Repository: source, Ref: "refs/tags/" + v.String(), Commit: commit, Tree: strings.Repeat("b", 40)},
		Config:    digest.Of(digest.SHA256, config),
		Artifacts: []manifest.Artifact{{Artifact: plan.Artifact{Name: plan.ConfigName, Class: plan.ConfigFile, MediaType: "application/yaml"}, Digests: digest.SetOf(config), Size: int64(len(config))}},
		Runs:      []manifest.Run{{Kind: "build", ID: "run-1"}},
	}
	for _, edit := range edits {
		edit(&m)
	}
	s := must[intoto.Statement](w.t)(m.Statement())
	w.write(filepath.Join("public", v.String(), releasemanifest.Name), w.Sign(w.t, lab.RoleRelease, field.Log2, s))
}

// signOff signs a release off, as somebody.
func (w *world) signOff(v version.Version, as string) {
	w.t.Helper()
	at := time.Now().UTC().Truncate(time.Second)
	file := releasesignoff.File{Name: "README.md", Digest: digest.Of(digest.SHA256, nil)}
	s, err := releasesignoff.New(digest.SetOf([]byte("release: "+v.String())), releasesignoff.Predicate{
		Milestone: policy.MilestoneOf(v), Source: releasesignoff.Source{Repository: source, Commit: commit}, Checker: releasesignoff.Checker{ID: "https://example.test/checker", Version: "v1"},
		Template: file, Checked: at, Expires: at.Add(24 * time.Hour),
		Documents: []releasesignoff.Document{{
			Directory: "1-lantern", Number: "1", Title: "Lantern", Stage: "alpha", Status: "implementable",
			Files: []releasesignoff.File{file}, Sections: releasesignoff.Sections{Required: 1, Filled: 1},
		}},
	})
	if err != nil {
		w.t.Fatal(err)
	}
	w.write(filepath.Join("public", v.String(), releasesignoff.Name), w.Sign(w.t, as, field.Log2, s))
}

func (w *world) open(uri string) (store.Place, error) { return store.Open(uri, w.rt) }

// snapshot is everything that the registry serves but blobs, which it never
// collects: manifests, and with them what refers to what, and tags.
func (w *world) snapshot(context.Context) ([]byte, error) {
	var all bytes.Buffer
	root := os.DirFS(filepath.Join(w.Lab.Dir(), "state", "registry", "manifests"))
	err := fs.WalkDir(root, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		body, err := fs.ReadFile(root, path)
		fmt.Fprintf(&all, "%s %d\n%s\n", path, len(body), body)
		return err
	})
	return all.Bytes(), err
}
