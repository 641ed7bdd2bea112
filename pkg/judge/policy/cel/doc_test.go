package cel_test

import (
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"unicode"

	"github.com/waybill-release/waybill/pkg/judge/policy"
)

func page(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "..", "..", "policies", "cel.md"))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestDocsExamples reads every example of the page. Each holds of the view
// that the tests use, and of nothing at all none does.
func TestDocsExamples(t *testing.T) {
	c := compiler(t)
	examples := regexp.MustCompile("(?s)```cel\n(.*?)```").FindAllStringSubmatch(page(t), -1)
	if len(examples) < 6 {
		t.Fatalf("%d examples, want a handful", len(examples))
	}
	asked := view()
	asked.Evidence[0].Provenance.Dependencies[1].URI = "oci://registry.example/base/static"
	for _, example := range examples {
		rule, err := c.Compile(example[1])
		if err != nil {
			t.Errorf("%s%v", example[1], err)
			continue
		}
		if holds, err := rule.Holds(asked); err != nil || !holds {
			t.Errorf("%sof the view of the tests: %v, %v; want true", example[1], holds, err)
		}
		if holds, _ := rule.Holds(policy.View{Time: now, Stage: "release"}); holds {
			t.Errorf("%sof nothing: true; want false", example[1])
		}
	}
}

// TestDocsTwins reads the table of what does not load, and of what does.
func TestDocsTwins(t *testing.T) {
	c := compiler(t)
	rows := regexp.MustCompile("(?m)^\\| `([^`]+)` \\| `([^`]+)` \\| .+ \\|$").FindAllStringSubmatch(page(t), -1)
	if len(rows) < 12 {
		t.Fatalf("%d rows", len(rows))
	}
	for _, row := range rows {
		if _, err := c.Compile(row[1]); err == nil {
			t.Errorf("%s loads", row[1])
		}
		if _, err := c.Compile(row[2]); err != nil {
			t.Errorf("%s: %v", row[2], err)
		}
	}
}

// TestDocsNames compares what a rule sees with the tables of the page and with
// the package comment.
func TestDocsNames(t *testing.T) {
	comment, err := os.ReadFile("cel.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, shown := range []struct {
		head, prefix string
		of           reflect.Type
	}{
		{"| name | type | is |", "", reflect.TypeFor[policy.View]()},
		{"| of an artifact |", "artifact.", reflect.TypeFor[policy.ArtifactView]()},
		{"| of evidence |", "e.", reflect.TypeFor[policy.EvidenceView]()},
		{"| of provenance |", "p.", reflect.TypeFor[policy.ProvenanceView]()},
		{"| of a dependency |", "d.", reflect.TypeFor[policy.DependencyView]()},
	} {
		_, table, found := strings.Cut(page(t), shown.head)
		if !found {
			t.Fatalf("no table %q", shown.head)
		}
		table, _, _ = strings.Cut(table, "\n\n")
		fields := reflect.VisibleFields(shown.of)
		for _, field := range fields {
			name := strings.ToLower(field.Name)
			if field.Name != strings.ToUpper(field.Name) {
				name = string(unicode.ToLower(rune(field.Name[0]))) + field.Name[1:]
			}
			if !strings.Contains(table, "\n| `"+name+"` | ") {
				t.Errorf("the table %q does not show %s", shown.head, name)
			}
			if !strings.Contains(string(comment), shown.prefix+name) {
				t.Errorf("the package comment does not show %s%s", shown.prefix, name)
			}
		}
		if rows := strings.Count(table, "\n| `"); rows != len(fields) {
			t.Errorf("the table %q has %d rows, want %d", shown.head, rows, len(fields))
		}
	}
}
