package gate

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/waybill-release/waybill/pkg/backend/registry"
	"github.com/waybill-release/waybill/pkg/backend/store"
	"github.com/waybill-release/waybill/pkg/document/openvex"
	"github.com/waybill-release/waybill/pkg/document/vsa"
	"github.com/waybill-release/waybill/pkg/judge/policy"
	"github.com/waybill-release/waybill/pkg/judge/slsa"
	"github.com/waybill-release/waybill/pkg/judge/verify"
	"github.com/waybill-release/waybill/pkg/release/manifest"
	"github.com/waybill-release/waybill/pkg/release/plan"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// listed is an artifact of a manifest, with its bytes.
func listed(name string, class plan.Class, body string) manifest.Artifact {
	return manifest.Artifact{Artifact: plan.Artifact{Name: name, Class: class}, Digests: digest.SetOf([]byte(body))}
}

// TestLevelsNeedProvenance: a level can be required only where provenance is read.
func TestLevelsNeedProvenance(t *testing.T) {
	m := manifest.Manifest{Artifacts: []manifest.Artifact{listed("bin/lantern", plan.Binary, "lantern")}}
	for depth, refused := range map[Depth]bool{allEvidence: false, OnlySignatures: true, OnlyFiles: true} {
		err := Scope{Depth: depth, Levels: []slsa.Demand{{Track: slsa.Build, Level: 3}}}.check(m)
		if (err != nil) != refused || refused && verdict.FindingOf("", err).Code != verdict.Usage {
			t.Errorf("depth %v: %v", depth, err)
		}
		if err := (Scope{Depth: depth}).check(m); err != nil {
			t.Errorf("depth %v without a level: %v", depth, err)
		}
	}
}

// TestEvidenceOfImagesIsNoImage: only images are in the scope of images, and not the
// files of the release that are evidence about them.
func TestEvidenceOfImagesIsNoImage(t *testing.T) {
	image := listed("oci/lantern", plan.Image, "image")
	image.Provenance = "image.intoto.jsonl"
	m := signedManifest{Manifest: manifest.Manifest{Artifacts: []manifest.Artifact{
		listed("bin/lantern", plan.Binary, "lantern"), listed(image.Provenance, plan.Provenance, "provenance"), image,
	}}}
	for only, want := range map[string][]string{
		"": {"bin/lantern", "image.intoto.jsonl", "oci/lantern"}, policy.Files: {"bin/lantern", "image.intoto.jsonl"}, policy.Images: {"oci/lantern"},
	} {
		var got []string
		for name, is := range m.chosen(Scope{Only: only}) {
			if is {
				got = append(got, name)
			}
		}
		if slices.Sort(got); !slices.Equal(got, want) {
			t.Errorf("only %q: %q, want %q", only, got, want)
		}
	}
}

// TestSummaryReachesLevel: a summary shows its level and those below it.
func TestSummaryReachesLevel(t *testing.T) {
	by := vouching{"bin/lantern": {Vouched: policy.Vouched{Summary: vsa.Summary{Result: vsa.Passed, Levels: []vsa.Level{"SLSA_BUILD_LEVEL_2"}}}}}
	for level, want := range map[int]bool{1: true, 2: true, 3: false} {
		if by.reaches("bin/lantern", level) != want || by.reaches("bin/other", level) {
			t.Errorf("level %d: want %t", level, want)
		}
	}
}

