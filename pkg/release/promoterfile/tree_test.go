package promoterfile

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// placesOf are the places of a project, whose images go below a common root or into
// a place of its own.
func placesOf(source, below string) string {
	return fmt.Sprintf("registries:\n- {name: %s, src: true}\n- {name: eu.example.test/prod%s}\n", source, below)
}

// forest is a tree with two projects, and the changes of a test.
func forest(changes map[string]string) fstest.MapFS {
	tree := fstest.MapFS{}
	for name, text := range map[string]string{
		"manifests/a/promoter-manifest.yaml": placesOf("staging.example.test/a", ""),
		"manifests/b/promoter-manifest.yaml": placesOf("staging.example.test/b", "/b"),
		"images/a/images.yaml":               "- name: demo\n  dmap:\n    \"" + one + "\": [\"v1\"]\n",
		"images/b/images.yaml":               "- name: demo\n  dmap:\n    \"" + two + "\": [\"v1\"]\n",
	} {
		tree[name] = &fstest.MapFile{Data: []byte(text)}
	}
	for name, text := range changes {
		tree[name] = &fstest.MapFile{Data: []byte(text)}
	}
	return tree
}

// ReadDir and ReadFilesDir read directories of which every manifest can be used.
func ReadDir(tree fs.FS) ([]Manifest, error)          { return whole(ReadUsable(tree)) }
func ReadFilesDir(tree fs.FS) ([]FileManifest, error) { return whole(ReadUsableFiles(tree)) }

func whole[M any](good []M, bad []BadList, err error) ([]M, error) {
	for _, b := range bad {
		err = errors.Join(err, b.Err)
	}
	if err != nil {
		return nil, err
	}
	return good, nil
}

// faultsOf are subject and message of every fault in an error.
func faultsOf(err error) (all []string) {
	if joined, is := err.(interface{ Unwrap() []error }); is {
		for _, one := range joined.Unwrap() {
			all = append(all, faultsOf(one)...)
		}
		return all
	}
	var coded *verdict.Error
	if errors.As(err, &coded) {
		return []string{string(coded.Finding.Code) + " " + coded.Finding.Subject + " " + coded.Finding.Message}
	}
	return all
}

// TestListsAsTheyAre: each row is a list, and what it lists or what is wrong.
func TestListsAsTheyAre(t *testing.T) {
	entry := func(digest, tags string) string {
		return "- name: demo\n  dmap:\n    \"" + digest + "\": [" + tags + "]\n"
	}
	for _, c := range []struct{ name, list, images, fault string }{
		{"nothing", "", "[]", ""},
		{"a comment", "# No images yet\n", "[]", ""},
		{"a comment in a document", "---\n# No images yet\n", "[]", ""},
		{"a comment that hides a key from some", "# No images yet\r- name: demo\n", "", ":1 reading YAML at 1:16"},
		{"an empty list", "[]\n", "[]", ""},
		{"an empty mapping", "{}\n", "", ":1 want a list of images"},
		{"a word", "none\n", "", ":1 want a list of images"},
		{"a name without digests", "- name: demo\n  dmap:\n- name: other\n", "[]", ""},
		{"a name with another value", "- name: demo\n  dmap: none\n", "", ":1 demo: want a dmap"},
		{"a name twice", entry(one, `"v1"`) + entry(two, `"v2"`), "[{demo [{" + one + " [v1]} {" + two + " [v2]}]}]", ""},
		{"a name and its digest twice", entry(one, `"v1"`) + entry(one, `"v1"`), "[{demo [{" + one + " [v1]}]}]", ""},
		{"with another tag", entry(one, `"v1"`) + entry(one, `"v2"`), "[{demo [{" + one + " [v1 v2]}]}]", ""},
		{"a tag of two digests", entry(one, `"v1"`) + entry(two, `"v1"`), "", ":6 demo:v1: the tag names two digests, the first in line 3"},
	} {
		m, err := ParseThin("team", []byte(registries), []byte(c.list))
		if (err == nil) != (c.fault == "") || err == nil && fmt.Sprint(m.Images) != c.images {
			t.Errorf("%s: %v, %v", c.name, m.Images, err)
		}
		if got := faultsOf(err); err != nil && (len(got) != 1 || !strings.HasPrefix(got[0], "CONFIG images/team/images.yaml"+c.fault)) {
			t.Errorf("%s: %q, want %q", c.name, got, c.fault)
		}
	}
	alone := "images:\n- name: demo\n  dmap: "
	if _, err := Parse("alone.yaml", []byte(registries+alone+"{}\n")); err == nil || !strings.Contains(err.Error(), "alone.yaml:9") {
		t.Errorf("an image without digests in a manifest of one file: %v", err)
	}
	if _, err := Parse("alone.yaml", []byte(registries+alone+"{\""+one+"\": []}\n")); err != nil {
		t.Errorf("its twin: %v", err)
	}
}

