package attestations_test

import (
	"encoding/json"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	releasemanifest "github.com/waybill-release/waybill/attestations/release-manifest/v1"
	"github.com/waybill-release/waybill/pkg/document/intoto"
	"github.com/waybill-release/waybill/pkg/release/manifest"
	"github.com/waybill-release/waybill/pkg/tool/strictjson"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

const testdata = "release-manifest/v1/testdata/"

func parseManifest(text string) (manifest.Manifest, error) {
	s, err := intoto.Parse([]byte(text))
	if err != nil {
		return manifest.Manifest{}, err
	}
	return manifest.ReadManifest(s, nil)
}

// TestManifestExamples reads every example: accept-WHY.json parses, and
// refuse-CODE-WHY.json is refused with that code. That an example parses does
// not mean that it would be accepted: nobody signed it.
func TestManifestExamples(t *testing.T) {
	files, err := filepath.Glob(testdata + "*")
	if err != nil || len(files) < 30 {
		t.Fatalf("%d examples, %v", len(files), err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".json")
		t.Run(name, func(t *testing.T) {
			m, err := parseManifest(read(t, file))
			why, rest, _ := strings.Cut(name, "-")
			switch {
			case why == "accept" && err != nil:
				t.Errorf("refused: %v", err)
			case why == "refuse" && err == nil:
				t.Error("accepted")
			case why == "refuse":
				code, _, _ := strings.Cut(rest, "-")
				if f := verdict.FindingOf("", err); string(f.Code) != code {
					t.Errorf("refused as %s: %v, want %s", f.Code, err, code)
				}
				if m.Name != "" || len(m.Artifacts) > 0 {
					t.Error("a refusal came with a manifest")
				}
			case why != "accept":
				t.Error("the name says neither accept nor refuse")
			}
		})
	}
}

// TestFutureFiles is the promise to later versions: a reader of today, never
// changed, reads a file with extensions as if they were not there, and refuses
// one with a critical field that it does not know.
func TestFutureFiles(t *testing.T) {
	today, err := parseManifest(read(t, testdata+"accept-minimal.json"))
	if err != nil {
		t.Fatal(err)
	}
	future, err := parseManifest(read(t, testdata+"accept-future-extension.json"))
	if err != nil {
		t.Fatalf("a future file is not read: %v", err)
	}
	a, err := today.Statement()
	if err != nil {
		t.Fatal(err)
	}
	b, err := future.Statement()
	if err != nil {
		t.Fatal(err)
	}
	if string(a.Raw()) != string(b.Raw()) {
		t.Errorf("an extension changed what is read:\n%s\n%s", a.Raw(), b.Raw())
	}
	_, err = parseManifest(read(t, testdata+"refuse-MANIFEST_CRITICAL-unknown-critical.json"))
	if f := verdict.FindingOf("", err); f.Code != "MANIFEST_CRITICAL" || !strings.Contains(f.Message, "two-signers") {
		t.Errorf("a critical field is not refused by its name: %v", err)
	}
}

// TestRunsBeforeTheirTraces: a reader from before run-traces, which knows three
// fields of a run and passes over extensions, reads what is written now.
func TestRunsBeforeTheirTraces(t *testing.T) {
	m, err := parseManifest(read(t, testdata+"accept-run-traces.json"))
	if err != nil {
		t.Fatal(err)
	}
	if manifest.OriginOf(m).String() != "4bf92f3577b34da6a3ce929d0e0e4736" || manifest.CommandOf(m.Runs[0]) != "waybill stage" || manifest.IDsOf(m.Runs[0]).Span.IsZero() {
		t.Fatalf("the run is read as %+v", m.Runs[0])
	}
	written, err := m.Statement()
	if err != nil {
		t.Fatal(err)
	}
	var before struct {
		Runs []struct {
			Kind    string `json:"kind"`
			ID      string `json:"id"`
			TraceID string `json:"traceId,omitempty"`
		} `json:"runs"`
		Critical map[string]any `json:"critical"`
	}
	var all struct {
		Runs json.RawMessage `json:"runs"`
	}
	if err := json.Unmarshal(written.Predicate(), &all); err != nil {
		t.Fatal(err)
	}
	if err := strictjson.Unmarshal(all.Runs, &before.Runs); err != nil {
		t.Errorf("a reader from before refuses the runs: %v", err)
	}
	if err := json.Unmarshal(written.Predicate(), &before); err != nil || len(before.Critical) > 0 || before.Runs[0].TraceID != m.Runs[0].TraceID {
		t.Errorf("a reader from before has %+v, %v", before, err)
	}
}

// TestManifestSchema holds the schema against the examples, and against what
// we write ourselves.
func TestManifestSchema(t *testing.T) {
	s := loadSchema(t, "release-manifest/v1")
	predicate := func(text string) any {
		var statement struct{ Predicate any }
		if err := json.Unmarshal([]byte(text), &statement); err != nil {
			t.Fatal(err)
		}
		return statement.Predicate
	}
	files, err := filepath.Glob(testdata + "accept-*.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d examples, %v", len(files), err)
	}
	for _, file := range files {
		if faults := s.faults(s.root, "$", predicate(read(t, file))); len(faults) > 0 {
			t.Errorf("%s: %q", file, faults)
		}
		m, err := parseManifest(read(t, file))
		if err != nil {
			t.Fatal(err)
		}
		written, err := m.Statement()
		if err != nil {
			t.Fatal(err)
		}
		if faults := s.faults(s.root, "$", predicate(string(written.Raw()))); len(faults) > 0 {
			t.Errorf("%s, as we write it: %q", file, faults)
		}
	}
	for _, name := range []string{
		"unknown-field", "unknown-field-of-an-entry", "version-of-another-form", "revision-zero", "config-of-another-name",
		"negative-size", "unknown-class", "withdrawn-without-reason",
		"run-traces-with-an-unknown-field",
	} {
		if len(s.faults(s.root, "$", predicate(read(t, testdata+"refuse-MANIFEST_PARSE-"+name+".json")))) == 0 {
			t.Errorf("the schema takes %s", name)
		}
	}
}

