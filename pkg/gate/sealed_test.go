package gate

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/waybill-release/waybill/pkg/backend/registry"
	"github.com/waybill-release/waybill/pkg/backend/store"
	"github.com/waybill-release/waybill/pkg/document/provenance"
	"github.com/waybill-release/waybill/pkg/judge/policy"
	"github.com/waybill-release/waybill/pkg/judge/sbomcheck"
	"github.com/waybill-release/waybill/pkg/judge/slsa"
	"github.com/waybill-release/waybill/pkg/judge/verify"
	"github.com/waybill-release/waybill/pkg/release/manifest"
	"github.com/waybill-release/waybill/pkg/release/plan"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
	"github.com/waybill-release/waybill/pkg/value/version"
)

func versionOf(t *testing.T, text string) version.Version {
	t.Helper()
	v, err := version.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// differing are the codes of the differences that count.
func differing(f facts) (all []verdict.Code) {
	for _, d := range f.differences {
		if d.mode != policy.Off {
			all = append(all, d.Code)
		}
	}
	return all
}

// oneFile is a release of one file, which its place has. The file's SHA-512 digest
// in the manifest is that of another text.
func oneFile(t *testing.T, p policy.Policy, name, text, other string) *sealed {
	t.Helper()
	dir := t.TempDir()
	files, err := store.Open(dir, nil)
	if err := errors.Join(err, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600)); err != nil {
		t.Fatal(err)
	}
	a := manifest.Artifact{Artifact: plan.Artifact{Name: name, Class: plan.Binary}, Digests: digest.SetOf([]byte(text)), Size: int64(len(text))}
	a.Digests.SHA512 = digest.SetOf([]byte(other)).SHA512
	s := &sealed{Request: Request{Policy: p, Stage: policy.Published, Files: files, Version: versionOf(t, "v1.2.0")}}
	s.manifest.Version, s.manifest.Artifacts = s.Version, []manifest.Artifact{a}
	return s
}

// unlisted is a place that does not say what it has.
type unlisted struct{ store.Place }

func (unlisted) List(context.Context) ([]store.Object, error) { return nil, store.ErrNotListable }

// TestFilesOfARelease: files are compared by SHA-256 alone, at staging by all
// digests, and a place that cannot be listed cannot be searched for extra files.
func TestFilesOfARelease(t *testing.T) {
	open := validBut(t, "files: require", "files: warn")
	for name, row := range map[string]struct {
		change func(*sealed)
		want   []verdict.Code
		left   bool
	}{
		"all the same":    {func(*sealed) {}, nil, false},
		"another SHA-512": {func(s *sealed) { s.manifest.Artifacts[0].Digests.SHA512 = digest.SetOf(nil).SHA512 }, nil, false},
		"another SHA-512, at staging": {func(s *sealed) {
			s.Stage, s.manifest.Artifacts[0].Digests.SHA512 = policy.Staging, digest.SetOf(nil).SHA512
		}, []verdict.Code{verdict.Tampered}, false},
		"another SHA-256":              {func(s *sealed) { s.manifest.Artifacts[0].Digests.SHA256 = digest.SetOf(nil).SHA256 }, []verdict.Code{verdict.Tampered}, false},
		"nothing can be listed":        {func(s *sealed) { s.Files = unlisted{s.Files} }, nil, true},
		"it must be, for this policy":  {func(s *sealed) { s.Files, s.Policy = unlisted{s.Files}, validBut(t) }, []verdict.Code{"NOT_LISTABLE"}, true},
		"the file was not asked about": {func(s *sealed) { s.asked = map[string]bool{"b": true} }, nil, false},
	} {
		s := oneFile(t, open, "a", "alpha", "alpha")
		row.change(s)
		_, f := s.checkFiles(t.Context())
		if got := differing(f); !slices.Equal(got, row.want) {
			t.Errorf("%s: %v, want %v", name, f.differences, row.want)
		}
		if !slices.Contains(f.inputs, verdict.Input{Name: "files", Place: s.Files.URI()}) {
			t.Errorf("%s: inputs %v", name, f.inputs)
		}
		if left := slices.Contains(f.left, "search for extra files (the place cannot be listed)"); left != row.left {
			t.Errorf("%s: it leaves out %q", name, f.left)
		}
	}
}