// TestEveryFault: one run names all faults of all files, with their lines.
func TestEveryFault(t *testing.T) {
	_, err := ReadDir(forest(map[string]string{
		"manifests/a/promoter-manifest.yaml": "registries:\n- {name: staging.example.test/a, src: true}\n- {name: prod}\n- {name: prod/b}\nprovenance:\n  mode: audit\n  level: 4\n  sources:\n  - \"a@b\"\n",
		"manifests/c/promoter-manifest.yaml": placesOf("staging.example.test/c", "/c"),
		"images/a/images.yaml": "- name: ../demo\n  dmap: {\"" + one + "\": [\"v1\"]}\n- name: demo\n  tags: []\n- name: demo\n  dmap:\n    \"" +
			one[1:] + "\": [\"v1\"]\n    \"" + two + "\": [\"v 1\", \".\"]\n    \"" + one + "\": [1.10]\n",
		"images/b/images.yaml": "- name: [\n",
	}))
	want := []string{
		"manifests/a/promoter-manifest.yaml:3 prod: not a registry", "manifests/a/promoter-manifest.yaml:4 prod/b: not a registry",
		`manifests/a/promoter-manifest.yaml:6 provenance: mode "audit"`, "manifests/a/promoter-manifest.yaml:6 provenance: a policy that is not off needs",
		`manifests/a/promoter-manifest.yaml:9 provenance: source "a@b"`, "manifests/a/promoter-manifest.yaml:7 provenance: level 4",
		"images/a/images.yaml:1 ../demo: not a repository name", "images/a/images.yaml:4 reading YAML at 4:3: unknown key",
		`images/a/images.yaml:7 demo: "` + one[1:], `images/a/images.yaml:8 demo: "v 1" is not a tag`, `images/a/images.yaml:8 demo: "." is not a tag`,
		"images/a/images.yaml:9 reading YAML at 9:", "images/b/images.yaml:1 reading YAML", "images/c/images.yaml the manifest manifests/c/promoter-manifest.yaml has no such list",
	}
	got := faultsOf(err)
	if len(got) != len(want) {
		t.Errorf("%d faults, want %d:\n%s", len(got), len(want), strings.Join(got, "\n"))
	}
	for _, w := range want {
		if !slices.ContainsFunc(got, func(g string) bool { return strings.HasPrefix(g, "CONFIG "+w) }) {
			t.Errorf("no fault %q in\n%s", w, strings.Join(got, "\n"))
		}
	}
	if all, err := ReadDir(forest(nil)); err != nil || len(all) != 2 {
		t.Errorf("the twin without faults: %d manifests, %v", len(all), err)
	}
	many := strings.Repeat("- name: A\n  dmap:\n", maxFaults+7)
	if _, err := ReadDir(forest(map[string]string{"images/a/images.yaml": many})); len(faultsOf(err)) != maxFaults || !strings.Contains(err.Error(), "and 7 more") {
		t.Errorf("%d faults of %d", len(faultsOf(err)), maxFaults+7)
	}
}

// TestReadUsable: only what a bad list names is left out, and all of it is listed.
func TestReadUsable(t *testing.T) {
	broken := map[string]string{"images/b/images.yaml": "- name: demo\n  dmap:\n    \"" + two + "\": [\"v1\"]\n- name: other\n  dmap:\n    \"sha256:2\": []\n"}
	good, bad, err := ReadUsable(forest(broken))
	if err != nil || len(good) != 1 || good[0].Name != "a" || len(bad) != 1 {
		t.Fatalf("%v, %v, %v", good, bad, err)
	}
	said := fmt.Sprint(LeftOut(bad))
	for _, w := range []string{
		"PLAN_MISSING plan: it lacks what 1 list with faults would promote, 2 names", "CONFIG images/b/images.yaml:6: other: \"sha256:2\" is not a SHA-256 digest",
		"left out of b: staging.example.test/b/demo", "left out of b: staging.example.test/b/other",
	} {
		if !strings.Contains(said, w) {
			t.Errorf("no %q in\n%s", w, said)
		}
	}
	if verdict.OutcomeOf(LeftOut(bad)) != verdict.Refused || LeftOut(nil) != nil {
		t.Error("only what is left out is refused")
	}
	if _, bad, _ := ReadUsable(forest(map[string]string{"images/b/images.yaml": "- name: [\n"})); !strings.Contains(fmt.Sprint(LeftOut(bad)), "left out of b: everything; its names cannot be read") {
		t.Errorf("a list that is no YAML: %v", bad)
	}
	broken["manifests/a/promoter-manifest.yaml"] = "registries: []\n"
	good, bad, err = ReadUsable(forest(broken))
	if all := faultsOf(err); len(good)+len(bad) != 0 || len(all) != 3 {
		t.Errorf("places that cannot be read: %v, %v, %q", good, bad, all)
	}
}

