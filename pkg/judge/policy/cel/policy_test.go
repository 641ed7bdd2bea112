package cel_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/waybill-release/waybill/pkg/judge/policy"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// TestPolicyWithRules loads a policy that has a rule of its own (attacks C06
// and H22). What is wrong with a rule is shown where it stands in the file,
// and where in the rule; a program without a rules engine never reads such a
// policy without its rules.
func TestPolicyWithRules(t *testing.T) {
	plain, err := os.ReadFile(filepath.Join("..", "testdata", "valid.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	const good = `evidence.exists(e, e.role == "builder" && e.provenance.ref == "refs/tags/" + version)`
	for name, row := range map[string]struct {
		holds    string
		compiler policy.Compiler
		want     string
	}{
		"a rule":               {good, compiler(t), ""},
		"no rules engine":      {good, nil, "this program cannot evaluate rules"},
		"a misspelt field":     {strings.Replace(good, ".ref ", ".reff ", 1), compiler(t), "rules[0].holds: at line 1, column 55 of the rule: undefined field 'reff'"},
		"an unanchored regexp": {`version.matches("v1")`, compiler(t), "a pattern would match anywhere"},
		"a template":           {strings.Replace(good, `refs/tags/" + version`, `refs/tags/{{ version }}"`, 1), compiler(t), "placeholders are not replaced in rules"},
		"the network":          {`http("https://metadata.example") == version`, compiler(t), "rules only have verified inputs"},
		"a bomb":               {strings.Repeat("(", 100) + good + strings.Repeat(")", 100), compiler(t), "recursion"},
		"nothing asked":        {"true", compiler(t), "depends on no input"},
		"nothing written":      {"", compiler(t), "the rule is empty"},
		"a comment at the end": {good + " // && more", compiler(t), "comments are not allowed in a rule"},
	} {
		t.Run(name, func(t *testing.T) {
			raw := string(plain) + "rules:\n- name: from the tag\n  classes: [binary]\n  holds: '" + row.holds + "'\n"
			_, err := policy.Parse([]byte(raw), row.compiler)
			switch {
			case row.want == "" && err != nil:
				t.Errorf("%v; want it to load", err)
			case row.want == "":
			case err == nil || !strings.Contains(err.Error(), row.want) || verdict.OutcomeOf(err) == verdict.Undecided:
				t.Errorf("%v; want an error with %q", err, row.want)
			}
		})
	}
	for name, row := range map[string]struct{ first, want string }{
		"two names (twin)": {", name: release", ""},
		"one name twice":   {", name: tag", `"tag" is empty or occurs twice`},
		"no name":          {"", `"" is empty or occurs twice`},
	} {
		rule := "- {classes: [binary], holds: '" + good + "'"
		raw := string(plain) + "rules:\n" + rule + row.first + "}\n" + rule + ", name: tag}\n"
		if _, err := policy.Parse([]byte(raw), compiler(t)); (err == nil) != (row.want == "") || err != nil && !strings.Contains(err.Error(), row.want) {
			t.Errorf("%s: %v; want %q", name, err, row.want)
		}
	}
}
