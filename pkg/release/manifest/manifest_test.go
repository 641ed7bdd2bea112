package manifest_test

import (
	"bytes"
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	releasemanifest "github.com/waybill-release/waybill/attestations/release-manifest/v1"
	"github.com/waybill-release/waybill/pkg/document/intoto"
	"github.com/waybill-release/waybill/pkg/release/manifest"
	"github.com/waybill-release/waybill/pkg/release/plan"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
	"github.com/waybill-release/waybill/pkg/value/version"
)

func ver(t testing.TB, s string) version.Version {
	t.Helper()
	v, err := version.Parse(s)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func set(s string) digest.Set { return digest.SetOf([]byte(s)) }

func file(name string, class plan.Class) manifest.Artifact {
	return manifest.Artifact{
		Artifact: plan.Artifact{Name: name, Class: class, MediaType: "application/octet-stream"},
		Digests:  set(name), Size: int64(len(name)),
	}
}

// lantern is a manifest in which every field says something, unsorted.
func lantern(t testing.TB) manifest.Manifest {
	t.Helper()
	binary := file("bin/linux/amd64/lantern", plan.Binary)
	binary.Step, binary.Platform = "compile-linux-amd64", "linux/amd64"
	binary.Provenance, binary.SBOM, binary.Signature = "provenance/compile-linux-amd64.sigstore.json", "bin/linux/amd64/lantern.spdx.json", "bin/linux/amd64/lantern.sigstore.json"
	index := file("oci/lantern", plan.Image)
	index.Repository, index.Tags, index.Step, index.Signature = "lantern", []string{"v0.1.0"}, "image", set("b").SHA256.String()
	child := file("oci/lantern/linux/amd64", plan.ImageChild)
	child.Repository, child.Platform, child.Of, child.Step = "lantern", "linux/amd64", "oci/lantern", "image"
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	return manifest.Manifest{
		Name: "lantern", Version: ver(t, "v0.1.0"), Revision: 2, Supersedes: set("first").SHA256, Change: "an SBOM was added",
		SealedOn: at, Expires: at.AddDate(1, 0, 0),
		Source: manifest.Source{Repository: "https://example.test/lantern", Ref: "refs/tags/v0.1.0", Commit: strings.Repeat("a", 40), Tree: strings.Repeat("b", 40)},
		Config: set("release.yaml").SHA256, Lock: set("release.lock.yaml").SHA256,
		FilesURI: "https://dl.example.test/lantern/v0.1.0/", ImagesURI: "registry.example.test/lantern",
		Artifacts: []manifest.Artifact{index, child, binary, file("release.yaml", plan.ConfigFile), file("release.lock.yaml", plan.ConfigFile)},
		Runs:      []manifest.Run{{Kind: "build", ID: "run-1", TraceID: "00"}},
		Withdrawn: &manifest.Withdrawal{Reason: "it flickers", Use: "v0.1.1"},
	}
}

func statement(t testing.TB, m manifest.Manifest) intoto.Statement {
	t.Helper()
	s, err := m.Statement()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestRoundTrip(t *testing.T) {
	m := lantern(t)
	got, err := manifest.ReadManifest(statement(t, m), nil)
	if err != nil {
		t.Fatal(err)
	}
	slices.SortFunc(m.Artifacts, func(a, b manifest.Artifact) int { return strings.Compare(a.Name, b.Name) })
	if !reflect.DeepEqual(got, m) {
		t.Errorf("got  %+v\nwant %+v", got, m)
	}
	if again := statement(t, got); !bytes.Equal(again.Raw(), statement(t, lantern(t)).Raw()) {
		t.Error("equal manifests are not equal bytes")
	}
}

func TestViews(t *testing.T) {
	m, err := manifest.ReadManifest(statement(t, lantern(t)), nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(m.Files()) != 3 || len(m.Images()) != 2 || !slices.Equal(m.Repositories(), []string{"lantern"}) {
		t.Errorf("files %v, images %v, repositories %v", m.Files(), m.Images(), m.Repositories())
	}
	if c := m.Children("oci/lantern"); len(c) != 1 || c[0].Platform != "linux/amd64" {
		t.Errorf("children %v", c)
	}
	if _, ok := m.Find("oci/lantern"); !ok {
		t.Error("an artifact is not found")
	}
	if _, ok := m.Find("oci/lanter"); ok || len(m.Children("oci/lanter")) != 0 {
		t.Error("part of a name was found")
	}
}

// wire is the wire form, to be changed in ways that the value does not allow.
type wire struct {
	subjects  []intoto.Subject
	predicate map[string]any
	kind      string
}

func (w *wire) entry(name string) map[string]any {
	for _, e := range w.predicate["artifacts"].([]any) {
		if e := e.(map[string]any); e["name"] == name {
			return e
		}
	}
	panic("no entry " + name)
}

func (w *wire) in(field string) map[string]any { return w.predicate[field].(map[string]any) }

func (w *wire) add(field string, value any) {
	w.predicate[field] = append(w.predicate[field].([]any), value)
}

// rename gives a subject and its entry another name.
func (w *wire) rename(name, other string) {
	i := slices.IndexFunc(w.subjects, func(s intoto.Subject) bool { return s.Name == name })
	w.subjects[i].Name, w.entry(name)["name"] = other, other
}

// parse changes one fact of the valid manifest and reads it.
func parse(t *testing.T, change func(*wire)) (manifest.Manifest, error) {
	t.Helper()
	s := statement(t, lantern(t))
	w := &wire{subjects: s.Subjects(), kind: s.PredicateType()}
	if err := json.Unmarshal(s.Predicate(), &w.predicate); err != nil {
		t.Fatal(err)
	}
	change(w)
	changed, err := intoto.New(w.kind, w.subjects, w.predicate)
	if err != nil {
		t.Fatal(err)
	}
	return manifest.ReadManifest(changed, nil)
}

func TestReadManifestAccepts(t *testing.T) {
	rows := []struct {
		name   string
		change func(*wire)
	}{
		{"as it is", func(*wire) {}},
		{"an unknown extension", func(w *wire) { w.predicate["extensions"] = map[string]any{"mood": []int{1}} }},
		{"critical, but empty", func(w *wire) { w.predicate["critical"] = map[string]any{} }},
		{"no pages", func(w *wire) { w.predicate["pages"] = []any{} }},
		{"no expiry", func(w *wire) { delete(w.predicate, "expires") }},
		{"not withdrawn", func(w *wire) { delete(w.predicate, "withdrawn") }},
		{"the first revision", func(w *wire) { w.predicate["revision"] = 1; delete(w.predicate, "supersedes") }},
		{"a file without bytes", func(w *wire) { w.entry("bin/linux/amd64/lantern")["size"] = 0 }},
		{"two names of the same bytes", func(w *wire) { w.subjects[0].Digests = w.subjects[1].Digests }},
	}
	for _, r := range rows {
		t.Run(r.name, func(t *testing.T) {
			if _, err := parse(t, r.change); err != nil {
				t.Error(err)
			}
		})
	}
}

func refusals() []refusal {
	return slices.Concat(headRefusals(), placeRefusals(), entryRefusals())
}

type refusal struct {
	name   string
	code   verdict.Code
	change func(*wire)
}

func headRefusals() []refusal {
	const bad = verdict.ManifestParse
	return []refusal{
		{"another predicate", verdict.PredicateType, func(w *wire) { w.kind = "https://slsa.dev/provenance/v1" }},
		{"another version of it", verdict.PredicateType, func(w *wire) { w.kind = strings.Replace(w.kind, "/v1", "/v2", 1) }},
		{"an unknown critical field", "MANIFEST_CRITICAL", func(w *wire) { w.predicate["critical"] = map[string]any{"quorum": 2} }},
		{"pages beside its own entries", bad, func(w *wire) {
			w.predicate["pages"] = []any{map[string]any{"name": "p", "sha256": "", "first": "a", "last": "b", "count": 1}}
		}},
		{"an unknown field", bad, func(w *wire) { w.predicate["mood"] = "bright" }},
		{"no name", bad, func(w *wire) { delete(w.predicate, "name") }},
		{"no version", bad, func(w *wire) { delete(w.predicate, "version") }},
		{"a version of another form", bad, func(w *wire) { w.predicate["version"] = "0.1" }},
		{"another channel than the version's", bad, func(w *wire) { w.predicate["channel"] = "rc" }},
		{"revision 0", bad, func(w *wire) { w.predicate["revision"] = 0 }},
		{"a first revision that supersedes", bad, func(w *wire) { w.predicate["revision"] = 1 }},
		{"a later revision that supersedes nothing", bad, func(w *wire) { delete(w.predicate, "supersedes") }},
		{"a later revision without its change", bad, func(w *wire) { delete(w.predicate, "change") }},
		{"superseding by a short digest", bad, func(w *wire) { w.predicate["supersedes"] = "sha256:00" }},
		{"superseding by sha512", bad, func(w *wire) { w.predicate["supersedes"] = set("first").SHA512.String() }},
		{"an end that would stand for none", bad, func(w *wire) { w.predicate["expires"] = "0001-01-01T00:00:00Z" }},
		{"no time of sealing", bad, func(w *wire) { delete(w.predicate, "sealedOn") }},
		{"no commit", bad, func(w *wire) { w.in("source")["commit"] = "" }},
		{"another configuration file", bad, func(w *wire) { w.in("config")["path"] = "other.yaml" }},
		{"a configuration without a digest", bad, func(w *wire) { w.in("config")["sha256"] = "" }},
		{"a configuration of other bytes than listed", bad, func(w *wire) { w.in("config")["sha256"] = set("x").SHA256.Hex() }},
		{"a lock of other bytes than listed", bad, func(w *wire) { w.in("lock")["sha256"] = set("x").SHA256.Hex() }},
		{"a lock listed but not named", bad, func(w *wire) { delete(w.predicate, "lock") }},
		{"an extension about no runs", bad, func(w *wire) {
			delete(w.predicate, "runs")
			w.predicate["extensions"] = map[string]any{releasemanifest.RunTraces: "none"}
		}},
		{"an extension about fewer runs than listed", bad, func(w *wire) {
			w.predicate["extensions"] = map[string]any{releasemanifest.RunTraces: []any{}}
		}},
		{"withdrawn without a reason", bad, func(w *wire) { w.in("withdrawn")["reason"] = "" }},
	}
}

func placeRefusals() []refusal {
	const bad = verdict.ManifestParse
	scope := func(i int, scope map[string]any) func(*wire) {
		return func(w *wire) { w.predicate["places"].([]any)[i].(map[string]any)["scope"] = scope }
	}
	place := func(kind, uri string) map[string]any {
		return map[string]any{"kind": kind, "uri": uri, "scope": map[string]any{"prefix": true}}
	}
	return []refusal{
		{"no place", bad, func(w *wire) { w.predicate["places"] = []any{} }},
		{"no file place", bad, func(w *wire) { w.predicate["places"] = w.predicate["places"].([]any)[1:] }},
		{"no registry, but images", bad, func(w *wire) { w.predicate["places"] = w.predicate["places"].([]any)[:1] }},
		{"a place twice", bad, func(w *wire) { w.add("places", place("files", "https://other.example.test/")) }},
		{"a place of an unknown kind", bad, func(w *wire) { w.add("places", place("tapes", "tape:1")) }},
		{"a place without an address", bad, func(w *wire) { w.predicate["places"].([]any)[0].(map[string]any)["uri"] = "" }},
		{"a file place that owns nothing", bad, scope(0, map[string]any{})},
		{"a file place that owns tags", bad, scope(0, map[string]any{"prefix": true, "tags": []string{"v0.1.0"}})},
		{"a registry that is owned whole", bad, scope(1, map[string]any{"prefix": true})},
		{"a registry that owns another version", bad, scope(1, map[string]any{"tags": []string{"v0.1.1"}})},
		{"a registry that owns two tags", bad, scope(1, map[string]any{"tags": []string{"v0.1.0", "latest"}})},
	}
}

func entryRefusals() []refusal {
	const bad, binary = verdict.ManifestParse, "bin/linux/amd64/lantern"
	on := func(name, field string, value any) func(*wire) {
		return func(w *wire) { w.entry(name)[field] = value }
	}
	return []refusal{
		{"an entry less than subjects", bad, func(w *wire) { w.predicate["artifacts"] = w.predicate["artifacts"].([]any)[1:] }},
		{"an entry more than subjects", bad, func(w *wire) { w.add("artifacts", w.entry(binary)) }},
		{"an entry twice, another not at all", bad, func(w *wire) { w.predicate["artifacts"].([]any)[1] = w.entry(binary) }},
		{"an entry of another name than its subject", bad, on(binary, "name", "bin/other")},
		{"a subject without sha512", bad, func(w *wire) { w.subjects[0].Digests.SHA512 = digest.Digest{} }},
		{"a subject without a name", verdict.Path, func(w *wire) { w.rename(binary, "") }},
		{"a name that leaves the place", verdict.Path, func(w *wire) { w.rename(binary, "../lantern") }},
		{"an absolute name", verdict.Path, func(w *wire) { w.rename(binary, "/lantern") }},
		{"the manifest's own name", verdict.Path, func(w *wire) { w.rename(binary, releasemanifest.Name) }},
		{"a file under an image's name", bad, func(w *wire) { w.rename(binary, "oci/other") }},
		{"a negative size", bad, on(binary, "size", -1)},
		{"no media type", bad, on(binary, "mediaType", "")},
		{"an unknown class", bad, on(binary, "class", "firmware")},
		{"no class", bad, on(binary, "class", "")},
		{"a file in the registry", bad, on(binary, "place", "images")},
		{"a file nowhere", bad, on(binary, "place", "")},
		{"a file with a tag", bad, on(binary, "tags", []string{"v0.1.0"})},
		{"a file with a repository", bad, on(binary, "repository", "lantern")},
		{"an image in the file place", bad, on("oci/lantern", "place", "files")},
		{"an image of another repository", bad, on("oci/lantern", "repository", "other")},
		{"an image without a repository", bad, on("oci/lantern", "repository", "")},
		{"an image without a tag", bad, on("oci/lantern", "tags", []string{})},
		{"an image of another tag", bad, on("oci/lantern", "tags", []string{"latest"})},
		{"a platform with a tag", bad, on("oci/lantern/linux/amd64", "tags", []string{"v0.1.0"})},
		{"a platform of another name", bad, on("oci/lantern/linux/amd64", "platform", "linux/arm64")},
		{"provenance that is listed as something else", bad, on(binary, "provenance", "release.yaml")},
		{"an SBOM that is listed as something else", bad, on(binary, "sbom", "release.yaml")},
		{"a signature that is listed as something else", bad, on(binary, "signature", "oci/lantern")},
		{"a platform of no platform", bad, on("oci/lantern/linux/amd64", "platform", "")},
	}
}

func TestReadManifestRefuses(t *testing.T) {
	for _, r := range refusals() {
		t.Run(r.name, func(t *testing.T) {
			m, err := parse(t, r.change)
			if err == nil {
				t.Fatal("accepted")
			}
			if f := verdict.FindingOf("", err); f.Code != r.code {
				t.Errorf("refused as %s: %v, want %s", f.Code, err, r.code)
			}
			if !reflect.DeepEqual(m, manifest.Manifest{}) {
				t.Error("a refusal came with a manifest")
			}
		})
	}
}

// TestEntryWithoutSubject: the refusal names the entry, and what it lacks.
func TestEntryWithoutSubject(t *testing.T) {
	_, err := parse(t, func(w *wire) { w.entry("bin/linux/amd64/lantern")["name"] = "bin/other" })
	if err == nil || !strings.Contains(err.Error(), "bin/other: the entry has no subject of its own") {
		t.Error(err)
	}
}

func TestStatementNeedsArtifacts(t *testing.T) {
	m := lantern(t)
	m.Artifacts = nil
	if _, err := m.Statement(); err == nil {
		t.Error("a manifest of nothing was encoded")
	}
}

func FuzzReadManifest(f *testing.F) {
	f.Add(statement(f, lantern(f)).Raw())
	m := lantern(f)
	m.Artifacts, m.Withdrawn, m.Revision, m.Supersedes = m.Artifacts[2:], nil, 1, digest.Digest{}
	f.Add(statement(f, m).Raw())
	f.Fuzz(func(t *testing.T, raw []byte) {
		s, err := intoto.Parse(raw)
		if err != nil {
			return
		}
		m, err := manifest.ReadManifest(s, nil)
		if err != nil {
			if o := verdict.FindingOf("", err).Code.Outcome(); o != verdict.Refused {
				t.Fatalf("%s, not refused: %v", o, err)
			}
			return
		}
		if len(m.Artifacts) != len(s.Subjects()) {
			t.Fatalf("%d artifacts of %d subjects", len(m.Artifacts), len(s.Subjects()))
		}
		encoded, err := m.Statement()
		if err != nil {
			t.Fatalf("what was read cannot be written: %v", err)
		}
		again, err := manifest.ReadManifest(encoded, nil)
		if err != nil || len(again.Artifacts) != len(m.Artifacts) || again.Version != m.Version {
			t.Fatalf("what was written is read otherwise: %v", err)
		}
		for _, subject := range s.Subjects() {
			if a, ok := again.Find(subject.Name); !ok || !a.Digests.Equal(subject.Digests) {
				t.Fatalf("subject %q is lost", subject.Name)
			}
		}
	})
}

// TestBuildOfItsCommit: the version of a build between two releases names the
// commit that was built.
func TestBuildOfItsCommit(t *testing.T) {
	for text, want := range map[string]verdict.Code{
		"v0.1.0-alpha.0.7+" + strings.Repeat("a", 14): "", "v0.1.0-alpha.0.7+" + strings.Repeat("a", 13) + "b": verdict.SourceCommit,
	} {
		m := lantern(t)
		m.Version = ver(t, text)
		for i, a := range m.Artifacts {
			if a.Class == plan.Image {
				m.Artifacts[i].Tags = []string{m.Version.ImageTag()}
			}
		}
		_, err := manifest.ReadManifest(statement(t, m), nil)
		if want == "" && err != nil || want != "" && (err == nil || verdict.FindingOf("", err).Code != want) {
			t.Errorf("%s: %v", text, err)
		}
	}
}
