package sbom

import (
	"strings"
	"testing"

	"github.com/waybill-release/waybill/pkg/sbom/gomod"
	"github.com/waybill-release/waybill/pkg/value/digest"
)

// TestBaseURL: the tag of a base image is no part of its name.
func TestBaseURL(t *testing.T) {
	sum := "sha256:" + strings.Repeat("ab", 32)
	version := "sha256%3A" + strings.Repeat("ab", 32)
	for ref, want := range map[string]string{
		"example.test/distroless/Static:nonroot@" + sum: "pkg:oci/static@" + version + "?repository_url=example.test%2Fdistroless%2FStatic&tag=nonroot",
		"example.test/distroless/static@" + sum:         "pkg:oci/static@" + version + "?repository_url=example.test%2Fdistroless%2Fstatic",
		"localhost:5000/static@" + sum:                  "pkg:oci/static@" + version + "?repository_url=localhost%3A5000%2Fstatic",
		"localhost:5000/static:v1@" + sum:               "pkg:oci/static@" + version + "?repository_url=localhost%3A5000%2Fstatic&tag=v1",
		"example.test/static:v1":                        "", // by no digest
		"example.test/static@sha512:ab":                 "",
	} {
		if got := base(ref).PURL; got != want {
			t.Errorf("%s:\n got  %s\n want %s", ref, got, want)
		}
	}
}

// TestModuleURL: a package URL has a version only if the module can have it.
func TestModuleURL(t *testing.T) {
	for m, want := range map[gomod.Module]string{
		{Path: "example.org/lantern", Version: "v1.2.3"}:          "pkg:golang/example.org/lantern@v1.2.3",
		{Path: "example.org/lantern/v2", Version: "v2.0.1-rc.1"}:  "pkg:golang/example.org/lantern/v2@v2.0.1-rc.1",
		{Path: "example.org/lantern/v2", Version: "v1.2.3"}:       "pkg:golang/example.org/lantern/v2",
		{Path: "example.org/lantern", Version: "v2.0.0"}:          "pkg:golang/example.org/lantern",
		{Path: "example.org/lantern", Version: "v1.2.3+dirty"}:    "pkg:golang/example.org/lantern",
		{Path: "example.org/lantern", Version: "2024-05-01"}:      "pkg:golang/example.org/lantern",
		{Path: "example.org/lantern"}:                             "pkg:golang/example.org/lantern",
		{Path: "cmd/go", Version: "1.26.0"}:                       "",
		{Path: "lantern", Version: "v1.2.3"}:                      "",
		{Path: "example.org/old", Version: "v2.0.0+incompatible"}: "pkg:golang/example.org/old@v2.0.0%2Bincompatible",
	} {
		in := Input{Name: "x", Version: "v9.9.9"}
		b := in.draft("x", digest.SetOf([]byte("x")))
		b.module(m, mainKind)
		if got := b.draft.Packages[1].PURL; got != want {
			t.Errorf("%v: %q, want %q", m, got, want)
		}
	}
}

// TestTopmost: the release is a version of the module above all others, and of
// none if there is no such.
func TestTopmost(t *testing.T) {
	for dirs, want := range map[string]string{
		". lib lib/part": ".", "lantern-v1 lantern-v1/api": "lantern-v1", "app lib lib/part": "", "app": "app", "": "",
		"a.tar/x b": "",
	} {
		var all []gomod.SourceModule
		for _, dir := range strings.Fields(dirs) {
			all = append(all, gomod.SourceModule{Dir: dir})
		}
		if got := topmost(all); got != want {
			t.Errorf("%s: %q, want %q", dirs, got, want)
		}
	}
}
