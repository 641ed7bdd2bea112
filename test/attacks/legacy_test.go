package attacks

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sigstore/cosign/v2/pkg/oci"

	"github.com/waybill-release/waybill/pkg/backend/registry"
	"github.com/waybill-release/waybill/pkg/document/legacy"
	"github.com/waybill-release/waybill/pkg/gate"
	"github.com/waybill-release/waybill/pkg/judge/policy"
	"github.com/waybill-release/waybill/pkg/pipeline"
	"github.com/waybill-release/waybill/pkg/release/manifest"
	"github.com/waybill-release/waybill/pkg/release/plan"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
	"github.com/waybill-release/waybill/test/lab"
)

// legacyPipeline is a pipeline that signs in the legacy forms, too, with or without a log
// for them.
func legacyPipeline(t testing.TB, r *attacked, logged bool) *pipeline.Pipeline {
	t.Helper()
	p := later(t, r)
	p.Legacy = true
	if !logged {
		p.Profile.Signing = r.profile.Signing
	}
	return p
}

// later is a pipeline that knows a log for the legacy forms, and is not told to
// use it.
func later(t testing.TB, r *attacked) *pipeline.Pipeline {
	t.Helper()
	config := must[[]byte](t)(r.Lab.SigningConfigFor(lab.Signing{V1: true}))
	return must[*pipeline.Pipeline](t)(r.pipeline(r.dir, func(c *pipeline.Config) {
		p := c.Gate.Profile()
		p.Signing = config
		c.Gate = r.under(p)
		c.Transport = newSpy()
	}))
}

// TestLegacyNeedsItsLog: without a Rekor v1 log nothing is written, and nobody
// is asked for anything. The twin has one.
func TestLegacyNeedsItsLog(t *testing.T) {
	r := theWorld(t).attacked(t)
	before := bytesOf(t, r.dir)
	p := legacyPipeline(t, r, false)
	refused(t, p.Sign(t.Context()), "LEGACY_NEEDS_REKOR_V1")
	refused(t, p.Seal(t.Context()), "LEGACY_NEEDS_REKOR_V1")
	if after := bytesOf(t, r.dir); !maps.Equal(before, after) {
		t.Error("something was written")
	}
	if asked := p.Transport.(*spy).calls; len(asked) > 0 {
		t.Errorf("asked: %v", asked)
	}
	p = legacyPipeline(t, r, true)
	accepted(t, p.Sign(t.Context()))
	if asked := p.Transport.(*spy).calls; len(asked) == 0 {
		t.Error("nobody was asked")
	}
}

// signedLegacy is a sealed release that was signed in the legacy forms, too.
func (w *world) signedLegacy(t *testing.T) *attacked {
	t.Helper()
	r := w.attacked(t)
	p := legacyPipeline(t, r, true)
	accepted(t, p.Sign(t.Context()))
	accepted(t, p.Seal(context.WithoutCancel(t.Context())))
	return r
}

// copied is a copy of a release that a test may attack.
func (r *attacked) copied(t *testing.T) *attacked {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "state")
	if err := os.CopyFS(dir, os.DirFS(r.dir)); err != nil {
		t.Fatal(err)
	}
	return &attacked{world: r.world, dir: dir, images: must[*registry.Layout](t)(registry.OpenLayout(filepath.Join(dir, "images")))}
}

// pairBy is a .sig and a .cert of the binary by somebody else.
func (r *attacked) pairBy(t *testing.T, role string) (signature, certificate []byte) {
	t.Helper()
	b := r.author(t, role).sign(t, blobOf(r.read(t, binary)))
	m := must[legacy.Material](t)(legacy.New(digest.Of(digest.SHA256, r.read(t, binary)), b.GetMessageSignature().GetSignature(),
		b.GetVerificationMaterial().GetCertificate().GetRawBytes()))
	return m.Files()
}

// TestLegacyRelease: what is signed in the legacy forms is listed, all of it or
// nothing, and each .sig belongs to its .cert and its file; who seals again
// needs no flag. Kubernetes has published a .sig that did not verify.
func TestLegacyRelease(t *testing.T) {
	w := theWorld(t)
	whole := w.signedLegacy(t)
	untouched := whole.gate(t)
	accepted(t, untouched.Err())
	if !untouched.Complete() {
		t.Fatalf("the untouched release is not complete: %s", untouched.Headline())
	}
	again := later(t, whole)
	accepted(t, again.Sign(t.Context()))
	accepted(t, again.Seal(t.Context()))
	accepted(t, whole.gate(t).Err())
	sig, cert := plan.SigName(binary), plan.CertName(binary)
	for _, row := range []attack{
		{"a .sig of another file", func(t *testing.T, r *attacked) {
			r.write(t, sig, r.read(t, plan.SigName(otherBinary)))
		}, codes(verdict.NameSwap)},
		{"a .sig of another file, and it is listed", func(t *testing.T, r *attacked) {
			r.write(t, sig, r.read(t, plan.SigName(otherBinary)))
			r.reseal(t, func(m *manifest.Manifest) { r.relist(t, m, sig) })
		}, codes(verdict.SignatureBad)},
		{"a .cert of another role, and it is listed", func(t *testing.T, r *attacked) {
			signature, certificate := r.pairBy(t, lab.RoleVerifier)
			r.write(t, sig, signature)
			r.write(t, cert, certificate)
			r.reseal(t, func(m *manifest.Manifest) { r.relist(t, m, sig, cert) })
		}, codes(verdict.IdentityRole)},
		{"a .cert of a stranger, and it is listed", func(t *testing.T, r *attacked) {
			signature, certificate := r.pairBy(t, "stranger@example.test")
			r.write(t, sig, signature)
			r.write(t, cert, certificate)
			r.reseal(t, func(m *manifest.Manifest) { r.relist(t, m, sig, cert) })
		}, codes(verdict.Identity)},
		{"a .sig that is gone", func(t *testing.T, r *attacked) { r.remove(t, sig) }, codes(verdict.Missing)},
		{"a .sig that is not listed", func(t *testing.T, r *attacked) {
			r.remove(t, sig)
			r.reseal(t, func(m *manifest.Manifest) { drop(t, m, sig) })
		}, codes(verdict.PlanMissing)},
		{"no legacy form is listed, and one is there", func(t *testing.T, r *attacked) {
			r.reseal(t, func(m *manifest.Manifest) {
				m.Artifacts = slices.DeleteFunc(m.Artifacts, func(a manifest.Artifact) bool { return a.IsLegacy() })
			})
		}, codes(verdict.Extra)},
	} {
		t.Run(row.name, func(t *testing.T) {
			r := whole.copied(t)
			row.do(t, r)
			refused(t, r.gate(t).Err(), row.codes...)
		})
	}
}

