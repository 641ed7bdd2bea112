package legacy_test

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/waybill-release/waybill/pkg/backend/registry"
	"github.com/waybill-release/waybill/pkg/backend/rekorv1"
	"github.com/waybill-release/waybill/pkg/document/provenance"
	"github.com/waybill-release/waybill/pkg/gate"
	"github.com/waybill-release/waybill/pkg/judge/policy"
	"github.com/waybill-release/waybill/pkg/release/promoterfile"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
	"github.com/waybill-release/waybill/test/lab"
)

const (
	legacyBuilder = "https://builder.example.test/hosted"
	legacySource  = "git+https://example.test/demo"
)

// builtOf is provenance of an image.
func builtOf(t *testing.T, d digest.Digest, source string) []byte {
	t.Helper()
	return marshal(t, map[string]any{
		"_type": "https://in-toto.io/Statement/v1", "predicateType": provenance.PredicateType,
		"subject": []any{map[string]any{"name": "demo", "digest": map[string]string{"sha256": d.Hex()}}},
		"predicate": map[string]any{
			"buildDefinition": map[string]any{
				"buildType": "https://example.test/script", "externalParameters": map[string]any{"version": "v1"},
				"resolvedDependencies": []any{map[string]any{"uri": source + "@refs/tags/v1", "digest": map[string]string{"gitCommit": "9d3b2f0f4d2a7c1e5b6a8f9c0d1e2f3a4b5c6d7e"}}},
			},
			"runDetails": map[string]any{"builder": map[string]any{"id": legacyBuilder}},
		},
	})
}

// judges are a policy that asks for a signature, and a manifest that asks for
// provenance, both by the one who signs here.
func (w *world) judges(t *testing.T, finder rekorv1.Finder) (byPolicy, byManifest gate.ImageJudge) {
	t.Helper()
	issuer, subject := w.Identity(lab.RoleRelease)
	p, err := policy.Parse(fmt.Appendf(nil, `apiVersion: waybill/v1
kind: Policy
name: today
roles: {release: [{issuer: %q, subject: %q, type: email}]}
require:
- {stages: [staging, release], classes: [binary, archive, file, image], checks: {provenance: "off", signature: require, sbom: "off"}}
- {stages: [staging, release], classes: [image-child], checks: {provenance: "off", signature: require}}
- {stages: [staging, release], classes: [sums], checks: {signature: require}}
plan: "off"
closed: {files: "off", images: "off"}
`, issuer, subject), nil)
	if err != nil {
		t.Fatal(err)
	}
	spec := "sigstore::" + issuer + "::" + subject
	judge, err := gate.ManifestRequest{Manifest: "team", Verifier: w.verifier, Now: time.Now(), Finder: finder, Policy: &promoterfile.Policy{
		Mode: promoterfile.ModeRequire, Signers: []string{spec}, Builders: []promoterfile.Builder{{ID: legacyBuilder, Level: 2}}, Sources: []string{"example.test/demo"},
	}}.Judge()
	if err != nil {
		t.Fatal(err)
	}
	return gate.PolicyRequest{Policy: p, Verifier: w.verifier, Stage: policy.Staging, Now: time.Now(), Finder: finder}, judge
}

// TestPoliciesReadLegacyForms is what `waybill gate` decides where nothing refers
// to an image, but tags attach something.
func TestPoliciesReadLegacyForms(t *testing.T) {
	w := newWorld(t)
	r, err := registry.OpenRemote(w.Registry, http.DefaultTransport)
	if err != nil {
		t.Fatal(err)
	}
	picture := w.manifest(t, r, nil)
	other := w.manifest(t, r, []map[string]any{push(t, r, "text/plain", []byte("other"))})
	layer := func(mediaType string, s signed, b []byte, logged bool) map[string]any {
		one, annotations := push(t, r, mediaType, b), s.annotations(t)
		if !logged {
			delete(annotations, "dev.sigstore.cosign/bundle")
		}
		one["annotations"] = annotations
		return one
	}
	signature := func(of digest.Digest, logged bool) map[string]any {
		s := w.sign(t, fmt.Appendf(nil, payload, of))
		return layer("application/vnd.dev.cosign.simplesigning.v1+json", s, s.artifact, logged)
	}
	attestation := func(of digest.Digest, source string) map[string]any {
		s := w.attest(t, builtOf(t, of, source))
		return layer("application/vnd.dsse.envelope.v1+json", s, s.envelope, true)
	}
	log := rekorv1.Finder{Log: openLog(t, w.RekorV1, http.DefaultTransport)}
	junk := push(t, r, "text/plain", []byte("junk"))
	for _, c := range []struct {
		name     string
		sig, att []map[string]any
		finder   rekorv1.Finder
		policy   verdict.Code
		manifest verdict.Code
	}{
		{"both", []map[string]any{signature(picture.Digest, true)}, []map[string]any{attestation(picture.Digest, legacySource)}, rekorv1.Finder{}, "", ""},
		{"both, behind junk", []map[string]any{junk, signature(picture.Digest, true)}, []map[string]any{junk, attestation(picture.Digest, legacySource)}, rekorv1.Finder{}, "", ""},
		{"of another image", []map[string]any{signature(other.Digest, true)}, []map[string]any{attestation(other.Digest, legacySource)}, rekorv1.Finder{}, verdict.Unsigned, verdict.NotBound},
		{"each in the other's place", []map[string]any{attestation(picture.Digest, legacySource)}, []map[string]any{signature(picture.Digest, true)}, rekorv1.Finder{}, verdict.Unsigned, verdict.NoProvenance},
		{"of another source", []map[string]any{signature(picture.Digest, true)}, []map[string]any{attestation(picture.Digest, "git+https://evil.example/demo")}, rekorv1.Finder{}, "", verdict.SourceRepo},
		{"a signature that does not say when", []map[string]any{signature(picture.Digest, false)}, nil, rekorv1.Finder{}, verdict.LogUnasked, verdict.NoProvenance},
		{"a signature that a log knows when", []map[string]any{signature(picture.Digest, false)}, nil, log, "", verdict.NoProvenance},
		{"junk", []map[string]any{junk}, []map[string]any{junk}, rekorv1.Finder{}, verdict.Unsigned, verdict.NoProvenance},
		{"nothing", nil, nil, rekorv1.Finder{}, verdict.Unsigned, verdict.NoProvenance},
	} {
		t.Run(c.name, func(t *testing.T) {
			for suffix, layers := range map[string][]map[string]any{".sig": c.sig, ".att": c.att} {
				if err := r.Tag(t.Context(), "demo", "sha256-"+picture.Digest.Hex()+suffix, w.manifest(t, r, layers)); err != nil {
					t.Fatal(err)
				}
			}
			image := gate.Image{Source: r, Name: "demo", Repository: "demo", Digest: picture.Digest}
			byPolicy, byManifest := w.judges(t, c.finder)
			for what, row := range map[string]struct {
				judge gate.ImageJudge
				want  verdict.Code
			}{"policy": {byPolicy, c.policy}, "manifest": {byManifest, c.manifest}} {
				if v := row.judge.Image(t.Context(), image); code(v) != row.want {
					t.Errorf("%s: %s, want %s: %+v", what, code(v), row.want, v.Findings)
				}
			}
		})
	}
}
