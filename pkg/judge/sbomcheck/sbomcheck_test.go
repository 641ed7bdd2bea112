package sbomcheck_test

import (
	"testing"
	"time"

	"github.com/waybill-release/waybill/pkg/document/spdx"
	"github.com/waybill-release/waybill/pkg/judge/sbomcheck"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

func sum(text string) digest.Digest { return digest.Of(digest.SHA256, []byte(text)) }

const sha1 = "da39a3ee5e6b4b0d3255bfef95601890afd80709"

// document is one about an artifact, with more packages, files and
// relationships of it.
func document(t *testing.T, name, bytes string, more func(*spdx.Draft)) (spdx.Document, digest.Digest) {
	t.Helper()
	d := spdx.Draft{
		Name: name, Namespace: "https://example.org/" + name, Created: time.Unix(1714557600, 0), Tool: "waybill",
		Packages:      []spdx.Package{{ID: "SPDXRef-Artifact", Name: name, Version: "v1", FileName: name}},
		Relationships: []spdx.Relationship{{From: spdx.DocumentID, Type: spdx.Describes, To: "SPDXRef-Artifact"}},
	}
	if bytes != "" {
		d.Packages[0].Digests = digest.SetOf([]byte(bytes))
	} else {
		d.Packages[0].FileName = ""
	}
	more(&d)
	raw, err := spdx.Encode(d)
	if err != nil {
		t.Fatal(err)
	}
	doc, err := spdx.Parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	return doc, digest.Of(digest.SHA256, raw)
}

func relate(d *spdx.Draft, from, kind, to, comment string) {
	d.Relationships = append(d.Relationships, spdx.Relationship{From: from, Type: kind, To: to, Comment: comment})
}

// released is a release of a program, an archive that packs it and an image.
func released(t *testing.T) sbomcheck.Release {
	t.Helper()
	program := func(d *spdx.Draft) {
		d.Packages = append(d.Packages, spdx.Package{
			ID: "SPDXRef-M", Name: "example.org/wick", Version: "v1.2.3", PURL: "pkg:golang/example.org/wick@v1.2.3", Sum: "h1:wick=",
		})
		relate(d, "SPDXRef-Artifact", spdx.DependsOn, "SPDXRef-M", "")
		// The program's own module is no dependency.
		d.Packages = append(d.Packages, spdx.Package{ID: "SPDXRef-Own", Name: "example.org/lantern", Version: "v1.0.0", PURL: "pkg:golang/example.org/lantern@v1.0.0"})
		relate(d, "SPDXRef-Artifact", spdx.Contains, "SPDXRef-Own", "")
	}
	archive := func(d *spdx.Draft) {
		d.Files = []spdx.File{{ID: "SPDXRef-F", Name: "./bin/lantern", SHA1: sha1, Digests: digest.Set{SHA256: sum("program")}}}
		relate(d, "SPDXRef-Artifact", spdx.Contains, "SPDXRef-F", "")
	}
	image := func(d *spdx.Draft) {
		d.Packages = append(d.Packages,
			spdx.Package{ID: "SPDXRef-I", Name: "oci/lantern/linux/amd64", Purpose: spdx.Container, Digests: digest.Set{SHA256: sum("manifest")}},
			spdx.Package{ID: "SPDXRef-L", Name: "layer", Purpose: spdx.Archive, Digests: digest.Set{SHA256: sum("layer")}})
		relate(d, "SPDXRef-I", spdx.Contains, "SPDXRef-L", "")
	}
	r := sbomcheck.Release{
		Provenance: map[string]digest.Digest{"bin/lantern": sum("program"), "lantern.tar.gz": sum("archive"), "oci/lantern": sum("index")},
		Modules:    map[string][]sbomcheck.Module{"bin/lantern": {{Path: "example.org/wick", Version: "v1.2.3", Sum: "h1:wick="}}},
		GoSum:      map[string]string{"example.org/wick v1.2.3": "h1:wick="},
		Images: map[string]sbomcheck.Image{"oci/lantern": {"linux/amd64": {
			Manifest: sum("manifest"), Config: sum("config"), Layers: []digest.Digest{sum("layer")},
		}}},
		Complete: true,
	}
	for _, row := range []struct {
		name, bytes, platform string
		bare                  bool
		more                  func(*spdx.Draft)
	}{
		{"bin/lantern", "program", "linux/amd64", true, program},
		{"lantern.tar.gz", "archive", "linux/amd64", false, archive},
		{"oci/lantern", "index", "", false, image},
	} {
		a := sbomcheck.Artifact{Name: row.name, Platform: row.platform, Bare: row.bare, Digests: digest.SetOf([]byte(row.bytes))}
		a.Document, a.DocumentDigest = document(t, row.name, row.bytes, row.more)
		r.Artifacts = append(r.Artifacts, a)
	}
	r.Document, _ = document(t, "lantern", "", func(d *spdx.Draft) {
		for i, a := range r.Artifacts {
			id := "SPDXRef-E" + string(rune('0'+i))
			d.External = append(d.External, spdx.External{ID: "DocumentRef-" + string(rune('0'+i)), Namespace: a.Document.Namespace(), SHA256: a.DocumentDigest})
			d.Packages = append(d.Packages, spdx.Package{ID: id, Name: a.Name, FileName: a.Name, Digests: a.Digests})
			relate(d, "SPDXRef-Artifact", spdx.Contains, id, "")
		}
	})
	return r
}

// TestAgreement: each row changes one fact of a release that agrees.
func TestAgreement(t *testing.T) {
	if f := released(t).Findings(); len(f) != 0 {
		t.Fatalf("the twin: %+v", f)
	}
	swap := func(r *sbomcheck.Release, i int, name, bytes string, more func(*spdx.Draft)) {
		r.Artifacts[i].Document, r.Artifacts[i].DocumentDigest = document(t, name, bytes, more)
		r.Document = spdx.Document{} // it would refer to the document before
	}
	nothing := func(*spdx.Draft) {}
	for name, row := range map[string]struct {
		code    verdict.Code
		subject string
		change  func(*sbomcheck.Release)
	}{
		"F22 no document":      {verdict.NoSBOM, "bin/lantern", func(r *sbomcheck.Release) { r.Artifacts[0].Document = spdx.Document{} }},
		"F22 of another":       {verdict.SBOMSubject, "oci/lantern", func(r *sbomcheck.Release) { r.Images = nil; swap(r, 2, "oci/lantern", "other", nothing) }},
		"F22 of another name":  {verdict.SBOMSubject, "oci/lantern", func(r *sbomcheck.Release) { r.Images = nil; swap(r, 2, "oci/other", "index", nothing) }},
		"F22 listed in vain":   {verdict.SBOMSubject, "oci/lantern", func(r *sbomcheck.Release) { r.Provenance = nil; r.Artifacts = r.Artifacts[:2] }},
		"F23 not examined":     {verdict.SBOMIncomplete, "lantern.tar.gz", func(r *sbomcheck.Release) { swap(r, 1, "lantern.tar.gz", "archive", unexamined) }},
		"F23 not listed":       {verdict.SBOMIncomplete, "more", func(r *sbomcheck.Release) { r.Provenance = nil; r.Artifacts = append(r.Artifacts, another(t)) }},
		"F25 provenance":       {verdict.Conflict, "bin/lantern", func(r *sbomcheck.Release) { r.Provenance["bin/lantern"] = sum("other") }},
		"F25 no provenance":    {verdict.Conflict, "bin/lantern", func(r *sbomcheck.Release) { delete(r.Provenance, "bin/lantern") }},
		"a module more":        {verdict.Conflict, "bin/lantern", func(r *sbomcheck.Release) { r.Modules["bin/lantern"] = nil }},
		"a module less":        {verdict.Conflict, "bin/lantern", func(r *sbomcheck.Release) { add(r, sbomcheck.Module{Path: "example.org/oil", Version: "v1"}) }},
		"a module's checksum":  {verdict.Conflict, "bin/lantern", func(r *sbomcheck.Release) { r.Modules["bin/lantern"][0].Sum = "h1:other=" }},
		"go.sum":               {verdict.Conflict, "bin/lantern", func(r *sbomcheck.Release) { r.GoSum["example.org/wick v1.2.3"] = "h1:other=" }},
		"go.sum knows it not":  {verdict.Conflict, "bin/lantern", func(r *sbomcheck.Release) { delete(r.GoSum, "example.org/wick v1.2.3") }},
		"a layer":              {verdict.Conflict, "oci/lantern", func(r *sbomcheck.Release) { r.Images["oci/lantern"]["linux/amd64"].Layers[0] = sum("other") }},
		"a platform":           {verdict.Conflict, "oci/lantern", func(r *sbomcheck.Release) { r.Images["oci/lantern"]["linux/arm64"] = sbomcheck.Platform{} }},
		"no platform":          {verdict.Conflict, "oci/lantern", func(r *sbomcheck.Release) { delete(r.Images["oci/lantern"], "linux/amd64") }},
		"a program in archive": {verdict.Conflict, "lantern.tar.gz", func(r *sbomcheck.Release) { swapMember(t, r) }},
		"a reference":          {verdict.Conflict, "oci/lantern", func(r *sbomcheck.Release) { r.Artifacts[2].DocumentDigest = sum("other") }},
	} {
		r := released(t)
		row.change(&r)
		f := r.Findings()
		if len(f) != 1 || f[0].Code != row.code || f[0].Subject != row.subject {
			t.Errorf("%s: want %s of %s, got %+v", name, row.code, row.subject, f)
		}
	}
	if f := (sbomcheck.Release{}).Findings(); len(f) != 1 {
		t.Error("a release of nothing agrees")
	}
}

func add(r *sbomcheck.Release, m sbomcheck.Module) {
	r.Modules["bin/lantern"] = append(r.Modules["bin/lantern"], m)
}

func unexamined(d *spdx.Draft) {
	relate(d, "SPDXRef-Artifact", spdx.Contains, spdx.NoAssertion, sbomcheck.NotExamined+"inner.tar.gz: cut short")
}

// TestStatedWhateverTheReason: a document must list each part that could not be
// examined; the reason that it gives is not compared.
func TestStatedWhateverTheReason(t *testing.T) {
	var a sbomcheck.Artifact
	a.Document, a.DocumentDigest = document(t, "more", "more", unexamined)
	for note, want := range map[string]int{"inner.tar.gz: cut short": 0, "inner.tar.gz: unexpected end": 0, "outer.tar.gz: cut short": 1} {
		found := []spdx.Relationship{{To: spdx.NoAssertion, Comment: sbomcheck.NotExamined + note}}
		if f := sbomcheck.Stated(a, found); len(f) != want || want > 0 && f[0].Code != verdict.SBOMIncomplete {
			t.Errorf("%s: %+v", note, f)
		}
	}
}

func another(t *testing.T) sbomcheck.Artifact {
	a := sbomcheck.Artifact{Name: "more", Digests: digest.SetOf([]byte("more"))}
	a.Document, a.DocumentDigest = document(t, "more", "more", func(*spdx.Draft) {})
	return a
}

// swapMember puts another program into the archive.
func swapMember(t *testing.T, r *sbomcheck.Release) {
	r.Document = spdx.Document{}
	r.Artifacts[1].Document, _ = document(t, "lantern.tar.gz", "archive", func(d *spdx.Draft) {
		d.Files = []spdx.File{{ID: "SPDXRef-F", Name: "./bin/lantern", SHA1: sha1, Digests: digest.Set{SHA256: sum("another program")}}}
		relate(d, "SPDXRef-Artifact", spdx.Contains, "SPDXRef-F", "")
	})
}

// TestProgramsOfOneName: two programs that are published alone may have one name
// and platform; only those in archives are compared with them.
func TestProgramsOfOneName(t *testing.T) {
	listing := func(name, bytes string, bare bool) sbomcheck.Artifact {
		a := sbomcheck.Artifact{Name: name, Platform: "linux/amd64", Bare: bare, Digests: digest.SetOf([]byte(bytes))}
		a.Document, _ = document(t, name, bytes, func(d *spdx.Draft) {
			d.Files = []spdx.File{{ID: "SPDXRef-F", Name: "./lantern", SHA1: sha1, Digests: digest.Set{SHA256: sum("program")}}}
			relate(d, "SPDXRef-Artifact", spdx.Contains, "SPDXRef-F", "")
		})
		return a
	}
	other := sbomcheck.Artifact{Name: "debug/lantern", Platform: "linux/amd64", Bare: true, Digests: digest.SetOf([]byte("debug"))}
	for bare, want := range map[bool]int{true: 0, false: 1} {
		if f := sbomcheck.Members(listing("bin/lantern", "program", bare), []sbomcheck.Artifact{other}); len(f) != want {
			t.Errorf("bare is %t: %+v", bare, f)
		}
	}
}

// TestStrongChecksums: a SHA-512 that a document gives of another artifact is
// that of it, beside the SHA-256.
func TestStrongChecksums(t *testing.T) {
	program := digest.SetOf([]byte("program"))
	for name, row := range map[string]struct {
		said digest.Set
		code verdict.Code // of the image's document
		list verdict.Code // of the release's
	}{
		"the twin":                {program, "", ""},
		"no SHA-512":              {digest.Set{SHA256: program.SHA256}, "", ""},
		"another SHA-512":         {digest.Set{SHA256: program.SHA256, SHA512: digest.SetOf(nil).SHA512}, verdict.Conflict, verdict.SBOMSubject},
		"another SHA-256 as well": {digest.SetOf(nil), verdict.Conflict, verdict.SBOMSubject},
	} {
		r := released(t)
		entry := spdx.Package{ID: "SPDXRef-P", Name: "bin/lantern", FileName: "bin/lantern", Digests: row.said}
		image := r.Artifacts[2]
		image.Document, _ = document(t, "oci/lantern", "index", func(d *spdx.Draft) {
			d.Packages = append(d.Packages, entry, spdx.Package{ID: "SPDXRef-I", Name: "oci/lantern/linux/amd64", Purpose: spdx.Container})
			relate(d, "SPDXRef-I", spdx.Contains, "SPDXRef-P", "at /lantern")
		})
		whole, _ := document(t, "lantern", "", func(d *spdx.Draft) { d.Packages = append(d.Packages, entry) })
		alone := sbomcheck.Artifact{Name: "bin/lantern", Digests: program}
		for _, held := range []struct {
			want  verdict.Code
			found []verdict.Finding
		}{{row.code, sbomcheck.Entries(image, r.Artifacts)}, {row.list, sbomcheck.Listed(whole, []sbomcheck.Artifact{alone})}} {
			if len(held.found) != min(len(held.want), 1) || held.want != "" && held.found[0].Code != held.want {
				t.Errorf("%s: want %q, got %+v", name, held.want, held.found)
			}
		}
	}
}

// TestSavedImage: a file that holds an image is held against the registry by
// the configuration, which names the same layers.
func TestSavedImage(t *testing.T) {
	saved := func(config digest.Digest) sbomcheck.Artifact {
		a := sbomcheck.Artifact{Name: "lantern.tar", Digests: digest.SetOf([]byte("file"))}
		a.Document, _ = document(t, "lantern.tar", "file", func(d *spdx.Draft) {
			d.Packages = append(d.Packages, spdx.Package{
				ID: "SPDXRef-I", Name: "lantern.tar/linux/amd64", Purpose: spdx.Container, Comment: sbomcheck.Configuration + config.String() + ".",
			})
		})
		return a
	}
	served := sbomcheck.Image{"linux/amd64": {Manifest: sum("manifest"), Config: sum("config")}}
	if f := sbomcheck.Layers(saved(sum("config")), served); len(f) != 0 {
		t.Errorf("the twin: %+v", f)
	}
	if f := sbomcheck.Layers(saved(sum("other")), served); len(f) != 1 || f[0].Code != verdict.Conflict {
		t.Errorf("%+v", f)
	}
}
