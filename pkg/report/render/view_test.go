package render_test

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/waybill-release/waybill/pkg/report/render"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// leveled is an accepted release of two artifacts, one of which limits it.
func leveled() *verdict.Verdict {
	d := digest.Of(digest.SHA256, []byte("x"))
	v := verdict.New("release lantern v0.1.0", noon())
	v.Counts, v.Proofs = verdict.Counts{Verified: 1, Required: 1}, proofs()
	var on verdict.Levels
	for _, name := range []string{"bin/<a>", "bin/b\x1b[2J"} {
		l := verdict.Levels{Subject: name, Track: "v0.1", Level: 2, Most: 4, Next: []string{"source.retained", "two", "three", "four"}, Requirements: []verdict.Requirement{
			{ID: "build.scripted", Title: "All steps are in a build script", Level: 1, State: "met", Why: "build type \"x\"", Evidence: []digest.Digest{d}},
			{ID: "build.service", Title: "A build service ran the build", Level: 2, State: "met", Why: "by the trust map"},
			{ID: "source.retained", Title: "The source is retained", Level: 3, State: "declared", Why: "declared by \"SIG\" until 2027-01-01", DeclaredBy: "SIG", Until: "2027-01-01"},
			{ID: "build.hermetic", Title: "Steps have no network", Level: 4, State: "not implementable", DeclaredBy: "SIG", Why: "the builds need a network"},
			{ID: "build.reproducible", Title: "Building again gives the same bytes", Level: 4, Optional: true, State: "met", Why: "others built it"},
		}}
		if name != "bin/<a>" {
			l.Level, l.Next, l.Requirements[1].State, l.Requirements[1].Why = 1, []string{"build.service"}, "not shown", "missing: \x1b a signature"
		}
		on.Join(l)
	}
	v.Levels = []verdict.Levels{on}
	return v
}

