package sbom_test

import (
	"crypto/sha1" // documents give it
	"encoding/hex"
	"slices"
	"strings"
	"testing"

	"github.com/waybill-release/waybill/pkg/document/spdx"
	"github.com/waybill-release/waybill/pkg/judge/sbomcheck"
	"github.com/waybill-release/waybill/pkg/sbom"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

const wax = "what a lantern burns\n"

// lit is an image into which an artifact was put that is no program, below a
// layer that has nothing to do with it.
func lit(t *testing.T, layers ...string) sbom.ImageContent {
	t.Helper()
	all := []string{"etc/other", "x"}
	_, content := inLayout(t, imageOf(t, layerOf(t, "etc/wax", "other wax"), layerOf(t, "etc/wax", wax, "etc/own", "y"), layerOf(t, append(all, layers...)...)))
	content.Platforms[0].Files = map[string]sbom.Entry{"/etc/wax": {Artifact: "wax.txt", Digests: digest.SetOf([]byte(wax))}}
	return content
}

// TestPutIn: what a document says was put into an image is there, with every
// checksum that it gives.
func TestPutIn(t *testing.T) {
	entry := func(d *spdx.Draft) *spdx.Package { return packageOf(d, "wax.txt") }
	weak := sha1.Sum([]byte(wax))
	for _, row := range []struct {
		name   string
		layer  []string
		change func(*spdx.Draft)
		sha1   string
		want   string
	}{
		{name: "the twin", change: func(*spdx.Draft) {}},
		{name: "another SHA-512", change: func(d *spdx.Draft) { entry(d).Digests.SHA512 = digest.SetOf(nil).SHA512 }, want: "but that file has other bytes"},
		{name: "another SHA-256", change: func(d *spdx.Draft) { entry(d).Digests.SHA256 = digest.SetOf(nil).SHA256 }, want: "but that file has other bytes"},
		{name: "its SHA-1", change: func(*spdx.Draft) {}, sha1: hex.EncodeToString(weak[:])},
		{name: "another SHA-1", change: func(*spdx.Draft) {}, sha1: strings.Repeat("0", 40), want: "but that file has other bytes"},
		{name: "another place", change: func(d *spdx.Draft) { move(d, entry(d).ID, "at /etc/own") }, want: "but that file has other bytes"},
		{name: "a place where nothing is", change: func(d *spdx.Draft) { move(d, entry(d).ID, "at /etc/none") }, want: "but no such file exists"},
		{name: "no place", change: func(d *spdx.Draft) { move(d, entry(d).ID, "") }, want: "but gives no path"},
		{name: "taken away", layer: []string{"etc/.wh.wax", ""}, change: func(*spdx.Draft) {}, want: "but no such file exists"},
		{name: "written over", layer: []string{"etc/wax", "other wax"}, change: func(*spdx.Draft) {}, want: "but that file has other bytes"},
	} {
		content := lit(t, row.layer...)
		m, err := sbom.Image(t.Context(), input(), "oci/lantern", content)
		if err != nil {
			t.Fatal(err)
		}
		row.change(&m.Draft)
		doc := parsed(t, m, nil)
		if row.sha1 != "" {
			at := slices.IndexFunc(m.Draft.Packages, func(p spdx.Package) bool { return p.Name == "wax.txt" })
			doc = alsoSaying(t, doc.Raw(), at, "SHA1", row.sha1)
		}
		content.Platforms[0].Files = nil // whoever checks knows what is there, not why
		held, err := sbom.Check(t.Context(), sbom.Question{Document: doc, Image: &content})
		if err != nil {
			t.Fatal(err)
		}
		within, err := sbom.WithinImage(t.Context(), sbomcheck.Artifact{Name: "oci/lantern", Document: doc}, content)
		if err != nil {
			t.Fatal(err)
		}
		for _, findings := range [][]verdict.Finding{held.Findings, within.Findings} {
			if len(findings) != min(len(row.want), 1) || row.want != "" && (findings[0].Code != verdict.Conflict || !strings.Contains(findings[0].Message, row.want)) {
				t.Errorf("%s: %+v", row.name, findings)
			}
		}
		if left := strings.Join(held.Left, "\n"); strings.Contains(left, "checksums") {
			t.Errorf("%s: %q was not compared", row.name, left)
		}
	}
}

func move(d *spdx.Draft, id, comment string) {
	for i, r := range d.Relationships {
		if r.To == id {
			d.Relationships[i].Comment = comment
		}
	}
}
