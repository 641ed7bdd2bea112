package spdx_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/waybill-release/waybill/pkg/document/spdx"
	"github.com/waybill-release/waybill/pkg/tool/strictjson"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// rules are the rules that a document breaks.
func rules(r spdx.Report) map[spdx.Rule]int {
	count := map[spdx.Rule]int{}
	for _, f := range slices.Concat(r.Faults, r.Minimum) {
		count[f.Rule]++
	}
	return count
}

// TestValidateFaultless: what we write breaks no rule, in either form.
func TestValidateFaultless(t *testing.T) {
	d := draft()
	d.Packages[0].Verification = spdx.VerificationCode(d.Files)
	raw := encode(t, d)
	lines, err := spdx.EncodeTagValue(d)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{string(raw), string(lines)} {
		doc, report := spdx.Validate(text)
		if len(report.Faults) != 0 || len(report.Minimum) != 0 || doc.IsZero() || report.Packages != 2 || report.Files != 1 {
			t.Errorf("%+v", report)
		}
		if len(report.Unknown) != 1 || report.Unknown[0] != "nothing is known" {
			t.Errorf("unknown: %q", report.Unknown)
		}
	}
	back, err := spdx.ParseTagValue(lines)
	if err != nil {
		t.Fatal(err)
	}
	same, err := spdx.Parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	if diff := spdx.Twins(same, back); len(diff) != 0 {
		t.Errorf("the forms disagree: %q", diff)
	}
}

// TestValidateLists: each row breaks one rule, and the place is named.
func TestValidateLists(t *testing.T) {
	plain := draft()
	plain.Packages[0].Verification = spdx.VerificationCode(plain.Files)
	good := string(encode(t, plain))
	for _, row := range []struct {
		rule             spdx.Rule
		code             verdict.Code
		place, old, made string
	}{
		{"property", verdict.SBOMInvalid, "packages[1]", `"name": "example.org/m"`, `"name": "example.org/m", "colour": {"a": [1, {"b": null}]}`},
		{"schema", verdict.StatementParse, "packages[0].primaryPackagePurpose", `"ARCHIVE"`, `"BALLAST"`},
		{"type", verdict.StatementParse, "packages[0].filesAnalyzed", `"filesAnalyzed": true`, `"filesAnalyzed": "true"`},
		{"licence", verdict.SBOMInvalid, "packages[1].licenseDeclared", `"licenseDeclared": "NOASSERTION",
      "copyrightText": "NOASSERTION",
      "externalRefs"`, `"licenseDeclared": "MIT or-maybe Apache-2.0",
      "copyrightText": "NOASSERTION",
      "externalRefs"`},
		{"minimum elements", verdict.SBOMInvalid, "packages[1]", `"versionInfo": "v1.0.0",`, ``},
		{"reference", verdict.SBOMInvalid, "packages[1]", `pkg:golang/example.org/m@v1.0.0`, `golang:example.org/m`},
		{"files", verdict.SBOMIncomplete, "packages[0]", spdx.VerificationCode(plain.Files), strings.Repeat("0", 40)},
		{"head", verdict.StatementParse, "creationInfo.creators[0]", `"Tool: waybill"`, `"waybill"`},
		{"relationship", verdict.SBOMGraph, "relationships[1]", `"relatedSpdxElement": "SPDXRef-File"`, `"relatedSpdxElement": "SPDXRef-Gone"`},
		{"form", verdict.StatementParse, "", `"dataLicense": "CC0-1.0",`, `"dataLicense": "CC0-1.0", "dataLicense": "CC0-1.0",`},
		{"subject", verdict.SBOMInvalid, "relationships[1]", `"relationshipType": "CONTAINS"`, `"relationshipType": "DESCRIBES"`},
	} {
		if strings.Count(good, row.old) == 0 {
			t.Fatalf("the row %q changes nothing in\n%s", row.old, good)
		}
		bad := strings.Replace(good, row.old, row.made, 1)
		if row.rule == "subject" {
			bad = strings.Replace(bad, `"spdxElementId": "SPDXRef-Artifact",
      "relatedSpdxElement": "SPDXRef-File"`, `"spdxElementId": "SPDXRef-DOCUMENT",
      "relatedSpdxElement": "SPDXRef-File"`, 1)
		}
		_, report := spdx.Validate(bad)
		found := false
		for _, f := range slices.Concat(report.Faults, report.Minimum) {
			found = found || f.Rule == row.rule && f.Place == row.place && f.Code() == row.code
		}
		if !found {
			t.Errorf("%s: %+v", row.rule, report.Faults)
		}
	}
}

