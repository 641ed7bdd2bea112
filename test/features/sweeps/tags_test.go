package sweeps

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sigstore/cosign/v2/pkg/oci"

	"github.com/waybill-release/waybill/pkg/backend/registry"
	"github.com/waybill-release/waybill/pkg/backend/transport"
	"github.com/waybill-release/waybill/pkg/document/intoto"
	"github.com/waybill-release/waybill/pkg/document/legacy"
	"github.com/waybill-release/waybill/pkg/govern/feature/cleanup"
	"github.com/waybill-release/waybill/test/features/field"
	"github.com/waybill-release/waybill/test/lab"
)

const predicate = "https://example.test/checked/v1"

// legacyLayer is a bundle as the layer of a tag.
func legacyLayer(t *testing.T, f *field.Field, bundle []byte) oci.Signature {
	t.Helper()
	m, err := legacy.Convert(bundle)
	must(t, err)
	l, err := m.Attached(nil, f.Verifier.Chain(m.Certificate()), predicate)
	must(t, err)
	return l
}

// layers is what the tag .att attaches, as a client that just came reads it.
func layers(t *testing.T, f *field.Field, image registry.Descriptor) []oci.Signature {
	t.Helper()
	list, err := registry.AttachedTo(t.Context(), f.Open(t, http.DefaultTransport), repo, image.Digest, registry.SuffixAttestations)
	must(t, err)
	return list
}

// same reports whether two layers have the same bytes.
func same(t *testing.T, a, b oci.Signature) bool {
	t.Helper()
	one, err := a.Payload()
	must(t, err)
	other, err := b.Payload()
	must(t, err)
	return bytes.Equal(one, other)
}

func bundles(t *testing.T, f *field.Field, image registry.Descriptor) [][]byte {
	t.Helper()
	list, err := registry.Bundles(t.Context(), f.Open(t, http.DefaultTransport), repo, image.Digest)
	must(t, err)
	return list
}

// statements are words about an image.
func said(t *testing.T, image registry.Descriptor, n int) intoto.Statement {
	t.Helper()
	return field.About(t, image.Digest, predicate, map[string]int{"n": n})
}

// TestBackfill: what a tag attaches is a bundle, too, which proves the same; a
// stranger's is not. There and back again nothing is doubled.
func TestBackfill(t *testing.T) {
	l := lab.New(t)
	for _, kind := range []field.Kind{field.Referrers, field.Listless} {
		f := field.On(t, l, kind)
		image := f.Image(t, repo, "v1")
		one, two := f.Sign(t, lab.RoleRelease, field.Log1, said(t, image, 1)), f.Sign(t, lab.RoleRelease, field.Log1, said(t, image, 2))
		foreign := f.Sign(t, stranger, field.Log1, said(t, image, 3))
		f.AttachTag(t, repo, image.Digest, registry.SuffixAttestations, legacyLayer(t, f, one), legacyLayer(t, f, foreign), legacyLayer(t, f, two))
		f.Attach(t, repo, image, field.Evidence{Kind: predicate, Bundle: two}) // there in both forms
		s := f.Sweeps(t, repo)
		done(t, s.Backfill())
		list := bundles(t, f, image)
		if len(list) != 2 {
			t.Fatalf("kind %d: %d bundles, want two", kind, len(list))
		}
		for _, raw := range list {
			if e, err := f.Verifier.Attestation(raw); err != nil || !e.CoversBytes(image.Digest) || e.Kind() != predicate {
				t.Errorf("kind %d: a bundle that does not hold: %v", kind, err)
			}
		}
		before, err := f.Snapshot(t.Context(), repo)
		must(t, err)
		done(t, s.Backfill())
		done(t, s.ReemitTags())
		done(t, s.Backfill())
		after, err := f.Snapshot(t.Context(), repo)
		must(t, err)
		if !bytes.Equal(before, after) {
			t.Errorf("kind %d: there and back again it is another", kind)
		}
	}
}

// TestBackfillSignature: a .sig signs a payload, which no bundle carries; it
// remains until its identity's signature is there as a bundle.
func TestBackfillSignature(t *testing.T) {
	f := field.New(t, field.Referrers)
	image := f.Image(t, repo, "v1")
	c := cosign(t, f)
	c.run(t, "sign", "--new-bundle-format=false", "--use-signing-config=false", "--tlog-upload=true", "--fulcio-url", f.Lab.Fulcio, "--rekor-url", f.Lab.RekorV1,
		"--oidc-issuer", f.Lab.Issuer, "--identity-token", f.Lab.Token(lab.RoleRelease), "--yes", "--allow-http-registry", f.Host+"/"+repo+"@"+image.Digest.String())
	s := f.Sweeps(t, repo)
	remains(t, s.Backfill(), 1, "sign the image again")
	statement := field.About(t, image.Digest, intoto.CosignSignature, map[string]string{})
	f.Attach(t, repo, image, field.Evidence{Kind: intoto.CosignSignature, Bundle: f.Sign(t, lab.RoleVerifier, field.Log2, statement)})
	remains(t, s.Backfill(), 1, "release@lab.invalid") // another's does not do
	f.Attach(t, repo, image, field.Evidence{Kind: intoto.CosignSignature, Bundle: f.Sign(t, lab.RoleRelease, field.Log2, statement)})
	done(t, s.Backfill())
	// The other way, the .sig stands for the release identity, and for no other.
	remains(t, s.ReemitTags(), 1, "verifier@lab.invalid")
}

