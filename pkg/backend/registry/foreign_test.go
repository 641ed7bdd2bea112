package registry_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/waybill-release/waybill/pkg/backend/registry"
	"github.com/waybill-release/waybill/pkg/value/digest"
)

// TestForeignLayout: other tools write only a tag, or the whole name, or both;
// each is found, and two images of one name are not chosen between.
func TestForeignLayout(t *testing.T) {
	const manifest = `{"schemaVersion":2,"mediaType":"application/vnd.oci.image.manifest.v1+json"}`
	one, two := digest.Of(digest.SHA256, []byte(manifest)).String(), digest.Of(digest.SHA256, []byte("other")).String()
	entry := func(d, annotations string) string {
		return `{"mediaType":"application/vnd.oci.image.manifest.v1+json","digest":"` + d + `","size":76,"annotations":{` + annotations + `}}`
	}
	const ref, name = `"org.opencontainers.image.ref.name":`, `"io.containerd.image.name":`
	rows := []struct {
		what       string
		entries    []string
		references string
		err        error // of looking for lantern:1.0
	}{
		{"a tag", []string{entry(one, ref+`"1.0"`)}, ":1.0", nil},
		{"a name", []string{entry(one, ref+`"lantern:1.0"`)}, "lantern:1.0", nil},
		{"a whole name", []string{entry(one, ref+`"registry.example.test:5000/owner/lantern:1.0"`)}, "registry.example.test:5000/owner/lantern:1.0", nil},
		{"a tag and the name elsewhere", []string{entry(one, ref+`"1.0",`+name+`"example.test/lantern:1.0"`)}, "example.test/lantern:1.0", nil},
		{"the same twice", []string{entry(one, ref+`"1.0"`), entry(one, ref+`"lantern:1.0"`)}, ":1.0 lantern:1.0", nil},
		{"another repository", []string{entry(one, ref+`"other:1.0"`)}, "other:1.0", registry.ErrNotFound},
		{"another that ends alike", []string{entry(one, ref+`"magiclantern:1.0"`)}, "magiclantern:1.0", registry.ErrNotFound},
		{"another tag", []string{entry(one, ref+`"lantern:1.0.1"`)}, "lantern:1.0.1", registry.ErrNotFound},
		{"a port and no tag", []string{entry(one, ref+`"registry.example.test:5000/lantern"`)}, ":registry.example.test:5000/lantern", registry.ErrNotFound},
		{"no name", []string{entry(one, `"a":"b"`)}, "", registry.ErrNotFound},
		{"two images of one name", []string{entry(one, ref+`"1.0"`), entry(two, ref+`"lantern:1.0"`)}, ":1.0 lantern:1.0", errAny},
	}
	for _, r := range rows {
		t.Run(r.what, func(t *testing.T) {
			dir := t.TempDir()
			index := `{"schemaVersion":2,"manifests":[` + strings.Join(r.entries, ",") + `]}`
			if err := os.WriteFile(filepath.Join(dir, "index.json"), []byte(index), 0o644); err != nil {
				t.Fatal(err)
			}
			l, err := registry.OpenForeign(dir)
			if err != nil {
				t.Fatal(err)
			}
			names, err := l.References(t.Context())
			if err != nil || strings.Join(names, " ") != r.references {
				t.Errorf("references %q, %v", names, err)
			}
			d, err := l.Resolve(t.Context(), "lantern", "1.0")
			tags, errTags := l.Tags(t.Context(), "lantern")
			switch {
			case r.err == nil && (errTags != nil || !slices.Equal(tags, []string{"1.0"})):
				t.Errorf("the tags are %q, %v", tags, errTags)
			case r.err == nil && (err != nil || d.Digest.String() != one):
				t.Errorf("%s, %v", d.Digest, err)
			case r.err == nil && !slices.ContainsFunc(names, func(n string) bool { return l.Means(n, "lantern", "1.0") }):
				t.Error("no name means it")
			case errors.Is(r.err, errAny) && err == nil:
				t.Error("one of two was chosen")
			case r.err != nil && !errors.Is(r.err, errAny) && !errors.Is(err, r.err):
				t.Errorf("%v, want %v", err, r.err)
			}
		})
	}
}

// TestForeignLayoutNotADirectory: a path that cannot be a directory is refused when
// it is opened.
func TestForeignLayoutNotADirectory(t *testing.T) {
	l, err := registry.OpenForeign(filepath.Join(t.TempDir(), "missing"))
	if err != nil {
		t.Fatal(err)
	}
	if tags, err := l.Tags(t.Context(), "lantern"); codeOf(err) != "UNAVAILABLE" {
		t.Errorf("the tags of a missing layout are %q, %v", tags, err)
	}
	if _, err := registry.OpenForeign("gopher://example.test/layout"); err == nil {
		t.Error("an address with an unknown scheme was opened")
	}
}

// errAny stands for whatever error.
var errAny = errors.New("any error")
