package attacks

import (
	"slices"
	"strings"
	"testing"

	releasemanifest "github.com/waybill-release/waybill/attestations/release-manifest/v1"
	sbomlist "github.com/waybill-release/waybill/attestations/sbom-list/v1"
	"github.com/waybill-release/waybill/pkg/document/intoto"
	"github.com/waybill-release/waybill/pkg/gate"
	"github.com/waybill-release/waybill/pkg/release/manifest"
	"github.com/waybill-release/waybill/pkg/release/plan"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
	"github.com/waybill-release/waybill/test/lab"
)

// sbomRow is the row of a policy that requires the list of SBOMs.
const sbomRow = "- {stages: [staging, release], classes: [sbom], checks: {signature: require}}\n"

// TestListOfSBOMs: the release role seals a bundle as the list of SBOMs, under
// a policy that requires one and under one that does not. It is accepted only
// if the release role signed in it exactly the SBOMs of the manifest.
func TestListOfSBOMs(t *testing.T) {
	w := theWorld(t)
	requires := w.policy(t, "plan: require\n", sbomRow+"plan: require\n")
	subjects := func(edit func([]intoto.Subject) []intoto.Subject) func(testing.TB, *attacked) []byte {
		return func(t testing.TB, r *attacked) []byte {
			s := r.statement(t, sbomlist.Name)
			p := must[sbomlist.Predicate](t)(sbomlist.Parse(s))
			return r.sign(t, lab.RoleRelease, must[intoto.Statement](t)(p.Of(edit(s.Subjects()))).Raw())
		}
	}
	by := func(role, old, with string) func(testing.TB, *attacked) []byte {
		return func(t testing.TB, r *attacked) []byte {
			text := string(r.statement(t, sbomlist.Name).Raw())
			if !strings.Contains(text, old) {
				t.Fatalf("%q is not in the list", old)
			}
			return r.sign(t, role, []byte(strings.Replace(text, old, with, 1)))
		}
	}
	for _, row := range []struct {
		name   string
		bundle func(testing.TB, *attacked) []byte
		codes  []verdict.Code
	}{
		{"as it was sealed", func(t testing.TB, r *attacked) []byte { return r.read(t, sbomlist.Name) }, nil},
		{"signed again by the release role", by(lab.RoleRelease, "", ""), nil},
		{"in another order", subjects(func(all []intoto.Subject) []intoto.Subject { slices.Reverse(all); return all }), nil},
		{"an SBOM left out", subjects(func(all []intoto.Subject) []intoto.Subject { return all[1:] }), codes(verdict.Conflict)},
		{"only the SBOM of the release", subjects(func(all []intoto.Subject) []intoto.Subject { return all[len(all)-1:] }), codes(verdict.Conflict)},
		{"an SBOM that is not there", subjects(func(all []intoto.Subject) []intoto.Subject {
			return append(all, intoto.Subject{Name: "more.spdx.json", Digests: digest.SetOf([]byte("more"))})
		}), codes(verdict.Conflict)},
		{"a file that is no SBOM", subjects(func(all []intoto.Subject) []intoto.Subject {
			return append(all, intoto.Subject{Name: binary, Digests: digest.SetOf([]byte("evil"))})
		}), codes(verdict.Conflict)},
		{"another digest", subjects(func(all []intoto.Subject) []intoto.Subject {
			all[0].Digests = digest.SetOf([]byte("evil"))
			return all
		}), codes(verdict.Conflict)},
		{"another sha512 alone", subjects(func(all []intoto.Subject) []intoto.Subject {
			all[0].Digests.SHA512 = digest.SetOf([]byte("evil")).SHA512
			return all
		}), codes(verdict.Conflict)},
		{"two digests exchanged", subjects(func(all []intoto.Subject) []intoto.Subject {
			all[0].Digests, all[1].Digests = all[1].Digests, all[0].Digests
			return all
		}), codes(verdict.Conflict)},
		{"another version", by(lab.RoleRelease, `"version":"`+w.version.String(), `"version":"v9.9.9`), codes(verdict.Version)},
		{"another release", by(lab.RoleRelease, `"name":"lantern","version"`, `"name":"candle","version"`), codes(verdict.Version)},
		{"a predicate of another version", by(lab.RoleRelease, "sbom-list/v1", "sbom-list/v2"), codes(verdict.PredicateType)},
		{"an unknown field", by(lab.RoleRelease, `"name":"lantern","version"`, `"more":1,"name":"lantern","version"`), codes(verdict.StatementParse)},
		{"signed by the builder", by(lab.RoleBuilder, "", ""), codes(verdict.IdentityRole)},
		{"signed by the verifier", by(lab.RoleVerifier, "", ""), codes(verdict.IdentityRole)},
		{"signed by a stranger", by("mallory@evil.example", "", ""), codes(verdict.Identity)},
		{"the manifest in its place", func(t testing.TB, r *attacked) []byte { return r.read(t, releasemanifest.Name) }, codes(verdict.PredicateType)},
		{"a signature in its place", func(t testing.TB, r *attacked) []byte { return r.read(t, binary+".sigstore.json") }, codes(verdict.MaterialKind)},
		{"no bundle", func(testing.TB, *attacked) []byte { return []byte("nonsense") }, codes(verdict.BundleParse)},
	} {
		t.Run(row.name, func(t *testing.T) {
			r := w.attacked(t)
			r.write(t, sbomlist.Name, row.bundle(t, r))
			r.reseal(t, func(m *manifest.Manifest) { r.relist(t, m, sbomlist.Name) })
			refused(t, r.gate(t).Err(), row.codes...)
			v := r.gate(t, func(req *gate.Request) { req.Policy = requires })
			refused(t, v.Err(), row.codes...)
			if row.codes == nil && !v.Complete() {
				t.Errorf("headline %q", v.Headline())
			}
		})
	}
}

