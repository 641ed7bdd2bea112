package sbom_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	spdxjson "github.com/spdx/tools-golang/json"

	"github.com/waybill-release/waybill/pkg/document/spdx"
	"github.com/waybill-release/waybill/pkg/sbom"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

func input() sbom.Input {
	return sbom.Input{
		Name: "lantern", Version: "v0.1.0",
		Created:   time.Date(2024, 5, 1, 10, 0, 0, 0, time.UTC),
		Namespace: "https://dl.example.org/lantern/v0.1.0/",
	}
}

// made checks what holds for every document: made twice it is the same, we and
// the reference library can read it, and it describes the artifact.
func made(t *testing.T, artifact string, want digest.Digest, make func() ([]byte, error)) spdx.Document {
	t.Helper()
	raw, err := make()
	if err != nil {
		t.Fatal(err)
	}
	again, err := make()
	if err != nil || !bytes.Equal(raw, again) {
		t.Errorf("made again it differs (%v)", err)
	}
	if _, err := spdxjson.Read(bytes.NewReader(raw)); err != nil {
		t.Errorf("the reference library does not read it: %v", err)
	}
	doc, err := spdx.Parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	name, sum := doc.Describes()
	if name != artifact || sum != want {
		t.Errorf("describes %q %v, want %q %v", name, sum, artifact, want)
	}
	return doc
}

// content is what holds raw.
func content(raw []byte) sbom.Content {
	return sbom.Content{ReaderAt: bytes.NewReader(raw), Size: int64(len(raw)), Digests: digest.SetOf(raw)}
}

// encoded encodes what was made.
func encoded(m sbom.Made, err error) ([]byte, error) {
	if err != nil {
		return nil, err
	}
	return m.Encode()
}

func refused(t *testing.T, err error, code verdict.Code, reason string) {
	t.Helper()
	var e *verdict.Error
	if !errors.As(err, &e) {
		t.Errorf("want a refusal because of %q, got %v", reason, err)
		return
	}
	if e.Finding.Code != code || !strings.Contains(err.Error(), reason) {
		t.Errorf("want %s because of %q, got %v", code, reason, err)
	}
}

// find returns the one package of a name.
func find(t *testing.T, doc spdx.Document, name string) spdx.Package {
	t.Helper()
	var found []spdx.Package
	for _, p := range doc.Packages() {
		if p.Name == name {
			found = append(found, p)
		}
	}
	if len(found) != 1 {
		t.Fatalf("%d packages are named %q", len(found), name)
	}
	return found[0]
}

func related(doc spdx.Document, from, kind, to string) bool {
	for _, r := range doc.Relationships() {
		if r.From == from && r.Type == kind && r.To == to {
			return true
		}
	}
	return false
}

func TestInputRefuses(t *testing.T) {
	for reason, change := range map[string]func(*sbom.Input){
		"needs release name":      func(in *sbom.Input) { in.Name = "" },
		"version":                 func(in *sbom.Input) { in.Version = "" },
		"time":                    func(in *sbom.Input) { in.Created = time.Time{} },
		"ends in a slash":         func(in *sbom.Input) { in.Namespace = "https://dl.example.org/lantern" },
		"absolute URI":            func(in *sbom.Input) { in.Namespace = "lantern/" },
		"SBOM namespace":          func(in *sbom.Input) { in.Namespace = "https://dl.example.org/#lantern/" },
		"without user, query and": func(in *sbom.Input) { in.Namespace = "https://user:secret@dl.example.org/" },
	} {
		in := input()
		change(&in)
		_, err := sbom.Release(in, []sbom.Entry{{Artifact: "a", Digests: digest.SetOf(nil)}}, sbom.Entry{})
		refused(t, err, verdict.ConfigParse, reason)
		if strings.Contains(err.Error(), "secret") {
			t.Error("the refusal repeats a password")
		}
	}
}

