package gate

import (
	"cmp"
	"testing"

	"github.com/waybill-release/waybill/pkg/release/manifest"
	"github.com/waybill-release/waybill/pkg/release/plan"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// TestGivenFileIsRecognised: the bytes choose the artifact, and the path that
// the user gave must not end like the name of another one.
func TestGivenFileIsRecognised(t *testing.T) {
	const linux, darwin, script = "bin/linux/amd64/x", "bin/darwin/amd64/x", "bin/darwin/amd64/setup"
	list := func(name, platform, body string) manifest.Artifact {
		return manifest.Artifact{Artifact: plan.Artifact{Name: name, Class: plan.Binary, Platform: platform}, Digests: digest.SetOf([]byte(body))}
	}
	m := signedManifest{Manifest: manifest.Manifest{Artifacts: []manifest.Artifact{
		list(darwin, "darwin/amd64", "darwin"), list(linux, "linux/amd64", "linux"),
		list(script, "darwin/amd64", "script"), list("bin/linux/amd64/setup", "linux/amd64", "script"),
	}}, bundle: digest.SetOf([]byte("manifest"))}
	rows := []struct {
		path, body, platform string
		want                 string
		code                 verdict.Code
	}{
		{path: "dl/linux/amd64/x", body: "linux", want: linux},
		{path: "dl/darwin/amd64/x", body: "linux", code: verdict.NameSwap},
		{path: "dl/darwin/amd64/x", body: "linux", platform: "linux/amd64", code: verdict.NameSwap},
		{path: darwin, body: "linux", code: verdict.NameSwap},
		{path: darwin, body: "darwin", want: darwin},
		{path: "x", body: "linux", want: linux},
		{path: "amd64/x", body: "linux", want: linux},
		{path: "dl/darwin/amd64/renamed", body: "linux", want: linux},
		{path: "setup", body: "linux", code: verdict.NameSwap},
		{path: "linux/amd64/setup", body: "script", want: "bin/linux/amd64/setup"},
		{path: "linux/amd64/setup", body: "script", platform: "darwin/amd64", want: script},
		{path: "dl/darwin/amd64/x", body: "changed", code: verdict.Tampered},
		{path: "dl/darwin/amd64/y", body: "changed", code: verdict.Extra},
		{path: linux, body: "linux", platform: "darwin/amd64", code: verdict.Platform},
	}
	for _, r := range rows {
		t.Run(r.path+" holds "+r.body+" for "+cmp.Or(r.platform, "any"), func(t *testing.T) {
			g, f := givenFile{path: r.path, digests: digest.SetOf([]byte(r.body))}, facts{}
			err := m.recognise(&g, r.platform, &f)
			if err == nil && (g.artifact != r.want || len(f.told) != 1) || err != nil && verdict.FindingOf("", err).Code != r.code || (err == nil) != (r.code == "") {
				t.Errorf("it is %q, notes %q, error %v; want %q, %q", g.artifact, f.told, err, r.want, r.code)
			}
		})
	}
}
