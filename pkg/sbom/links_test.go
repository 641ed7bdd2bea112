package sbom_test

import (
	"archive/tar"
	"bytes"
	"io"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"github.com/waybill-release/waybill/pkg/judge/sbomcheck"
	"github.com/waybill-release/waybill/pkg/sbom"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// tarred is an image layer of entries: a name that ends with a slash is a
// directory, content that begins with "->" a symbolic link, with "=" a hard one.
func tarred(t *testing.T, pairs ...string) v1.Layer {
	t.Helper()
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	for i := 0; i < len(pairs); i += 2 {
		name, body := pairs[i], pairs[i+1]
		h := &tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: 0o755, Size: int64(len(body))}
		if to, is := strings.CutPrefix(body, "->"); is {
			h.Typeflag, h.Linkname, h.Size = tar.TypeSymlink, to, 0
		} else if to, is := strings.CutPrefix(body, "="); is {
			h.Typeflag, h.Linkname, h.Size = tar.TypeLink, to, 0
		} else if strings.HasSuffix(name, "/") {
			h.Typeflag, h.Size = tar.TypeDir, 0
		}
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if h.Size > 0 {
			if _, err := io.WriteString(w, body); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	l, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(buf.Bytes())), nil })
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// TestPutInAsItRuns: what a document says was put at a path is what whoever runs
// the image finds there, through links, and below directories that a later layer
// replaced.
func TestPutInAsItRuns(t *testing.T) {
	const differ = "container runtimes disagree about the file there"
	for name, row := range map[string]struct {
		layers [][]string // over the one that has it
		want   string
	}{
		"the twin":                            {nil, ""},
		"a directory above it, once more":     {[][]string{{"etc/app/", ""}}, ""},
		"a link beside it":                    {[][]string{{"etc/other", "->/evil"}}, ""},
		"its directory becomes a link":        {[][]string{{"etc/app", "->/evil", "evil/wax", "EVIL"}}, "but that file has other bytes"},
		"its directory becomes a file":        {[][]string{{"etc/app", "a file"}}, "but no such file exists"},
		"the top becomes a link":              {[][]string{{"etc", "->/evil", "evil/app/wax", "EVIL"}}, "but that file has other bytes"},
		"it becomes a link":                   {[][]string{{"etc/app/wax", "->../../evil/wax", "evil/wax", "EVIL"}}, "but that file has other bytes"},
		"a link to nothing":                   {[][]string{{"etc/app", "->/nowhere"}}, "but no such file exists"},
		"a link to itself":                    {[][]string{{"etc/app", "->app"}}, "but no such file exists"},
		"a link that leads out of the root":   {[][]string{{"etc/app", "->../../../../evil", "evil/wax", "EVIL"}}, "but that file has other bytes"},
		"a link to the same bytes":            {[][]string{{"etc/app", "->/good", "good/wax", wax}}, ""},
		"a link, and a directory again":       {[][]string{{"etc/app", "->/evil", "evil/wax", "EVIL"}, {"etc/.wh.app", ""}, {"etc/app/wax", wax}}, ""},
		"a link through another":              {[][]string{{"etc/app", "->/one", "one", "->two", "two/wax", "EVIL"}}, "but that file has other bytes"},
		"a file again where the link was set": {[][]string{{"etc/app/wax", "->/evil"}, {"etc/app/wax", wax}}, ""},

		"a layer below a link to it":           {[][]string{{"way", "->/etc/app"}, {"way/wax", "EVIL"}}, differ},
		"below a link to it, in one layer":     {[][]string{{"way", "->/etc/app", "way/wax", "EVIL"}}, differ},
		"below a link, and a directory after":  {[][]string{{"way", "->/etc/app"}, {"way/wax", "EVIL", "way/", ""}}, differ},
		"a directory in the place of a link":   {[][]string{{"way", "->/etc/app"}, {"way/", "", "way/wax", "EVIL"}}, ""},
		"below a link that was taken away":     {[][]string{{"way", "->/etc/app"}, {".wh.way", "", "way/wax", "EVIL"}}, ""},
		"below a link that is taken away":      {[][]string{{"way", "->/etc/app"}, {"way/wax", "EVIL", ".wh.way", ""}}, differ},
		"below a link through a link":          {[][]string{{"way", "->/opt", "opt/on", "->/etc/app"}, {"way/on/wax", "EVIL"}}, differ},
		"below a link, and the file after it":  {[][]string{{"way", "->/etc/app"}, {"way/wax", "EVIL"}, {"etc/app/wax", wax}}, ""},
		"its link, set below another one":      {[][]string{{"way", "->/"}, {"way/etc", "->/evil"}, {"good/wax", wax, "etc/app", "->/good"}}, differ},
		"taken away below a link":              {[][]string{{"way", "->/etc/app"}, {"way/.wh.wax", ""}}, differ},
		"taken away below a link in one layer": {[][]string{{"way", "->/etc/app", "way/.wh.wax", ""}}, differ},
		"all of it, below a link":              {[][]string{{"way", "->/etc/app"}, {"way/.wh..wh..opq", ""}}, differ},
		"brought and taken away":               {[][]string{{"etc/app/wax", wax, "etc/app/.wh.wax", ""}}, differ},
		"taken away and brought":               {[][]string{{"etc/app/.wh.wax", "", "etc/app/wax", wax}}, ""},
	} {
		layers := []v1.Layer{tarred(t, "etc/app/wax", wax)}
		for _, l := range row.layers {
			layers = append(layers, tarred(t, l...))
		}
		_, content := inLayout(t, imageOf(t, layers...))
		content.Platforms[0].Files = map[string]sbom.Entry{"/etc/app/wax": {Artifact: "wax.txt", Digests: digest.SetOf([]byte(wax))}}
		m, err := sbom.Image(t.Context(), input(), "oci/lantern", content)
		if err != nil {
			t.Fatal(err)
		}
		doc := parsed(t, m, nil)
		content.Platforms[0].Files = nil
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
				t.Errorf("%s: %+v", name, findings)
			}
		}
	}
}