// TestLegacySeal: a .sig that does not belong to its file is not sealed.
func TestLegacySeal(t *testing.T) {
	w := theWorld(t)
	r := w.signedLegacy(t)
	p := later(t, r)
	r.swap(t, plan.SigName(binary), plan.SigName(otherBinary))
	refused(t, p.Seal(t.Context()), verdict.SignatureBad)
	accepted(t, p.Sign(t.Context())) // which writes what it kept
	accepted(t, p.Seal(t.Context()))
	for _, suffix := range []string{registry.SuffixSignatures, registry.SuffixAttestations} {
		m := r.manifest(t)
		index := entry(t, &m, imageName).Digests.SHA256
		layers := must[[]oci.Signature](t)(registry.AttachedTo(t.Context(), r.images, repository, index, suffix))
		if len(layers) != 1 {
			t.Errorf("%s: %d layers", suffix, len(layers))
		}
	}
}

// TestLegacyForecast: what is foretold of the legacy forms is what is then done:
// files and images, in the log that is named; and without a log it is said once.
func TestLegacyForecast(t *testing.T) {
	r := theWorld(t).attacked(t)
	_, err := legacyPipeline(t, r, false).ForecastActs(t.Context(), pipeline.ActSign)
	refused(t, err, "LEGACY_NEEDS_REKOR_V1")
	if n := strings.Count(err.Error(), "LEGACY_NEEDS_REKOR_V1"); n != 1 {
		t.Errorf("said %d times: %v", n, err)
	}
	plain := must[pipeline.Forecast](t)(later(t, r).ForecastActs(t.Context(), pipeline.ActSign))
	if plain.Services.Legacy != "" || plain.Due() != 0 {
		t.Errorf("without --legacy: %+v", plain)
	}
	p := legacyPipeline(t, r, true)
	f := must[pipeline.Forecast](t)(p.ForecastActs(t.Context(), pipeline.ActSign))
	due := map[string]int{}
	for _, h := range f.Signatures[0].What {
		due[h.Kind] = h.Due
	}
	if f.Services.Legacy == "" || due["image in the legacy form"] == 0 || due["SBOM of an image in the legacy form"] == 0 || due["file in the legacy form"] == 0 {
		t.Errorf("%+v", f)
	}
	if f.Signatures[0].Timestamps != 0 || f.Signatures[0].Entries != f.Due() {
		t.Errorf("the legacy forms have no timestamps, and an entry each: %+v", f.Signatures[0])
	}
	accepted(t, p.Sign(t.Context()))
	if done := p.Done(nil).Acts[0]; done.Signed != f.Due() || done.Entries != f.Signatures[0].Entries {
		t.Errorf("%+v was done; foretold: %+v", done, f.Signatures[0])
	}
	after := must[pipeline.Forecast](t)(legacyPipeline(t, r, true).ForecastActs(t.Context(), pipeline.ActSign))
	if after.Due() != 0 || after.Signatures[0].Entries != 0 || after.Signatures[0].Certificates != 0 {
		t.Errorf("everything is signed: %+v", after.Signatures[0])
	}
}

// TestLegacyByTheRetired: a pair counts if its certificate was issued while its
// holder might act, whoever listed the pair.
func TestLegacyByTheRetired(t *testing.T) {
	r := theWorld(t).signedLegacy(t)
	signature, certificate := r.pairBy(t, "deputy@lab.invalid")
	r.write(t, plan.SigName(binary), signature)
	r.write(t, plan.CertName(binary), certificate)
	r.reseal(t, func(m *manifest.Manifest) { r.relist(t, m, plan.SigName(binary), plan.CertName(binary)) })
	text := string(must[[]byte](t)(os.ReadFile(r.Path("policy.yaml"))))
	issuer, _ := r.Lab.Identity("deputy@lab.invalid")
	for extent, want := range map[string][]verdict.Code{
		`until: "2099-01-01"`: nil,
		`until: "2025-01-01"`: codes(verdict.IdentityWindow),
		`from: "2099-01-01"`:  codes(verdict.IdentityWindow),
		"classes: [binary]":   nil,
		"classes: [image]":    codes(verdict.IdentityRole),
		"stages: [staging]":   codes(verdict.IdentityRole),
	} {
		t.Run(extent, func(t *testing.T) {
			deputy := fmt.Sprintf("  release: [{issuer: %q, subject: deputy@lab.invalid, type: email, %s}, ", issuer, extent)
			p := must[policy.Policy](t)(policy.Parse([]byte(strings.Replace(text, "  release: [", deputy, 1)), nil))
			refused(t, r.gate(t, func(req *gate.Request) { req.Policy = p }).Err(), want...)
		})
	}
}
