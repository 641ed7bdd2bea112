package promoterfile

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/waybill-release/waybill/pkg/value/verdict"
)

const stores = `filestores:
- base: gs://staging/team/releases/
  src: true
- base: gs://prod/binaries/team
  service-account: promoter@example.test
- base: s3://mirror/team/
`

var (
	hexOne = strings.Repeat("1", 64)
	hexTwo = strings.Repeat("2", 64)
)

func files(pairs ...string) string {
	s := "files:\n"
	for i := 0; i < len(pairs); i += 2 {
		s += "- name: " + pairs[i] + "\n  sha256: " + pairs[i+1] + "\n"
	}
	return s
}

func TestThinFiles(t *testing.T) {
	m, err := ParseThinFiles("team", []byte(stores), List{"b.yaml", []byte(files("v2/tool", `"`+hexTwo+`"`))}, List{"a.yaml", []byte(files("v1/tool.exe", `"`+hexTwo+`"`, "v1/tool", `"`+hexOne+`"`))})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := fmt.Sprint(m.Source, m.Destinations), "{gs://staging/team/releases/ } [{gs://prod/binaries/team/ promoter@example.test} {s3://mirror/team/ }]"; got != want {
		t.Errorf("places %s, want %s", got, want)
	}
	if got, want := fmt.Sprint(m.Files), fmt.Sprintf("[{v1/tool %s} {v1/tool.exe %s} {v2/tool %s}]", one, two, two); got != want {
		t.Errorf("files %s, want %s", got, want)
	}
}

func TestManifestsOfFilesAreRefused(t *testing.T) {
	good := files("v1/tool", hexOne+"a")
	good = strings.Replace(good, hexOne+"a", hexOne[:63]+"a", 1)
	named := func(name string) string { return strings.Replace(good, "v1/tool", name, 1) }
	with := func(old, new string) string { return strings.Replace(stores, old, new, 1) }
	for name, c := range map[string]struct {
		where, what string
		fine        bool
	}{
		"as it is (twin)":                      {stores, good, true},
		"a directory (twin)":                   {with("s3://mirror/team/", "file:///srv/team"), good, true},
		"a bucket without a path (twin)":       {with("s3://mirror/team/", "s3://mirror"), good, true},
		"no source":                            {with("src: true", "src: false"), good, false},
		"two sources":                          {with("s3://mirror/team/", "s3://mirror/team/\n  src: true"), good, false},
		"nowhere to go":                        {strings.Split(stores, "- base: gs://prod")[0], good, false},
		"a place twice":                        {with("s3://mirror/team/", "gs://prod/binaries/team/"), good, false},
		"back to where it was":                 {with("s3://mirror/team/", "gs://staging/team/releases"), good, false},
		"into the source":                      {with("s3://mirror/team/", "gs://staging/team/releases/old"), good, false},
		"one destination in another":           {with("s3://mirror/team/", "gs://prod/binaries"), good, false},
		"beside the source (twin)":             {with("s3://mirror/team/", "gs://staging/team/releases-old"), good, true},
		"a place that is a web page":           {with("s3://mirror/team/", "https://mirror/team/"), good, false},
		"a place without a scheme":             {with("s3://mirror/team/", "/srv/team"), good, false},
		"a place without a bucket":             {with("s3://mirror/team/", "s3:///team"), good, false},
		"a place that leads away":              {with("s3://mirror/team/", "s3://mirror/../team"), good, false},
		"a place with a query":                 {with("s3://mirror/team/", "s3://mirror/team?a=b"), good, false},
		"a place with a user":                  {with("s3://mirror/team/", "s3://me@mirror/team"), good, false},
		"an escape in a place":                 {with("s3://mirror/team/", "s3://mirror/te%61m"), good, false},
		"a key that nobody knows":              {with("service-account", "serviceAccount"), good, false},
		"no list":                              {stores, "", false},
		"an empty list":                        {stores, "files: []\n", false},
		"a list of images":                     {stores, "images: []\n", false},
		"a digest that is none":                {stores, files("v1/tool", "abc"), false},
		"a digest with its algorithm":          {stores, files("v1/tool", `"`+one+`"`), false},
		"a digest in capitals":                 {stores, files("v1/tool", strings.Repeat("A", 64)), false},
		"a digest that may be a number (twin)": {stores, files("v1/tool", "0b"+hexOne[2:], "v1/x", hexOne, "v1/y", "1e"+hexOne[2:]), true},
		"a digest in quotes (twin)":            {stores, files("v1/tool", `"`+hexOne+`"`), true},
		"a digest that is a list":              {stores, files("v1/tool", "["+hexOne+"]"), false},
		"a digest that is null":                {stores, files("v1/tool", "null"), false},
		"no digest":                            {stores, "files:\n- name: v1/tool\n", false},
		"a name that leads away":               {stores, named("../tool"), false},
		"a name that leads away in between":    {stores, named("v1/../tool"), false},
		"an absolute name":                     {stores, named("/v1/tool"), false},
		"a name of another system":             {stores, named(`'v1\tool'`), false},
		"a name with an empty part":            {stores, named("v1//tool"), false},
		"a name that is a directory":           {stores, named("v1/"), false},
		"a name that others write otherwise":   {stores, named("v1/tool."), false},
		"a name with a blank":                  {stores, named("v1/a tool"), false},
		"a name that looks like another":       {stores, named("v1/tооl"), false},
		"a name that is too long":              {stores, files("v1/"+strings.Repeat("a", 256), `"`+hexOne+`"`), false},
		"a long name (twin)":                   {stores, files("v1/"+strings.Repeat("a", 255), `"`+hexOne+`"`), true},
		"a name twice with two digests":        {stores, files("v1/tool", `"`+hexOne+`"`, "v1/tool", `"`+hexTwo+`"`), false},
		"a name twice with one (its twin)":     {stores, files("v1/tool", `"`+hexOne+`"`, "v1/tool", `"`+hexOne+`"`), true},
		"a comment":                            {stores, "# none yet\n", false},
		"two names of one digest (twin)":       {stores, files("v1/tool", `"`+hexOne+`"`, "v2/tool", `"`+hexOne+`"`), true},
		"a name in other letters (its twin)":   {stores, files("v1/tool", `"`+hexOne+`"`, "v1/Tool", `"`+hexTwo+`"`), true},
		"an image manifest in place of one":    {registries, good, false},
		"a manifest of files among the lists":  {stores, stores, false},
	} {
		m, err := ParseThinFiles("team", []byte(c.where), List{"team/v1.yaml", []byte(c.what)})
		var coded *verdict.Error
		if (err == nil) != c.fine || err != nil && (!errors.As(err, &coded) || coded.Finding.Code != verdict.ConfigParse) {
			t.Errorf("%s: %v", name, err)
		}
		if err == nil && len(m.Files) == 0 {
			t.Errorf("%s: nothing was read", name)
		}
	}
	whole, err := ParseFiles("whole.yaml", []byte(stores+good))
	if err != nil || len(whole.Files) != 1 || !IsFiles([]byte(stores+good)) || IsFiles([]byte(registries)) {
		t.Errorf("%+v, %v", whole, err)
	}
	if _, err := ParseFiles("whole.yaml", []byte(stores)); err == nil {
		t.Error("a manifest without files")
	}
}