func TestRelease(t *testing.T) {
	one, two := digest.SetOf([]byte("one")), digest.SetOf([]byte("two"))
	entries := []sbom.Entry{
		{Artifact: "two.tar.gz", Digests: two},
		{Artifact: "bin/one", Digests: one, SBOM: "bin/one.spdx.json", SBOMDigest: digest.SetOf([]byte("its sbom"))},
	}
	doc := made(t, "lantern", digest.Digest{}, func() ([]byte, error) {
		entries[0], entries[1] = entries[1], entries[0] // order does not matter
		return encoded(sbom.Release(input(), entries, sbom.Entry{}))
	})
	refs := doc.ExternalRefs()
	if len(refs) != 1 || !refs[0].SHA256.Equal(digest.SetOf([]byte("its sbom")).SHA256) {
		t.Fatalf("external documents: %+v", refs)
	}
	p := find(t, doc, "bin/one")
	if !p.Digests.Equal(one) || !related(doc, "SPDXRef-Artifact", spdx.Contains, p.ID) ||
		!related(doc, p.ID, spdx.CopyOf, refs[0].ID+":SPDXRef-Artifact") {
		t.Errorf("bin/one is not listed with its document: %+v", p)
	}
	if p := find(t, doc, "two.tar.gz"); !strings.Contains(p.Comment, "no SBOM") {
		t.Errorf("nothing says that two.tar.gz has no document: %+v", p)
	}
}

// TestReleaseFindsDocuments: the address in the release's document is the one
// that the artifact's own document gives itself.
func TestReleaseFindsDocuments(t *testing.T) {
	script := []byte("#!/bin/sh\n")
	set := digest.SetOf(script)
	raw, err := encoded(sbom.Binary(input(), "bin/a+b", content(script)))
	if err != nil {
		t.Fatal(err)
	}
	own, err := spdx.Parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	doc := made(t, "lantern", digest.Digest{}, func() ([]byte, error) {
		return encoded(sbom.Release(input(), []sbom.Entry{{Artifact: "bin/a+b", Digests: set, SBOM: "s", SBOMDigest: digest.SetOf(raw)}}, sbom.Entry{}))
	})
	if got := doc.ExternalRefs()[0].Namespace; got != own.Namespace() {
		t.Errorf("refers to %q, the document is %q", got, own.Namespace())
	}
}

// TestReleaseFromSource: the release and each artifact lead to the document of
// the source, by its address and its bytes. In lines it is as Kubernetes
// publishes it.
func TestReleaseFromSource(t *testing.T) {
	m, err := sbom.Directory(input(), "source", sourceTree(t), nil)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := m.Encode()
	if err != nil {
		t.Fatal(err)
	}
	source := sbom.Entry{Artifact: "source", Digests: m.Digests, SBOM: "kubernetes-source.spdx", SBOMDigest: digest.SetOf(raw)}
	released, err := sbom.Release(input(), []sbom.Entry{{Artifact: "bin/a", Digests: digest.SetOf(nil)}}, source)
	if err != nil {
		t.Fatal(err)
	}
	lines, err := spdx.EncodeTagValue(released.Draft)
	if err != nil {
		t.Fatal(err)
	}
	doc, err := spdx.ParseTagValue(lines)
	if err != nil {
		t.Fatal(err)
	}
	own, err := spdx.Parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	refs := doc.ExternalRefs()
	if len(refs) != 1 || refs[0].Namespace != own.Namespace() || !refs[0].SHA256.Equal(digest.Of(digest.SHA256, raw)) {
		t.Fatalf("%+v", refs)
	}
	for _, from := range []string{"SPDXRef-Artifact", find(t, doc, "bin/a").ID} {
		if !related(doc, from, spdx.GeneratedFrom, refs[0].ID+":SPDXRef-Artifact") {
			t.Errorf("%s leads to no source", from)
		}
	}
}

