package marker_test

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/waybill-release/waybill/pkg/backend/marker"
	"github.com/waybill-release/waybill/pkg/backend/store"
	"github.com/waybill-release/waybill/pkg/value/verdict"
	"github.com/waybill-release/waybill/pkg/value/version"
)

func parse(t testing.TB, text string) version.Version {
	t.Helper()
	v, err := version.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// opened is a directory with one marker in it, or none.
func opened(t testing.TB, held *string) (store.Place, store.Writer, string) {
	t.Helper()
	dir := t.TempDir()
	if held != nil {
		if err := os.MkdirAll(filepath.Join(dir, "release"), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(*held), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	at, err := store.Open(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	w, err := store.OpenWriter(dir)
	if err != nil {
		t.Fatal(err)
	}
	return at, w, filepath.Join(dir, name)
}

const name = "release/stable.txt"

// TestMove: a marker moves on and never back, and what is none stays.
func TestMove(t *testing.T) {
	some := func(text string) *string { return &text }
	rows := []struct {
		what string
		held *string
		now  string
		move bool
		code verdict.Code
	}{
		{"there is none", nil, "v1.2.3", true, ""},
		{"an older one", some("v1.2.2"), "v1.2.3", true, ""},
		{"an older one, with an end of line", some("v1.2.2\n"), "v1.2.3", true, ""},
		{"a candidate of it", some("v1.2.3-rc.1"), "v1.2.3", true, ""},
		{"the same", some("v1.2.3"), "v1.2.3", false, ""},
		{"the same, with an end of line", some("v1.2.3\n"), "v1.2.3\n", false, ""},
		{"a newer one", some("v1.3.0"), "v1.3.0", false, ""},
		{"nothing in it", some(""), "", false, verdict.FileConflict},
		{"no version", some("latest"), "latest", false, verdict.FileConflict},
		{"two versions", some("v1.2.2\nv1.2.1\n"), "v1.2.2\nv1.2.1\n", false, verdict.FileConflict},
		{"a page", some("<html>"), "<html>", false, verdict.FileConflict},
	}
	for _, r := range rows {
		t.Run(r.what, func(t *testing.T) {
			at, w, path := opened(t, r.held)
			moved, err := marker.Move(t.Context(), marker.Place{Place: at, Writer: w}, name, parse(t, "v1.2.3"))
			if got := verdict.FindingOf("", err).Code; err == nil && r.code != "" || err != nil && got != r.code || moved.Written != r.move {
				t.Errorf("%+v, %v", moved, err)
			}
			if raw, _ := os.ReadFile(path); string(raw) != r.now {
				t.Errorf("it holds %q, want %q", raw, r.now)
			}
		})
	}
}

// TestMoveTogether: of many writers the highest version wins, whoever is last.
func TestMoveTogether(t *testing.T) {
	at, w, path := opened(t, nil)
	var all sync.WaitGroup
	for _, text := range []string{"v1.0.0", "v1.0.3", "v1.0.1", "v1.1.0", "v1.0.9", "v1.0.2"} {
		v := parse(t, text)
		all.Go(func() {
			if _, err := marker.Move(t.Context(), marker.Place{Place: at, Writer: w}, name, v); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if raw, _ := os.ReadFile(path); string(raw) != "v1.1.0" {
		t.Errorf("it holds %q", raw)
	}
}

// quicker is a writer that comes second: another one writes just before it.
type quicker struct {
	store.Writer
	path, text string
}

func (q *quicker) Put(ctx context.Context, object string, size int64, r io.Reader, o store.PutOptions) error {
	if q.text != "" {
		if err := os.MkdirAll(filepath.Dir(q.path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(q.path, []byte(q.text), 0o644); err != nil {
			return err
		}
		q.text = ""
	}
	return q.Writer.Put(ctx, object, size, r, o)
}

// TestMoveAfterAnother: a marker that another made meanwhile is looked at
// again: a lower one is moved on, a higher one stays.
func TestMoveAfterAnother(t *testing.T) {
	for other, want := range map[string]string{"v1.0.0": "v1.2.3", "v2.0.0": "v2.0.0"} {
		at, w, path := opened(t, nil)
		if _, err := marker.Move(t.Context(), marker.Place{Place: at, Writer: &quicker{w, path, other}}, name, parse(t, "v1.2.3")); err != nil {
			t.Error(err)
		}
		if raw, _ := os.ReadFile(path); string(raw) != want {
			t.Errorf("it holds %q, want %q", raw, want)
		}
	}
}

// TestCheck: the name of a channel holds versions of that channel only.
func TestCheck(t *testing.T) {
	for _, r := range []struct {
		names, version string
		good           bool
	}{
		{"stable.txt release/stable-1.2.txt latest.txt", "v1.2.3", true},
		{"rc.txt latest-1.2.txt", "v1.2.3-rc.0", true},
		{"stable.txt", "v1.2.3-rc.0", false},
		{"release/stable-1.1.txt", "v1.2.3", false},
		{"newest.txt latest-1.txt rc-1.txt", "v1.2.3-rc.0", true},
		{"stable-1.txt", "v1.2.3-rc.0", false},
		{"stable-2.txt", "v1.2.3", false},
		{"stable-1.txt", "v1.2.3", true},
		{"ci/latest.txt ci/latest-1.2.txt ci/k8s-main.txt", "v1.2.3-rc.0.7+2a4f1c09d3be1f", true},
		{"latest.txt", "v1.2.3-rc.0.7+2a4f1c09d3be1f", false},
		{"newest.txt", "v1.2.3-rc.0.7+2a4f1c09d3be1f", false},
		{"ci/latest.txt", "v1.2.3-rc.0", false},
	} {
		if err := marker.Check(strings.Fields(r.names), parse(t, r.version)); (err == nil) != r.good {
			t.Errorf("%s of %s: %v", r.names, r.version, err)
		}
	}
}

// TestRead: what is not there is no version, and no error.
func TestRead(t *testing.T) {
	at, _, _ := opened(t, nil)
	if v, err := marker.Read(t.Context(), at, name); err != nil || !v.IsZero() {
		t.Errorf("%s, %v", v, err)
	}
	text := "v1.2.3\r\n"
	at, _, _ = opened(t, &text)
	if v, err := marker.Read(t.Context(), at, name); err != nil || v.String() != "v1.2.3" {
		t.Errorf("%s, %v", v, err)
	}
}
