package sbom_test

import (
	"bytes"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"github.com/waybill-release/waybill/pkg/document/spdx"
	"github.com/waybill-release/waybill/pkg/judge/sbomcheck"
	"github.com/waybill-release/waybill/pkg/sbom"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// told holds a document with one change against the bytes it was made from.
func told(t *testing.T, raw []byte, artifact string, change func(*spdx.Draft)) []verdict.Finding {
	t.Helper()
	m, err := sbom.Describe(t.Context(), input(), artifact, content(raw), nil)
	if err != nil {
		t.Fatal(err)
	}
	change(&m.Draft)
	held, err := sbom.Check(t.Context(), sbom.Question{Document: parsed(t, m, nil), Content: &sbom.Content{ReaderAt: bytes.NewReader(raw), Size: int64(len(raw))}})
	if err != nil {
		t.Fatal(err)
	}
	return held.Findings
}

// packageOf is the one package of a draft that is called so.
func packageOf(d *spdx.Draft, name string) *spdx.Package {
	return &d.Packages[slices.IndexFunc(d.Packages, func(p spdx.Package) bool { return p.Name == name })]
}

func without(d *spdx.Draft, gone string) {
	d.Packages = slices.DeleteFunc(d.Packages, func(p spdx.Package) bool { return p.ID == gone })
	d.Relationships = slices.DeleteFunc(d.Relationships, func(r spdx.Relationship) bool { return r.From == gone || r.To == gone })
}

// lie is one change of a document, and whether it is a lie.
type lie struct {
	name   string
	change func(*spdx.Draft)
	is     bool
}

func (l lie) hold(t *testing.T, findings []verdict.Finding) {
	t.Helper()
	wrong := slices.ContainsFunc(findings, func(f verdict.Finding) bool { return f.Code != verdict.Conflict })
	if (len(findings) > 0) != l.is || wrong {
		t.Errorf("%s: %+v", l.name, findings)
	}
}

// TestProgramLies: what a document says of a program is what that says of
// itself: the standard library, the toolchain and the main module, too.
func TestProgramLies(t *testing.T) {
	raw := program(t)
	version := func(name, version string) func(*spdx.Draft) {
		return func(d *spdx.Draft) {
			p := packageOf(d, name)
			p.PURL = strings.Replace(p.PURL, "@"+p.Version, "@"+version, 1)
			p.Version = version
		}
	}
	for _, l := range []lie{
		{"the twin", func(*spdx.Draft) {}, false},
		{"the standard library", version("stdlib", "1.99.0"), true},
		{"the toolchain", version("go", "go1.99.0"), true},
		{"the main module", version("example.org/lantern", "v9.9.9"), true},
		{"another main module", func(d *spdx.Draft) {
			p := packageOf(d, "example.org/lantern")
			p.Name, p.PURL = "example.org/other", "pkg:golang/example.org/other@v0.1.0"
		}, true},
		{"no standard library", func(d *spdx.Draft) { without(d, packageOf(d, "stdlib").ID) }, true},
		{"no toolchain", func(d *spdx.Draft) { without(d, packageOf(d, "go").ID) }, true},
		{"a package URL of another version", func(d *spdx.Draft) { packageOf(d, "stdlib").PURL = "pkg:golang/stdlib@1.99.0" }, true},
		{"a package URL of another name", func(d *spdx.Draft) {
			packageOf(d, "stdlib").PURL = "pkg:golang/stdbib@" + packageOf(d, "stdlib").Version
		}, true},
		{"no package URL of the main module", func(d *spdx.Draft) { packageOf(d, "example.org/lantern").PURL = "" }, true},
	} {
		l.hold(t, told(t, raw, "bin/linux/amd64/lantern", l.change))
	}
}

// TestSavedImageLies: of an image in a file the layers are compared, and which
// of them brought what.
func TestSavedImageLies(t *testing.T) {
	img := imageOf(t, layerOf(t, "etc/os-release", release, "var/lib/dpkg/status", dpkgOne), layerOf(t, "usr/bin/lantern", string(program(t))))
	path := t.TempDir() + "/image.tar"
	ref, err := name.NewTag("registry.example.org/lantern:v0.1.0")
	if err == nil {
		err = tarball.WriteToFile(path, ref, img)
	}
	if err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	layers := func(d *spdx.Draft) (ids []string) {
		for _, p := range d.Packages[1:] {
			if p.Purpose == spdx.Archive {
				ids = append(ids, p.ID)
			}
		}
		return ids
	}
	move := func(what func(*spdx.Draft) string) func(*spdx.Draft) {
		return func(d *spdx.Draft) {
			l, id := layers(d), what(d)
			for i, r := range d.Relationships {
				if at := slices.Index(l, r.From); at >= 0 && r.To == id {
					d.Relationships[i].From = l[1-at]
				}
			}
		}
	}
	for _, l := range []lie{
		{"the twin", func(*spdx.Draft) {}, false},
		{"another digest of a layer", func(d *spdx.Draft) {
			for i := range d.Packages {
				if d.Packages[i].ID == layers(d)[0] {
					d.Packages[i].Digests = digest.SetOf(nil)
				}
			}
		}, true},
		{"a layer less", func(d *spdx.Draft) { without(d, layers(d)[1]) }, true},
		{"a package in another layer", move(func(d *spdx.Draft) string { return packageOf(d, "wick").ID }), true},
		{"a program in another layer", move(func(d *spdx.Draft) string { return d.Files[0].ID }), true},
		{"another digest of a program", func(d *spdx.Draft) { d.Files[0].Digests = digest.SetOf(nil) }, true},
		{"another configuration", func(d *spdx.Draft) {
			packageOf(d, "lantern.tar/linux/amd64").Comment = "Configuration " + digest.Of(digest.SHA256, nil).String() + "."
		}, true},
		{"another distribution", func(d *spdx.Draft) { packageOf(d, "debian").Version = "13" }, true},
	} {
		l.hold(t, told(t, raw, "lantern.tar", l.change))
	}
}

// TestSourceInBothForms: the SBOM of a source is held against it in either form.
func TestSourceInBothForms(t *testing.T) {
	m, err := sbom.Directory(input(), sbomcheck.SourceName, sourceTree(t), nil)
	if err != nil {
		t.Fatal(err)
	}
	for form, encode := range map[string]func(spdx.Draft) ([]byte, error){"JSON": spdx.Encode, "lines": spdx.EncodeTagValue} {
		for _, lied := range []bool{false, true} {
			d := m.Draft
			d.Packages = slices.Clone(d.Packages)
			if p := packageOf(&d, "example.org/wick"); lied {
				p.Version, p.PURL = "v9.9.9", "pkg:golang/example.org/wick@v9.9.9"
			}
			raw, err := encode(d)
			if err != nil {
				t.Fatal(err)
			}
			doc, report := spdx.Validate(string(raw))
			if len(report.Faults) > 0 {
				t.Fatal(report.Faults)
			}
			a := sbomcheck.Artifact{Name: "source.spdx", Version: "v0.1.0", Document: doc}
			findings := append(sbomcheck.Source(a, spdx.Document{}), sbomcheck.Files(a, m.Draft.Files)...)
			if findings = append(findings, sbomcheck.Components(a, m.Draft)...); (len(findings) > 0) != lied {
				t.Errorf("%s, lied %v: %+v", form, lied, findings)
			}
		}
	}
}
