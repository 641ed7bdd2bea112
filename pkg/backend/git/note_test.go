package git

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// TestNote: the note of a commit is found in a flat tree and in a split one, here
// and at a remote repository. A commit without a note, and a repository without
// notes, are not found.
func TestNote(t *testing.T) {
	r, head := released(t)
	open := func() *Repository {
		got, err := Open(t.Context(), r.dir)
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	if _, err := open().Note(t.Context(), head, 100); !errors.Is(err, ErrNotFound) {
		t.Errorf("without notes: %v", err)
	}
	r.git("notes", "add", "-m", "said", head)
	split := func(at ...int) {
		blob := r.object("blob", "split")
		rest := head
		var parts []string
		for _, n := range at {
			parts, rest = append(parts, rest[:n]), rest[n:]
		}
		tree := r.tree("100644", rest, blob)
		for i := len(parts) - 1; i >= 0; i-- {
			tree = r.tree("40000", parts[i], tree)
		}
		r.git("update-ref", NotesRef, r.git("commit-tree", "-m", "notes", tree))
	}
	for name, row := range map[string]struct {
		make  func()
		limit int64
		want  string
		code  string
	}{
		"flat":             {func() {}, 100, "said\n", ""},
		"at its limit":     {func() {}, 5, "said\n", ""},
		"over its limit":   {func() {}, 4, "", string(verdict.Limit)},
		"split once":       {func() { split(2) }, 100, "split", ""},
		"split twice":      {func() { split(2, 2) }, 100, "split", ""},
		"split otherwise":  {func() { split(4) }, 100, "", "MISSING"},
		"split to the end": {func() { split(slicesOf(head)...) }, 100, "", "MISSING"},
		"a link": {func() {
			r.git("update-ref", NotesRef, r.git("commit-tree", "-m", "notes", r.tree("120000", head, r.object("blob", "x"))))
		}, 100, "", "FILE_TYPE"},
	} {
		t.Run(name, func(t *testing.T) {
			before := r.git("rev-parse", NotesRef)
			row.make()
			got, err := open().Note(t.Context(), head, row.limit)
			if string(got) != row.want || (row.code != "" && code(err) != row.code) || (err == nil) != (row.code == "") {
				t.Errorf("%q, %v; want %q %s", got, err, row.want, row.code)
			}
			r.git("update-ref", NotesRef, before)
		})
	}
	if _, err := open().Note(t.Context(), strings.Repeat("0", 40), 100); !errors.Is(err, ErrNotFound) {
		t.Errorf("of another commit: %v", err)
	}
	if _, err := open().Note(t.Context(), "main", 100); code(err) != string(verdict.Usage) {
		t.Errorf("of a branch: %v", err)
	}
	far := r.remote()
	defer far.Close()
	if got, err := far.Note(t.Context(), head, 100); err != nil || string(got) != "said\n" {
		t.Errorf("from far: %q, %v", got, err)
	}
}

// slicesOf splits an id into pairs, up to its end.
func slicesOf(id string) (at []int) {
	for range len(id)/2 - 1 {
		at = append(at, 2)
	}
	return append(at, 0)
}

func TestAbove(t *testing.T) {
	r, _ := released(t)
	if err := os.MkdirAll(r.dir+"/a/b", 0o755); err != nil {
		t.Fatal(err)
	}
	if got := Above(r.dir + "/a/b"); got != r.dir {
		t.Errorf("%q, want %q", got, r.dir)
	}
	if got := Above(t.TempDir()); got != "" {
		t.Errorf("%q, want none", got)
	}
}
