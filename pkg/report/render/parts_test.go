package render_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/waybill-release/waybill/pkg/report/render"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// TestFindingsOfDocuments: each of several documents has its findings below its
// name, and none hides those of another; what is about none comes first.
func TestFindingsOfDocuments(t *testing.T) {
	print := func(groups []string, subjects ...string) string {
		t.Helper()
		v := verdict.New("sign-off", time.Unix(0, 0))
		for _, name := range groups {
			v.Groups = append(v.Groups, verdict.Group{Name: name, Required: 2})
		}
		for _, s := range subjects {
			v.Add(verdict.Find(verdict.SignoffEmpty, s, "nothing"))
		}
		var out bytes.Buffer
		if err := render.Write(&out, render.Table, *v); err != nil {
			t.Fatal(err)
		}
		return out.String()
	}
	many := []string{"b/x"}
	for i := range 9 {
		many = append(many, fmt.Sprintf("a/%d", i))
	}
	groups := []string{"a", "b", "a/inner", "c"}
	got := print(groups, append(many, "template", "a/inner/x")...)
	var order []string
	for _, line := range strings.Split(got, "\n")[1:] {
		if strings.HasPrefix(line, "REFUSED") {
			continue
		}
		for _, sign := range []string{"  IN ", "  SIGNOFF_EMPTY ", "and "} {
			if strings.Contains(line, sign) {
				order = append(order, strings.Fields(line)[1])
			}
		}
	}
	want := "template b b/x a a/0 a/1 a/2 a/3 a/4 4 a/inner a/inner/x"
	if strings.Join(order, " ") != want {
		t.Errorf("%s\n%q, want %q", got, strings.Join(order, " "), want)
	}
	for name, got := range map[string]string{
		"one document":           print(groups, "a/0", "a/1"),
		"kinds":                  print(groups, "a", "b"),
		"names that begin alike": print(groups, "ab/0", "bc/0"),
		"nothing of the kind":    print(nil, "a/0", "b/0"),
	} {
		if strings.Contains(got, "  IN ") {
			t.Errorf("%s is split: %s", name, got)
		}
	}
}

// TestGroupsInColumns: a long name moves the columns of all.
func TestGroupsInColumns(t *testing.T) {
	for _, long := range []string{"1-a", "3920-finish-feature-flags-für-alle"} {
		v := verdict.New("sign-off", time.Unix(0, 0))
		v.Groups = []verdict.Group{{Name: "1-short", Verified: 3, Required: 4}, {Name: long, Verified: 30, Required: 40}}
		var out bytes.Buffer
		if err := render.Write(&out, render.Table, *v); err != nil {
			t.Fatal(err)
		}
		rows := strings.Split(out.String(), "\n")[2:4]
		for _, row := range rows {
			if len([]rune(row)) != len([]rune(rows[0])) {
				t.Errorf("%q is not in the columns of %q", row, rows[0])
			}
		}
	}
}
