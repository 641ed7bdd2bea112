package stories

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/waybill-release/waybill/pkg/backend/registry"
	"github.com/waybill-release/waybill/pkg/document/intoto"
	"github.com/waybill-release/waybill/pkg/document/provenance"
	"github.com/waybill-release/waybill/pkg/govern/feature"
	"github.com/waybill-release/waybill/pkg/govern/feature/known"
	"github.com/waybill-release/waybill/test/features/field"
	"github.com/waybill-release/waybill/test/lab"
	"github.com/waybill-release/waybill/test/scene"
)

// switching is a registry with a requirement that is to be switched on.
type switching struct {
	switchroom
	*field.Field
	repository string // in the registry
}

const (
	showSource  = "git+https://example.test/lantern"
	showBuilder = "https://example.test/builder"
)

func openSwitching(t *testing.T) switching {
	t.Helper()
	s := switching{switchroom: openSwitchroom(t), repository: "prod/lantern"}
	s.Field = field.On(t, s.Scene.Lab, field.Referrers)
	identity := func(as string) string {
		issuer, subject := s.Scene.Lab.Identity(as)
		return fmt.Sprintf("{issuer: %q, subject: %q, type: email}", issuer, subject)
	}
	issuer, _ := s.Scene.Lab.Identity(lab.RoleRelease)
	s.write(t, "policy.yaml", fmt.Appendf(nil, `apiVersion: waybill/v1
kind: Policy
name: promotion
roles:
  release: [%s]
  reconciler: [{issuer: %q, subject: %q, type: email}]
builders: [{id: %q, level: 3, signers: [%s]}]
source: {repository: %q}
require:
- {stages: [staging, release], classes: [binary, archive, file, image], checks: {provenance: require, signature: require, sbom: "off"}}
- {stages: [staging, release], classes: [image-child], checks: {provenance: require, signature: require}}
- {stages: [staging, release], classes: [sums], checks: {signature: require}}
plan: require
closed: {files: require, images: require}
features:
  RequireProvenance: {floor: "off"}
`, identity(lab.RoleRelease), issuer, switcher, showBuilder, identity(lab.RoleBuilder), showSource))
	if err := os.Mkdir(s.Path("site"), 0o755); err != nil {
		t.Fatal(err)
	}
	return s
}

// wants writes what is wanted of the requirement.
func (s switching) wants(state feature.State) {
	s.t.Helper()
	where := ""
	if state == feature.On {
		where = fmt.Sprintf(", scope: [%s/prod]", s.Host)
	}
	s.file("FEATURES.yaml", fmt.Sprintf("desired: {RequireProvenance: {state: %q%s}}\npublic: [%s/%s]\n", state, where, s.Host, s.repository))
}

// signed pushes an image that the release identity signed.
func (s switching) signed(tag string) registry.Descriptor {
	s.t.Helper()
	image := s.Image(s.t, s.repository, tag)
	said := field.About(s.t, image.Digest, intoto.CosignSignature, map[string]any{})
	s.Attach(s.t, s.repository, image, field.Evidence{Kind: intoto.CosignSignature, Bundle: s.Sign(s.t, lab.RoleRelease, field.Log2, said)})
	return image
}

// attests says how an image was built.
func (s switching) attests(image registry.Descriptor) {
	s.t.Helper()
	said := field.About(s.t, image.Digest, provenance.PredicateType, map[string]any{
		"buildDefinition": map[string]any{
			"buildType": "https://example.test/script", "externalParameters": map[string]any{},
			"resolvedDependencies": []any{map[string]any{"uri": showSource + "@refs/tags/v0.1.0", "digest": map[string]string{"gitCommit": strings.Repeat("a", 40)}}},
		},
		"runDetails": map[string]any{"builder": map[string]any{"id": showBuilder}},
	})
	s.Attach(s.t, s.repository, image, field.Evidence{Kind: provenance.PredicateType, Bundle: s.Sign(s.t, lab.RoleBuilder, field.Log2, said)})
}

// asks asks the gate about an image, as the promoter, who reports what it found.
func (s switching) asks(tag string) scene.Result {
	s.t.Helper()
	return s.Run(s.t.Context(), "waybill", "gate", "check", s.Host+"/"+s.repository+":"+tag,
		"--policy", "policy.yaml", "--trusted-root", "trusted_root.json", "--features", "site", "--report-as", "promoter")
}