// TestBackfillOfOld: what cosign attached before bundles becomes one.
func TestBackfillOfOld(t *testing.T) {
	f := field.New(t, field.Referrers)
	image := f.Image(t, repo, "v1")
	file := filepath.Join(t.TempDir(), "predicate.json")
	must(t, os.WriteFile(file, []byte(`{"checked":true}`), 0o600))
	cosign(t, f).run(t, "attest", "--new-bundle-format=false", "--use-signing-config=false", "--fulcio-url", f.Lab.Fulcio, "--rekor-url", f.Lab.RekorV1, "--oidc-issuer", f.Lab.Issuer,
		"--identity-token", f.Lab.Token(lab.RoleRelease), "--yes", "--allow-http-registry", "--type", predicate, "--predicate", file, f.Host+"/"+repo+"@"+image.Digest.String())
	done(t, f.Sweeps(t, repo).Backfill())
	list := bundles(t, f, image)
	if len(list) != 1 {
		t.Fatalf("%d bundles", len(list))
	}
	if e, err := f.Verifier.Attestation(list[0]); err != nil || !e.CoversBytes(image.Digest) || e.Identity().Subject != "release@lab.invalid" {
		t.Errorf("%v by %s", err, e.Identity())
	}
}

// TestReemit: bundles that a log promised are found by older clients, beside
// what was there; others remain, and are named with the reason.
func TestReemit(t *testing.T) {
	f := field.New(t, field.Referrers)
	image := f.Image(t, repo, "v1")
	foreign := legacyLayer(t, f, f.Sign(t, stranger, field.Log1, said(t, image, 3)))
	f.AttachTag(t, repo, image.Digest, registry.SuffixAttestations, foreign)
	f.Attach(t, repo, image, field.Evidence{Kind: predicate, Bundle: f.Sign(t, lab.RoleRelease, field.Log1, said(t, image, 1))})
	f.Attach(t, repo, image, field.Evidence{Kind: predicate, Bundle: f.Sign(t, stranger, field.Log2, said(t, image, 4))})
	s := f.Sweeps(t, repo)
	counts(t, s.ReferrersLeft(), 1, predicate)
	done(t, s.ReemitTags())
	counts(t, s.ReferrersLeft(), 0, "")
	if there := layers(t, f, image); len(there) != 2 || !same(t, there[0], foreign) {
		t.Fatalf("%d layers, want the stranger's and ours", len(there))
	}
	// To a place that has the tag alone: where bundles are, cosign takes those.
	bare := f.Image(t, "bare/lantern", "v1")
	if bare.Digest.Equal(image.Digest) {
		t.Fatal("the twin is the image itself")
	}
	_, err := registry.Copy(t.Context(), f.Remote, f.Remote, repo, image)
	must(t, err)
	copyTag(t, f, image)
	c := cosign(t, f)
	verify := func(identity, reference string) error {
		_, subject := f.Lab.Identity(identity)
		return c.try(t, "verify-attestation", "--new-bundle-format=false", "--allow-http-registry", "--rekor-url", f.Lab.RekorV1, "--type", predicate,
			"--certificate-identity", subject, "--certificate-oidc-issuer", f.Lab.Issuer, reference)
	}
	if err := verify(lab.RoleRelease, f.Host+"/older/lantern@"+image.Digest.String()); err != nil {
		t.Errorf("cosign 2 refuses what was written for it: %v", err)
	}
	if err := verify(lab.RoleBuilder, f.Host+"/older/lantern@"+image.Digest.String()); err == nil {
		t.Error("cosign 2 takes it for another identity's")
	}
	if err := verify(lab.RoleRelease, f.Host+"/bare/lantern@"+bare.Digest.String()); err == nil {
		t.Error("cosign 2 takes an image without evidence")
	}

	f.Attach(t, repo, image, field.Evidence{Kind: predicate, Bundle: f.Sign(t, lab.RoleRelease, field.Log2, said(t, image, 5))})
	remains(t, s.ReemitTags(), 1, "the bundle has no inclusion promise")
	counts(t, s.ReferrersLeft(), 1, "not attached by a tag")
	f.Attach(t, repo, image, field.Evidence{Kind: intoto.CosignSignature, Bundle: f.Sign(t, lab.RoleRelease, field.Log1, field.About(t, image.Digest, intoto.CosignSignature, map[string]string{}))})
	remains(t, s.ReemitTags(), 2, "need a .sig by the same identity")
}

