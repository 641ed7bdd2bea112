package sbom_test

import (
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/waybill-release/waybill/pkg/judge/sbomcheck"
	"github.com/waybill-release/waybill/pkg/sbom"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// TestRPMDatabase: the packages in a database of RPM are not read, so an image
// with one in any place or behind a link says so, and is never complete. The
// twins have no such database.
func TestRPMDatabase(t *testing.T) {
	for name, row := range map[string]struct {
		layers [][]string
		says   string
	}{
		"sqlite":                    {[][]string{{"var/lib/rpm/rpmdb.sqlite", "x"}}, "var/lib/rpm/rpmdb.sqlite"},
		"sqlite, elsewhere":         {[][]string{{"usr/lib/sysimage/rpm/rpmdb.sqlite", "x"}}, "usr/lib/sysimage/rpm/rpmdb.sqlite"},
		"ndb":                       {[][]string{{"usr/lib/sysimage/rpm/Packages.db", "x"}}, "usr/lib/sysimage/rpm/Packages.db"},
		"Berkeley DB":               {[][]string{{"var/lib/rpm/Packages", "x"}}, "var/lib/rpm/Packages"},
		"Berkeley DB, elsewhere":    {[][]string{{"usr/lib/sysimage/rpm/Packages", "x"}}, "usr/lib/sysimage/rpm/Packages"},
		"a link to one":             {[][]string{{"var/lib/rpm/rpmdb.sqlite", "->/data/x", "data/x", "x"}}, "var/lib/rpm/rpmdb.sqlite"},
		"a hard link to one":        {[][]string{{"data/x", "x", "var/lib/rpm/Packages.db", "=data/x"}}, "var/lib/rpm/Packages.db"},
		"its directory is a link":   {[][]string{{"var/lib/rpm", "->/data", "data/Packages", "x"}}, "var/lib/rpm/Packages"},
		"in a lower layer":          {[][]string{{"var/lib/rpm/rpmdb.sqlite", "x"}, {"a", "a"}}, "var/lib/rpm/rpmdb.sqlite"},
		"none":                      {[][]string{{"var/lib/rpmdb.txt", "x", "var/lib/rpm/", "", "Packages", "x"}}, ""},
		"an empty link":             {[][]string{{"var/lib/rpm", "->/data"}}, ""},
		"a database of apk instead": {[][]string{{"lib/apk/db/installed", "P:wick\nV:1.0\n\n"}}, ""},
	} {
		var layers []v1.Layer
		for _, l := range row.layers {
			layers = append(layers, tarred(t, l...))
		}
		_, content := inLayout(t, imageOf(t, layers...))
		m, err := sbom.Image(t.Context(), input(), "oci/lantern", content)
		if err != nil {
			t.Fatal(err)
		}
		found := sbomcheck.Complete(sbomcheck.Artifact{Name: "oci/lantern", Document: parsed(t, m, nil)})
		said := ""
		for _, f := range found {
			if said += f.Message; f.Code != verdict.SBOMIncomplete {
				t.Errorf("%s: %+v", name, f)
			}
		}
		if (len(found) == 0) != (row.says == "") || !strings.Contains(said, row.says) {
			t.Errorf("%s: %q, want %q", name, said, row.says)
		}
	}
}