// alone asks the gate about an image, or a file of this machine, by itself.
func (s switching) alone(kind, what string, flags ...string) scene.Result {
	s.t.Helper()
	args := []string{"waybill", "gate", kind, what, "--policy", "policy.yaml", "--trusted-root", "trusted_root.json"}
	return s.Run(s.t.Context(), append(args, flags...)...)
}

// goesOn makes passes until one prints some words. The promoter runs all the
// time.
func (s switching) goesOn(words string) scene.Result {
	s.t.Helper()
	var last scene.Result
	for deadline := time.Now().Add(2 * time.Minute); time.Now().Before(deadline); {
		last = s.pass()
		want(s.t, last, 0)
		if strings.Contains(last.Stdout, words) {
			return last
		}
		s.asks("v0.1.0")
	}
	s.t.Fatalf("nobody says %q:\n%s", words, last.Stdout)
	return last
}

// TestFeatureRequireProvenance: provenance is switched on over a registry in
// which three images have none: they are warned about, by name; when they have
// it, it is required; and off again, nothing is left of it.
func TestFeatureRequireProvenance(t *testing.T) {
	s := openSwitching(t)
	s.attests(s.signed("v0.1.0"))
	without := map[string]registry.Descriptor{}
	for _, tag := range []string{"v0.0.1", "v0.0.2", "v0.0.3"} {
		without[tag] = s.signed(tag)
	}
	s.wants(feature.Off)
	want(t, s.pass(), 0, "announced")
	want(t, s.asks("v0.0.1"), 1, "NO_PROVENANCE") // an announcement is not signed, and lowers nothing
	want(t, s.asks("v0.1.0"), 0, "OK ")

	// On is wanted: what would be refused is named, and nothing is refused yet.
	s.wants(feature.On)
	want(t, s.pass(), 0, "RequireProvenance", "Off to TurningOn")
	want(t, s.asks("v0.0.1"), 0, "NO_PROVENANCE", "TurningOn")
	want(t, s.asks("v0.1.0"), 0, "OK ")
	unattested := s.Host + "/" + s.repository + ":v0.0.1"
	want(t, s.alone("image", unattested), 1, "NO_PROVENANCE")
	want(t, s.alone("image", unattested, "--features", "site", "--report-as", "promoter"), 0, "NO_PROVENANCE", "it counts as warn")
	want(t, s.alone("file", "policy.yaml", "--features", "site"), 1, "UNSIGNED", "it counts as warn")
	audit := s.goesOn("would be refused")
	for tag, image := range without {
		if !strings.Contains(audit.Stdout, image.Digest.String()) {
			t.Errorf("the audit does not name %s:\n%s", tag, audit.Stdout)
		}
	}

	// Two of three are mended, and then the last one.
	s.attests(without["v0.0.1"])
	s.attests(without["v0.0.2"])
	want(t, s.pass(), 0, "1 of 4 images would be refused", without["v0.0.3"].Digest.String())
	s.attests(without["v0.0.3"])
	s.until(known.RequireProvenance, feature.On)
	want(t, s.asks("v0.0.3"), 0, "OK ")
	s.signed("v0.2.0")
	want(t, s.asks("v0.2.0"), 1, "NO_PROVENANCE")
	want(t, s.alone("image", s.Host+"/"+s.repository+":v0.2.0", "--features", "site"), 1, "NO_PROVENANCE", "it counts as require")
	s.attests(s.signed("v0.3.0"))
	want(t, s.asks("v0.3.0"), 0, "OK ")

	// And off again.
	s.wants(feature.Off)
	want(t, s.pass(), 0, "On to TurningOff")
	want(t, s.asks("v0.2.0"), 0, "NO_PROVENANCE", "TurningOff")
	s.goesOn("TurningOff to Off")
	want(t, s.asks("v0.2.0"), 0, "OK ")
	want(t, s.pass(), 0)
	f := s.get(known.RequireProvenance)
	if c := f.Condition(feature.Dangling); f.Status.State != feature.Off || c.Status != "False" || c.Count != 0 {
		t.Errorf("%s, and %d things refer to it: %s", f.Status.State, c.Count, c.Status)
	}
	if n := len(f.Status.History); n != 4 {
		t.Errorf("%d transitions", n)
	}
}