// TestStaleListOfSBOMs: an SBOM changes, and the list that was signed before
// stays. The twin signs the list again.
func TestStaleListOfSBOMs(t *testing.T) {
	r := theWorld(t).attacked(t)
	before := r.read(t, sbomlist.Name)
	r.rewrite(t, plan.SBOMName(packed), func(d document) { d["creationInfo"].(map[string]any)["comment"] = "made again" })
	r.reseal(t, func(m *manifest.Manifest) { r.relist(t, m, plan.SBOMName(packed), releaseSBOM) })
	accepted(t, r.gate(t).Err())
	r.write(t, sbomlist.Name, before)
	r.reseal(t, func(m *manifest.Manifest) { r.relist(t, m, sbomlist.Name) })
	refused(t, r.gate(t).Err(), verdict.Conflict)
}

// TestReleaseWithoutListOfSBOMs: a release that was sealed before there were
// lists passes as before, unless the policy requires the list. A list that is
// listed and gone is missing in either case.
func TestReleaseWithoutListOfSBOMs(t *testing.T) {
	w := theWorld(t)
	requires := func(req *gate.Request) { req.Policy = w.policy(t, "plan: require\n", sbomRow+"plan: require\n") }
	r := w.attacked(t)
	accepted(t, r.gate(t, requires).Err())
	r.remove(t, sbomlist.Name)
	refused(t, r.gate(t).Err(), verdict.Missing)
	refused(t, r.gate(t, requires).Err(), verdict.Missing)

	r.reseal(t, func(m *manifest.Manifest) {
		m.Artifacts = slices.DeleteFunc(m.Artifacts, func(a manifest.Artifact) bool { return a.Name == sbomlist.Name })
	})
	v := r.gate(t)
	accepted(t, v.Err())
	if !v.Complete() {
		t.Errorf("headline %q", v.Headline())
	}
	refused(t, r.gate(t, requires).Err(), verdict.Unsigned)
}

// TestListOfSBOMsAsAnotherClass: a manifest that lists the bundle as something
// else hides it from no check.
func TestListOfSBOMsAsAnotherClass(t *testing.T) {
	w := theWorld(t)
	r := w.attacked(t)
	accepted(t, r.gate(t).Err())
	r.reseal(t, func(m *manifest.Manifest) { entry(t, m, sbomlist.Name).Class = plan.Other })
	v := r.gate(t)
	if got := codesOf(v.Err()); !slices.Contains(got, verdict.PlanMissing) {
		t.Errorf("codes %v, want %s among them", got, verdict.PlanMissing)
	}
}
