package manifest_test

import (
	"strings"
	"testing"

	"github.com/waybill-release/waybill/pkg/release/manifest"
	"github.com/waybill-release/waybill/pkg/release/plan"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

func TestSidecars(t *testing.T) {
	const of = "bin/linux/amd64/lantern"
	beside := func(name, text string) manifest.Artifact {
		a := file(name, plan.Checksum)
		a.Digests, a.Size = digest.SetOf([]byte(text)), int64(len(text))
		return a
	}
	sum256, sum512 := set(of).SHA256.Hex(), set(of).SHA512.Hex()
	rows := []struct {
		name    string
		sidecar manifest.Artifact
		says    string // empty when it is accepted
	}{
		{"sha256", beside(of+".sha256", sum256), ""},
		{"sha512", beside(of+".sha512", sum512), ""},
		{"another file's", beside(of+".sha256", set("release.yaml").SHA256.Hex()), "the checksum is not that of "},
		{"the other algorithm", beside(of+".sha256", sum512), "the checksum is not that of "},
		{"with a line break", beside(of+".sha256", sum256+"\n"), "the checksum is not that of "},
		{"in upper case", beside(of+".sha256", strings.ToUpper(sum256)), "the checksum is not that of "},
		{"of a weak algorithm", beside(of+".md5", sum256), "lists no file for this checksum"},
		{"of nothing", beside("bin/lantern.sha256", sum256), "lists no file for this checksum"},
		{"of an image", beside("image/x.sha256", sum256), "lists no file for this checksum"},
		{"without an algorithm", beside("lantern", sum256), "lists no file for this checksum"},
	}
	for _, r := range rows {
		t.Run(r.name, func(t *testing.T) {
			m := lantern(t)
			m.Artifacts = append(m.Artifacts, r.sidecar)
			_, err := manifest.ReadManifest(statement(t, m), nil)
			switch {
			case r.says == "" && err != nil:
				t.Error(err)
			case r.says != "" && (verdict.FindingOf("", err).Code != verdict.ManifestParse || !strings.Contains(err.Error(), r.says)):
				t.Errorf("%v, want MANIFEST_PARSE and %q", err, r.says)
			}
		})
	}
}
