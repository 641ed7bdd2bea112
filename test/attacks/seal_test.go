package attacks

import (
	"context"
	"maps"
	"os"
	"path/filepath"
	"testing"

	releasemanifest "github.com/waybill-release/waybill/attestations/release-manifest/v1"
	"github.com/waybill-release/waybill/pkg/document/intoto"
	"github.com/waybill-release/waybill/pkg/document/provenance"
	"github.com/waybill-release/waybill/pkg/pipeline"
	"github.com/waybill-release/waybill/pkg/produce/sign/token"
	"github.com/waybill-release/waybill/pkg/release/manifest"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
	"github.com/waybill-release/waybill/test/lab"
)

// again runs the two stages that sign on a workspace.
func (r *attacked) again(t testing.TB, edits ...func(*pipeline.Config)) (sign, seal error) {
	t.Helper()
	p := must[*pipeline.Pipeline](t)(r.pipeline(r.dir, edits...))
	return p.Sign(t.Context()), p.Seal(t.Context())
}

// TestSealSignsOnlyWhatWasPlannedAndProven changes the workspace between build
// and seal. Both stages refuse, and nothing is signed.
func TestSealSignsOnlyWhatWasPlannedAndProven(t *testing.T) {
	w := theWorld(t)
	untouched := w.attacked(t)
	sign, seal := untouched.again(t)
	accepted(t, sign)
	accepted(t, seal)
	elsewhere := w.Path("another-run")
	must[string](t)(w.seal(elsewhere))
	rows := []struct {
		name   string
		change func(t *testing.T, r *attacked)
		codes  []verdict.Code
	}{
		{"F30 a file that nobody planned", func(t *testing.T, r *attacked) { r.write(t, "bin/linux/amd64/helper", []byte("x")) }, []verdict.Code{verdict.SealExtra}},
		{"a file under the name of an image", func(t *testing.T, r *attacked) { r.write(t, imageName, []byte("x")) }, []verdict.Code{verdict.SealExtra}},
		{"F01 no file", func(t *testing.T, r *attacked) { r.remove(t, binary) }, []verdict.Code{verdict.SealMissing}},
		{"no SBOM", func(t *testing.T, r *attacked) { r.remove(t, binary+".spdx.json") }, []verdict.Code{verdict.SealMissing}},
		{"no configuration", func(t *testing.T, r *attacked) { r.remove(t, "release.yaml") }, []verdict.Code{verdict.SealMissing}},
		{"no provenance", func(t *testing.T, r *attacked) { r.remove(t, compiled) }, []verdict.Code{verdict.SealMissing}},
		{"F08 a file changed after the build", func(t *testing.T, r *attacked) { r.flip(t, binary) }, []verdict.Code{verdict.NotBound}},
		{"F04 two files exchanged after the build", func(t *testing.T, r *attacked) { r.swap(t, binary, otherBinary) }, []verdict.Code{verdict.NotBound}},
		{"the configuration changed after the build", func(t *testing.T, r *attacked) {
			r.write(t, "release.yaml", append(r.read(t, "release.yaml"), '\n'))
		}, []verdict.Code{verdict.NotBound}},
		{"the lock changed after the build", func(t *testing.T, r *attacked) {
			r.write(t, "release.lock.yaml", append(r.read(t, "release.lock.yaml"), '\n'))
		}, []verdict.Code{verdict.NotBound}},
		{"F07 a symbolic link", func(t *testing.T, r *attacked) {
			r.remove(t, binary)
			if err := os.Symlink("/etc/passwd", r.path(binary)); err != nil {
				t.Fatal(err)
			}
		}, []verdict.Code{verdict.FileType}},
		{"F16 provenance of another run", func(t *testing.T, r *attacked) {
			r.write(t, compiled, must[[]byte](t)(os.ReadFile(filepath.Join(elsewhere, "files", compiled))))
		}, []verdict.Code{verdict.BuildMix}},
		{"F17 provenance of another commit", func(t *testing.T, r *attacked) {
			r.reattest(t, lab.RoleBuilder, compiled, func(p *provenance.Provenance) {
				p.BuildDefinition.ResolvedDependencies[0].Digest = map[string]string{"gitCommit": "0000000000000000000000000000000000000000"}
			})
		}, []verdict.Code{verdict.SourceCommit}},
		{"F19 provenance of no commit", func(t *testing.T, r *attacked) {
			r.reattest(t, lab.RoleBuilder, compiled, func(p *provenance.Provenance) {
				p.BuildDefinition.ResolvedDependencies = p.BuildDefinition.ResolvedDependencies[1:]
			})
		}, []verdict.Code{verdict.SourceCommit}},
		{"provenance by the release role", func(t *testing.T, r *attacked) {
			r.reattest(t, lab.RoleRelease, compiled, func(*provenance.Provenance) {})
		}, []verdict.Code{verdict.IdentityRole}},
		{"provenance by a stranger", func(t *testing.T, r *attacked) {
			r.reattest(t, "mallory@evil.example", compiled, func(*provenance.Provenance) {})
		}, []verdict.Code{verdict.Identity}},
		{"provenance that nobody signed", func(t *testing.T, r *attacked) {
			r.write(t, compiled, r.statement(t, compiled).Raw())
		}, []verdict.Code{verdict.BundleParse}},
		{"provenance of another step", func(t *testing.T, r *attacked) { r.swap(t, compiled, alsoBuilt) }, []verdict.Code{verdict.SealExtra}},
		{"provenance that vouches for more", func(t *testing.T, r *attacked) {
			r.reattest(t, lab.RoleBuilder, compiled, func(p *provenance.Provenance) {
				p.Subjects = append(p.Subjects, intoto.Subject{Name: "helper", Digests: p.Subjects[0].Digests})
			})
		}, []verdict.Code{verdict.SealExtra}},
		{"provenance that vouches for the other name", func(t *testing.T, r *attacked) {
			r.reattest(t, lab.RoleBuilder, compiled, func(p *provenance.Provenance) { p.Subjects[0].Name = otherBinary })
		}, []verdict.Code{verdict.SealExtra}},
		{"a signed statement in provenance's place", func(t *testing.T, r *attacked) {
			r.write(t, compiled, r.sign(t, lab.RoleBuilder, statement()))
		}, []verdict.Code{verdict.PredicateType}},
		{"A19 a file that is an envelope's encoding", func(t *testing.T, r *attacked) {
			r.write(t, packed, envelope(r.statement(t, releasemanifest.Name).Raw()).PreAuthEncoding())
			r.reattest(t, lab.RoleBuilder, archived, func(p *provenance.Provenance) { p.Subjects[0].Digests = digest.SetOf(r.read(t, packed)) })
		}, []verdict.Code{verdict.MaterialKind}},
		{"an archive of other bytes than the release has", func(t *testing.T, r *attacked) {
			r.reattest(t, lab.RoleBuilder, archived, func(p *provenance.Provenance) {
				for i, d := range p.BuildDefinition.ResolvedDependencies {
					if d.Name == binary {
						p.BuildDefinition.ResolvedDependencies[i] = provenance.File(binary, digest.SetOf([]byte("another build")))
					}
				}
			})
		}, []verdict.Code{verdict.BuildMix}},
	}
	for _, r := range rows {
		t.Run(r.name, func(t *testing.T) {
			victim := w.attacked(t)
			r.change(t, victim)
			before := bytesOf(t, victim.dir)
			sign, seal := victim.again(t)
			refused(t, sign, r.codes...)
			refused(t, seal, r.codes...)
			if after := bytesOf(t, victim.dir); !maps.Equal(before, after) {
				t.Error("something was written all the same")
			}
		})
	}
}

