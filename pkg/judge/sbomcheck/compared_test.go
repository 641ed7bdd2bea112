package sbomcheck_test

import (
	"bytes"
	"slices"
	"testing"

	"github.com/waybill-release/waybill/pkg/document/spdx"
	"github.com/waybill-release/waybill/pkg/judge/sbomcheck"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// wantsCodes requires exactly these findings.
func wantsCodes(t *testing.T, name string, found []verdict.Finding, want ...verdict.Code) {
	t.Helper()
	var codes []verdict.Code
	for _, f := range found {
		codes = append(codes, f.Code)
	}
	if !slices.Equal(codes, want) {
		t.Errorf("%s: want %q, got %+v", name, want, found)
	}
}

// TestUncomparedChecksums: the SHA-1 of the artifact is compared if it is known,
// other weak checksums are not.
func TestUncomparedChecksums(t *testing.T) {
	doc, _ := document(t, "lantern", "program", func(*spdx.Draft) {})
	const weak = `"checksums": [{"algorithm":"SHA1","checksumValue":"` + sha1 + `"},{"algorithm":"MD5","checksumValue":"d41d8cd98f00b204e9800998ecf8427e"},`
	doc, err := spdx.Parse(bytes.Replace(doc.Raw(), []byte(`"checksums": [`), []byte(weak), 1))
	if err != nil {
		t.Fatal(err)
	}
	a := sbomcheck.Artifact{Name: "lantern", Digests: digest.SetOf([]byte("program")), Document: doc}
	const md5 = "the checksums MD5 of the artifact: 1"
	for is, want := range map[string][]string{"": {md5, "the checksums SHA1 of the artifact: 1"}, sha1: {md5}} {
		a.SHA1 = is
		if got := sbomcheck.Uncompared(a); !slices.Equal(got, want) {
			t.Errorf("with the SHA-1 %q: %q, want %q", is, got, want)
		}
	}
}

// TestComparedRelationships: a relationship of a kind that the bytes do not show
// is not compared.
func TestComparedRelationships(t *testing.T) {
	draft := func(kind string) func(*spdx.Draft) {
		return func(d *spdx.Draft) {
			for _, name := range []string{"wick", "oil"} {
				d.Packages = append(d.Packages, spdx.Package{ID: "SPDXRef-" + name, Name: "example.org/" + name, Version: "v1", PURL: "pkg:golang/example.org/" + name + "@v1", Sum: "h1:" + name})
				relate(d, "SPDXRef-Artifact", spdx.DependsOn, "SPDXRef-"+name, "")
			}
			if kind != "" {
				relate(d, "SPDXRef-wick", kind, "SPDXRef-oil", "")
			}
		}
	}
	var found spdx.Draft
	found.Packages = []spdx.Package{{ID: "SPDXRef-Artifact", Name: "lantern"}}
	relate(&found, spdx.DocumentID, spdx.Describes, "SPDXRef-Artifact", "")
	draft("")(&found)
	for kind, want := range map[string][]verdict.Code{"": nil, spdx.CopyOf: nil, spdx.DependsOn: {verdict.Conflict}} {
		doc, _ := document(t, "lantern", "program", draft(kind))
		wantsCodes(t, kind, sbomcheck.Components(sbomcheck.Artifact{Name: "lantern", Document: doc}, found), want...)
	}
}

// TestSumsOfOtherTools: if one checksum in the document of another tool is that
// of go.sum, all others must be, too.
func TestSumsOfOtherTools(t *testing.T) {
	for name, row := range map[string]struct {
		wick, oil string
		codes     []verdict.Code
		left      int
	}{
		"both right":         {"h1:wick=", "h1:oil=", nil, 0},
		"one wrong":          {"h1:wick=", "h1:other=", []verdict.Code{verdict.Conflict}, 0},
		"both of other kind": {"h1:x=", "h1:y=", nil, 1},
	} {
		list := func(wick, oil string) []spdx.Package {
			return []spdx.Package{
				{ID: "SPDXRef-W", Name: "example.org/wick", Version: "v1", PURL: "pkg:golang/example.org/wick@v1", Sum: wick},
				{ID: "SPDXRef-O", Name: "example.org/oil", Version: "v1", PURL: "pkg:golang/example.org/oil@v1", Sum: oil},
			}
		}
		doc, _ := document(t, "lantern", "program", func(d *spdx.Draft) { d.Packages = append(d.Packages, list(row.wick, row.oil)...) })
		found, left := sbomcheck.Foreign(sbomcheck.Artifact{Name: "lantern", Document: doc}, spdx.Draft{Packages: list("h1:wick=", "h1:oil=")})
		wantsCodes(t, name, found, row.codes...)
		if len(left) != row.left {
			t.Errorf("%s: left %q", name, left)
		}
	}
}

// TestFileInAnImage: the file has each checksum that the document gives for it,
// and may have more.
func TestFileInAnImage(t *testing.T) {
	file := spdx.File{Name: "lantern", SHA1: sha1, Digests: digest.SetOf([]byte("program"))}
	for name, row := range map[string]struct {
		said digest.Set
		want []verdict.Code
	}{
		"both checksums":    {file.Digests, nil},
		"only the SHA-256":  {digest.Set{SHA256: file.Digests.SHA256}, nil},
		"another SHA-512":   {digest.Set{SHA256: file.Digests.SHA256, SHA512: digest.SetOf(nil).SHA512}, []verdict.Code{verdict.Conflict}},
		"a file of another": {digest.SetOf(nil), []verdict.Code{verdict.Conflict}},
	} {
		placed := sbomcheck.Placed{Platform: "linux/amd64", Path: "/lantern", Name: "bin/lantern", Said: spdx.File{Digests: row.said}}
		wantsCodes(t, name, placed.CheckFile(sbomcheck.Artifact{Name: "oci/lantern"}, file), row.want...)
	}
}

// TestSourceOfARelease: the document of the release references that of the
// source by its digest, and says that it was made from it.
func TestSourceOfARelease(t *testing.T) {
	source := sbomcheck.Artifact{Name: "source.spdx.json", Version: "v1"}
	source.Document, source.DocumentDigest = document(t, sbomcheck.SourceName, "", func(*spdx.Draft) {})
	for name, row := range map[string]struct {
		sum  digest.Digest
		kind string
		want []verdict.Code
	}{
		"the twin":       {source.DocumentDigest, spdx.GeneratedFrom, nil},
		"another digest": {sum("other"), spdx.GeneratedFrom, []verdict.Code{verdict.Conflict}},
		"not made of it": {source.DocumentDigest, spdx.CopyOf, []verdict.Code{verdict.Conflict}},
	} {
		whole, _ := document(t, "lantern", "", func(d *spdx.Draft) {
			d.External = []spdx.External{{ID: "DocumentRef-source", Namespace: source.Document.Namespace(), SHA256: row.sum}}
			relate(d, "SPDXRef-Artifact", row.kind, "DocumentRef-source:SPDXRef-Artifact", "")
		})
		wantsCodes(t, name, sbomcheck.Source(source, whole), row.want...)
	}
	source.Version = "v2"
	wantsCodes(t, "of another version", sbomcheck.Source(source, spdx.Document{}), verdict.SBOMSubject)
}

// TestPackageURLOfAnImage: it has the digest of the checksum beside it.
func TestPackageURLOfAnImage(t *testing.T) {
	for named, want := range map[string][]verdict.Code{"index": nil, "other": {verdict.Conflict}} {
		doc, _ := document(t, "oci/lantern", "index", func(d *spdx.Draft) {
			d.Packages[0].PURL = "pkg:oci/lantern@sha256%3A" + sum(named).Hex()
		})
		wantsCodes(t, named, sbomcheck.Named(sbomcheck.Artifact{Name: "oci/lantern", Document: doc}), want...)
	}
}

// TestExamined: only what was compared is remembered, and a nil memory holds
// nothing.
func TestExamined(t *testing.T) {
	var none *sbomcheck.Examined
	none.Agree("lantern", sum("program"), sum("document"))
	if none.Agreed("lantern", sum("program"), sum("document")) {
		t.Error("a nil memory remembers")
	}
	var e sbomcheck.Examined
	e.Agree("lantern", sum("program"), sum("document"))
	if !e.Agreed("lantern", sum("program"), sum("document")) {
		t.Error("nothing is remembered")
	}
	for _, other := range []bool{
		e.Agreed("wick", sum("program"), sum("document")), e.Agreed("lantern", sum("other"), sum("document")), e.Agreed("lantern", sum("program"), sum("other")),
	} {
		if other {
			t.Error("something else is taken for what was compared")
		}
	}
}

// TestEntriesOfImages: only what the document of an image lists as copied into
// it must be an artifact of the release, and only if the release has others.
func TestEntriesOfImages(t *testing.T) {
	other := sbomcheck.Artifact{Name: "bin/lantern", Digests: digest.SetOf([]byte("program"))}
	for name, row := range map[string]struct {
		purpose string
		others  []sbomcheck.Artifact
		want    []verdict.Code
	}{
		"an image":             {spdx.Container, []sbomcheck.Artifact{other}, []verdict.Code{verdict.Conflict}},
		"an image alone":       {spdx.Container, nil, nil},
		"an archive, no image": {spdx.Archive, []sbomcheck.Artifact{other}, nil},
	} {
		a := sbomcheck.Artifact{Name: "oci/lantern", Digests: digest.SetOf([]byte("index"))}
		a.Document, _ = document(t, a.Name, "index", func(d *spdx.Draft) {
			d.Packages = append(d.Packages,
				spdx.Package{ID: "SPDXRef-I", Name: "oci/lantern/linux/amd64", Purpose: row.purpose},
				spdx.Package{ID: "SPDXRef-P", Name: "bin/wick", FileName: "bin/wick", Digests: digest.SetOf([]byte("wick"))})
			relate(d, "SPDXRef-I", spdx.Contains, "SPDXRef-P", "at /wick")
		})
		wantsCodes(t, name, sbomcheck.Entries(a, append(row.others, a)), row.want...)
	}
}
