package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/waybill-release/waybill/pkg/gate"
	"github.com/waybill-release/waybill/pkg/report/explain"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

func TestExplain(t *testing.T) {
	if said := execute(t, "explain", "tampered"); !strings.HasPrefix(said, "TAMPERED: ") || !strings.Contains(said, "docs/codes.md#tampered") {
		t.Error(said)
	}
	if list := execute(t, "explain"); strings.Count(list, "\n  ") < len(verdict.Codes()) {
		t.Error(list)
	}
	var one explain.Entry
	if err := json.Unmarshal([]byte(execute(t, "explain", "UNSIGNED", "--output", "json")), &one); err != nil || one.Code != verdict.Unsigned || one.Consumer == "" {
		t.Errorf("%+v, %v", one, err)
	}
	var all []explain.Entry
	if err := json.Unmarshal([]byte(execute(t, "explain", "--output", "json")), &all); err != nil || len(all) != len(verdict.Codes()) {
		t.Errorf("%d entries, %v", len(all), err)
	}
	for typed, says := range map[string]string{
		"TAMPRED": "malformed: USAGE CODE: \"TAMPRED\" is no reason code; similar: TAMPERED", "%d\x1b[2J": "is no reason code", "TAMPERED --output yaml": "want text or json",
	} {
		if said := execute(t, append([]string{"explain"}, strings.Fields(typed)...)...); !strings.Contains(said, says) || strings.Contains(said, "\x1b") {
			t.Errorf("%s: want %q in %q", typed, says, said)
		}
	}
}

// TestActsOfReports: a file that is no verdict, and a report that no output shows.
func TestActsOfReports(t *testing.T) {
	path := filepath.Join(t.TempDir(), "policy.yaml")
	if err := os.WriteFile(path, []byte("apiVersion: waybill/v1\nkind: Policy\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if said := execute(t, "report", path); !strings.Contains(said, "CONFIG") || !strings.Contains(said, "→ name a file that --output json=FILE wrote") {
		t.Error(said)
	}
	const unseen = "USAGE --report: it would be in none of the outputs"
	for output, refused := range map[string]bool{"json": true, "junit=" + path + ".xml": true, "sarif": true, "table": false, "html=" + path + ".html": false} {
		if said := execute(t, "report", path, "--report", "kep-3027", "--output", output); strings.Contains(said, unseen) != refused {
			t.Errorf("%s: refused %t:\n%s", output, !refused, said)
		}
	}
}

// TestKindOfEvidenceNamesTheFlag: the act about another kind of evidence fits the
// flags that were given.
func TestKindOfEvidenceNamesTheFlag(t *testing.T) {
	for kind, act := range map[string]string{"": "add --type TYPE", "slsaprovenance1": "leave out --type"} {
		findings := []verdict.Finding{verdict.Find(verdict.MaterialKind, "a", "another kind"), verdict.Find(verdict.Unsigned, "a", "none")}
		adviseKind(findings, gate.Ask{Type: kind})
		if !strings.Contains(findings[0].Fix, act) || findings[1].Fix != verdict.Unsigned.Fix() {
			t.Errorf("--type %q: %q", kind, findings[0].Fix)
		}
	}
}