// place writes files into a place.
func place(t *testing.T, files map[string]string) store.Place {
	t.Helper()
	dir := t.TempDir()
	for name, body := range files {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(body), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	p, err := store.Open(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestSumsFile: each line of a checksum file has the digest of the manifest, by the
// algorithm that the name of the file says.
func TestSumsFile(t *testing.T) {
	set := digest.SetOf([]byte("lantern"))
	by256, by512 := set.SHA256.Hex()+"  lantern\n", set.SHA512.Hex()+"  lantern\n"
	for _, row := range []struct {
		name, body, published string
		code                  verdict.Code
	}{
		{plan.SHA256Sums, by256, by256, ""},
		{plan.SHA512Sums, by512, by512, ""},
		{plan.SHA256Sums, by512, by512, verdict.Conflict},
		{plan.SHA512Sums, by256, by256, verdict.Conflict},
		{plan.SHA256Sums, by256, "", verdict.Tampered},
	} {
		sums := listed(row.name, plan.Sums, row.body)
		m := signedManifest{Manifest: manifest.Manifest{Artifacts: []manifest.Artifact{sums, listed("lantern", plan.Binary, "lantern")}}}
		g := gathered{release: &sealed{Request: Request{Files: place(t, map[string]string{row.name: row.published})}, manifest: m}, holds: func(string) bool { return true }}
		if got := refusedAs(g.checkSumsFile(t.Context(), sums)); got != row.code {
			t.Errorf("%s: %q: %q, want %q", row.name, row.body, got, row.code)
		}
	}
}

// TestNewestVEX: the newest claim counts; two that differ and are equally new are
// refused, and so is an older one in the newest file.
func TestNewestVEX(t *testing.T) {
	first, second := vexDocument{place: openvex.Name(1)}, vexDocument{place: openvex.Name(2)}
	for name, row := range map[string]struct {
		claims []vexClaim
		want   string
		code   verdict.Code
	}{
		"one":                           {[]vexClaim{{"k", "", "fixed", 1, first}}, "fixed", ""},
		"the same again":                {[]vexClaim{{"k", "", "fixed", 1, first}, {"k", "", "fixed", 1, second}}, "fixed", ""},
		"a newer one":                   {[]vexClaim{{"k", "", "affected", 1, first}, {"k", "", "fixed", 2, second}}, "fixed", ""},
		"another one that is as new":    {[]vexClaim{{"k", "", "affected", 1, first}, {"k", "", "fixed", 1, second}}, "fixed", openvex.Equivocation},
		"an older one in a newer file":  {[]vexClaim{{"k", "", "affected", 2, first}, {"k", "", "fixed", 1, second}}, "affected", openvex.Superseded},
		"one of another product as new": {[]vexClaim{{"other", "", "affected", 1, first}, {"k", "", "fixed", 1, second}}, "fixed", ""},
	} {
		var f facts
		newest := newestVEX(row.claims, &f)
		if newest["k"].said != row.want || len(f.differences) != min(1, len(row.code)) || row.code != "" && f.differences[0].Code != row.code {
			t.Errorf("%s: %q, %+v", name, newest["k"].said, f.differences)
		}
	}
}

// noList is a place that cannot be listed now.
type noList struct{ store.Place }

func (noList) List(context.Context) ([]store.Object, error) {
	return nil, &verdict.UnavailableError{Place: "files", Op: "listing", Err: os.ErrDeadlineExceeded}
}

// TestVEXOfGivenFiles: for single files, a listing that fails is reported as left out
// and refuses nothing; a place that lists nothing is asked for the documents by name.
func TestVEXOfGivenFiles(t *testing.T) {
	allows := validBut(t, "roles:\n", "roles:\n  vex: [{issuer: https://issuer.example, subject: vex@example.test, type: email}]\n",
		"plan: require\n", "plan: require\nlate: [{predicate: https://openvex.dev/ns, role: vex, stages: [release]}]\n", "files: require", "files: \"off\"")
	for name, row := range map[string]struct {
		files store.Place
		left  bool
	}{"listed": {place(t, nil), false}, "unlistable": {unlistable(0), false}, "silent": {noList{unlistable(0)}, true}} {
		s := &sealed{Request: Request{Files: row.files, Policy: allows, Stage: policy.Published, Verifier: &verify.Verifier{}}}
		f := vexOfGiven(t.Context(), s)
		if len(f.differences) > 0 || (len(f.left) > 0) != row.left {
			t.Errorf("%s: %+v, left out %q", name, f.differences, f.left)
		}
	}
}

// TestClassOf: the class of an artifact is that of its own entry.
func TestClassOf(t *testing.T) {
	m := signedManifest{Manifest: manifest.Manifest{Artifacts: []manifest.Artifact{listed("a", plan.Binary, "a"), listed("b", plan.Archive, "b")}}}
	for name, want := range map[string]plan.Class{"a": plan.Binary, "b": plan.Archive, "c": ""} {
		if got := m.classOf(name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}

// TestGivenFilesAreCounted: a given file that cannot be read, or that the release does
// not have, is one of those that the verdict requires.
func TestGivenFilesAreCounted(t *testing.T) {
	dir := t.TempDir()
	for name, body := range map[string]string{"lantern": "lantern", "stranger": "stranger"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(body), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s := &sealed{manifest: signedManifest{Manifest: manifest.Manifest{Artifacts: []manifest.Artifact{listed("lantern", plan.Binary, "lantern")}}}}
	s.Options.Scope.Given = []string{filepath.Join(dir, "lantern"), filepath.Join(dir, "stranger"), filepath.Join(dir, "nowhere")}
	var f facts
	given, asked := s.checkGivenFiles(t.Context(), &f)
	if len(given) != 1 || !asked["lantern"] || len(asked) != 1 {
		t.Errorf("recognised %+v as %v", given, asked)
	}
	j := terms{now: time.Unix(0, 0)}.beginBy("q", levelRule{})
	j.addFacts(f)
	if j.count(); j.v.Counts.Required != 2 || j.v.Counts.Verified != 0 || len(j.v.Findings) != 2 {
		t.Errorf("%s, %v", j.v.Counts, j.v.Findings)
	}
}

// TestPlatformOfAGoodIndex: a platform is judged unless its index has a finding.
func TestPlatformOfAGoodIndex(t *testing.T) {
	g := twoImages(t)
	index := g.release.manifest.Artifacts[0]
	child := listed(index.Name+"/linux/amd64", plan.ImageChild, "child")
	child.Of, child.Repository = index.Name, index.Repository
	g.release.Stage, g.release.reader = policy.Staging, &imageReader{source: g.release.Images, verifier: &verify.Verifier{}}
	for _, bad := range []string{"", index.Name, child.Name} {
		g.holds = func(name string) bool { return name != bad }
		f := g.image(t.Context(), child)
		if (len(f.items) == 1) != (bad == "") || (len(f.spoiled) == 1) != (bad == index.Name) {
			t.Errorf("a finding about %q: %d items, spoiled %q", bad, len(f.items), f.spoiled)
		}
	}
}

// TestLevelIsReportedOnce: that the level of one artifact is too low says nothing
// about another.
func TestLevelIsReportedOnce(t *testing.T) {
	j := terms{now: time.Unix(0, 0)}.beginBy("q", levelRule{})
	j.find(verdict.Find(verdict.Level, "low", "level 1"))
	j.find(verdict.Find(verdict.Unsigned, "unsigned", "unsigned"))
	for name, want := range map[string]bool{"low": true, "unsigned": false, "other": false} {
		if j.tooLow(name) != want {
			t.Errorf("%s: want %t", name, want)
		}
	}
}

// TestObjectsOfAVerdict: the verdict lists everything that it counts, and which of it
// is verified.
func TestObjectsOfAVerdict(t *testing.T) {
	j := terms{now: time.Unix(0, 0)}.beginBy("q", levelRule{})
	j.addFacts(facts{counted: []counted{{name: "manifest", class: classManifest}}})
	j.find(verdict.Find(verdict.Unsigned, "bin/b", "unsigned"))
	sum := digest.Of(digest.SHA256, []byte("a"))
	j.group(slices.Values([]counted{{name: "bin/a", class: plan.Binary, bytes: sum}, {name: "bin/b", class: plan.Binary}}))
	want := []verdict.Object{{Name: "manifest", Class: "manifest", Verified: true}, {Name: "bin/a", Class: "binary", Digest: sum, Verified: true}, {Name: "bin/b", Class: "binary"}}
	if !slices.Equal(j.v.Objects, want) {
		t.Errorf("%+v", j.v.Objects)
	}
}

// silentRegistry is a registry that does not answer what refers to a manifest.
type silentRegistry struct{ registry.Source }

func (silentRegistry) Referrers(context.Context, string, digest.Digest) ([]registry.Descriptor, error) {
	return nil, &verdict.UnavailableError{Place: "demo", Op: "listing referrers", Err: os.ErrDeadlineExceeded}
}

// TestSummariesOfASilentRegistry: a registry that does not answer may have a summary
// that refuses an image, so none counts.
func TestSummariesOfASilentRegistry(t *testing.T) {
	g := twoImages(t)
	image := g.release.manifest.Artifacts[0]
	for name, silent := range map[string]bool{"it answers": false, "it is silent": true} {
		source := g.release.Images
		if silent {
			source = silentRegistry{source}
		}
		s := &sealed{Request: Request{Images: source}, reader: &imageReader{source: source, verifier: &verify.Verifier{}}}
		if _, there, err := s.vouchedFor(t.Context(), image, nil); there || (verdict.OutcomeOf(err) == verdict.Unavailable) != silent {
			t.Errorf("%s: %t, %v", name, there, err)
		}
	}
}
