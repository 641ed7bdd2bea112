package promotionplan

import (
	"slices"
	"strings"
	"testing"

	"github.com/waybill-release/waybill/pkg/release/manifest"
	"github.com/waybill-release/waybill/pkg/release/plan"
	"github.com/waybill-release/waybill/pkg/release/promoterfile"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
	"github.com/waybill-release/waybill/pkg/value/version"
)

// filesOf is a manifest of files: pairs of name and digest.
func filesOf(t *testing.T, name, source string, destinations []string, files ...string) promoterfile.FileManifest {
	t.Helper()
	text := "filestores:\n- {base: \"" + source + "\", src: true}\n"
	for _, d := range destinations {
		text += "- {base: \"" + d + "\"}\n"
	}
	text += "files:\n"
	for i := 0; i < len(files); i += 2 {
		text += "- {name: " + files[i] + ", sha256: \"" + strings.TrimPrefix(files[i+1], "sha256:") + "\"}\n"
	}
	m, err := promoterfile.ParseFiles(name, []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestPlanOfFiles(t *testing.T) {
	a := filesOf(t, "a", "gs://staging/a/", []string{"gs://us/bin/a", "gs://eu/bin/a"}, "v2/tool", two, "v1/tool", one)
	b := filesOf(t, "b", "gs://staging/b/", []string{"gs://eu/bin/b"}, "tool", one)
	p, err := MakeFiles([]promoterfile.FileManifest{b, a})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := p.Extent(), (Extent{Stores: 2, Files: 3, Copies: 5}); got != want || got.Requests() != 8 {
		t.Errorf("%+v, %d requests, want %+v", got, got.Requests(), want)
	}
	var moves []string
	for m := range p.AllFiles() {
		moves = append(moves, m.From+" "+m.To+m.Name+" "+m.Digest.Hex()[:1])
	}
	want := []string{
		"gs://staging/a/ gs://eu/bin/a/v1/tool 1", "gs://staging/a/ gs://us/bin/a/v1/tool 1",
		"gs://staging/a/ gs://eu/bin/a/v2/tool 2", "gs://staging/a/ gs://us/bin/a/v2/tool 2", "gs://staging/b/ gs://eu/bin/b/tool 1",
	}
	if !slices.Equal(moves, want) {
		t.Errorf("moves\n%s\nwant\n%s", strings.Join(moves, "\n"), strings.Join(want, "\n"))
	}
	again, err := MakeFiles([]promoterfile.FileManifest{a, b})
	if err != nil || !again.Digest().Equal(p.Digest()) {
		t.Errorf("the same manifests in another order are another plan: %v", err)
	}
	if back, err := Parse(p.JSON()); err != nil || !back.Digest().Equal(p.Digest()) {
		t.Errorf("read back: %v", err)
	}
	for name, bad := range map[string]string{
		"an unknown store": strings.Replace(string(p.JSON()), `"store":1`, `"store":2`, 1), "out of order": strings.Replace(string(p.JSON()), "v1/tool", "v3/tool", 1),
	} {
		if _, err := Parse([]byte(bad)); verdict.FindingOf("", err).Code != verdict.ConfigParse {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := MakeFiles(nil); err == nil {
		t.Error("a plan of nothing")
	}
}

func TestTwoDigestsOfOneFile(t *testing.T) {
	to := []string{"gs://prod/bin"}
	a := filesOf(t, "a", "gs://staging/a/", to, "v1/tool", one)
	for name, c := range map[string]struct {
		b    promoterfile.FileManifest
		want int
	}{
		"the same digest (twin)":         {filesOf(t, "b", "gs://staging/b/", to, "v1/tool", one), 0},
		"another digest":                 {filesOf(t, "b", "gs://staging/b/", to, "v1/tool", two), 1},
		"another name (twin)":            {filesOf(t, "b", "gs://staging/b/", to, "v2/tool", two), 0},
		"another bucket (twin)":          {filesOf(t, "b", "gs://staging/b/", []string{"gs://prod2/bin"}, "v1/tool", two), 0},
		"another service (twin)":         {filesOf(t, "b", "gs://staging/b/", []string{"s3://prod/bin"}, "v1/tool", two), 0},
		"the same name by another split": {filesOf(t, "b", "gs://staging/b/", []string{"gs://prod"}, "bin/v1/tool", two), 1},
	} {
		_, err := MakeFiles([]promoterfile.FileManifest{a, c.b})
		got := 0
		if err != nil {
			got = strings.Count(err.Error(), "\n") + 1
		}
		if err != nil && verdict.FindingOf("", err).Code != verdict.FileConflict {
			t.Errorf("%s: %v", name, err)
		}
		if got != c.want || (err == nil) != (c.want == 0) {
			t.Errorf("%s: %v, want %d conflicts", name, err, c.want)
		}
	}
}

func TestPlanOfARelease(t *testing.T) {
	v, err := version.Parse("v1.2.3")
	if err != nil {
		t.Fatal(err)
	}
	set := func(text string) digest.Set { return digest.SetOf([]byte(text)) }
	artifact := func(name string, class plan.Class, text string) manifest.Artifact {
		return manifest.Artifact{Artifact: plan.Artifact{Name: name, Class: class}, Digests: set(text), Size: int64(len(text))}
	}
	image := artifact("oci/demo", plan.Image, "index")
	image.Repository, image.Tags, image.Provenance, image.Signature = "demo", []string{"v1.2.3", "latest"}, "provenance/x", "sha256:1"
	child := artifact("oci/demo/linux", plan.ImageChild, "child")
	child.Provenance = "provenance/x"
	m := manifest.Manifest{Name: "lantern", Version: v, Artifacts: []manifest.Artifact{
		artifact("bin/lantern", plan.Binary, "binary"), artifact("bin/lantern.sigstore.json", plan.Signature, "bundle"), image, child,
	}}
	from, to := End{"staging", "gs://staging/v1.2.3/", "registry.test/staging"}, End{"release", "gs://prod/v1.2.3/", "registry.test/prod"}
	p, err := MakeRelease(m, []byte("signed"), from, to)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := p.Extent(), (Extent{Routes: 1, Digests: 1, Moves: 1, Tags: 2, Repositories: 1, Stores: 1, Files: 3, Copies: 3, Bytes: 18}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if got, want := *p.Release, (Release{Name: "lantern", Version: "v1.2.3", Revision: 1, Manifest: set("signed").SHA256, From: "staging", To: "release", Evidence: 4}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if back, err := Parse(p.JSON()); err != nil || !back.Digest().Equal(p.Digest()) {
		t.Errorf("read back: %v", err)
	}
	other, err := MakeRelease(m, []byte("signed again"), from, to)
	if err != nil || other.Digest().Equal(p.Digest()) {
		t.Errorf("another bundle is the same plan: %v", err)
	}
	if _, err := MakeRelease(m, []byte("signed"), End{Stage: "staging", Files: from.Files}, to); verdict.FindingOf("", err).Code != verdict.ConfigParse {
		t.Errorf("images without a registry: %v", err)
	}
}