// TestDecideOfFiles: what the place lacks or changed refuses the release, also where
// nothing but the bytes of files is asked about.
func TestDecideOfFiles(t *testing.T) {
	for text, want := range map[string][]verdict.Code{"alpha": nil, "": {verdict.Missing}, "other": {verdict.Tampered}} {
		whole := oneFile(t, validBut(t), "a", "alpha", "alpha")
		dir := t.TempDir()
		files, err := store.Open(dir, nil)
		if text != "" {
			err = errors.Join(err, os.WriteFile(filepath.Join(dir, "a"), []byte(text), 0o600))
		}
		if err != nil {
			t.Fatal(err)
		}
		whole.Files, whole.Verifier, whole.Options.Scope.Depth = files, &verify.Verifier{}, OnlyFiles
		s, _, err := narrow(t.Context(), whole.Request, whole.manifest)
		if err != nil {
			t.Fatal(err)
		}
		j := s.terms().begin("q")
		s.decide(t.Context(), j)
		if got := codesOf(j.v.Findings); !slices.Equal(got, want) {
			t.Errorf("%q: %v, want %v", text, j.v.Findings, want)
		}
	}
}

// TestManifestOfAnother: a manifest is for the version that is asked for, and a
// finding says which is wanted.
func TestManifestOfAnother(t *testing.T) {
	of := signedManifest{Manifest: manifest.Manifest{Version: versionOf(t, "v1.2.0"), FilesURI: "https://dl.example.test/"}}
	for name, row := range map[string]struct {
		version, place string
		want           verdict.Finding
	}{
		"its own":         {"v1.2.0", "https://dl.example.test/", verdict.Finding{}},
		"another version": {"v1.3.0", "https://dl.example.test/", verdict.Finding{Code: verdict.Version, Want: "v1.3.0", Got: "v1.2.0"}},
		"another place":   {"v1.2.0", "https://other.example.test/", verdict.Finding{Code: verdict.PlaceOther, Want: "https://other.example.test/", Got: "https://dl.example.test/"}},
	} {
		err := of.isOf(Request{Version: versionOf(t, row.version), Canon: Canonical{Files: row.place}})
		if (err != nil) != (row.want.Code != "") {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if f := verdict.FindingOf("", err); err != nil && (f.Code != row.want.Code || f.Want != row.want.Want || f.Got != row.want.Got) {
			t.Errorf("%s: %+v", name, f)
		}
	}
}

// TestCountedInScope: a verdict counts what is in scope.
func TestCountedInScope(t *testing.T) {
	s := &sealed{}
	s.manifest.Artifacts = []manifest.Artifact{{Artifact: plan.Artifact{Name: "a"}}, {Artifact: plan.Artifact{Name: "b"}}}
	for want, asked := range map[string]map[string]bool{"a b": nil, "b": {"b": true}} {
		s.asked = asked
		var names []string
		for c := range s.counted() {
			names = append(names, c.name)
		}
		if got := strings.Join(names, " "); got != want {
			t.Errorf("%v: %q, want %q", asked, got, want)
		}
	}
}

// TestPlanThatDoesNotParse is the one finding about a release.yaml.
func TestPlanThatDoesNotParse(t *testing.T) {
	s := oneFile(t, validBut(t), plan.ConfigName, "nonsense: true\n", "nonsense: true\n")
	_, f := s.checkPlan(t.Context(), nil)
	if got := differing(f); !slices.Equal(got, []verdict.Code{verdict.ManifestParse}) || !strings.Contains(f.differences[0].Message, "does not parse") {
		t.Errorf("%v", f.differences)
	}
}

// built is a provenance with parameters of the release of [TestSaidOfABuild].
func built(change func(*provenance.Predicate)) provenance.Provenance {
	p := provenance.Provenance{Predicate: provenance.Predicate{
		BuildDefinition: provenance.BuildDefinition{
			BuildType: provenance.BuildType,
			ExternalParameters: provenance.ExternalParameters{
				Config:  provenance.Config{Repository: "https://example.test/lantern", Ref: "refs/tags/v1.2.0", Path: plan.ConfigName, SHA256: digest.SetOf([]byte("config")).SHA256.Hex()},
				Version: "v1.2.0", Step: "compile", Parameters: map[string]string{"race": "true"},
			},
			ResolvedDependencies: []provenance.Resource{
				provenance.Commit("https://example.test/lantern", "refs/tags/v1.2.0", strings.Repeat("c", 40), strings.Repeat("d", 40)),
				provenance.File(plan.LockName, digest.SetOf([]byte("lock"))),
				provenance.File("a", digest.SetOf([]byte("alpha"))), provenance.File("downloaded", digest.SetOf([]byte("other"))),
			},
		},
		RunDetails: provenance.RunDetails{Builder: provenance.BuilderID{ID: provenance.BuilderIsolated}, Metadata: provenance.Metadata{InvocationID: "run-1"}},
	}}
	change(&p.Predicate)
	return p
}

// TestSaidOfABuild: provenance names the source, the lock, the run and the artifacts
// of the release; each row differs in one of these.
func TestSaidOfABuild(t *testing.T) {
	m := signedManifest{Manifest: manifest.Manifest{
		Version: versionOf(t, "v1.2.0"), Source: manifest.Source{Repository: "https://example.test/lantern", Ref: "refs/tags/v1.2.0", Commit: strings.Repeat("c", 40)},
		Config: digest.SetOf([]byte("config")).SHA256, Lock: digest.SetOf([]byte("lock")).SHA256, Runs: []manifest.Run{{ID: "run-1"}},
		Artifacts: []manifest.Artifact{{Artifact: plan.Artifact{Name: "a"}, Provenance: "by", Digests: digest.SetOf([]byte("alpha"))}},
	}}
	for name, row := range map[string]struct {
		change func(*provenance.Predicate)
		want   verdict.Code
	}{
		"the same (twin)": {func(*provenance.Predicate) {}, ""},
		"another version": {func(p *provenance.Predicate) { p.BuildDefinition.ExternalParameters.Version = "v1.3.0" }, verdict.Version},
		"another config":  {func(p *provenance.Predicate) { p.BuildDefinition.ExternalParameters.Config.SHA256 = "00" }, verdict.NotBound},
		"another lock": {func(p *provenance.Predicate) {
			p.BuildDefinition.ResolvedDependencies[1] = provenance.File(plan.LockName, digest.SetOf(nil))
		}, verdict.NotBound},
		"another run": {func(p *provenance.Predicate) { p.RunDetails.Metadata.InvocationID = "run-2" }, verdict.BuildMix},
		"another artifact": {func(p *provenance.Predicate) {
			p.BuildDefinition.ResolvedDependencies[2] = provenance.File("a", digest.SetOf(nil))
		}, verdict.BuildMix},
	} {
		err := m.checkSaid("by", verify.Evidence{}, built(row.change))
		if (err != nil) != (row.want != "") || err != nil && verdict.FindingOf("", err).Code != row.want {
			t.Errorf("%s: %v, want %q", name, err, row.want)
		}
	}
}

// TestParametersOfABuild: all provenances of a release name the same parameters,
// with which its release.yaml is expanded.
func TestParametersOfABuild(t *testing.T) {
	for other, want := range map[string]int{"true": 0, "false": 1} {
		s := &sealed{builds: provenances{}}
		for name, value := range map[string]string{"one": "true", "two": other} {
			raw, err := json.Marshal(built(func(p *provenance.Predicate) { p.BuildDefinition.ExternalParameters.Parameters["race"] = value }).Predicate)
			if err != nil {
				t.Fatal(err)
			}
			e := keyed(t, provenance.PredicateType, string(raw))
			s.builds[name] = func() attested { return attested{evidence: e} }
		}
		s.manifest.Artifacts = []manifest.Artifact{{Artifact: plan.Artifact{Name: "one", Class: plan.Provenance}}, {Artifact: plan.Artifact{Name: "two", Class: plan.Provenance}}}
		chosen, mixed := s.parameters(nil)
		if chosen["race"] != "true" || len(mixed) != want || want > 0 && (mixed[0].Code != verdict.BuildMix || mixed[0].Subject != "two") {
			t.Errorf("%s: %v, %v", other, chosen, mixed)
		}
	}
}

// TestRefusedProvenanceIsReportedOnce: what the provenance lacks is not reported for
// each artifact that uses it.
func TestRefusedProvenanceIsReportedOnce(t *testing.T) {
	for name, row := range map[string]struct {
		of   attested
		want verdict.Code
	}{
		"its run is refused": {attested{run: errors.New("refused")}, verdict.NoProvenance},
		"it is unread":       {attested{unread: errors.New("not there")}, ""},
	} {
		s := oneFile(t, validBut(t), "a", "alpha", "alpha")
		s.manifest.Artifacts[0].Provenance, s.builds = "by", provenances{"by": func() attested { return row.of }}
		g := gathered{release: s, sboms: &documents{}}
		if i := g.item(t.Context(), s.manifest.Artifacts[0]); i.reported != row.want {
			t.Errorf("%s: reported %q, want %q", name, i.reported, row.want)
		}
	}
}

// TestLevelsOfARelease: the verdict has the lowest level of the release, and names
// what limits it only if that is another artifact.
func TestLevelsOfARelease(t *testing.T) {
	s := &sealed{session: validBut(t).NewSession()}
	for track, least := range map[slsa.Track]bool{slsa.Build: true, slsa.V01: false} {
		for _, path := range [][]string{{"a"}, {"a", "b"}} {
			var f facts
			gathered{release: s}.sayLevel(slsa.Limit{Level: 2, Path: path}, verdict.Levels{Track: string(track), Level: 2, Most: 3}, map[string]bool{"a": true}, &f)
			if (f.least != nil) != least || least && (f.least.Level != 2 || !slices.Equal(f.least.Path, path)) {
				t.Errorf("%s %q: least %+v", track, path, f.least)
			}
			if limited := strings.Contains(strings.Join(f.notes, " "), "limited by"); limited != (least && len(path) > 1) {
				t.Errorf("%s %q: %q", track, path, f.notes)
			}
		}
	}
}

// TestControlsOfARelease: what people declare of the Baseline is in the verdict.
func TestControlsOfARelease(t *testing.T) {
	declared := slsa.Report{Artifact: "a", Answers: []slsa.Answer{{Track: slsa.Controls, Requirement: "OSPS-AC-01.01", State: slsa.Declared, DeclaredBy: "security@example.test"}}}
	for want, reports := range map[int][]slsa.Report{0: {{Artifact: "b"}}, 1: {{Artifact: "b"}, declared}} {
		var all []builtArtifact
		for _, r := range reports {
			all = append(all, builtArtifact{name: r.Artifact, report: r})
		}
		var f facts
		gathered{}.sayControls(all, &f)
		if len(f.levels) != want || want > 0 && (f.levels[0].Track != string(slsa.Controls) || f.levels[0].Requirements[0].ID != "OSPS-AC-01.01") {
			t.Errorf("%+v", f.levels)
		}
	}
}

// within says what it found in a file that it has read.
type within struct{ digests digest.Set }

func (w within) File(context.Context, sbomcheck.Artifact, io.Reader) (sbomcheck.Found, error) {
	return sbomcheck.Found{Digests: w.digests}, nil
}

func (w within) Image(context.Context, sbomcheck.Artifact, registry.Source, string, *registry.Node) (sbomcheck.Found, error) {
	return sbomcheck.Found{}, nil
}

// TestFileThatChanges: what is compared with an SBOM are the bytes that the manifest
// lists, also if the file was right when it was read before.
func TestFileThatChanges(t *testing.T) {
	for text, want := range map[string]verdict.Code{"alpha": "", "other": verdict.Tampered} {
		s := oneFile(t, validBut(t), "a", "alpha", "alpha")
		s.Options.Inside = within{digest.SetOf([]byte(text))}
		_, err := gathered{release: s, sboms: &documents{}}.checkContents(t.Context(), s.manifest.Artifacts[0], sbomcheck.Artifact{})
		if (err != nil) != (want != "") || err != nil && verdict.FindingOf("", err).Code != want {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

// TestNotesOfAttached: bundles that were not read are counted in a note.
func TestNotesOfAttached(t *testing.T) {
	for unread, want := range map[int]int{0: 0, 3: 1} {
		var f facts
		attached{unread: unread}.note(&f, "demo:v1")
		if len(f.notes) != want || want > 0 && f.notes[0] != "demo:v1: the attached bundles are together too large; not read: the largest 3" {
			t.Errorf("%d: %q", unread, f.notes)
		}
	}
}

// TestNotesOfDocuments: a verdict says what of the SBOMs could not be compared.
func TestNotesOfDocuments(t *testing.T) {
	for want, d := range map[string]*documents{
		"": {},
		"module checksums not compared with a go.sum, which neither the lock nor the release has: 2 programs: a, b": {blind: map[string]bool{"a": true, "b": true}},
		"the SBOMs of 1 artifact omit something, the first: a: the tests":                                           {whole: map[string][]string{"a": {"the tests"}}},
		"demo.tar contains an image that the release does not publish; it was not compared with a registry":         {saved: []sbomcheck.Artifact{{Name: "demo.tar"}}},
	} {
		s := oneFile(t, validBut(t), "a", "alpha", "alpha")
		f := checkDocuments(t.Context(), gathered{release: s, sboms: d})
		if got := strings.Join(f.notes, "|"); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// TestEarlierSigners: where one of the signers signed the kind of evidence before,
// others may have signed too; where none did, that is a regression.
func TestEarlierSigners(t *testing.T) {
	const kind = "binary signature by https://accounts.example.test "
	for name, row := range map[string]struct {
		before, now string
		want        []verdict.Code
	}{
		"the same":              {"one", "one", nil},
		"the same, and another": {"one", "one two", nil},
		"another":               {"one", "two", []verdict.Code{verdict.Regressed}},
	} {
		s := oneFile(t, validBut(t), "a", "alpha", "alpha")
		s.manifest.Artifacts[0].Signature = "a" + BundleSuffix
		s.Earlier = map[version.Version][]string{versionOf(t, "v1.1.0"): {kind + row.before}}
		j := terms{now: time.Unix(0, 0)}.beginBy("q", nil)
		for _, who := range strings.Fields(row.now) {
			j.v.Proofs = append(j.v.Proofs, verdict.Proof{Subject: "a", Role: string(policy.Release), Issuer: "https://accounts.example.test", Identity: who})
		}
		if _, f := compareEarlier(s, j); !slices.Equal(differing(f), row.want) {
			t.Errorf("%s: %v, want %v", name, f.differences, row.want)
		}
	}
}
