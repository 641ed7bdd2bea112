package promoterfile

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/waybill-release/waybill/pkg/value/verdict"
)

var (
	one = "sha256:" + strings.Repeat("1", 64)
	two = "sha256:" + strings.Repeat("2", 64)
)

const registries = `registries:
- name: staging.example.test/team
  src: true
- name: eu.example.test/prod
  service-account: promoter@example.test
- name: us.example.test/prod
  service-account: promoter@example.test
`

func list(digests ...string) string {
	return "- name: demo\n  dmap:\n    " + strings.Join(digests, "\n    ") + "\n"
}

func TestThinManifest(t *testing.T) {
	m, err := ParseThin("team", []byte(registries), []byte(list(`"`+two+`": ["v1.1", "latest", "v1.1"]`, `"`+one+`": []`)+"- name: a/b\n  dmap: {\""+one+"\": [\"v1\"]}\n"))
	if err != nil {
		t.Fatal(err)
	}
	if m.Source.Name != "staging.example.test/team" || len(m.Destinations) != 2 || m.Destinations[1].Account != "promoter@example.test" {
		t.Errorf("places %+v, %+v", m.Source, m.Destinations)
	}
	got := fmt.Sprint(m.Images)
	if want := fmt.Sprintf("[{a/b [{%s [v1]}]} {demo [{%s []} {%s [latest v1.1]}]}]", one, one, two); got != want {
		t.Errorf("images %s, want %s", got, want)
	}
}

func TestManifestsAreRefused(t *testing.T) {
	good := list(`"` + one + `": ["v1"]`)
	with := func(old, new string) string { return strings.Replace(registries, old, new, 1) }
	for name, c := range map[string]struct {
		where, what, code string
	}{
		"as it is (twin)":                {registries, good, ""},
		"no source":                      {with("src: true", "src: false"), good, "CONFIG"},
		"two sources":                    {with("- name: eu.example.test/prod", "- name: eu.example.test/prod\n  src: true"), good, "CONFIG"},
		"nowhere to go":                  {strings.Split(registries, "- name: eu")[0], good, "CONFIG"},
		"a place twice":                  {with("us.example", "eu.example"), good, "CONFIG"},
		"a place twice, in capitals":     {with("us.example", "EU.example"), good, "CONFIG"},
		"back to where it was":           {with("us.example.test/prod", "staging.example.test/team/"), good, "CONFIG"},
		"a registry without a host":      {with("us.example.test/prod", "prod"), good, "CONFIG"},
		"a registry that is an address":  {with("us.example.test/prod", "https://us.example.test/prod"), good, "CONFIG"},
		"a registry that leads away":     {with("us.example.test/prod", "us.example.test/prod/../team"), good, "CONFIG"},
		"a key that nobody knows":        {with("service-account", "serviceAccount"), good, "CONFIG"},
		"an empty file":                  {"", good, "CONFIG"},
		"a list that is a mapping":       {registries, "demo: {}\n", "CONFIG"},
		"two lists":                      {registries, good + "---\n" + good, "CONFIG"},
		"a digest twice":                 {registries, list(`"`+one+`": ["v1"]`, `"`+one+`": ["v2"]`), "CONFIG"},
		"a tag of two digests":           {registries, list(`"`+one+`": ["v1"]`, `"`+two+`": ["v1"]`), "CONFIG"},
		"two tags of one digest (twin)":  {registries, list(`"` + one + `": ["v1", "v2"]`), ""},
		"a digest that is none":          {registries, list(`"sha256:abc": ["v1"]`), "CONFIG"},
		"a digest in capitals":           {registries, list(`"sha256:` + strings.Repeat("A", 64) + `": ["v1"]`), "CONFIG"},
		"a SHA-512":                      {registries, list(`"sha512:` + strings.Repeat("1", 128) + `": ["v1"]`), "CONFIG"},
		"a tag that is none":             {registries, list(`"` + one + `": ["v 1"]`), "CONFIG"},
		"a tag that is too long":         {registries, list(`"` + one + `": ["` + strings.Repeat("v", 129) + `"]`), "CONFIG"},
		"a long tag (twin)":              {registries, list(`"` + one + `": ["` + strings.Repeat("v", 128) + `"]`), ""},
		"a tag that is a number":         {registries, list(`"` + one + `": [1.10]`), "CONFIG"},
		"one tag, and no list":           {registries, list(`"` + one + `": "v1"`), "CONFIG"},
		"digests that are a list":        {registries, "- name: demo\n  dmap: [\"" + one + "\"]\n", "CONFIG"},
		"no name":                        {registries, "- dmap: {\"" + one + "\": [\"v1\"]}\n", "CONFIG"},
		"a name that leads away":         {registries, "- name: ../demo\n  dmap: {\"" + one + "\": [\"v1\"]}\n", "CONFIG"},
		"an image twice (twin)":          {registries, good + good, ""},
		"an image twice, a tag moved":    {registries, good + list(`"`+two+`": ["v1"]`), "CONFIG"},
		"an alias":                       {registries, "- &a\n  name: demo\n  dmap: {\"" + one + "\": [\"v1\"]}\n- *a\n", "CONFIG"},
		"a policy (twin)":                {registries + policyText, good, ""},
		"a policy that says off (twin)":  {registries + "provenance: {mode: \"off\"}\n", good, ""},
		"a policy of another mode":       {registries + strings.Replace(policyText, "require", "audit", 1), good, "CONFIG"},
		"a policy without signers":       {registries + strings.Replace(policyText, `"sigstore::https://issuer.example.test::builder@example.test"`, "", 1), good, "CONFIG"},
		"a builder without a level":      {registries + strings.Replace(policyText, ", level: 3}", "}", 1), good, "CONFIG"},
		"a source with a ref":            {registries + strings.Replace(policyText, "/demo\"", "/demo@main\"", 1), good, "CONFIG"},
		"a level that nobody can reach":  {registries + strings.Replace(policyText, "level: 2", "level: 4", 1), good, "CONFIG"},
		"a pattern of levels that is no": {registries + strings.Replace(policyText, "charts/*", "charts/[", 1), good, "CONFIG"},
	} {
		m, err := ParseThin("team", []byte(c.where), []byte(c.what))
		var coded *verdict.Error
		got := ""
		if errors.As(err, &coded) {
			got = string(coded.Finding.Code)
		}
		if got != c.code || (err == nil) != (c.code == "") {
			t.Errorf("%s: %v, want %q", name, err, c.code)
		}
		if err == nil && len(m.Images) == 0 {
			t.Errorf("%s: nothing was read", name)
		}
	}
}

