package attacks

import (
	"context"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	releasemanifest "github.com/waybill-release/waybill/attestations/release-manifest/v1"
	"github.com/waybill-release/waybill/pkg/pipeline"
	"github.com/waybill-release/waybill/pkg/release/manifest"
	"github.com/waybill-release/waybill/pkg/release/plan"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/identity"
	"github.com/waybill-release/waybill/pkg/value/verdict"
	"github.com/waybill-release/waybill/test/lab"
)

// The files about the whole release for other readers, in releases that have them.
const (
	inTotoFile   = "lantern.release.sigstore.json"
	packslipFile = "packslip.sigstore.json"
	linesFile    = "lantern.intoto.jsonl"
)

// withStatement is a world whose project has the files for other readers.
func withStatement(t testing.TB) *world {
	t.Helper()
	w := theWorld(t)
	const uri = `"https://dl.example.test/lantern/{version}/"`
	repo := w.project(t, "files: "+uri, "files: {uri: "+uri+", statement: "+inTotoFile+", alsoFor: [packslip, scorecard]}")
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
		{"of the older version, as earlier releases have it", says(lab.RoleRelease, replace("/release/v0.2", "/release/v0.1")), nil},
		{"of a version that is unknown", says(lab.RoleRelease, replace("/release/v0.2", "/release/v0.3")), codes(verdict.PredicateType)},
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
			w.otherReader(t, inTotoFile, row.bundle, row.codes...)
		})
	}
}

// otherReader seals other content of a file for other readers, and judges.
func (w *world) otherReader(t *testing.T, file string, content func(testing.TB, *attacked) []byte, codes ...verdict.Code) {
	t.Helper()
	r := w.attacked(t)
	r.write(t, file, content(t, r))
	r.reseal(t, func(m *manifest.Manifest) {
		r.relist(t, m, file)
		if file != inTotoFile { // which lists this file
			s, err := m.ForReaders(plan.Plan{}, plan.Artifact{Name: inTotoFile}, r.statement(t, inTotoFile), identity.Identity{})
			if err != nil {
				t.Fatal(err)
			}
			r.write(t, inTotoFile, r.sign(t, lab.RoleRelease, s.Raw()))
			r.relist(t, m, inTotoFile)
		}
	})
	v := r.gate(t)
	if len(codes) > 0 {
		refused(t, v.Err(), codes...)
		return
	}
	accepted(t, v.Err())
	if !v.Complete() {
		t.Errorf("headline %q", v.Headline())
	}
}

// TestFilesForOtherReaders: the release role seals a packslip, or a file with the
// provenance of all steps, that says something else than the manifest.
func TestFilesForOtherReaders(t *testing.T) {
	w := withStatement(t)
	slip := func(role, old, with string) func(testing.TB, *attacked) []byte {
		return func(t testing.TB, r *attacked) []byte {
			genuine := string(r.statement(t, packslipFile).Raw())
			if !strings.Contains(genuine, old) {
				t.Fatalf("no %s in %s", old, genuine)
			}
			return r.sign(t, role, []byte(strings.Replace(genuine, old, with, 1)))
		}
	}
	lines := func(edit func(lines []string) []string) func(testing.TB, *attacked) []byte {
		return func(t testing.TB, r *attacked) []byte {
			return []byte(strings.Join(edit(strings.Split(strings.TrimSuffix(string(r.read(t, linesFile)), "\n"), "\n")), "\n") + "\n")
		}
	}
	for _, row := range []struct {
		name, file string
		content    func(testing.TB, *attacked) []byte
		codes      []verdict.Code
	}{
		{"packslip/signed again by the release role", packslipFile, slip(lab.RoleRelease, "", ""), nil},
		{"packslip/made before", packslipFile, func(t testing.TB, r *attacked) []byte {
			at := regexp.MustCompile(`"published_at":"[^"]*"`)
			return r.sign(t, lab.RoleRelease, at.ReplaceAll(r.statement(t, packslipFile).Raw(), []byte(`"published_at":"2020-01-01T00:00:00Z"`)))
		}, nil},
		{"packslip/made after the seal", packslipFile, func(t testing.TB, r *attacked) []byte {
			at := regexp.MustCompile(`"published_at":"[^"]*"`)
			return r.sign(t, lab.RoleRelease, at.ReplaceAll(r.statement(t, packslipFile).Raw(), []byte(`"published_at":"2120-01-01T00:00:00Z"`)))
		}, codes(verdict.Conflict)},
		{"packslip/another digest of one file", packslipFile, func(t testing.TB, r *attacked) []byte {
			was, is := digest.SetOf(r.read(t, binary)), digest.SetOf([]byte("evil"))
			return slip(lab.RoleRelease, was.SHA256.Hex(), is.SHA256.Hex())(t, r)
		}, codes(verdict.Conflict)},
		{"packslip/another address of one file", packslipFile, slip(lab.RoleRelease, `"url":"https://dl.example.test/`, `"url":"https://evil.example.test/`), codes(verdict.Conflict)},
		{"packslip/another project", packslipFile, slip(lab.RoleRelease, `"project":"example.test/lantern"`, `"project":"example.test/candle"`), codes(verdict.Conflict)},
		{"packslip/another version", packslipFile, slip(lab.RoleRelease, `"version":"`, `"version":"9`), codes(verdict.Conflict)},
		{"packslip/another signer than it names", packslipFile, slip(lab.RoleRelease, `"key_id":"`, `"key_id":"x`), codes(verdict.Conflict)},
		{"packslip/signed by the builder", packslipFile, slip(lab.RoleBuilder, "", ""), codes(verdict.IdentityRole)},
		{"packslip/signed by a stranger", packslipFile, slip("mallory@evil.example", "", ""), codes(verdict.Identity)},
		{"packslip/the in-toto statement in its place", packslipFile, func(t testing.TB, r *attacked) []byte { return r.read(t, inTotoFile) }, codes(verdict.PredicateType)},
		{"lines/as they are", linesFile, lines(func(l []string) []string { return l }), nil},
		{"lines/one less", linesFile, lines(func(l []string) []string { return l[1:] }), codes(verdict.Conflict)},
		{"lines/the last missing", linesFile, lines(func(l []string) []string { return l[:len(l)-1] }), codes(verdict.Conflict)},
		{"lines/one twice", linesFile, lines(func(l []string) []string { return append(l, l[0]) }), codes(verdict.Conflict)},
		{"lines/one changed", linesFile, lines(func(l []string) []string { return append([]string{l[0] + " "}, l[1:]...) }), codes(verdict.Conflict)},
		{"lines/empty", linesFile, func(testing.TB, *attacked) []byte { return nil }, codes(verdict.Conflict)},
	} {
		t.Run(row.name, func(t *testing.T) { w.otherReader(t, row.file, row.content, row.codes...) })
	}
}