// copyTag copies an image and its tag .att, and nothing that refers to it.
func copyTag(t *testing.T, f *field.Field, image registry.Descriptor) {
	t.Helper()
	_, raw, err := f.Remote.Manifest(t.Context(), repo, image.Digest.String())
	must(t, err)
	var manifest struct {
		Config struct{ Digest, MediaType string }
	}
	must(t, json.Unmarshal(raw, &manifest))
	resp, err := http.Get("http://" + f.Host + "/v2/" + repo + "/blobs/" + manifest.Config.Digest)
	must(t, err)
	defer resp.Body.Close()
	var config bytes.Buffer
	_, err = config.ReadFrom(resp.Body)
	must(t, err)
	node, err := registry.Graph(t.Context(), f.Remote, repo, image)
	must(t, err)
	must(t, registry.Parcel{Descriptor: image, Raw: raw, Blobs: []registry.Blob{{Descriptor: node.Config, Bytes: config.Bytes()}}}.PushTo(t.Context(), f.Remote, "older/lantern"))
	f.AttachTag(t, "older/lantern", image.Digest, registry.SuffixAttestations, layers(t, f, image)...)
}

// TestReemitKeepsOthers: a tag that holds no evidence is left as it is.
func TestReemitKeepsOthers(t *testing.T) {
	f := field.New(t, field.Listless)
	image := f.Image(t, repo, "v1")
	f.AttachTag(t, repo, image.Digest, registry.SuffixAttestations, field.Layer(t, "application/vnd.oci.image.layer.v1.tar", "a layer"))
	f.Attach(t, repo, image, field.Evidence{Kind: predicate, Bundle: f.Sign(t, lab.RoleRelease, field.Log1, said(t, image, 1))})
	s := f.Sweeps(t, repo)
	before, err := f.Snapshot(t.Context(), repo)
	must(t, err)
	remains(t, s.ReemitTags(), 1, "nothing was added")
	after, err := f.Snapshot(t.Context(), repo)
	must(t, err)
	if !bytes.Equal(before, after) {
		t.Error("it was written")
	}
}

// TestFormsCrash ends both sweeps after every number of writes. Nothing that was
// attached is lost, and the next run completes it.
func TestFormsCrash(t *testing.T) {
	t.Setenv(transport.PatienceVariable, "600ms")
	l := lab.New(t)
	f := field.On(t, l, field.Referrers)
	image := f.Image(t, repo, "v1")
	one, two := f.Sign(t, lab.RoleRelease, field.Log1, said(t, image, 1)), f.Sign(t, lab.RoleRelease, field.Log1, said(t, image, 2))
	foreign := legacyLayer(t, f, f.Sign(t, stranger, field.Log1, said(t, image, 3)))
	for name, kind := range field.Kinds() {
		t.Run(name, func(t *testing.T) {
			for n := 0; ; n++ {
				f := field.On(t, l, kind)
				image := f.Image(t, repo, "v1")
				f.AttachTag(t, repo, image.Digest, registry.SuffixAttestations, foreign, legacyLayer(t, f, one))
				f.Attach(t, repo, image, field.Evidence{Kind: predicate, Bundle: two})
				c, life := f.Config(t, repo), field.NewMortal(n)
				c.Open = field.Through(life)
				mortal, err := cleanup.New(c)
				must(t, err)
				_, _ = mortal.Backfill().Sweep(t.Context(), everywhere)
				_, _ = mortal.ReemitTags().Sweep(t.Context(), everywhere)
				if there := layers(t, f, image); len(there) < 2 || !same(t, there[0], foreign) {
					t.Fatalf("after %d writes: the tag lost something", n)
				}
				if len(bundles(t, f, image)) < 1 {
					t.Fatalf("after %d writes: a bundle is lost", n)
				}
				s := f.Sweeps(t, repo)
				done(t, s.Backfill())
				done(t, s.ReemitTags())
				if len(layers(t, f, image)) != 3 || len(bundles(t, f, image)) != 2 {
					t.Fatalf("after %d writes and the next run: %d layers, %d bundles", n, len(layers(t, f, image)), len(bundles(t, f, image)))
				}
				if !life.Died() {
					return
				}
			}
		})
	}
}

// client is cosign 2, which knows this lab.
type client struct {
	path string
	env  []string
}

func cosign(t *testing.T, f *field.Field) client {
	t.Helper()
	dir := os.Getenv("WAYBILL_PEERS")
	if dir == "" {
		dir = filepath.Join("..", "..", "bin")
	}
	path, err := filepath.Abs(filepath.Join(dir, "cosign2"))
	must(t, err)
	if _, err := os.Stat(path); err != nil {
		if os.Getenv("CI") != "" || os.Getenv("WAYBILL_REQUIRE_PEERS") == "1" {
			t.Fatalf("no cosign2, and it is required here: `make interop` builds it (%v)", err)
		}
		t.Skipf("no cosign2: `make interop` builds it")
	}
	return client{path, field.LegacyEnvironment(t, f.Lab)}
}

func (c client) try(t *testing.T, args ...string) error {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), c.path, args...)
	cmd.Env = c.env
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, strings.TrimSpace(string(out)))
	}
	return nil
}

func (c client) run(t *testing.T, args ...string) {
	t.Helper()
	if err := c.try(t, args...); err != nil {
		t.Fatal(err)
	}
}
