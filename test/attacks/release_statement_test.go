package attacks

import (
	"context"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	releasemanifest "github.com/waybill-release/waybill/attestations/release-manifest/v1"
	"github.com/waybill-release/waybill/pkg/pipeline"
	"github.com/waybill-release/waybill/pkg/release/manifest"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
	"github.com/waybill-release/waybill/test/lab"
)

// inTotoFile is the statement for readers of in-toto, in releases that have one.
const inTotoFile = "lantern.release.sigstore.json"

// withStatement is a world whose project has a statement for readers of in-toto.
func withStatement(t testing.TB) *world {
	t.Helper()
	w := theWorld(t)
	const uri = `"https://dl.example.test/lantern/{version}/"`
	repo := w.project(t, "files: "+uri, "files: {uri: "+uri+", statement: "+inTotoFile+"}")
	other := *w
	other.profile.Policy = w.policy(t, w.Repository(), "git+file://"+repo)
	state := filepath.Join(t.TempDir(), "sealed")
	other.sealed = sync.OnceValues(func() (string, error) {
		p, err := other.pipeline(state, func(c *pipeline.Config) { c.Source.Repository = repo })
		if err != nil {
			return "", err
		}
		for _, stage := range []func(context.Context) error{p.Build, p.SBOM, p.Sign, p.Seal} {
			if err := stage(t.Context()); err != nil {
				return "", err
			}
		}
		return state, nil
	})
	return &other
}

// TestStatementOfTheRelease: the release role seals a genuine bundle as the
// statement for readers of in-toto. It is accepted only if the release role
// signed in it what the manifest says.
func TestStatementOfTheRelease(t *testing.T) {
	w := withStatement(t)
	says := func(role string, edit func(text string) string) func(testing.TB, *attacked) []byte {
		return func(t testing.TB, r *attacked) []byte {
			genuine := string(r.statement(t, inTotoFile).Raw())
			edited := edit(genuine)
			if role == lab.RoleRelease && edited == genuine {
				t.Fatal("nothing was changed")
			}
			return r.sign(t, role, []byte(edited))
		}
	}
	replace := func(old, with string) func(string) string {
		return func(text string) string { return strings.Replace(text, old, with, 1) }
	}
	same := func(text string) string { return text }
	for _, row := range []struct {
		name   string
		bundle func(testing.TB, *attacked) []byte
		codes  []verdict.Code
	}{
		{"as it was sealed", func(t testing.TB, r *attacked) []byte { return r.read(t, inTotoFile) }, nil},
		{"signed again by the release role", func(t testing.TB, r *attacked) []byte {
			return r.sign(t, lab.RoleRelease, r.statement(t, inTotoFile).Raw())
		}, nil},
		{"another digest of one file", func(t testing.TB, r *attacked) []byte {
			was, is := digest.SetOf(r.read(t, binary)), digest.SetOf([]byte("evil"))
			return says(lab.RoleRelease, replace(was.SHA256.Hex(), is.SHA256.Hex()))(t, r)
		}, codes(verdict.Conflict)},
		{"another name of one file", says(lab.RoleRelease, replace(`"`+binary+`"`, `"bin/linux/amd64/candle"`)), codes(verdict.Conflict)},
		{"another version", says(lab.RoleRelease, replace("pkg:generic/lantern@"+w.version.String(), "pkg:generic/lantern@v9.9.9")), codes(verdict.Conflict)},
		{"signed by the builder", says(lab.RoleBuilder, same), codes(verdict.IdentityRole)},
		{"signed by the verifier", says(lab.RoleVerifier, same), codes(verdict.IdentityRole)},
		{"signed by a stranger", says("mallory@evil.example", same), codes(verdict.Identity)},
		{"the manifest in its place", func(t testing.TB, r *attacked) []byte { return r.read(t, releasemanifest.Name) }, codes(verdict.PredicateType)},
		{"provenance in its place", func(t testing.TB, r *attacked) []byte { return r.read(t, compiled) }, codes(verdict.PredicateType)},
		{"a signature in its place", func(t testing.TB, r *attacked) []byte { return r.read(t, binary+".sigstore.json") }, codes(verdict.MaterialKind)},
		{"no bundle", func(testing.TB, *attacked) []byte { return []byte("nonsense") }, codes(verdict.BundleParse)},
	} {
		t.Run(row.name, func(t *testing.T) {
			r := w.attacked(t)
			r.write(t, inTotoFile, row.bundle(t, r))
			r.reseal(t, func(m *manifest.Manifest) { r.relist(t, m, inTotoFile) })
			v := r.gate(t)
			if len(row.codes) > 0 {
				refused(t, v.Err(), row.codes...)
				return
			}
			accepted(t, v.Err())
			if !v.Complete() {
				t.Errorf("headline %q", v.Headline())
			}
		})
	}
}
