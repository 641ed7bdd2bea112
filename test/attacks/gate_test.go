package attacks

import (
	"bytes"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	releasemanifest "github.com/waybill-release/waybill/attestations/release-manifest/v1"
	"github.com/waybill-release/waybill/pkg/backend/store"
	"github.com/waybill-release/waybill/pkg/document/provenance"
	"github.com/waybill-release/waybill/pkg/gate"
	"github.com/waybill-release/waybill/pkg/judge/policy"
	"github.com/waybill-release/waybill/pkg/release/manifest"
	"github.com/waybill-release/waybill/pkg/release/plan"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
	"github.com/waybill-release/waybill/pkg/value/version"
	"github.com/waybill-release/waybill/test/lab"
)

// gate decides about an attacked release as it lies there.
func (r *attacked) gate(t testing.TB, edits ...func(*gate.Request)) *verdict.Verdict {
	t.Helper()
	req := gate.Request{
		Version: r.version, Files: must[store.Place](t)(store.Open(filepath.Join(r.dir, "files"), nil)), Images: r.images,
		Verifier: r.verifier, Policy: r.profile.Policy, Stage: policy.Published, Now: time.Now(),
	}
	req.Canon.Files, req.Canon.Images = r.profile.Canonical(r.version)
	for _, edit := range edits {
		edit(&req)
	}
	return gate.Decide(t.Context(), req).Verdict
}

// attack is one thing done to a sealed release, and what must come of it.
type attack struct {
	name  string
	do    func(t *testing.T, r *attacked)
	codes []verdict.Code
}

// decide runs attacks, each on a copy of its own of the release that the gate
// accepts untouched. Where a code is met for the first time, every command is
// asked, too.
func decide(t *testing.T, rows []attack) {
	t.Helper()
	w := theWorld(t)
	untouched := w.attacked(t).gate(t)
	accepted(t, untouched.Err())
	if !untouched.Complete() {
		t.Fatalf("the untouched release is not complete: %s", untouched.Headline())
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			r := w.attacked(t)
			row.do(t, r)
			refused(t, r.gate(t).Err(), row.codes...)
			if news(row.codes) {
				r.everywhere(t, row.codes)
			}
		})
	}
}

