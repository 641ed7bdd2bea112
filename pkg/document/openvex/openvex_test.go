package openvex_test

import (
	"strings"
	"testing"
	"time"

	"github.com/waybill-release/waybill/pkg/document/intoto"
	"github.com/waybill-release/waybill/pkg/document/openvex"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

const good = `{"@context":"https://openvex.dev/ns/v0.2.0","@id":"https://example.test/vex/1","author":"security@example.test","timestamp":"2026-11-01T00:00:00Z","version":1,` +
	`"statements":[{"vulnerability":{"name":"CVE-2026-1"},"products":[{"@id":"lantern","hashes":{"sha-256":"00"}}],"status":"not_affected","justification":"component_not_present"}]}`

// read is when the documents are read, or were signed.
var read = time.Date(2026, 11, 2, 0, 0, 0, 0, time.UTC)

func statement(kind, predicate string) []byte {
	return []byte(`{"_type":"https://in-toto.io/Statement/v1","subject":[{"name":"lantern","digest":{"sha256":"` + strings.Repeat("a", 64) + `"}}],"predicateType":"` + kind + `","predicate":` + predicate + `}`)
}

func parse(t testing.TB, raw []byte) error {
	t.Helper()
	s, err := intoto.Parse(raw)
	if err == nil {
		_, err = openvex.Parse(s, read)
	}
	return err
}

// TestParse: each row changes one fact of a document that is accepted.
func TestParse(t *testing.T) {
	if err := parse(t, statement(openvex.PredicateType, good)); err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct {
		name, old, not string
		code           verdict.Code
	}{
		{"another context", "ns/v0.2.0", "ns/v0.0.1", openvex.Form},
		{"no id", `"@id":"https://example.test/vex/1"`, `"@id":""`, openvex.Form},
		{"no author", `"author":"security@example.test",`, "", openvex.Form},
		{"an author of two lines", "security@", `security\n@`, openvex.Form},
		{"version 0", `"version":1`, `"version":0`, openvex.Form},
		{"no date", `"timestamp":"2026-11-01T00:00:00Z",`, "", openvex.Form},
		{"a date after its signature", "2026-11-01", "2026-11-03", openvex.Form},
		{"an update after its signature", `"version":1`, `"version":1,"last_updated":"2027-01-01T00:00:00Z"`, openvex.Form},
		{"no statements", good[strings.Index(good, `{"vul`) : len(good)-2], "", openvex.Form},
		{"no vulnerability", "CVE-2026-1", "", openvex.Form},
		{"an unknown status", "not_affected", "harmless", openvex.Form},
		{"not_affected without justification", `,"justification":"component_not_present"`, "", openvex.Form},
		{"not_affected with an impact alone", `"justification":"component_not_present"`, `"impact_statement":"none"`, openvex.Form},
		{"an unknown justification", "component_not_present", "trust_us", openvex.Form},
		{"affected without an action", `"not_affected","justification":"component_not_present"`, `"affected"`, openvex.Form},
		{"an unknown key", `"version":1`, `"version":1,"verion":2`, verdict.StatementParse},
		{"a key twice", `"version":1`, `"version":1,"version":2`, verdict.StatementParse},
	} {
		if !strings.Contains(good, row.old) {
			t.Fatalf("%s: nothing to replace", row.name)
		}
		text := strings.Replace(good, row.old, row.not, 1)
		if got := verdict.FindingOf("", parse(t, statement(openvex.PredicateType, text))).Code; got != row.code {
			t.Errorf("%s: %s, want %s", row.name, got, row.code)
		}
		_, err := openvex.ParseFile([]byte(text), read)
		if got := verdict.FindingOf("", err).Code; got != openvex.Form {
			t.Errorf("%s, unsigned: %s", row.name, got)
		}
	}
	for _, kind := range []string{openvex.Context, "https://cyclonedx.org/bom", "https://docs.oasis-open.org/csaf"} {
		if got := verdict.FindingOf("", parse(t, statement(kind, good))).Code; got != verdict.PredicateType {
			t.Errorf("%s: %s", kind, got)
		}
	}
}

// TestParseFile: other forms are named.
func TestParseFile(t *testing.T) {
	if _, err := openvex.ParseFile([]byte(good), read); err != nil {
		t.Fatal(err)
	}
	for text, form := range map[string]string{
		`{"document":{"csaf_version":"2.0"}}`: "CSAF", `{"bomFormat":"CycloneDX"}`: "CycloneDX", "<bom/>": "XML", `{"@context":"https://spdx.org/rdf/3.0.1/spdx-context.jsonld"}`: "SPDX 3", "{": "",
	} {
		_, err := openvex.ParseFile([]byte(text), read)
		if f := verdict.FindingOf("", err); f.Code != openvex.Form || !strings.Contains(f.Message, form) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// TestMangled: no prefix of a document and no changed byte makes a panic.
func TestMangled(t *testing.T) {
	raw := statement(openvex.PredicateType, good)
	for i := range raw {
		if parse(t, raw[:i]) == nil {
			t.Errorf("the first %d bytes are accepted", i)
		}
		other := append([]byte{}, raw...)
		other[i]++
		_ = parse(t, other)
	}
}

func FuzzParse(f *testing.F) {
	f.Add(statement(openvex.PredicateType, good))
	f.Fuzz(func(t *testing.T, raw []byte) {
		_ = parse(t, raw)
		_, _ = openvex.ParseFile(raw, read) // no panic
	})
}