// TestExampleBytes lets the examples be checked by hand: the bytes of each
// artifact are its own name.
func TestExampleBytes(t *testing.T) {
	m, err := parseManifest(read(t, testdata+"accept-full.json"))
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range m.Artifacts {
		if !a.Digests.Equal(digest.SetOf([]byte(a.Name))) || a.Size != int64(len(a.Name)) {
			t.Errorf("%s: digests or size are not those of its name", a.Name)
		}
	}
}

// TestPagesOfTheExample holds root and pages, as we write them, against the
// schema and the struct against its definition.
func TestPagesOfTheExample(t *testing.T) {
	s := loadSchema(t, "release-manifest/v1")
	page, _ := s.root["$defs"].(map[string]any)["PagePredicate"].(map[string]any)
	run, _ := s.root["$defs"].(map[string]any)["RunTrace"].(map[string]any)
	s.match(t, "$defs.RunTrace", clone(run), reflect.TypeFor[releasemanifest.RunTrace]())
	s.match(t, "$defs.PagePredicate", clone(page), reflect.TypeFor[releasemanifest.PagePredicate]())
	m, err := parseManifest(read(t, testdata+"accept-full.json"))
	if err != nil {
		t.Fatal(err)
	}
	said := func(raw []byte) any {
		var statement struct{ Predicate any }
		if err := json.Unmarshal(raw, &statement); err != nil {
			t.Fatal(err)
		}
		return statement.Predicate
	}
	pages := 0
	root, err := m.SealPages(3, func(p manifest.Page, raw []byte) error {
		pages++
		if faults := s.faults(page, "$", said(raw)); len(faults) > 0 {
			t.Errorf("page %s: %q", p.Name, faults)
		}
		return nil
	})
	if err != nil || pages < 2 {
		t.Fatalf("%d pages, %v", pages, err)
	}
	if faults := s.faults(s.root, "$", said(root.Raw())); len(faults) > 0 {
		t.Errorf("the root: %q", faults)
	}
}
