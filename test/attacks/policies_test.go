package attacks

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/waybill-release/waybill/pkg/judge/policy"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// TestPoliciesNameWhatChecksThem holds the pages of the policies against the
// tests: each sentence that says how an attack is answered names what checks
// that, which exists and has the code. Named are rows of ROWS.md, cases of the
// policy, and tests.
func TestPoliciesNameWhatChecksThem(t *testing.T) {
	n := 0
	for _, path := range must[[]string](t)(filepath.Glob(filepath.Join("..", "..", "policies", "*.md"))) {
		page := filepath.Base(path)
		if page == "kubernetes-known-defects.md" {
			continue // it lists accidents, not attacks
		}
		p := checkedPage{sources: sources{t: t, constants: constants(t)}, cases: casesOf(t, strings.TrimSuffix(path, ".md")+".txtar"), rows: rowsHere(t)}
		for _, said := range sentences(string(must[[]byte](t)(os.ReadFile(path)))) {
			var codes []string
			for _, m := range backticked.FindAllStringSubmatch(said.text, -1) {
				if slices.Contains(verdict.Codes(), verdict.Code(m[1])) {
					codes = append(codes, m[1])
				}
			}
			if len(codes) == 0 {
				continue
			}
			n++
			answered := map[string]bool{}
			for _, by := range said.by {
				list, why := p.answers(by)
				if why != "" {
					t.Errorf("%s: %q: %s", page, by, why)
				}
				for _, code := range list {
					answered[code] = true
				}
			}
			for _, code := range codes {
				if !answered[code] {
					t.Errorf("%s: nothing that is named checks %s: %.150s", page, code, said.text)
				}
			}
		}
	}
	if n < 80 { // what is not found cannot be held against anything
		t.Errorf("%d sentences, want at least 80", n)
	}
	t.Logf("%d sentences about attacks", n)
}

var (
	backticked = regexp.MustCompile("`([A-Z][A-Z_0-9]+)`")
	inProse    = regexp.MustCompile(`\(?\b(row [A-Z][0-9]{2}|[a-z]+/[a-z/]+_test\.go Test[A-Za-z]+)\b\)?`)
)

// sentence is a row of a table, or a paragraph, and what it says is its check.
type sentence struct {
	text string
	by   []string
}

// sentences are those of a page. The last cell of a row of a table names what
// checks it; a paragraph does so in brackets.
func sentences(page string) (all []sentence) {
	for block := range strings.SplitSeq(page, "\n\n") {
		if !strings.HasPrefix(block, "|") {
			s := sentence{text: block}
			for _, m := range inProse.FindAllStringSubmatch(strings.Join(strings.Fields(block), " "), -1) {
				s.by = append(s.by, m[1])
			}
			all = append(all, s)
			continue
		}
		for line := range strings.Lines(block) {
			cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), " | ")
			s := sentence{text: line}
			for by := range strings.SplitSeq(cells[len(cells)-1], "; ") {
				s.by = append(s.by, strings.TrimSpace(by))
			}
			all = append(all, s)
		}
	}
	return all
}

// checkedPage is a page with what it can name.
type checkedPage struct {
	sources
	cases, rows map[string][]string
}

// answers are the codes that a check has; why says what is wrong with its name.
func (p checkedPage) answers(by string) (codes []string, why string) {
	switch kind, name, _ := strings.Cut(by, " "); {
	case kind == "case" && p.cases[name] != nil:
		return p.cases[name], ""
	case kind == "row" && p.rows[name] != nil:
		return p.rows[name], ""
	case kind == "case", kind == "row":
		return nil, "there is no such " + kind
	case p.find("", by, nil) != "":
		return nil, p.find("", by, nil)
	default:
		body := p.read(kind)
		for _, code := range verdict.Codes() {
			constant := p.constants[code] // some codes have none
			if constant != "" && strings.Contains(body, "verdict."+constant) || strings.Contains(body, string(code)) {
				codes = append(codes, string(code))
			}
		}
		return codes, ""
	}
}

// unjudged compiles any rule to one that holds: only the names of the cases and
// the answers that they expect are read here, not what the policy answers.
type unjudged struct{}

func (unjudged) Compile(string) (policy.Expression, error) { return unjudged{}, nil }
func (unjudged) Holds(policy.View) (bool, error)           { return true, nil }

// casesOf are the cases of a policy, each with the codes of its answer. Pages
// that are no policy's have none.
func casesOf(t *testing.T, path string) map[string][]string {
	t.Helper()
	raw, err := os.ReadFile(path)
	if os.IsNotExist(err) {
		return nil
	}
	accepted(t, err)
	p := must[policy.Policy](t)(policy.Parse(must[[]byte](t)(os.ReadFile(strings.TrimSuffix(path, ".txtar")+".yaml")), unjudged{}))
	cases := map[string][]string{}
	for _, c := range must[policy.CaseReport](t)(policy.Rehearse(p, raw)).Cases {
		cases[c.Name] = c.Want
	}
	return cases
}

// rowsHere are the rows of ROWS.md, each with its answers.
func rowsHere(t *testing.T) map[string][]string {
	t.Helper()
	rows := map[string][]string{}
	for line := range strings.Lines(string(must[[]byte](t)(os.ReadFile("ROWS.md")))) {
		if cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|"); len(cells) == 5 {
			rows[strings.TrimSpace(cells[0])] = strings.Fields(cells[2])
		}
	}
	return rows
}