func TestReleaseRefuses(t *testing.T) {
	e := sbom.Entry{Artifact: "a", Digests: digest.SetOf(nil)}
	for reason, entries := range map[string][]sbom.Entry{
		"without artifacts":      nil,
		"duplicate name":         {e, e},
		"missing name or digest": {{Artifact: "a"}},
		"missing name":           {{Digests: digest.SetOf(nil)}},
	} {
		_, err := sbom.Release(input(), entries, sbom.Entry{})
		refused(t, err, verdict.SBOMSubject, reason)
	}
}

func TestImage(t *testing.T) {
	index, layer := digest.SetOf([]byte("index")), sbom.Layer{Digest: digest.Of(digest.SHA256, []byte("layer"))}
	bin := sbom.Entry{Artifact: "bin/linux/amd64/lantern", Digests: digest.SetOf([]byte("bin")), SBOM: "s", SBOMDigest: digest.SetOf([]byte("s"))}
	base := "registry.example.org/static@" + digest.Of(digest.SHA256, []byte("base")).String()
	platforms := []sbom.ImagePlatform{
		{
			Platform: "linux/arm64", Digest: digest.Of(digest.SHA256, []byte("arm64")),
			Layers: []sbom.Layer{layer}, Base: base, Files: map[string]sbom.Entry{"/usr/local/bin/lantern": bin, "/lantern": bin},
		},
		{Platform: "linux/amd64", Digest: digest.Of(digest.SHA256, []byte("amd64")), Layers: []sbom.Layer{layer}},
	}
	doc := made(t, "oci/lantern", index.SHA256, func() ([]byte, error) {
		platforms[0], platforms[1] = platforms[1], platforms[0]
		return encoded(sbom.Image(t.Context(), input(), "oci/lantern", sbom.ImageContent{Index: index, Platforms: platforms, Repository: "oci/lantern"}))
	})
	arm, file, shared := find(t, doc, "oci/lantern/linux/arm64"), find(t, doc, bin.Artifact), find(t, doc, layer.Digest.String())
	below := find(t, doc, "registry.example.org/static")
	for _, want := range []bool{
		related(doc, "SPDXRef-Artifact", spdx.Contains, arm.ID),
		related(doc, arm.ID, spdx.Contains, file.ID),
		related(doc, arm.ID, spdx.Contains, shared.ID),
		related(doc, arm.ID, spdx.DescendantOf, below.ID),
		related(doc, "SPDXRef-Artifact", spdx.Contains, spdx.NoAssertion),
		related(doc, file.ID, spdx.CopyOf, doc.ExternalRefs()[0].ID+":SPDXRef-Artifact"),
		strings.HasSuffix(arm.PURL, "?arch=arm64&os=linux"),
	} {
		if !want {
			t.Fatalf("a relationship is missing:\n%s", doc.Raw())
		}
	}
	amd := find(t, doc, "oci/lantern/linux/amd64")
	if related(doc, amd.ID, spdx.DescendantOf, below.ID) {
		t.Error("an image built on nothing has a base")
	}
}

func TestImageRefuses(t *testing.T) {
	sum := digest.Of(digest.SHA256, nil)
	for reason, platforms := range map[string][]sbom.ImagePlatform{
		"without platforms":      nil,
		"duplicate platform":     {{Platform: "linux/amd64", Digest: sum}, {Platform: "linux/amd64", Digest: sum}},
		"missing name or digest": {{Platform: "linux/amd64"}},
	} {
		_, err := sbom.Image(t.Context(), input(), "oci/a", sbom.ImageContent{Index: digest.SetOf(nil), Platforms: platforms})
		refused(t, err, verdict.Platform, reason)
	}
	for reason, p := range map[string]sbom.ImagePlatform{
		"no SHA-256":        {Layers: []sbom.Layer{{}}},
		"no known artifact": {Files: map[string]sbom.Entry{"/a": {Artifact: "a"}}},
	} {
		p.Platform, p.Digest = "linux/amd64", sum
		_, err := sbom.Image(t.Context(), input(), "oci/a", sbom.ImageContent{Index: digest.SetOf(nil), Platforms: []sbom.ImagePlatform{p}})
		refused(t, err, verdict.SBOMSubject, reason)
	}
}