// TestGateFiles attacks the file place, whose manifest is genuine.
func TestGateFiles(t *testing.T) {
	const archive = "lantern-linux-amd64.tar.gz"
	decide(t, []attack{
		{"one flipped bit", func(t *testing.T, r *attacked) { r.flip(t, binary) }, codes(verdict.Tampered)},
		{"one byte more", func(t *testing.T, r *attacked) { r.write(t, binary, append(r.read(t, binary), 0)) }, codes(verdict.Tampered)},
		{"an empty file", func(t *testing.T, r *attacked) { r.write(t, binary, nil) }, codes(verdict.Tampered)},
		{"F01 no file", func(t *testing.T, r *attacked) { r.remove(t, archive) }, codes(verdict.Missing)},
		{"F02 one file more", func(t *testing.T, r *attacked) { r.write(t, binary+"-debug", []byte("x")) }, codes(verdict.Extra)},
		{"F30 a genuine file under one more name", func(t *testing.T, r *attacked) { r.write(t, "bin/lantern", r.read(t, binary)) }, codes(verdict.Extra)},
		{"a hidden file", func(t *testing.T, r *attacked) { r.write(t, ".hidden", nil) }, codes(verdict.Extra)},
		{"F04 two names exchanged", func(t *testing.T, r *attacked) { r.swap(t, binary, otherBinary) }, codes(verdict.NameSwap)},
		{"one name holds the other's bytes", func(t *testing.T, r *attacked) { r.write(t, binary, r.read(t, otherBinary)) }, codes(verdict.NameSwap)},
		{"F07 a symbolic link to the very bytes", func(t *testing.T, r *attacked) {
			target := filepath.Join(t.TempDir(), "lantern")
			if err := os.Rename(r.path(binary), target); err != nil {
				t.Fatal(err)
			}
			if err := os.Symlink(target, r.path(binary)); err != nil {
				t.Fatal(err)
			}
		}, codes(verdict.FileType)},
		{"F07 a pipe beside the files", func(t *testing.T, r *attacked) {
			if err := syscall.Mkfifo(r.path("pipe"), 0o644); err != nil {
				t.Fatal(err)
			}
		}, codes(verdict.FileType)},
		{"F09 a name outside the grammar", func(t *testing.T, r *attacked) { r.write(t, "bin/lan\u212Aern", []byte("x")) }, codes(verdict.Path)},
		{"a name with a space", func(t *testing.T, r *attacked) { r.write(t, "read me", []byte("x")) }, codes(verdict.Path)},
		{"no signature", func(t *testing.T, r *attacked) { r.remove(t, plan.BundleName(binary)) }, codes(verdict.Missing, verdict.Unsigned)},
		{"no provenance", func(t *testing.T, r *attacked) { r.remove(t, compiled) }, codes(verdict.Missing, verdict.NoProvenance)},
		{"no SBOM", func(t *testing.T, r *attacked) { r.remove(t, plan.SBOMName(binary)) }, codes(verdict.Missing, verdict.NoSBOM)},
		{"changed provenance", func(t *testing.T, r *attacked) { r.flip(t, compiled) }, codes(verdict.Tampered, verdict.NoProvenance)},
		{"provenance exchanged", func(t *testing.T, r *attacked) { r.swap(t, compiled, alsoBuilt) }, codes(verdict.NameSwap, verdict.NoProvenance)},
		{"signatures exchanged", func(t *testing.T, r *attacked) {
			r.swap(t, plan.BundleName(binary), plan.BundleName(otherBinary))
		}, codes(verdict.NameSwap, verdict.Unsigned)},
		{"a changed configuration", func(t *testing.T, r *attacked) { r.flip(t, plan.ConfigName) }, codes(verdict.Tampered)},
		{"no configuration", func(t *testing.T, r *attacked) { r.remove(t, plan.ConfigName) }, codes(verdict.Missing)},
	})
}