// TestDatabasesBehindLinks: a list of packages that lies behind a link is read,
// or named as missed; and what a hard link or a replaced directory does to
// programs is seen.
func TestDatabasesBehindLinks(t *testing.T) {
	const status = "Package: wick\nStatus: install ok installed\nVersion: 1.0\nArchitecture: amd64\n\n"
	for name, row := range map[string]struct {
		layers [][]string
		missed string
	}{
		"plain":                       {[][]string{{"var/lib/dpkg/status", status}}, ""},
		"a link to it":                {[][]string{{"var/lib/dpkg/status", "->/opt/x", "opt/x", status}}, "var/lib/dpkg/status"},
		"its directory is a link":     {[][]string{{"var/lib/dpkg", "->/data", "data/status", status}}, "var/lib/dpkg/status"},
		"a directory above is a link": {[][]string{{"var", "->/data", "data/lib/dpkg/status", status}}, "var/lib/dpkg/status"},
		"a hard link to it":           {[][]string{{"opt/x", status, "var/lib/dpkg/status", "=opt/x"}}, "var/lib/dpkg/status"},
		"a link to where it is read":  {[][]string{{"lib", "->usr/lib", "usr/lib/apk/db/installed", "P:wick\nV:1.0\n\n"}}, ""},
		"a link that leads nowhere":   {[][]string{{"var/lib/dpkg", "->/data"}}, ""},
		"os-release, as it mostly is": {[][]string{{"etc/os-release", "->../usr/lib/os-release", "usr/lib/os-release", "ID=x\n"}}, ""},
		"a file of a lower layer":     {[][]string{{"a/x", "x"}, {"b/x", "=a/x"}}, "b/x"},
		"a file of the same layer":    {[][]string{{"a/x", "x", "b/x", "=a/x"}}, ""},
		"entries below a link":        {[][]string{{"a", "->/b", "a/x", "x"}}, "a/x"},
		"a layer below a link":        {[][]string{{"way", "->/var/lib/dpkg"}, {"way/status", status}}, "way"},
		"a layer in place of a link":  {[][]string{{"way", "->/var/lib/dpkg"}, {"way/", "", "way/status", status}}, ""},
		"a link above entries":        {[][]string{{"a/x", "x", "a", "->/b"}}, "a"},
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
		said := ""
		for _, what := range m.Incomplete {
			said += what + "\n"
		}
		if (said != "") != (row.missed != "") || !strings.HasPrefix(said, row.missed) {
			t.Errorf("%s: missed %q, want %q", name, said, row.missed)
		}
	}
}

// TestProgramsAsTheyLie: a program is listed by the name that it has in the end,
// and one whose directory a later layer replaced is not.
func TestProgramsAsTheyLie(t *testing.T) {
	lantern := string(program(t))
	for name, row := range map[string]struct {
		layers [][]string
		want   string
	}{
		"plain":                        {[][]string{{"app/lantern", lantern}}, "./app/lantern"},
		"its directory becomes a link": {[][]string{{"app/lantern", lantern}, {"app", "->/x"}}, ""},
		"its directory becomes a file": {[][]string{{"app/lantern", lantern}, {"app", "x"}}, ""},
		"its directory, once more":     {[][]string{{"app/lantern", lantern}, {"app/", ""}}, "./app/lantern"},
		"its other name stays":         {[][]string{{"a/lantern", lantern, "b/lantern", "=a/lantern"}, {"a/.wh.lantern", ""}}, "./b/lantern"},
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
		var names []string
		for _, f := range m.Draft.Files {
			names = append(names, f.Name)
		}
		if got := strings.Join(names, " "); got != row.want || len(m.Incomplete) > 0 {
			t.Errorf("%s: %q, want %q; missed %q", name, got, row.want, m.Incomplete)
		}
	}
}
