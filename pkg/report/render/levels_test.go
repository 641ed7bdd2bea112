package render_test

import (
	"strings"
	"testing"

	"github.com/waybill-release/waybill/pkg/report/render"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// Of few scales every requirement is answered on the page, of many in JSON.
func TestLevels(t *testing.T) {
	d := digest.Of(digest.SHA256, []byte("x"))
	scale := verdict.Levels{Subject: "a\x1b[2J", Track: "build", Level: 1, Most: 3, Next: []string{"build.hosted"}, Requirements: []verdict.Requirement{
		{ID: "build.exists", Level: 1, State: "met", Why: "there it is", Evidence: []digest.Digest{d}},
		{ID: "build.hosted", Level: 2, Optional: true, State: "not shown", Why: "missing: an\x1b entry"},
	}}
	v := verdict.New("file a", noon())
	v.Levels = []verdict.Levels{scale}
	page := printed(t, render.Printer{Verbose: true}, render.Table, v)
	for _, s := range []string{"SLSA build: level 1 of 3", "for 2: build.hosted", "1   met", "there it is [" + d.String() + "]", "(2) not shown", "missing: an"} {
		if !strings.Contains(page, s) {
			t.Errorf("the page does not say %q:\n%s", s, page)
		}
	}
	if strings.Contains(page, "\x1b") {
		t.Errorf("foreign text acts on the terminal: %q", page)
	}
	for range 4 {
		v.Levels = append(v.Levels, scale)
	}
	page = write(t, render.Table, v)
	if strings.Count(page, "level 1 of 3") != 5 || strings.Contains(page, "there it is") {
		t.Errorf("the page of many:\n%s", page)
	}
	if text := write(t, render.JSON, v); strings.Count(text, `"there it is"`) != 5 {
		t.Errorf("JSON:\n%s", text)
	}
}
