package spdx_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	spdxjson "github.com/spdx/tools-golang/json"

	"github.com/waybill-release/waybill/pkg/document/spdx"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

var artifact = digest.SetOf([]byte("the artifact"))

const sha1Hex = "da39a3ee5e6b4b0d3255bfef95601890afd80709"

func draft() spdx.Draft {
	return spdx.Draft{
		Name:      "lantern.tar.gz",
		Namespace: "https://example.org/lantern/v0.1.0/lantern.tar.gz-1",
		Created:   time.Date(2024, 5, 1, 12, 0, 0, 0, time.FixedZone("elsewhere", 7200)),
		Tool:      "waybill",
		Comment:   "a <comment> & \"quotes\"",
		External: []spdx.External{{
			ID: "DocumentRef-lantern", Namespace: "https://example.org/lantern/v0.1.0/lantern-2", SHA256: artifact.SHA256,
		}},
		Packages: []spdx.Package{
			{
				ID: "SPDXRef-Artifact", Name: "lantern.tar.gz", Version: "v0.1.0", FileName: "lantern.tar.gz",
				Purpose: spdx.Archive, Digests: artifact, Verification: sha1Hex,
			},
			{ID: "SPDXRef-Module", Name: "example.org/m", Version: "v1.0.0", PURL: "pkg:golang/example.org/m@v1.0.0"},
		},
		Files: []spdx.File{{ID: "SPDXRef-File", Name: "./lantern", SHA1: sha1Hex, Digests: artifact}},
		Relationships: []spdx.Relationship{
			{From: spdx.DocumentID, Type: spdx.Describes, To: "SPDXRef-Artifact"},
			{From: "SPDXRef-Artifact", Type: spdx.Contains, To: "SPDXRef-File"},
			{From: "SPDXRef-File", Type: spdx.CopyOf, To: "DocumentRef-lantern:SPDXRef-Artifact"},
			{From: "SPDXRef-Artifact", Type: spdx.DependsOn, To: spdx.NoAssertion, Comment: "nothing is known"},
		},
	}
}

func encode(t *testing.T, d spdx.Draft) []byte {
	t.Helper()
	raw, err := spdx.Encode(d)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func TestRoundTrip(t *testing.T) {
	raw := encode(t, draft())
	if !bytes.Equal(raw, encode(t, draft())) {
		t.Error("equal drafts have different bytes")
	}
	d, err := spdx.Parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	if name, sum := d.Describes(); name != "lantern.tar.gz" || !sum.Equal(artifact.SHA256) {
		t.Errorf("describes %q %v", name, sum)
	}
	want := draft()
	if d.Name() != want.Name || d.Namespace() != want.Namespace || !bytes.Equal(d.Raw(), raw) {
		t.Errorf("name %q, namespace %q, or other bytes", d.Name(), d.Namespace())
	}
	want.Packages[0].Download, want.Packages[1].Download = spdx.NoAssertion, spdx.NoAssertion
	equalLists(t, d.Packages(), want.Packages)
	equalLists(t, d.Files(), want.Files)
	equalLists(t, d.ExternalRefs(), want.External)
	equalLists(t, d.Relationships(), want.Relationships)
	if !strings.Contains(string(raw), `"created": "2024-05-01T10:00:00Z"`) {
		t.Error("the time is not in UTC")
	}
	if _, err := spdxjson.Read(bytes.NewReader(raw)); err != nil {
		t.Errorf("the reference library does not read it: %v", err)
	}
}

func equalLists[T comparable](t *testing.T, got, want []T) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%d of %d: %+v", len(got), len(want), got)
	}
	for i := range got {
		if got[i] != want[i] {
			t.Errorf("got  %+v\nwant %+v", got[i], want[i])
		}
	}
}

func TestVerificationCodeIgnoresOrder(t *testing.T) {
	a, b := spdx.File{SHA1: sha1Hex}, spdx.File{SHA1: strings.Repeat("0", 40)}
	if spdx.VerificationCode([]spdx.File{a, b}) != spdx.VerificationCode([]spdx.File{b, a}) {
		t.Error("the order of files changes the code")
	}
	// No files: the SHA-1 of nothing.
	if got := spdx.VerificationCode(nil); got != sha1Hex {
		t.Errorf("no files have the code %s", got)
	}
}

// TestEncodeRefuses changes one fact of a draft that is fine otherwise.
func TestEncodeRefuses(t *testing.T) {
	for reason, change := range map[string]func(*spdx.Draft){
		"the time of creation":                          func(d *spdx.Draft) { d.Created = time.Time{} },
		"or the tool is missing":                        func(d *spdx.Draft) { d.Tool = "" },
		"the document has no name":                      func(d *spdx.Draft) { d.Name = "" },
		"without fragment":                              func(d *spdx.Draft) { d.Namespace += "#x" },
		"two elements have the identifier SPDXRef-File": func(d *spdx.Draft) { d.Packages[1].ID = "SPDXRef-File" },
		"SPDXRef-Gone":                                  func(d *spdx.Draft) { d.Relationships[1].To = "SPDXRef-Gone" },
		"DocumentRef-gone":                              func(d *spdx.Draft) { d.Relationships[2].To = "DocumentRef-gone:SPDXRef-Artifact" },
		"from NOASSERTION":                              func(d *spdx.Draft) { d.Relationships[1].From = spdx.NoAssertion },
		"not one of the values":                         func(d *spdx.Draft) { d.Relationships[1].Type = "" },
		"describes nothing":                             func(d *spdx.Draft) { d.Relationships = d.Relationships[1:] },
		"does not begin with SPDXRef-":                  func(d *spdx.Draft) { d.Files[0].ID = "File" },
		"is not an identifier":                          func(d *spdx.Draft) { d.Files[0].ID = "SPDXRef-a b" },
		"no SHA1 checksum":                              func(d *spdx.Draft) { d.Files[0].SHA1 = strings.ToUpper(sha1Hex) },
		"two external documents":                        func(d *spdx.Draft) { d.External = append(d.External, d.External[0]) },
		"checksum":                                      func(d *spdx.Draft) { d.External[0].SHA256 = digest.Digest{} },
		"no name or no download":                        func(d *spdx.Draft) { d.Packages[1].Name = "" },
	} {
		d := draft()
		change(&d)
		_, err := spdx.Encode(d)
		refused(t, err, verdict.StatementParse, reason)
	}
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
