// Package checkacts checks that a program can do what its refusals advise.
//
// Other projects should not import this package: it changes without notice.
package checkacts

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/waybill-release/waybill/pkg/value/verdict"
)

var (
	flags    = regexp.MustCompile(`--[a-z][a-z0-9-]*`)
	commands = regexp.MustCompile(`waybill((?: [a-z]+)+)`)

	// foreign are flags of other programs, with the program before them.
	foreign = regexp.MustCompile(`(tar|git [a-z]+( -\S+)*) --[a-z]+(=\S+)?( or --[a-z]+=\S+)?|clone it without --shared and --reference`)
)

// unknownForms are the codes that say that something has a form which the
// program does not know. Fetching or signing it again changes nothing.
var unknownForms = []verdict.Code{
	verdict.ArchiveParse, verdict.BundleParse, verdict.BundleVersion, verdict.BundleLacks, verdict.Encoding, verdict.StatementParse, verdict.StatementType,
	verdict.PayloadType, verdict.ManifestParse, "MANIFEST_CRITICAL", "PAGE_TWICE", "PAGE_ORDER", "PAGE_OVERLAP", "PAGE_RANGE",
	verdict.DigestHint, verdict.LogEntryParse, verdict.LogKind, verdict.TimeInvalid, verdict.CertParse, verdict.SANType, verdict.TUFParse, verdict.TrustRootParse,
	verdict.SBOMGraph, verdict.SBOMInvalid, verdict.ConfigParse,
}

// All checks the act of every code for an audience.
func All(t *testing.T, a verdict.Audience, can Program) {
	t.Helper()
	for _, code := range verdict.Codes() {
		act := code.NextAct(a)
		if len(act) < 10 || strings.HasSuffix(act, ".") {
			t.Errorf("%s: act %q: want an act, without a full stop", code, act)
		}
		for _, lacks := range can.Lacks(act) {
			t.Errorf("%s: %q names %s, which the program lacks", code, act, lacks)
		}
		again := regexp.MustCompile(`\b(fetch|sign|seal)\b[^;]*\bagain\b`)
		if slices.Contains(unknownForms, code) && again.MatchString(act) {
			t.Errorf("%s: %q: doing the same again does not help against an unknown form", code, act)
		}
	}
}

// Program is what can be typed: the commands of a program, or of a part of it.
type Program struct {
	tops  []*cobra.Command
	every bool
}

// Tree is a command and all below it: one of them must have a flag.
func Tree(top *cobra.Command) Program { return Program{[]*cobra.Command{top}, false} }

// Each are commands that all must have a flag.
func Each(commands ...*cobra.Command) Program { return Program{commands, true} }

// Lacks lists the flags and commands that an act names and the program lacks.
func (p Program) Lacks(act string) (lacks []string) {
	act = foreign.ReplaceAllString(act, "")
	for _, name := range flags.FindAllString(act, -1) {
		has := func(c *cobra.Command) bool { return hasFlag(c, strings.TrimPrefix(name, "--")) }
		if p.every && slices.ContainsFunc(p.tops, func(c *cobra.Command) bool { return !has(c) }) || !p.every && !slices.ContainsFunc(below(p.tops[0]), has) {
			lacks = append(lacks, name)
		}
	}
	for _, match := range commands.FindAllStringSubmatch(act, -1) {
		words := strings.Fields(match[1])
		if p.every || !named(p.tops[0], words) {
			lacks = append(lacks, match[0])
		}
	}
	return lacks
}

// named reports whether the first of words are the path of a command below top;
// what follows a command that holds no others is prose.
func named(top *cobra.Command, words []string) bool {
	for _, word := range words {
		if !top.HasSubCommands() {
			return true
		}
		i := slices.IndexFunc(top.Commands(), func(c *cobra.Command) bool { return c.Name() == word })
		if i < 0 {
			return false
		}
		top = top.Commands()[i]
	}
	return true
}

func below(top *cobra.Command) []*cobra.Command {
	list := []*cobra.Command{top}
	for _, c := range top.Commands() {
		list = append(list, below(c)...)
	}
	return list
}

func hasFlag(c *cobra.Command, name string) bool {
	for _, set := range []*pflag.FlagSet{c.Flags(), c.PersistentFlags(), c.InheritedFlags()} {
		if set.Lookup(name) != nil {
			return true
		}
	}
	return name == "help"
}

// Written checks the acts that are written in the Go files below a directory
// instead of the table: those given to Advise, assigned to a Fix, or in a
// constant whose name begins with fix. Files named by except are of another program.
func Written(t *testing.T, dir string, can Program, except ...string) {
	t.Helper()
	seen := 0
	err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") || slices.Contains(except, filepath.Base(path)) {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		for _, act := range acts(file) {
			seen++
			for _, lacks := range can.Lacks(act) {
				t.Errorf("%s: %q names %s, which the program lacks", path, act, lacks)
			}
		}
		return nil
	})
	if err != nil || seen == 0 {
		t.Errorf("%s: %d acts, %v", dir, seen, err)
	}
}

func acts(file *ast.File) (list []string) {
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr:
			if s, ok := n.Fun.(*ast.SelectorExpr); ok && s.Sel.Name == "Advise" {
				list = append(list, texts(n.Args[0]))
			}
		case *ast.AssignStmt:
			if s, ok := n.Lhs[0].(*ast.SelectorExpr); ok && s.Sel.Name == "Fix" {
				list = append(list, texts(n.Rhs[0]))
			}
		case *ast.ValueSpec:
			if strings.HasPrefix(n.Names[0].Name, "fix") && len(n.Values) > 0 {
				list = append(list, texts(n.Values[0]))
			}
		}
		return true
	})
	return list
}

// texts joins the string literals of an expression.
func texts(e ast.Expr) string {
	var b strings.Builder
	ast.Inspect(e, func(n ast.Node) bool {
		if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
			if text, err := strconv.Unquote(lit.Value); err == nil {
				b.WriteString(text)
			}
		}
		return true
	})
	return b.String()
}