// TestGateManifest replaces the manifest's bundle by what is not it.
func TestGateManifest(t *testing.T) {
	resign := func(role string) func(t *testing.T, r *attacked) {
		return func(t *testing.T, r *attacked) {
			r.write(t, releasemanifest.Name, r.sign(t, role, r.statement(t, releasemanifest.Name).Raw()))
		}
	}
	decide(t, []attack{
		{"signed again by the release role", resign(lab.RoleRelease), nil},
		{"F28 no manifest", func(t *testing.T, r *attacked) { r.remove(t, releasemanifest.Name) }, codes(verdict.EvidenceMissing)},
		{"C26 signed by the verifier", resign(lab.RoleVerifier), codes(verdict.IdentityRole)},
		{"C26 signed by the builder", resign(lab.RoleBuilder), codes(verdict.IdentityRole)},
		{"signed by a stranger", resign("mallory@evil.example"), codes(verdict.Identity)},
		{"signed in another world", func(t *testing.T, r *attacked) {
			b := authorIn(t, lab.New(t), lab.RoleRelease).sign(t, envelope(r.statement(t, releasemanifest.Name).Raw()))
			r.write(t, releasemanifest.Name, encode(t, b))
		}, codes(verdict.LogUnknown)},
		{"the bare statement", func(t *testing.T, r *attacked) {
			r.write(t, releasemanifest.Name, r.statement(t, releasemanifest.Name).Raw())
		}, codes(verdict.BundleParse)},
		{"A18 a signature over the statement's bytes", func(t *testing.T, r *attacked) {
			r.write(t, releasemanifest.Name, r.read(t, plan.BundleName(binary)))
		}, codes(verdict.MaterialKind)},
		{"A20 another statement by the release role", func(t *testing.T, r *attacked) {
			r.write(t, releasemanifest.Name, r.sign(t, lab.RoleRelease, statement()))
		}, codes(verdict.PredicateType)},
		{"provenance in its place", func(t *testing.T, r *attacked) { r.write(t, releasemanifest.Name, r.read(t, compiled)) }, codes(verdict.PredicateType)},
		{"nothing in it", func(t *testing.T, r *attacked) { r.write(t, releasemanifest.Name, nil) }, codes(verdict.BundleParse)},
		{"F27 of another place", func(t *testing.T, r *attacked) {
			r.reseal(t, func(m *manifest.Manifest) { m.FilesURI = "https://dl.evil.example/lantern/v0.1.0/" })
		}, codes(verdict.PlaceOther)},
		{"F27 of another registry", func(t *testing.T, r *attacked) {
			r.reseal(t, func(m *manifest.Manifest) { m.ImagesURI = "registry.evil.example/lantern" })
		}, codes(verdict.PlaceOther)},
		{"of another ref than its provenance", func(t *testing.T, r *attacked) {
			r.reseal(t, func(m *manifest.Manifest) { m.Source.Ref = "refs/tags/v9.9.9" })
		}, codes(verdict.SourceRef)},
		{"of another repository than its provenance", func(t *testing.T, r *attacked) {
			r.reseal(t, func(m *manifest.Manifest) { m.Source.Repository += "-fork" })
		}, codes(verdict.SourceRepo)},
		{"withdrawn", func(t *testing.T, r *attacked) {
			r.reseal(t, func(m *manifest.Manifest) {
				m.Withdrawn = &manifest.Withdrawal{Reason: "it deletes files", Use: "v0.1.1"}
			})
		}, codes(verdict.Withdrawn)},
		{"an extension that nobody knows", func(t *testing.T, r *attacked) {
			r.resealJSON(t, func(p map[string]any) { p["extensions"] = map[string]any{"color": "red"} })
		}, nil},
		{"a critical field that nobody knows", func(t *testing.T, r *attacked) {
			r.resealJSON(t, func(p map[string]any) { p["critical"] = map[string]any{"color": "red"} })
		}, codes("MANIFEST_CRITICAL")},
		{"pages beside a list", func(t *testing.T, r *attacked) {
			r.resealJSON(t, func(p map[string]any) {
				p["pages"] = []any{map[string]any{"name": "p", "sha256": "", "first": "a", "last": "b", "count": 1}}
			})
		}, codes(verdict.ManifestParse)},
		{"an unknown field", func(t *testing.T, r *attacked) { r.resealJSON(t, func(p map[string]any) { p["trusted"] = true }) }, codes(verdict.ManifestParse)},
		{"F14 another channel", func(t *testing.T, r *attacked) { r.resealJSON(t, func(p map[string]any) { p["channel"] = "alpha" }) }, codes(verdict.ManifestParse)},
		{"an entry without a subject", func(t *testing.T, r *attacked) {
			r.resealJSON(t, func(p map[string]any) {
				list := p["artifacts"].([]any)
				p["artifacts"] = append(list, list[0])
			})
		}, codes(verdict.ManifestParse)},
		{"A27 as a statement of an old version", resealText("Statement/v1", "Statement/v0.1"), codes(verdict.StatementType)},
		{"as a statement of no known version", resealText("Statement/v1", "Statement/v9"), codes(verdict.StatementType)},
		{"an unknown field of the statement", resealText(`{"_type"`, `{"trusted":true,"_type"`), codes(verdict.StatementParse)},
		{"F05 two subjects of one name", resealText(`"name":"`+otherBinary+`","digest"`, `"name":"`+binary+`","digest"`), codes(verdict.StatementParse)},
		{"F10 a subject without a strong digest", resealText(`"sha256"`, `"sha1"`), codes(verdict.StatementParse)},
		{"B01 a key twice", resealText(`"revision":1`, `"revision":1,"revision":2`), codes(verdict.StatementParse)},
		{"F06 a name outside of the place", func(t *testing.T, r *attacked) {
			r.reseal(t, func(m *manifest.Manifest) { entry(t, m, "lantern.spdx.json").Name = "../lantern.spdx.json" })
		}, codes(verdict.Path)},
	})
}