func printed(t *testing.T, p render.Printer, f render.Format, v *verdict.Verdict) string {
	t.Helper()
	var b bytes.Buffer
	if err := p.Print(&b, f, *v); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// TestView: each requirement of each level is answered, by what or whom, or with
// the artifact that lacks it, in 80 columns; other views and formats stay.
func TestView(t *testing.T) {
	v := leveled()
	for format, words := range map[render.Format][]string{
		render.Table: {
			"LEVEL 1, the build is documented: reached\n", "met                build.scripted: All steps are in a build script [2d711642b726]",
			"LEVEL 2, the build service resists tampering: not reached", "not shown          build.service", "1 of 2 artifacts, first bin/b\ufffd[2J: missing: \ufffd a signature",
			"declared           source.retained", "declared by \"SIG\" until 2027-01-01\n", "not implementable  build.hermetic", "(optional)",
		},
		render.Markdown: {"build type \"x\" `[2d711642b726]`", "In brackets: ", "### Level 2, the build service resists tampering: not reached\n", "- **not shown** `build.service`: A build service ran the build", "`1 of 2 artifacts, first bin/b\ufffd[2J: missing: \ufffd a signature`"},
		render.HTML:     {"<h2>Level 1, the build is documented: reached</h2>", "<td class=\"state not-implementable\">not implementable</td>", "first bin/b\ufffd[2J"},
	} {
		text := printed(t, render.Printer{View: render.KEP3027}, format, v)
		for _, s := range append(words, "KEP-3027 level 1 of 4 for 2 artifacts, limited by bin/b\ufffd[2J; level 2 lacks") {
			if !strings.Contains(strings.Join(strings.Fields(text), " "), strings.Join(strings.Fields(s), " ")) || strings.HasSuffix(s, "\n") && !strings.Contains(text, s) {
				t.Errorf("%s does not say %q:\n%s", format, s, text)
			}
		}
		for line := range strings.Lines(text) {
			if format == render.Table && utf8.RuneCountInString(line) > 81 {
				t.Errorf("longer than 80: %q", line)
			}
		}
		if strings.Contains(text, "<a>") && format == render.HTML || strings.Contains(text, "\x1b") {
			t.Errorf("%s: foreign text acts: %q", format, text)
		}
	}
	table := printed(t, render.Printer{View: render.KEP3027}, render.Table, v)
	if long := printed(t, render.Printer{View: render.KEP3027, Verbose: true}, render.Table, v); strings.Contains(table, "build type") || !strings.Contains(long, "build type \"x\" [2d711642b726]") {
		t.Errorf("why a requirement is met is for --verbose:\n%s\n%s", table, long)
	}
	if !strings.HasPrefix(table, "OK release lantern v0.1.0: ") {
		t.Errorf("the first line is not the answer:\n%s", table)
	}
	for _, f := range []render.Format{render.JSON, render.JUnit, render.SARIF} {
		if printed(t, render.Printer{View: render.KEP3027}, f, v) != write(t, f, v) {
			t.Errorf("%s is another in a view", f)
		}
	}
	if plain := write(t, render.Table, v); strings.Contains(plain, "build.scripted") {
		t.Errorf("joined levels are long, and were not asked for:\n%s", plain)
	}
	if long := printed(t, render.Printer{Verbose: true}, render.Table, v); !strings.Contains(long, "1 of 2 artifacts, first bin/b") {
		t.Errorf("--verbose answers nothing:\n%s", long)
	}
	refused := refusedRelease()
	refused.Levels = v.Levels
	if text := printed(t, render.Printer{View: render.KEP3027}, render.Table, refused); !strings.Contains(text, "TAMPERED") || !strings.HasPrefix(text, "REFUSED") {
		t.Errorf("a view hides why:\n%s", text)
	}
	none := printed(t, render.Printer{View: render.SLSABuild}, render.Table, v)
	if !strings.Contains(none, "SLSA Build: no level was computed") || strings.Contains(none, "LEVEL") {
		t.Errorf("levels that were not computed:\n%s", none)
	}
	if _, err := render.SLSABuild.Of(*v); !refusedAs(err, verdict.Usage) {
		t.Errorf("asked for such levels: %v", err)
	}
	if err := render.View("poem").Check(); !refusedAs(err, verdict.Usage) || render.KEP3027.Check() != nil || render.View("").Check() != nil {
		t.Errorf("an unknown view: %v", err)
	}
}

func refusedAs(err error, code verdict.Code) bool {
	var e *verdict.Error
	return errors.As(err, &e) && e.Finding.Code == code
}

// TestViewOfEachTrack: every view has a heading for each of its levels, and the
// highest says that nothing is missing.
func TestViewOfEachTrack(t *testing.T) {
	for name, most := range map[string]int{"kep-3027": 4, "slsa-build": 3, "slsa-source": 4} {
		v := leveled()
		v.Levels[0].Track = map[string]string{"kep-3027": "v0.1", "slsa-build": "build", "slsa-source": "source"}[name]
		v.Levels[0].Level, v.Levels[0].Most = most, most
		text := printed(t, render.Printer{View: render.View(name)}, render.Table, v)
		if !strings.Contains(text, fmt.Sprintf("LEVEL %d, ", most)) || strings.Contains(text, fmt.Sprintf("LEVEL %d, ", most+1)) || !strings.HasSuffix(text, "every requirement is met or declared\n") {
			t.Errorf("%s:\n%s", name, text)
		}
	}
	if len(render.Views()) != 4 {
		t.Errorf("%v", render.Views())
	}
}

// TestReadMiscounted: a saved verdict whose parts are not what it counts is malformed.
func TestReadMiscounted(t *testing.T) {
	for _, row := range []struct {
		name string
		edit func(v *verdict.Verdict)
		fine bool
	}{
		{"as it was", func(*verdict.Verdict) {}, true},
		{"an object that is not verified", func(v *verdict.Verdict) { v.Objects[1].Verified = false }, false},
		{"the same in a refusal", func(v *verdict.Verdict) {
			v.Objects[1].Verified, v.Groups[0].Verified, v.Counts.Verified = false, 1, 1
			v.Add(verdict.Find(verdict.Tampered, "b", "x"))
		}, true},
		{"a group that is not verified", func(v *verdict.Verdict) { v.Groups[0].Verified = 1 }, false},
		{"a group of more than all", func(v *verdict.Verdict) { v.Groups[0].Verified = 3 }, false},
		{"a group of fewer than none", func(v *verdict.Verdict) { v.Groups[0] = verdict.Group{Name: "binary", Verified: -1, Required: -1} }, false},
		{"something extra", func(v *verdict.Verdict) { v.Counts.Extra = 1 }, false},
		{"something missing", func(v *verdict.Verdict) { v.Counts.Missing = 1 }, false},
	} {
		v := verdict.New("release lantern v0.1.0", noon())
		v.Counts, v.Proofs = verdict.Counts{Verified: 2, Required: 2}, proofs()
		v.Groups = []verdict.Group{{Name: "binary", Verified: 2, Required: 2}}
		v.Objects = []verdict.Object{{Name: "a", Class: "binary", Verified: true}, {Name: "b", Class: "binary", Verified: true}}
		row.edit(v)
		if _, err := render.Read([]byte(write(t, render.JSON, v))); (err == nil) != row.fine || err != nil && !refusedAs(err, verdict.ConfigParse) {
			t.Errorf("%s: %v", row.name, err)
		}
	}
}

// TestRead: a saved verdict is read back as it was, and one that no program of
// this version wrote is malformed. Each row changes one thing.
func TestRead(t *testing.T) {
	for name, v := range map[string]*verdict.Verdict{"accepted": leveled(), "refused": refusedRelease(), "excepted": exceptedRelease()} {
		raw := []byte(write(t, render.JSON, v))
		got, err := render.Read(raw)
		if err != nil || write(t, render.JSON, &got) != string(raw) || got.Outcome() != v.Outcome() {
			t.Errorf("%s: %v", name, err)
		}
		for _, f := range []render.Format{render.Table, render.Markdown, render.HTML, render.JUnit, render.SARIF} {
			text := printed(t, render.Printer{Saved: true}, f, &got)
			if !strings.Contains(text, "SAVED VERDICT of 2026-03-01T12:00:00Z: nothing was verified now") || (f == render.Table || f == render.Markdown) && !strings.HasPrefix(text, "SAVED VERDICT") {
				t.Errorf("%s as %s does not say that it was saved:\n%s", name, f, text)
			}
		}
	}
	good := write(t, render.JSON, leveled())
	for _, row := range [][3]string{
		{"another version", `"waybill/verdict/v1"`, `"waybill/verdict/v2"`},
		{"no version", `"schema": "waybill/verdict/v1",`, ``},
		{"a key that nobody writes", `"question":`, `"colour": "red", "question":`},
		{"a key twice", `"question":`, `"question": "a", "question":`},
		{"another outcome", `"outcome": "accepted"`, `"outcome": "refused"`},
		{"another headline", `"headline": "OK `, `"headline": "REFUSED `},
		{"a finding", `"findings": []`, `"findings": [{"code": "TAMPERED", "subject": "a", "message": "b", "fix": "c"}]`},
		{"nothing counted", `"verified": 1`, `"verified": 0`},
		{"no time", `"time": "2026-03-01T12:00:00Z"`, `"time": "0001-01-01T00:00:00Z"`},
		{"an unknown state", `"state": "not shown"`, `"state": "splendid"`},
		{"a level above its answers", `"level": 1,
      "most": 4`, `"level": 2,
      "most": 4`},
		{"a level without answers", `"level": 1,
      "most": 4`, `"level": 4,
      "most": 4`},
		{"a level that the scale does not have", `"most": 4`, `"most": 5`},
		{"a level below none", `"level": 1,
      "most": 4`, `"level": -1,
      "most": 4`},
		{"met by fewer than all", `"met": 2`, `"met": 1`},
		{"met by more than there are", `"artifacts": 2`, `"artifacts": 1`},
		{"a requirement of the level that is declared by nobody", `"state": "met"`, `"state": "not met"`},
		{"more text", "\n}\n", "\n} x\n"},
		{"no JSON", "{", "<"},
	} {
		bad := strings.Replace(good, row[1], row[2], 1)
		if _, err := render.Read([]byte(bad)); bad == good || !refusedAs(err, verdict.ConfigParse) {
			t.Errorf("%s: %v", row[0], err)
		}
	}
	if _, err := render.Read([]byte(good)); err != nil {
		t.Errorf("the twin: %v", err)
	}
	for i := range good {
		if _, err := render.Read([]byte(good[:i])); err == nil && strings.TrimSpace(good[i:]) != "" {
			t.Fatalf("the first %d bytes are read", i)
		}
	}
}