// archived is the provenance of an archive, of which nothing else is made.
const archived = "provenance/pack-linux-amd64.sigstore.json"

// TestSealOfImages does the same to the image layout.
func TestSealOfImages(t *testing.T) {
	w := theWorld(t)
	rows := []struct {
		name   string
		change func(t *testing.T, r *attacked)
		sign   []verdict.Code
		seal   []verdict.Code
	}{
		{"untouched", func(*testing.T, *attacked) {}, nil, nil},
		{"no layout", func(t *testing.T, r *attacked) { os.RemoveAll(filepath.Join(r.dir, "images")) }, codes(verdict.SealMissing), codes(verdict.SealMissing)},
		{"no platform's manifest", func(t *testing.T, r *attacked) { os.Remove(r.blob(r.graph(t).Children[0].Descriptor.Digest)) }, codes(verdict.Missing), codes(verdict.Missing)},
		{"a changed manifest", func(t *testing.T, r *attacked) {
			path := r.blob(r.graph(t).Children[0].Descriptor.Digest)
			body := must[[]byte](t)(os.ReadFile(path))
			body[len(body)/2] ^= 1
			if err := os.WriteFile(path, body, 0o644); err != nil {
				t.Fatal(err)
			}
		}, codes(verdict.Tampered), codes(verdict.Tampered)},
		{"another image under the tag", func(t *testing.T, r *attacked) {
			if err := r.images.Tag(t.Context(), repository, r.version.String(), r.graph(t).Children[0].Descriptor); err != nil {
				t.Fatal(err)
			}
		}, codes(verdict.NotBound), codes(verdict.NotBound, verdict.SealMissing)},
	}
	for _, r := range rows {
		t.Run(r.name, func(t *testing.T) {
			victim := w.attacked(t)
			r.change(t, victim)
			sign, seal := victim.again(t)
			refused(t, sign, r.sign...)
			refused(t, seal, r.seal...)
		})
	}
}

