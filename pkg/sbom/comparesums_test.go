package sbom_test

import (
	"bytes"
	"crypto/sha1" // documents give it
	"encoding/hex"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/waybill-release/waybill/pkg/document/spdx"
	"github.com/waybill-release/waybill/pkg/sbom"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// alsoSaying is a document whose package of this index gives one more checksum.
func alsoSaying(t *testing.T, raw []byte, at int, algorithm, value string) spdx.Document {
	t.Helper()
	var doc map[string]any
	if err := json.Unmarshal(raw, &doc); err != nil {
		t.Fatal(err)
	}
	p := doc["packages"].([]any)[at].(map[string]any)
	sums := []any{map[string]any{"algorithm": algorithm, "checksumValue": value}}
	for _, had := range list(p["checksums"]) {
		if had.(map[string]any)["algorithm"] != algorithm {
			sums = append(sums, had)
		}
	}
	p["checksums"] = sums
	raw, err := json.Marshal(doc)
	if err != nil {
		t.Fatal(err)
	}
	out, err := spdx.Parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func list(v any) []any {
	all, _ := v.([]any)
	return all
}

// TestEveryChecksumOfTheSubject: what a document gives beside the SHA-256 of
// what it describes is held against the bytes, whoever wrote it; what nobody
// can compare is named, and refused where all is asked for.
func TestEveryChecksumOfTheSubject(t *testing.T) {
	raw := program(t)
	weak := sha1.Sum(raw)
	c := sbom.Content{ReaderAt: bytes.NewReader(raw), Size: int64(len(raw))}
	m, err := sbom.Describe(t.Context(), input(), "bin/lantern", c, nil)
	if err != nil {
		t.Fatal(err)
	}
	ours, err := m.Encode()
	if err != nil {
		t.Fatal(err)
	}
	theirs := elsewhere(t, m, nil, func(*spdx.Draft) {}).Raw()
	for _, row := range []struct {
		name             string
		at               int
		algorithm, value string
		code             verdict.Code // with --complete and without
		left             string       // named without, refused with it
	}{
		{"the twin", 0, "SHA512", digest.SetOf(raw).SHA512.Hex(), "", ""},
		{"another SHA-512", 0, "SHA512", strings.Repeat("0", 128), verdict.SBOMSubject, ""},
		{"its SHA-1", 0, "SHA1", hex.EncodeToString(weak[:]), "", ""},
		{"another SHA-1", 0, "SHA1", strings.Repeat("0", 40), verdict.SBOMSubject, ""},
		{"another SHA-256", 0, "SHA256", strings.Repeat("0", 64), verdict.SBOMSubject, ""},
		{"an MD5", 0, "MD5", strings.Repeat("0", 32), "", "MD5 of the artifact"},
		{"a SHA-384", 0, "SHA384", strings.Repeat("0", 96), "", "SHA384 of the artifact"},
		{"a SHA-512 of a module", 1, "SHA512", strings.Repeat("0", 128), "", "SHA512 of packages"},
	} {
		for who, text := range map[string][]byte{"ours": ours, "theirs": theirs} {
			for _, complete := range []bool{false, true} {
				s := saying{name: row.name + ", " + who, code: row.code}
				if complete && row.left != "" {
					s.name, s.code = s.name+", all", verdict.SBOMIncomplete
				}
				held := s.held(t, sbom.Question{Document: alsoSaying(t, text, row.at, row.algorithm, row.value), Content: &c, Complete: complete})
				if left := strings.Join(held.Left, "\n"); !complete && !strings.Contains(left, row.left) || row.left == "" && strings.Contains(left, "checksum") {
					t.Errorf("%s: left %q", s.name, left)
				}
			}
		}
	}
}

// TestChecksumsInLines: the older form is held to its checksums as JSON is.
func TestChecksumsInLines(t *testing.T) {
	raw := program(t)
	c := sbom.Content{ReaderAt: bytes.NewReader(raw), Size: int64(len(raw))}
	m, err := sbom.Describe(t.Context(), input(), "bin/lantern", c, nil)
	if err != nil {
		t.Fatal(err)
	}
	lines, err := spdx.EncodeTagValue(m.Draft)
	if err != nil {
		t.Fatal(err)
	}
	given := "PackageChecksum: SHA256: " + m.Digests.SHA256.Hex() + "\n"
	weak := sha1.Sum(raw)
	for sum, code := range map[string]verdict.Code{
		hex.EncodeToString(weak[:]): "",
		strings.Repeat("0", 40):     verdict.SBOMSubject,
	} {
		text := strings.Replace(string(lines), given, given+"PackageChecksum: SHA1: "+sum+"\n", 1)
		doc, report := spdx.Validate(text)
		if len(report.Faults) > 0 || len(doc.Checksums()) != 1 {
			t.Fatalf("%v %v", report.Faults, doc.Checksums())
		}
		saying{name: sum, code: code}.held(t, sbom.Question{Document: doc, Content: &c})
	}
}

// TestJudgeNamesWhatItLeaves: the verdict names what the SBOM itself leaves out
// and what nobody compares; an SBOM that leaves nothing out has no such words.
func TestJudgeNamesWhatItLeaves(t *testing.T) {
	tree := sourceTree(t)
	m, err := sbom.Directory(input(), "source", tree, nil)
	leaving := parsed(t, m, err)
	raw := program(t)
	c := sbom.Content{ReaderAt: bytes.NewReader(raw), Size: int64(len(raw))}
	m, err = sbom.Describe(t.Context(), input(), "bin/lantern", c, nil)
	whole := parsed(t, m, err)
	for _, row := range []struct {
		q      sbom.Question
		leaves bool
	}{
		{sbom.Question{Document: leaving, Directory: tree}, true},
		{sbom.Question{Document: whole, Content: &c}, false},
	} {
		v, err := sbom.Judge(t.Context(), row.q, time.Unix(0, 0))
		if err != nil {
			t.Fatal(err)
		}
		left, notes := strings.Join(v.Scope.Left, ", "), strings.Join(v.Notes, "\n")
		if strings.Contains(left, "the SBOM itself leaves out") != row.leaves || strings.Contains(notes, "the SBOM states: ") != row.leaves {
			t.Errorf("leaves %v: %q\n%s", row.leaves, left, notes)
		}
		if !strings.Contains(left, "licences, comments, suppliers, download locations, purposes, CPEs, annotations") {
			t.Errorf("left %q", left)
		}
	}
}