// TestImagesOfOthers: a list names only images of its own project.
func TestImagesOfOthers(t *testing.T) {
	named := func(name string) string { return "- name: " + name + "\n  dmap:\n    \"" + one + "\": [\"v2\"]\n" }
	for _, c := range []struct{ name, image, places, fault string }{
		{"its own", "c/demo", "", ""},
		{"in a place that begins like another's", "bc/demo", "", ""},
		{"in another's place", "b/demo", "", "images/a/images.yaml:1 b/demo: the image is in eu.example.test/prod/b, which is a place of b"},
		{"another's place itself", "b", "", "images/a/images.yaml:1 b: the image is in eu.example.test/prod/b, which is a place of b"},
		{"in another's staging", "demo", placesOf("staging.example.test", "/a"), ""},
		{"in another's staging, by its name", "b/demo", placesOf("staging.example.test", "/a"), "images/a/images.yaml:1 b/demo: the image is in staging.example.test/b, which is a place of b"},
		{"in a second place of its own", "b/demo", placesOf("staging.example.test/a", "") + "- {name: eu.example.test/prod/b}\n", ""},
	} {
		changes := map[string]string{"images/a/images.yaml": named(c.image)}
		if c.places != "" {
			changes["manifests/a/promoter-manifest.yaml"] = c.places
		}
		good, bad, err := ReadUsable(forest(changes))
		if err != nil || len(good)+len(bad) != 2 || len(bad) > 0 != (c.fault != "") {
			t.Errorf("%s: %v, %v, %v", c.name, good, bad, err)
		}
		if c.fault != "" && !strings.HasPrefix(strings.Join(faultsOf(bad[0].Err), "\n"), "CONFIG "+c.fault) {
			t.Errorf("%s: %v", c.name, bad)
		}
	}
}

// TestOneStore: a single manifest of files lies beside its list or lists.
func TestOneStore(t *testing.T) {
	first, second := files("v1/tool", `"`+hexOne+`"`), files("v2/tool", `"`+hexTwo+`"`)
	for _, c := range []struct {
		name  string
		tree  map[string]string
		files int
	}{
		{"one list", map[string]string{"files.yaml": first}, 1},
		{"several lists", map[string]string{"files/1.yaml": first, "files/2.yaml": second, "files/OWNERS": "x"}, 2},
		{"both", map[string]string{"files/1.yaml": first, "files.yaml": second}, 0},
		{"with others", map[string]string{"files.yaml": first, "filestores/a/filepromoter-manifest.yaml": stores}, 0},
		{"no list", map[string]string{"files/OWNERS": "x"}, 0},
		{"two digests of a name", map[string]string{"files/1.yaml": first, "files/2.yaml": files("v1/tool", `"`+hexTwo+`"`)}, 0},
	} {
		tree := fstest.MapFS{"filepromoter-manifest.yaml": {Data: []byte(stores)}}
		for name, text := range c.tree {
			tree[name] = &fstest.MapFile{Data: []byte(text)}
		}
		all, err := ReadFilesDir(fs.FS(tree))
		if !HasFiles(tree) || (err == nil) != (c.files > 0) || err == nil && (len(all) != 1 || len(all[0].Files) != c.files) {
			t.Errorf("%s: %+v, %v", c.name, all, err)
		}
		if c.name == "two digests of a name" && !strings.Contains(fmt.Sprint(err), "files/2.yaml:2: v1/tool: the file is listed with two digests, the first at files/1.yaml:2") {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// TestUsableFiles: a bad list leaves out all files of its manifest.
func TestUsableFiles(t *testing.T) {
	tree := fstest.MapFS{}
	for name, text := range map[string]string{
		"filestores/a/filepromoter-manifest.yaml": stores, "manifests/a/1.yaml": files("v1/tool", `"`+hexOne+`"`), "manifests/a/2.yaml": files("v2/tool", "1", "v3/tool", "2"),
		"filestores/b/filepromoter-manifest.yaml": stores, "manifests/b/1.yaml": files("v1/tool", `"`+hexOne+`"`),
	} {
		tree[name] = &fstest.MapFile{Data: []byte(text)}
	}
	good, bad, err := ReadUsableFiles(tree)
	if err != nil || len(good) != 1 || good[0].Name != "b" || len(bad) != 1 || fmt.Sprint(bad[0].Names) != "[gs://staging/team/releases/v1/tool gs://staging/team/releases/v2/tool gs://staging/team/releases/v3/tool]" {
		t.Fatalf("%v, %v, %v", good, bad, err)
	}
	if got := faultsOf(bad[0].Err); len(got) != 2 || !strings.HasPrefix(got[0], "CONFIG manifests/a/2.yaml:3") || !strings.HasPrefix(got[1], "CONFIG manifests/a/2.yaml:5") {
		t.Errorf("%q", got)
	}
}
