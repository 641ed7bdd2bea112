package strictyaml_test

import (
	"testing"

	"github.com/waybill-release/waybill/pkg/tool/strictyaml"
)

func TestAtNamesThePlace(t *testing.T) {
	text := []byte("name: x\nroles:\n  release:\n  - {subject: a}\n  - {subject: b}\n")
	for _, row := range []struct {
		path         []any
		line, column int
		want         string
	}{
		{nil, 1, 1, "reading YAML at 1:1: no good (CODE)"},
		{[]any{"name"}, 1, 7, "reading YAML at 1:7: name: no good (CODE)"},
		{[]any{"roles", "release", 1, "subject"}, 5, 15, "reading YAML at 5:15: roles.release[1].subject: no good (CODE)"},
		{[]any{"roles", "release", 7}, 4, 3, "reading YAML at 4:3: roles.release[7]: no good (CODE)"},
		{[]any{"absent", 0}, 1, 1, "reading YAML at 1:1: absent[0]: no good (CODE)"},
	} {
		e := strictyaml.At(text, row.path, "CODE", "no good")
		if e.Line != row.line || e.Column != row.column || e.Error() != row.want {
			t.Errorf("%v: %d:%d %q", row.path, e.Line, e.Column, e.Error())
		}
	}
}
