package notes

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/waybill-release/waybill/pkg/gate"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// TestNotesOfNothing: a verdict that decided nothing, and one that accepts
// without a manifest, have no notes.
func TestNotesOfNothing(t *testing.T) {
	v := verdict.New("release lantern v0.1.0", time.Unix(0, 0))
	if n, err := Of(gate.Decided{Verdict: v}, "profile.yaml"); err == nil {
		t.Errorf("undecided: %+v", n)
	}
	v = verdict.NewCheck("release lantern v0.1.0", time.Unix(0, 0))
	v.Counts.Required, v.Counts.Verified = 1, 1
	if v.Err() != nil {
		t.Fatal(v.Err())
	}
	if n, err := Of(gate.Decided{Verdict: v}, "profile.yaml"); err == nil || !strings.Contains(err.Error(), "no manifest") {
		t.Errorf("without a manifest: %+v, %v", n, err)
	}
}

// TestNotesOfLab: the notes of a release that a lab signed say so.
func TestNotesOfLab(t *testing.T) {
	v := verdict.New("release lantern v0.1.0", time.Unix(0, 0))
	if levels, list := limits(*v); len(levels)+len(list) > 0 {
		t.Errorf("%q", list)
	}
	v.Tell("The trust root is an INSECURE LAB.")
	if _, list := limits(*v); len(list) != 1 || list[0] != v.Lab() {
		t.Errorf("%q", list)
	}
}

// TestNotesSayOnce: levels are not among the limits too, and no limit is there twice.
func TestNotesSayOnce(t *testing.T) {
	v := verdict.New("release lantern v0.1.0", time.Unix(0, 0))
	v.Scope.Left = []string{"the commit"}
	for _, note := range []string{"Build level 2 of 3 for every built artifact", "the commit", "v0.1 level 1 of 4 for 1 of 2 built artifacts", "no level"} {
		v.Note("%s", note)
	}
	levels, list := limits(*v)
	if !slices.Equal(levels, []string{v.Notes[0], v.Notes[2]}) || !slices.Equal(list, []string{"not checked: the commit", "no level"}) {
		t.Errorf("levels %q, limits %q", levels, list)
	}
}

// TestNotesQuote: texts of others end no cell, code span or quoted word, and
// mention no user.
func TestNotesQuote(t *testing.T) {
	const hostile = "a`b|@everyone <b>\x1b[2J\n# title"
	sum := digest.Of(digest.SHA256, []byte("x"))
	n := Notes{
		Name: hostile, Version: "v0.1.0", Source: hostile, Commit: hostile, Files: hostile, Images: hostile, Manifest: sum, Policy: sum, Profile: hostile,
		Artifacts: []Artifact{{Name: hostile, Class: "binary", Size: 1, Digest: sum}},
		Signed:    []Signed{{Class: "binary", Name: hostile, Bundle: hostile, Identity: "it's $(me)", Issuer: hostile}},
		Levels:    []string{hostile}, Limits: []string{hostile},
	}
	var b bytes.Buffer
	if err := n.Markdown(&b); err != nil {
		t.Fatal(err)
	}
	page := b.String()
	for _, never := range []string{"\x1b", "\n# title", "a`b"} {
		before, _, fenced := strings.Cut(page, "```sh")
		if strings.Contains(before, never) {
			t.Errorf("the page has %q (%t):\n%s", never, fenced, page)
		}
	}
	if !strings.Contains(page, `'it'\''s $(me)'`) {
		t.Errorf("an identity is not quoted for a shell:\n%s", page)
	}
	for line := range strings.Lines(page) {
		if strings.HasPrefix(line, "| `") && strings.Count(line, "|") != 6 {
			t.Errorf("a row has other cells: %s", line)
		}
	}
}
