package attacks

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// rowsOf is how many rows each part of the table of attacks has. Parts after
// these are our own, and number their rows one by one.
var rowsOf = []struct {
	part  string
	count int
}{{"A", 27}, {"B", 17}, {"C", 29}, {"D", 26}, {"E", 16}, {"F", 30}, {"G", 28}, {"H", 30}}

// TestEveryRowIsSomewhere holds ROWS.md against the sources: every row stands
// there once and in order, every code is one, and everything that is named
// exists. A vector must say the row itself and have one of the codes, so that
// its directory begins with the row.
func TestEveryRowIsSomewhere(t *testing.T) {
	var want []string
	for _, part := range rowsOf {
		for i := range part.count {
			want = append(want, fmt.Sprintf("%s%02d", part.part, i+1))
		}
	}
	s := sources{t: t, vectors: vectorsBy(t), constants: constants(t)}
	var got []string
	vectors, none, codes := map[string]bool{}, 0, map[string]bool{}
	for line := range strings.Lines(string(must[[]byte](t)(os.ReadFile("ROWS.md")))) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		if len(cells) != 5 || strings.HasPrefix(line, "| row") || strings.HasPrefix(line, "|---") {
			continue
		}
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		row, answers := cells[0], strings.Fields(cells[2])
		got = append(got, row)
		for _, code := range answers {
			if code != "pass" && code != "—" && !slices.Contains(verdict.Codes(), verdict.Code(code)) {
				t.Errorf("%s: %s is no code", row, code)
			}
			codes[code] = true
		}
		if reason, ok := strings.CutPrefix(cells[3], "none: "); ok {
			none++
			if len(reason) < 20 || cells[2] != "—" {
				t.Errorf("%s: want a reason and no answer", row)
			}
			continue
		}
		quick := false // is part of make test
		for where := range strings.SplitSeq(cells[3], "; ") {
			quick = quick || !strings.Contains(where, " TestLong")
			if name, ok := strings.CutPrefix(where, "vector "); ok {
				vectors[name] = true
			}
			if why := s.find(row, where, answers); why != "" {
				t.Errorf("%s: %s: %s", row, where, why)
			}
		}
		if !quick {
			t.Errorf("%s: make test runs none of its tests", row)
		}
	}
	for _, row := range got[min(len(want), len(got)):] {
		want = append(want, following(want[len(want)-1], row))
	}
	if !slices.Equal(got, want) {
		t.Errorf("rows %q, want %q", got, want)
	}
	t.Logf("%d rows, %d of them with a reason instead; %d vectors and %d answers are named", len(got), none, len(vectors), len(codes))
}

// following is the row that may stand after another one: the next of its part,
// or the first of a later part where row is of another.
func following(last, row string) string {
	if row[0] > last[0] {
		return row[:1] + "01"
	}
	n, _ := strconv.Atoi(last[1:])
	return fmt.Sprintf("%s%02d", last[:1], n+1)
}

// sources are where rows can be.
type sources struct {
	t         *testing.T
	vectors   map[string][]rowed
	constants map[verdict.Code]string
}

// rowed is one row of a table of vectors: its texts and its codes.
type rowed struct{ texts, codes []string }

// find says what is wrong with a place; empty if nothing is.
func (s sources) find(row, where string, answers []string) string {
	if name, ok := strings.CutPrefix(where, "vector "); ok {
		return s.vector(row, name, answers)
	}
	if text, ok := strings.CutPrefix(where, "tuf "); ok {
		if !strings.Contains(s.read("pkg/testing/faketuf/attacks.go"), strings.TrimSuffix(text, `"`)) {
			return "there is no such attack"
		}
		return ""
	}
	file, name, ok := strings.Cut(where, " ")
	if !ok || !strings.Contains(s.read(file), "\nfunc "+name+"(") {
		return "there is no such test"
	}
	return ""
}

func (s sources) vector(row, name string, answers []string) string {
	for _, v := range s.vectors[name] {
		of := slices.ContainsFunc(v.texts, func(text string) bool { return strings.HasPrefix(text, row+": ") })
		known := slices.ContainsFunc(answers, func(code string) bool {
			return code == "pass" && len(v.codes) == 0 || slices.Contains(v.codes, s.constants[verdict.Code(code)])
		})
		if of && (known || len(v.codes) == 0) || known && shared(row, v.texts) {
			return ""
		}
	}
	return "no vector of that name is of this row and has this answer"
}

// shared reports whether a vector is listed under another row as well, and
// carries that one's name.
func shared(row string, texts []string) bool {
	return slices.ContainsFunc(texts, func(text string) bool {
		return len(text) > 4 && text[3] == ':' && text[:3] != row && text[0] >= 'A' && text[0] <= 'F'
	})
}

func (s sources) read(file string) string {
	return string(must[[]byte](s.t)(os.ReadFile(filepath.Join("..", "..", filepath.FromSlash(file)))))
}

// parsed is a source file.
func parsed(t *testing.T, path string) *ast.File {
	t.Helper()
	return must[*ast.File](t)(parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution))
}

// vectorsBy reads the tables of vectors: by each text in them, the rows that
// have it.
func vectorsBy(t *testing.T) map[string][]rowed {
	t.Helper()
	found := map[string][]rowed{}
	for _, path := range must[[]string](t)(filepath.Glob(filepath.Join("vectors", "*.go"))) {
		ast.Inspect(parsed(t, path), func(n ast.Node) bool {
			var parts []ast.Expr
			switch n := n.(type) {
			case *ast.CompositeLit:
				parts = n.Elts
			case *ast.CallExpr:
				parts = n.Args
			}
			var r rowed
			for _, p := range parts {
				if kv, ok := p.(*ast.KeyValueExpr); ok {
					p = kv.Value
				}
				switch p := p.(type) {
				case *ast.BasicLit:
					if text, err := strconv.Unquote(p.Value); err == nil {
						r.texts = append(r.texts, text)
					}
				case *ast.SelectorExpr:
					if x, ok := p.X.(*ast.Ident); ok && x.Name == "verdict" {
						r.codes = append(r.codes, p.Sel.Name)
					}
				}
			}
			for _, text := range r.texts {
				found[text] = append(found[text], r)
			}
			return true
		})
	}
	return found
}