// TestGateAgainstItsOwnRelease: the release role itself signs a manifest that
// does not fit plan, provenance or evidence.
func TestGateAgainstItsOwnRelease(t *testing.T) {
	const spare = "spare.spdx.json"
	reattested := func(role string, edit func(*provenance.Provenance)) func(t *testing.T, r *attacked) {
		return func(t *testing.T, r *attacked) {
			r.reattest(t, role, compiled, edit)
			r.reseal(t, func(m *manifest.Manifest) { r.relist(t, m, compiled) })
		}
	}
	resealed := func(edit func(t *testing.T, r *attacked, m *manifest.Manifest)) func(t *testing.T, r *attacked) {
		return func(t *testing.T, r *attacked) { r.reseal(t, func(m *manifest.Manifest) { edit(t, r, m) }) }
	}
	replaced := func(name string, body func(t *testing.T, r *attacked) []byte) func(t *testing.T, r *attacked) {
		return func(t *testing.T, r *attacked) {
			r.write(t, name, body(t, r))
			r.reseal(t, func(m *manifest.Manifest) { r.relist(t, m, name) })
		}
	}
	exchanged := func(a, b string) func(t *testing.T, r *attacked) {
		return func(t *testing.T, r *attacked) {
			r.swap(t, a, b)
			r.reseal(t, func(m *manifest.Manifest) { r.relist(t, m, a, b) })
		}
	}
	// rewritten is listed, and said to be what was built from.
	rewritten := func(name string, body func(*testing.T, *attacked) []byte) func(*testing.T, *attacked) {
		return func(t *testing.T, r *attacked) {
			r.write(t, name, body(t, r))
			r.reseal(t, func(m *manifest.Manifest) {
				r.relist(t, m, name)
				said := map[string]*digest.Digest{plan.ConfigName: &m.Config, plan.LockName: &m.Lock}
				*said[name] = entry(t, m, name).Digests.SHA256
			})
		}
	}
	same := func(*provenance.Provenance) {}
	decide(t, []attack{
		{"attested again by the builder", reattested(lab.RoleBuilder, same), nil},
		{"more than planned", func(t *testing.T, r *attacked) {
			r.write(t, spare, []byte("{}"))
			r.reseal(t, func(m *manifest.Manifest) {
				a := *entry(t, m, "lantern.spdx.json")
				a.Name = spare
				m.Artifacts = append(m.Artifacts, a)
				r.relist(t, m, spare)
			})
		}, codes(verdict.PlanExtra)},
		{"F26 less than planned", func(t *testing.T, r *attacked) {
			r.remove(t, "lantern.spdx.json")
			r.reseal(t, func(m *manifest.Manifest) {
				drop(t, m, "lantern.spdx.json")
				r.relistSBOMs(t, m)
			})
		}, codes(verdict.PlanMissing)},
		{"a binary that calls itself an SBOM", resealed(func(t *testing.T, r *attacked, m *manifest.Manifest) {
			entry(t, m, binary).Class = plan.SBOM
			r.relistSBOMs(t, m)
		}), codes(verdict.PlanMissing)},
		{"no provenance named", resealed(func(t *testing.T, _ *attacked, m *manifest.Manifest) { entry(t, m, binary).Provenance = "" }), codes(verdict.NoProvenance)},
		{"unlisted provenance named", resealed(func(t *testing.T, _ *attacked, m *manifest.Manifest) { entry(t, m, binary).Provenance = "p.json" }), codes(verdict.NoProvenance)},
		{"another step's provenance named", resealed(func(t *testing.T, _ *attacked, m *manifest.Manifest) { entry(t, m, binary).Provenance = alsoBuilt }), codes(verdict.NoProvenance)},
		{"no signature named", resealed(func(t *testing.T, _ *attacked, m *manifest.Manifest) { entry(t, m, binary).Signature = "" }), codes(verdict.Unsigned)},
		{"the image's SBOM named for nothing", resealed(func(t *testing.T, _ *attacked, m *manifest.Manifest) { entry(t, m, imageName).SBOM = "" }), codes(verdict.NoSBOM)},
		{"no SBOM named", resealed(func(t *testing.T, _ *attacked, m *manifest.Manifest) { entry(t, m, binary).SBOM = "" }), codes(verdict.NoSBOM)},
		{"F22 two SBOMs exchanged", exchanged(plan.SBOMName(binary), plan.SBOMName(otherBinary)), codes(verdict.SBOMSubject)},
		{"F22 the SBOM of another thing for the image", exchanged(plan.SBOMName(imageName), "lantern.spdx.json"), codes(verdict.SBOMSubject)},
		{"an SBOM that is none", replaced(plan.SBOMName(binary), text("{}")), codes(verdict.NoSBOM)},
		{"signatures exchanged", exchanged(plan.BundleName(binary), plan.BundleName(otherBinary)), codes(verdict.NotBound)},
		{"a signature by the builder", replaced(plan.BundleName(binary), func(t *testing.T, r *attacked) []byte {
			return encode(t, r.author(t, lab.RoleBuilder).sign(t, blobOf(r.read(t, binary))))
		}), codes(verdict.IdentityRole)},
		{"a signature by a stranger", replaced(plan.BundleName(binary), func(t *testing.T, r *attacked) []byte {
			return encode(t, r.author(t, "mallory@evil.example").sign(t, blobOf(r.read(t, binary))))
		}), codes(verdict.Identity)},
		{"an attestation as a signature", replaced(plan.BundleName(binary), func(t *testing.T, r *attacked) []byte {
			return r.sign(t, lab.RoleRelease, statement())
		}), codes(verdict.MaterialKind)},
		{"a signature that is none", replaced(plan.BundleName(binary), text("signed")), codes(verdict.BundleParse)},
		{"unsigned sums", replaced(plan.BundleName("SHA256SUMS"), text("signed")), codes(verdict.BundleParse)},
		{"provenance by the release role", reattested(lab.RoleRelease, same), codes(verdict.IdentityRole)},
		{"provenance by a stranger", reattested("mallory@evil.example", same), codes(verdict.Identity)},
		{"F18 another builder", reattested(lab.RoleBuilder, func(p *provenance.Provenance) { p.RunDetails.Builder.ID = "https://evil.example/" }), codes(verdict.Builder)},
		{"F18 another build type", reattested(lab.RoleBuilder, func(p *provenance.Provenance) { p.BuildDefinition.BuildType = "https://evil.example/" }), codes(verdict.BuildType)},
		{"another repository", reattested(lab.RoleBuilder, func(p *provenance.Provenance) {
			p.BuildDefinition.ExternalParameters.Config.Repository = "git+https://evil.example/lantern"
		}), codes(verdict.SourceRepo)},
		{"F13 provenance of another version", reattested(lab.RoleBuilder, func(p *provenance.Provenance) {
			p.BuildDefinition.ExternalParameters.Version = "v0.0.9"
		}), codes(verdict.Version)},
		{"F17 provenance of another commit", reattested(lab.RoleBuilder, func(p *provenance.Provenance) {
			p.BuildDefinition.ResolvedDependencies[0].Digest = map[string]string{"gitCommit": "0000000000000000000000000000000000000000"}
		}), codes(verdict.SourceCommit)},
		{"F17 another commit in the manifest", resealed(func(_ *testing.T, _ *attacked, m *manifest.Manifest) {
			m.Source.Commit = "0000000000000000000000000000000000000000"
		}), codes(verdict.SourceCommit)},
		{"F16 provenance of another run", reattested(lab.RoleBuilder, func(p *provenance.Provenance) { p.RunDetails.Metadata.InvocationID = "another" }), codes(verdict.BuildMix)},
		{"a parameter that release.yaml does not declare", reattested(lab.RoleBuilder, func(p *provenance.Provenance) {
			p.BuildDefinition.ExternalParameters.Parameters = map[string]string{"tone": "cold"}
		}), codes(verdict.BuildMix, verdict.ManifestParse)},
		{"no run in the manifest", resealed(func(_ *testing.T, _ *attacked, m *manifest.Manifest) { m.Runs = nil }), codes(verdict.BuildMix)},
		{"provenance of other bytes", reattested(lab.RoleBuilder, func(p *provenance.Provenance) { p.Subjects[0].Digests = digest.SetOf(nil) }), codes(verdict.NotBound)},
		{"another configuration than the manifest's own", replaced(plan.ConfigName, gateConfig), codes(verdict.ManifestParse)},
		{"another configuration than was built from", rewritten(plan.ConfigName, gateConfig), codes(verdict.NotBound)},
		{"another lock than was built from", rewritten(plan.LockName, func(t *testing.T, r *attacked) []byte {
			return append(r.read(t, plan.LockName), '\n')
		}), codes(verdict.NotBound)},
		{"a lock that does not pin what was built on", rewritten(plan.LockName, func(t *testing.T, r *attacked) []byte {
			return bytes.Replace(r.read(t, plan.LockName), []byte("static"), []byte("debian"), 1)
		}), codes(verdict.LockStale, verdict.NotBound)},
		{"a lock that is none", rewritten(plan.LockName, text("kind: Poem\n")), codes(verdict.ManifestParse, verdict.NotBound)},
		{"a configuration that is none", rewritten(plan.ConfigName, text("kind: Poem\n")), codes(verdict.ManifestParse, verdict.NotBound)},
	})
}