func TestReadFilesDir(t *testing.T) {
	file := func(s string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(s)} }
	whole := func() fstest.MapFS {
		return fstest.MapFS{
			"filestores/a/filepromoter-manifest.yaml": file(stores), "manifests/a/v1.yaml": file(files("v1/tool", `"`+hexOne+`"`)),
			"manifests/a/v2.yaml": file(files("v2/tool", `"`+hexTwo+`"`)), "manifests/a/OWNERS": file("x"), "filestores/README.md": file("x"),
			"filestores/b/filepromoter-manifest.yaml": file(stores), "manifests/b/all.yml": file(files("v1/other", `"`+hexOne+`"`)), "manifests/c/OWNERS": file("x"),
		}
	}
	all, err := ReadFilesDir(whole())
	if err != nil || len(all) != 2 || len(all[0].Files) != 2 || all[1].Name != "b" || !HasFiles(whole()) {
		t.Errorf("%+v, %v", all, err)
	}
	tree := whole()
	tree["manifests/a/v2.yaml"], tree["manifests/a/v3.yaml"] = tree["manifests/a/v1.yaml"], file("# none yet\n")
	if all, err := ReadFilesDir(tree); err != nil || len(all[0].Files) != 1 {
		t.Errorf("one name and one digest in two lists: %+v, %v", all, err)
	}
	for name, change := range map[string]func(fstest.MapFS){
		"a manifest without a list":        func(tree fstest.MapFS) { delete(tree, "manifests/b/all.yml") },
		"a list without a manifest":        func(tree fstest.MapFS) { delete(tree, "filestores/b/filepromoter-manifest.yaml") },
		"one name, two lists, two digests": func(tree fstest.MapFS) { tree["manifests/a/v2.yaml"] = file(files("v1/tool", `"`+hexTwo+`"`)) },
		"a list that is something else":    func(tree fstest.MapFS) { tree["manifests/a/v2.yaml"] = file("a: b\n") },
		"neither":                          func(tree fstest.MapFS) { clear(tree) },
		"an empty directory, and no stores": func(tree fstest.MapFS) {
			clear(tree)
			tree["filestores/x"] = file("x")
			tree["manifests/x"] = file("x")
		},
	} {
		tree := whole()
		change(tree)
		if all, err := ReadFilesDir(tree); err == nil {
			t.Errorf("%s: %d manifests", name, len(all))
		}
	}
}

func FuzzParseFiles(f *testing.F) {
	f.Add([]byte(stores + files("v1/tool", `"`+hexOne+`"`)))
	f.Add([]byte("filestores: [{base: \"gs://a/../b\", src: true}]\nfiles: [1]\n"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		m, err := ParseFiles("x", raw)
		if err != nil {
			return
		}
		if m.Source.Name == "" || len(m.Destinations) == 0 || len(m.Files) == 0 {
			t.Errorf("%+v lacks something", m)
		}
		for _, f := range m.Files {
			if strings.Contains("/"+f.Name+"/", "/../") || strings.HasPrefix(f.Name, "/") || f.Digest.IsZero() {
				t.Errorf("%+v", f)
			}
		}
	})
}
