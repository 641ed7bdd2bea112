package verdict_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// constants reads every constant of type Code from the source, so that a code
// added without a row is found.
func constants(t *testing.T) map[string]verdict.Code {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "code.go", nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]verdict.Code{}
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok {
			return true
		}
		if kind, ok := spec.Type.(*ast.Ident); !ok || kind.Name != "Code" {
			return true
		}
		text, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
		if err != nil {
			t.Fatal(err)
		}
		found[spec.Names[0].Name] = verdict.Code(text)
		return true
	})
	if len(found) < 50 {
		t.Fatalf("only %d constants were found in code.go", len(found))
	}
	return found
}

func TestEveryCodeHasARow(t *testing.T) {
	form := regexp.MustCompile(`\A[A-Z][A-Z0-9]*(_[A-Z0-9]+)*\z`)
	rows := verdict.Codes()
	seen := map[verdict.Code]string{}
	for name, code := range constants(t) {
		if !slices.Contains(rows, code) {
			t.Errorf("%s: %q has no row in the table", name, code)
		}
		if code.Fix() == "" || strings.HasSuffix(code.Fix(), ".") {
			t.Errorf("%s: fix %q: want an act, without a full stop", name, code.Fix())
		}
		if o := code.Outcome(); o == verdict.Accepted || o == verdict.Undecided {
			t.Errorf("%s: outcome %s: a code is always a no", name, o)
		}
		if !form.MatchString(string(code)) {
			t.Errorf("%s: %q is not written LIKE_THIS", name, code)
		}
		if other, taken := seen[code]; taken {
			t.Errorf("%s and %s are both %q", name, other, code)
		}
		seen[code] = name
	}
	// A code without a constant belongs to one package, which has it as text.
	for _, code := range rows {
		if _, known := seen[code]; !known && !usedElsewhere(t, code) {
			t.Errorf("%s has a row in the table, and no constant", code)
		}
	}
}

// usedElsewhere reports whether a package above has the code as text.
func usedElsewhere(t *testing.T, code verdict.Code) (used bool) {
	t.Helper()
	err := filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || used || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		raw, err := os.ReadFile(path)
		used = strings.Contains(string(raw), strconv.Quote(string(code)))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return used
}

func TestUnknownCodeIsOurBug(t *testing.T) {
	code := verdict.Code("NEVER_HEARD_OF")
	if got := code.Outcome(); got != verdict.Internal {
		t.Errorf("outcome %s, want internal", got)
	}
	v := verdict.Verdict{Counts: verdict.Counts{Verified: 1, Required: 1}, Findings: []verdict.Finding{{Code: code}}}
	if got := v.Outcome(); got != verdict.Internal {
		t.Errorf("verdict with an unknown code is %s, want internal", got)
	}
}

func TestOutcomeTables(t *testing.T) {
	rows := []struct {
		outcome verdict.Outcome
		word    string
		exit    int
		status  int
	}{
		{verdict.Undecided, "undecided", 1, 403},
		{verdict.Accepted, "accepted", 0, 200},
		{verdict.Refused, "refused", 1, 403},
		{verdict.Malformed, "malformed", 2, 422},
		{verdict.Unavailable, "unavailable", 3, 503},
		{verdict.Internal, "internal", 4, 500},
		{verdict.Outcome(99), "undecided", 4, 500},
	}
	for _, r := range rows {
		t.Run(r.word, func(t *testing.T) {
			if got := r.outcome.String(); got != r.word {
				t.Errorf("word %q, want %q", got, r.word)
			}
			if text, err := r.outcome.MarshalText(); err != nil || string(text) != r.word {
				t.Errorf("text %q, %v", text, err)
			}
			if got := verdict.ExitCode(r.outcome); got != r.exit {
				t.Errorf("exit code %d, want %d", got, r.exit)
			}
			if got := verdict.HTTPStatus(r.outcome); got != r.status {
				t.Errorf("status %d, want %d", got, r.status)
			}
		})
	}
}