// TestGateQuestions asks about a genuine release what it does not answer.
func TestGateQuestions(t *testing.T) {
	w := theWorld(t)
	r := w.attacked(t)
	expires := time.Now().Add(time.Hour).UTC()
	r.reseal(t, func(m *manifest.Manifest) { m.Expires = expires })
	other := must[version.Version](t)(version.Parse("v0.1.1"))
	rows := []struct {
		name  string
		edit  func(*gate.Request)
		codes []verdict.Code
	}{
		{"as it is", func(*gate.Request) {}, nil},
		{"just before it expires", func(q *gate.Request) { q.Now = expires }, nil},
		{"F15 just after it expired", func(q *gate.Request) { q.Now = expires.Add(time.Nanosecond) }, codes(verdict.Expired)},
		{"F13 another version", func(q *gate.Request) { q.Version = other }, codes(verdict.Version)},
		{"another canonical file place", func(q *gate.Request) { q.Canon.Files += "x/" }, codes(verdict.PlaceOther)},
		{"no canonical file place", func(q *gate.Request) { q.Canon.Files = "" }, codes(verdict.PlaceOther)},
		{"another canonical registry", func(q *gate.Request) { q.Canon.Images += "x" }, codes(verdict.PlaceOther)},
		{"no registry", func(q *gate.Request) { q.Images = nil }, codes(verdict.PlaceDown)},
		{"a policy that knows nobody", func(q *gate.Request) { q.Policy = policy.Policy{} }, codes("TRUST_LAB")},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) { refused(t, r.gate(t, row.edit).Err(), row.codes...) })
	}
}

// drop removes an entry.
func drop(t testing.TB, m *manifest.Manifest, name string) {
	t.Helper()
	var kept []manifest.Artifact
	for _, a := range m.Artifacts {
		if a.Name != name {
			kept = append(kept, a)
		}
	}
	if len(kept) != len(m.Artifacts)-1 {
		t.Fatalf("%s is not in the manifest", name)
	}
	m.Artifacts = kept
}

// resealText has the release role sign a manifest with one thing changed that
// no encoder of ours would write.
func resealText(old, with string) func(t *testing.T, r *attacked) {
	return func(t *testing.T, r *attacked) {
		raw := r.statement(t, releasemanifest.Name).Raw()
		r.write(t, releasemanifest.Name, r.sign(t, lab.RoleRelease, replaceOne(t, raw, old, with)))
	}
}

func text(body string) func(*testing.T, *attacked) []byte {
	return func(*testing.T, *attacked) []byte { return []byte(body) }
}

// config is a configuration of the same plan and other bytes.
func gateConfig(t *testing.T, r *attacked) []byte {
	return append(r.read(t, plan.ConfigName), []byte("# a comment\n")...)
}