// TestAsTheTextHasIt: what the text of the specification allows is no fault,
// though the schema spells it otherwise; the twins are allowed by neither.
func TestAsTheTextHasIt(t *testing.T) {
	plain := draft()
	plain.Packages[0].Verification = spdx.VerificationCode(plain.Files)
	good := string(encode(t, plain))
	for _, row := range []struct{ old, made, twin string }{
		{`"primaryPackagePurpose": "ARCHIVE"`, `"primaryPackagePurpose": "OPERATING-SYSTEM"`, `"primaryPackagePurpose": "OPERATING SYSTEM"`},
		{`"pkg:golang/example.org/m@v1.0.0"`, `"pkg://golang/example.org/m@v1.0.0"`, `"pkg://golang"`},
	} {
		for made, want := range map[string]bool{row.made: true, row.twin: false} {
			text := strings.Replace(good, row.old, made, 1)
			if doc, report := spdx.Validate(text); text == good || (len(report.Faults) == 0) != want {
				t.Errorf("%s: %+v", made, report.Faults)
			} else if p := doc.Packages(); strings.Contains(made, "OPERATING-") && p[0].Purpose != spdx.OperatingSystem {
				t.Errorf("the purpose is %q", p[0].Purpose)
			}
		}
	}
}

// TestValidateListsAll: one fault does not hide the others.
func TestValidateListsAll(t *testing.T) {
	_, report := spdx.Validate(strings.NewReplacer(`"CC0-1.0"`, `"MIT"`, `"NONE"`, `1`, `Tool: other`, `other`).Replace(foreign))
	if got := rules(report); got["head"] != 2 || got["type"] != 1 || got["minimum elements"] != 2 {
		t.Errorf("%+v", report.Faults)
	}
}

// corpora are documents that others wrote; the SPDX schemas accept them.
func corpora(t *testing.T) string {
	dir := filepath.Join("..", "..", "..", "..", "shared", "corpora", "spdx")
	if _, err := os.Stat(dir); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal(err)
		}
		t.Skipf("there are no corpora beside the checkout: %v", err)
	}
	return dir
}

// TestValidateCorpora: documents that the schemas accept break no rule of form
// or schema, and none of those by which a document could be misread.
func TestValidateCorpora(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(corpora(t), "valid", "*.spdx.json"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no documents: %v", err)
	}
	for _, path := range files {
		raw, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		_, report := spdx.Validate(string(raw))
		for _, f := range report.Faults {
			switch f.Rule {
			case "files", "subject", "licence list":
				t.Logf("%s: %s: %v", filepath.Base(path), f.Rule, f)
			default:
				t.Errorf("%s: %s: %v", filepath.Base(path), f.Rule, f)
			}
		}
	}
}

// FuzzForm: the scanner and package strictjson agree about what is JSON.
func FuzzForm(f *testing.F) {
	f.Add([]byte(foreign))
	for _, s := range []string{`{"a":[1,-0.5e+3,true,null,"\ud83d\ude00"]}`, `{"a":1,"\u0061":2}`, `{"a":"\u0000"}`, `{"a":01}`, `{} x`, `{"a":1e999}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		if len(raw) > 1<<16 || len(raw) == 0 || !json.Valid(raw) && strictjson.Check(raw) == nil {
			t.Skip()
		}
		if spdx.FormOf(string(raw)) != "json" {
			t.Skip()
		}
		_, report := spdx.Validate(string(raw))
		form := rules(report)["form"]+rules(report)["limit"] > 0
		want := strictjson.Check(raw)
		// An unknown key that differs by case is refused by us alone, and a
		// document that is no object has no form to judge.
		if form && want == nil && !strings.Contains(report.Faults[0].Message, "JSON_UNKNOWN_FIELD") && raw[0] == '{' {
			t.Errorf("we alone refuse %q: %v", raw, report.Faults)
		}
		if !form && want != nil {
			t.Errorf("we alone accept %q: %v", raw, want)
		}
	})
}
