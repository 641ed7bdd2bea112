package malicious

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/waybill-release/waybill/pkg/value/verdict"
)

const tableName = "TABLE.md"

// TestTable: the page that people read is what the tests of this package
// demand, row by row.
func TestTable(t *testing.T) {
	got := table()
	if f := flag.Lookup("update"); f != nil && f.Value.String() == "true" || os.Getenv("WAYBILL_UPDATE") != "" {
		noErr(t, os.WriteFile(tableName, []byte(got), 0o644))
	}
	if want := string(must(os.ReadFile(tableName))(t)); got != want {
		t.Errorf("%s is not what the tests demand; look at the difference after WAYBILL_UPDATE=1 go test -run %s", tableName, t.Name())
	}
}

// table is the whole page.
func table() string {
	var s strings.Builder
	s.WriteString(`# What a build meets when it is attacked

Each line is a test of this package, run through the product's own build; a test
keeps this page true. *Isolated* is what happens behind the walls, *unisolated*
what the same attack comes to as an ordinary process: exactly what the builder id of
that mode does not guarantee. Where a code stands, the build ends with it, nothing
is signed for and nothing is released.

- *unharmed*: the build goes on, and the released file is the one that was signed for
- *works*: the attack succeeds
- *not run*: without walls it would harm the machine that tests

## A build step

| attack | what stops it | isolated | unisolated |
|---|---|---|---|
`)
	for _, r := range rows() {
		if r.act == "fail" {
			continue // it attacks nobody
		}
		line(&s, "it "+r.tries, because(r.act, r.says), outcome(r.code), bare(r))
	}
	s.WriteString(`
## A repository

| attack | what stops it | isolated | unisolated |
|---|---|---|---|
`)
	for _, r := range repositories() {
		if r.name == "nothing" {
			continue
		}
		line(&s, "it "+r.tries, because(r.name, r.says), outcome(r.code), outcome(r.code))
	}
	s.WriteString(`
## Whoever ends a build

By SIGINT and by SIGKILL. In each case every process of the build is gone, a file
that lies there is whole, no provenance stands without its outputs, what is not
whole is not signed, and the next build makes the very same files.

| attack | is the step taken over by the next build |
|---|---|
`)
	for _, m := range moments() {
		taken := "if its provenance had left"
		if m.held {
			taken = "no"
		}
		line(&s, "it "+m.tries, taken)
	}
	return s.String()
}

// because says in words what the verdict of a row does not say, if there is one.
func because(name, says string) string {
	words := map[string]string{
		"read-runner":   "the runner has another account, and cannot be looked into",
		"through-proc":  "root and processes are the step's own",
		"outlive":       "every process of the step is dead before an output is looked at",
		"hide-a-little": "its limit holds for files with a name and without",
		"leave-setuid":  "what is released is a plain file",
		"bury-home":     "they are moved up before they are removed",
		"leave-locked":  "what nobody else may read, the control plane reads as root; else FILE_TYPE",
		"hooks":         "git is told that there are none",
		"filters":       "files are written as they are stored, by ourselves",
		"lfs":           "the same: the pointer is the file",
		"programs":      "settings of the repository are overruled; behind walls they are not seen",
		"include":       "the same",
		"modules":       "submodules are not followed",
		"loop":          "links are written last, and never followed",
		"replace":       "the id of the commit proves it",
		"grafts":        "parents are those that the commit names",
		"forged":        "bytes that do not hash to their id",
		"absent":        "git may speak no protocol",
		"branch-moves":  "what was asked for is the tag",
	}
	if text, ok := words[name]; ok {
		return text
	}
	return says
}

func line(s *strings.Builder, cells ...string) {
	for _, c := range cells {
		fmt.Fprintf(s, "| %s ", strings.NewReplacer("|", `\|`, "*", `\*`, "<", `\<`).Replace(c))
	}
	s.WriteString("|\n")
}

func outcome(code verdict.Code) string {
	if code == built {
		return "unharmed"
	}
	return "`" + string(code) + "`"
}

func bare(r row) string {
	switch {
	case r.bare == worked && r.code == built:
		return "unharmed"
	case r.bare == worked:
		return "works"
	case r.bare == notRun:
		return "not run"
	}
	return outcome(r.bare)
}