const policyText = `provenance:
  mode: require
  signers: ["sigstore::https://issuer.example.test::builder@example.test"]
  builders: [{id: "https://builder.example.test/v1", level: 3}]
  sources: ["example.test/team/demo"]
  level: 2
  levels: [{images: ["charts/*"], level: 3}]
`

func TestReadDir(t *testing.T) {
	file := func(s string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(s)} }
	good := list(`"` + one + `": ["v1"]`)
	whole := func() fstest.MapFS {
		return fstest.MapFS{
			"manifests/a/promoter-manifest.yaml": file(registries), "images/a/images.yaml": file(good),
			"manifests/b/promoter-manifest.yaml": file(registries), "images/b/images.yaml": file(good),
			"manifests/README.md": file("x"), "manifests/none/OWNERS": file("x"), "manifest/c/promoter-manifest.yaml": file("nobody reads this"),
		}
	}
	if all, err := ReadDir(whole()); err != nil || len(all) != 2 || all[1].Name != "b" {
		t.Errorf("%d manifests, %v", len(all), err)
	}
	for name, without := range map[string][]string{
		"no list": {"images/b/images.yaml"}, "no manifest at all": {"manifests/a/promoter-manifest.yaml", "manifests/b/promoter-manifest.yaml"},
	} {
		tree := whole()
		for _, f := range without {
			delete(tree, f)
		}
		if all, err := ReadDir(tree); err == nil {
			t.Errorf("%s: %d manifests", name, len(all))
		}
	}
	if _, err := ReadDir(fstest.MapFS{}); err == nil {
		t.Error("an empty directory")
	}
}

// TestPublishedManifests reads what Kubernetes publishes.
func TestPublishedManifests(t *testing.T) {
	dir := filepath.Join("..", "..", "..", "..", "shared", "corpora", "promoter")
	if _, err := os.Stat(dir); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal(err)
		}
		t.Skipf("the corpora are not here: %v", err)
	}
	where, err := os.ReadFile(filepath.Join(dir, "manifests", "k8s-staging-kubernetes", manifestName))
	if err != nil {
		t.Fatal(err)
	}
	what, err := os.ReadFile(filepath.Join(dir, "images", "k8s-staging-bom", imagesName))
	if err != nil {
		t.Fatal(err)
	}
	m, err := ParseThin("kubernetes", where, what)
	if err != nil || len(m.Destinations) < 20 || len(m.Images) != 1 || len(m.Images[0].Digests) != 6 {
		t.Errorf("%d destinations, %d images, %v", len(m.Destinations), len(m.Images), err)
	}
	cases, err := filepath.Glob(filepath.Join(dir, "valid", "*"))
	if err != nil || len(cases) == 0 {
		t.Fatalf("%d cases, %v", len(cases), err)
	}
	for _, c := range cases {
		all, err := ReadDir(os.DirFS(c))
		if err != nil || len(all) == 0 {
			t.Errorf("%s: %d manifests, %v", filepath.Base(c), len(all), err)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(registries+policyText), []byte(list(`"`+one+`": ["v1"]`)))
	f.Add([]byte(registries), []byte("- name: a\n  dmap: [1]\n"))
	f.Fuzz(func(t *testing.T, where, what []byte) {
		m, err := ParseThin("x", where, what)
		if err == nil && (m.Source.Name == "" || len(m.Destinations) == 0) {
			t.Errorf("%+v has no ends", m)
		}
	})
}