// TestSealAgain: a manifest that somebody left in the workspace counts as
// sealed only if the release role signed it and it says what would be sealed.
func TestSealAgain(t *testing.T) {
	w := theWorld(t)
	rows := []struct {
		name   string
		change func(t *testing.T, r *attacked)
		again  bool
	}{
		{"untouched", func(*testing.T, *attacked) {}, false},
		{"signed by a stranger", func(t *testing.T, r *attacked) {
			r.write(t, releasemanifest.Name, r.sign(t, "mallory@evil.example", r.statement(t, releasemanifest.Name).Raw()))
		}, true},
		{"signed by the builder", func(t *testing.T, r *attacked) {
			r.write(t, releasemanifest.Name, r.sign(t, lab.RoleBuilder, r.statement(t, releasemanifest.Name).Raw()))
		}, true},
		{"of another place", func(t *testing.T, r *attacked) {
			r.reseal(t, func(m *manifest.Manifest) { m.FilesURI = "https://evil.example/" })
		}, true},
		{"naming other provenance", func(t *testing.T, r *attacked) {
			r.reseal(t, func(m *manifest.Manifest) { entry(t, m, binary).Provenance = alsoBuilt })
		}, true},
		{"naming another signature of the image", func(t *testing.T, r *attacked) {
			r.reseal(t, func(m *manifest.Manifest) { entry(t, m, imageName).Signature = digest.Of(digest.SHA256, nil).String() })
		}, true},
	}
	for _, r := range rows {
		t.Run(r.name, func(t *testing.T) {
			victim := w.attacked(t)
			r.change(t, victim)
			before := bytesOf(t, victim.dir)["files/"+releasemanifest.Name]
			sign, seal := victim.again(t)
			accepted(t, sign)
			accepted(t, seal)
			if sealed := bytesOf(t, victim.dir)["files/"+releasemanifest.Name] != before; sealed != r.again {
				t.Errorf("sealed again: %t, want %t", sealed, r.again)
			}
			accepted(t, victim.gate(t).Err())
		})
	}
}

// TestSealAsSomebodyElse: a genuine token of another role seals nothing.
func TestSealAsSomebodyElse(t *testing.T) {
	w := theWorld(t)
	r := w.attacked(t)
	r.remove(t, releasemanifest.Name)
	before := bytesOf(t, r.dir)
	as := func(role string) func(*pipeline.Config) {
		return func(c *pipeline.Config) {
			c.Tokens = map[string]token.Source{pipeline.TokenRelease: token.File(w.Path(role + ".token"))}
		}
	}
	for _, role := range []string{lab.RoleBuilder, lab.RoleVerifier} {
		p := must[*pipeline.Pipeline](t)(w.pipeline(r.dir, as(role)))
		refused(t, p.Seal(context.Background()), verdict.SignedAsElse)
	}
	p := must[*pipeline.Pipeline](t)(w.pipeline(r.dir, func(c *pipeline.Config) { c.Tokens = nil }))
	refused(t, p.Seal(context.Background()), verdict.Usage)
	if !maps.Equal(before, bytesOf(t, r.dir)) {
		t.Error("something was written all the same")
	}
	p = must[*pipeline.Pipeline](t)(w.pipeline(r.dir, as(lab.RoleRelease)))
	accepted(t, p.Seal(context.Background()))
}

func codes(list ...verdict.Code) []verdict.Code { return list }
