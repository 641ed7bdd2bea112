package gate

import (
	"slices"
	"strings"
	"testing"

	"github.com/waybill-release/waybill/pkg/document/intoto"
	"github.com/waybill-release/waybill/pkg/judge/policy"
	"github.com/waybill-release/waybill/pkg/release/manifest"
	"github.com/waybill-release/waybill/pkg/release/plan"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// TestInputsOfProvenance: all that provenance names is an input, in any
// form, but for source, modules and the bytes of the release.
func TestInputsOfProvenance(t *testing.T) {
	of := func(text string) map[string]string {
		return map[string]string{"sha256": digest.Of(digest.SHA256, []byte(text)).Hex()}
	}
	m := signedManifest{Manifest: manifest.Manifest{Artifacts: []manifest.Artifact{{Artifact: plan.Artifact{Name: "bin/lantern"}, Digests: digest.SetOf([]byte("lantern"))}}}}
	for _, row := range []struct {
		name string
		r    intoto.Resource
		want string // the repository or tool; "-" if it is no input, empty for one of another form
	}{
		{"the source", intoto.Resource{URI: "git+https://example.test/lantern", Digest: map[string]string{"gitCommit": "a"}}, "-"},
		{"a module", intoto.Resource{Name: "module example.test/m", URI: "pkg:golang/example.test/m@v1.0.0", Digest: of("m")}, "-"},
		{"an artifact", intoto.Resource{Name: "bin/lantern", Digest: of("lantern")}, "-"},
		{"other bytes under its name", intoto.Resource{Name: "bin/lantern", Digest: of("another")}, ""},
		{"a base image", intoto.Resource{Name: "base static", URI: "oci://registry.example.test:5000/base/static@sha256:" + of("static")["sha256"], Digest: of("static")}, "registry.example.test:5000/base/static"},
		{"a tool image", intoto.Resource{Name: "tool cross", URI: "oci://registry.example.test/cross@sha256:" + of("cross")["sha256"], Digest: of("cross")}, "registry.example.test/cross"},
		{"an image of the source", intoto.Resource{Name: "tool cross", URI: "oci:images/cross@sha256:" + of("cross")["sha256"], Digest: of("cross")}, ""},
		{"a program", intoto.Resource{Name: "tool go", Digest: of("go")}, "go"},
		{"a download", intoto.Resource{Name: "download firmware", URI: "https://dl.example.test/firmware", Digest: of("firmware")}, "firmware"},
		{"an image as another tool names it", intoto.Resource{URI: "pkg:docker/static@v1", Digest: of("static")}, ""},
		{"a file without a digest", intoto.Resource{Name: "x", URI: "https://example.test/x"}, ""},
	} {
		list := m.inputsOf([]intoto.Resource{row.r})
		if len(list) == 0 {
			list = []input{{name: "tool -"}}
		}
		if got := list[0].repository() + list[0].tool(); got != row.want {
			t.Errorf("%s: %q, want %q", row.name, got, row.want)
		}
	}
}

// TestPinnedInputs: what a lock pins is named as provenance will name it.
func TestPinnedInputs(t *testing.T) {
	sum := digest.Of(digest.SHA256, []byte("x"))
	var got []string
	for _, in := range pinned(plan.Lock{
		Bases:     map[string]plan.BaseLock{"static": {Image: "registry.example.test/static", Tag: "v1", Digest: sum}, "own": {Image: "oci:images/own", Digest: sum}},
		Tools:     map[string]plan.ToolLock{"cross": {Image: "registry.example.test/cross", Digest: sum}, "go": {Program: "go", Digest: sum}},
		Downloads: map[string]plan.DownloadLock{"firmware": {URL: "https://dl.example.test/firmware", Digest: sum}},
	}) {
		if err := in.check(); err != nil {
			t.Errorf("%s: %v", in.name, err)
		}
		got = append(got, strings.ReplaceAll(in.subject(), sum.String(), "DIGEST"))
	}
	want := []string{"base own DIGEST", "registry.example.test/static@DIGEST", "registry.example.test/cross@DIGEST", "tool go DIGEST", "download firmware DIGEST"}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestInputsWithTwoDigests: an input has one digest, and a request by hand
// cannot leave the inputs of its policy unjudged.
func TestInputsWithTwoDigests(t *testing.T) {
	one, other := digest.Of(digest.SHA256, []byte("one")), digest.Of(digest.SHA256, []byte("other"))
	for _, row := range []struct {
		name string
		in   input
		code verdict.Code
	}{
		{"one digest", input{"base static", "oci://registry.example.test/static@" + one.String(), one}, verdict.Usage}, // judged no further without a gate
		{"two digests", input{"base static", "oci://registry.example.test/static@" + other.String(), one}, verdict.NotBound},
		{"no digest", input{"tool go", "", digest.Digest{}}, verdict.NoArtifact},
	} {
		v := inputJudge{}.one(t.Context(), policy.Policy{}, row.in)
		if v.Err() == nil || len(v.Findings) != 1 || v.Findings[0].Code != row.code {
			t.Errorf("%s: %v, want %s", row.name, v.Findings, row.code)
		}
	}
}
