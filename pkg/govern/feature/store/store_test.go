package featurestore_test

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/waybill-release/waybill/pkg/backend/store"
	"github.com/waybill-release/waybill/pkg/govern/feature"
	featurestore "github.com/waybill-release/waybill/pkg/govern/feature/store"
	"github.com/waybill-release/waybill/pkg/testing/checkfeatures"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

func place(t *testing.T, dir string) featurestore.Place {
	t.Helper()
	at, err := store.Open(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	w, err := store.OpenWriter(dir)
	if err != nil {
		t.Fatal(err)
	}
	return featurestore.Place{Place: at, Writer: w}
}

func directory(t *testing.T, dir string) featurestore.Store {
	t.Helper()
	s, err := featurestore.OpenDirectory(dir)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// kinds are the two stores over a directory.
func kinds() map[string]func(t *testing.T, dir string) featurestore.Store {
	return map[string]func(t *testing.T, dir string) featurestore.Store{
		"replacing": directory,
		"appending": func(t *testing.T, dir string) featurestore.Store { return featurestore.Appending(place(t, dir)) },
	}
}

func TestConformance(t *testing.T) {
	for name, open := range kinds() {
		t.Run(name, func(t *testing.T) {
			checkfeatures.Run(t, func(t *testing.T) func() featurestore.Store {
				dir := t.TempDir()
				return func() featurestore.Store { return open(t, dir) }
			})
		})
	}
}

// put writes a file that no store wrote.
func put(t *testing.T, dir, name string, raw []byte) {
	t.Helper()
	file := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, raw, 0o644); err != nil {
		t.Fatal(err)
	}
}

// TestGarbage: what lies in the directory and is no feature is refused and never
// skipped, and never taken for absent; what a crash left is passed over.
func TestGarbage(t *testing.T) {
	for kind, open := range kinds() {
		object := map[string]string{"replacing": "waybill/RequireLantern.json", "appending": "waybill/RequireLantern/1.json"}[kind]
		for name, row := range map[string]struct {
			spoil    func(t *testing.T, dir string)
			get, all bool // whether reading and listing still answer
		}{
			"a write that never ended": {func(t *testing.T, dir string) { put(t, dir, "waybill/.waybill-tmp-X", []byte("{")) }, true, true},
			"a torn object":            {func(t *testing.T, dir string) { cut(t, filepath.Join(dir, object)) }, false, false},
			"an empty object":          {func(t *testing.T, dir string) { put(t, dir, object, nil) }, false, false},
			"an object of another": {func(t *testing.T, dir string) {
				f := checkfeatures.Feature(t, "waybill", "RequireWick")
				f.Metadata.Generation = 1
				raw, _ := f.Bytes()
				put(t, dir, object, raw)
			}, false, false},
			"an object without end":     {func(t *testing.T, dir string) { put(t, dir, object, make([]byte, feature.MaxSize+1)) }, false, false},
			"a note beside it":          {func(t *testing.T, dir string) { put(t, dir, "waybill/README", []byte("hello")) }, kind == "replacing", false},
			"a name that is none":       {func(t *testing.T, dir string) { put(t, dir, "waybill/require lantern.json", []byte("{}")) }, kind == "replacing", false},
			"a link instead of it":      {func(t *testing.T, dir string) { link(t, dir, object) }, false, false},
			"a link instead of its dir": {func(t *testing.T, dir string) { link(t, dir, "waybill") }, false, false},
		} {
			t.Run(kind+"/"+name, func(t *testing.T) {
				dir := t.TempDir()
				s := open(t, dir)
				f, err := s.Create(t.Context(), checkfeatures.Feature(t, "waybill", "RequireLantern"))
				if err != nil {
					t.Fatal(err)
				}
				row.spoil(t, dir)
				if _, err := s.Get(t.Context(), f.Key()); err == nil != row.get || errors.Is(err, featurestore.ErrNotFound) {
					t.Errorf("reading: %v", err)
				}
				if list, err := s.List(t.Context()); err == nil != row.all || errors.Is(err, featurestore.ErrNotFound) {
					t.Errorf("listing: %v, %v", list, err)
				}
				if _, err := s.Update(t.Context(), f); err == nil != row.get || errors.Is(err, featurestore.ErrNotFound) {
					t.Errorf("writing: %v", err)
				}
			})
		}
	}
}

func cut(t *testing.T, file string) {
	t.Helper()
	info, err := os.Stat(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(file, info.Size()/2); err != nil {
		t.Fatal(err)
	}
}

// link moves something away and leaves a link to it.
func link(t *testing.T, dir, name string) {
	t.Helper()
	away := filepath.Join(t.TempDir(), "away")
	if err := os.Rename(filepath.Join(dir, name), away); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(away, filepath.Join(dir, name)); err != nil {
		t.Fatal(err)
	}
}

// TestNoDirectory: a directory that is not there, or is gone, is unavailable; it
// is not an empty store.
func TestNoDirectory(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "features")
	var down *verdict.UnavailableError
	if _, err := featurestore.OpenDirectory(dir); !errors.As(err, &down) {
		t.Fatalf("opening: %v", err)
	}
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	s := directory(t, dir)
	f, err := s.Create(t.Context(), checkfeatures.Feature(t, "waybill", "RequireLantern"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(dir, dir+".unmounted"); err != nil {
		t.Fatal(err)
	}
	_, got := s.Get(t.Context(), f.Key())
	_, list := s.List(t.Context())
	_, updated := s.Update(t.Context(), f)
	_, created := s.Create(t.Context(), checkfeatures.Feature(t, "waybill", "RequireWick"))
	for act, err := range map[string]error{"reading": got, "listing": list, "writing": updated, "creating": created} {
		if !errors.As(err, &down) {
			t.Errorf("%s: %v, want unavailable", act, err)
		}
	}
	if _, err := os.Stat(dir); err == nil {
		t.Error("an empty directory was made in its place")
	}
}

// TestHole: a generation that is gone is refused.
func TestHole(t *testing.T) {
	dir := t.TempDir()
	s := featurestore.Appending(place(t, dir))
	f, err := s.Create(t.Context(), checkfeatures.Feature(t, "waybill", "RequireLantern"))
	for range 3 {
		if err != nil {
			t.Fatal(err)
		}
		f, err = s.Update(t.Context(), f)
	}
	if err := os.Remove(filepath.Join(dir, "waybill", "RequireLantern", "2.json")); err != nil {
		t.Fatal(err)
	}
	for _, act := range []func() error{
		func() error { _, err := s.Get(t.Context(), f.Key()); return err },
		func() error { _, err := s.List(t.Context()); return err },
		func() error { _, err := s.Update(t.Context(), f); return err },
	} {
		if err := act(); err == nil || !strings.Contains(err.Error(), "earlier generations are missing: 1") {
			t.Errorf("%v", err)
		}
	}
}

// dying is a writer that dies before or after its next write.
type dying struct {
	featurestore.Place
	after bool
}

func (d dying) Put(ctx context.Context, name string, size int64, r io.Reader, o store.PutOptions) error {
	if d.after {
		if err := d.Place.Put(ctx, name, size, r, o); err != nil {
			return err
		}
	}
	return &verdict.UnavailableError{Place: d.URI(), Op: "writing", Err: io.ErrUnexpectedEOF}
}

func (d dying) Replace(ctx context.Context, name string, r store.Replacement) error {
	if d.after {
		if err := d.Writer.(store.Replacer).Replace(ctx, name, r); err != nil {
			return err
		}
	}
	return &verdict.UnavailableError{Place: d.URI(), Op: "writing", Err: io.ErrUnexpectedEOF}
}

// TestAnswerThatNeverCame: a write whose answer is lost is unavailable, and the
// next read tells which of both it was; the whole of the old or of the new.
func TestAnswerThatNeverCame(t *testing.T) {
	for _, after := range []bool{false, true} {
		dir := t.TempDir()
		for kind, open := range map[string]func(at featurestore.Place) featurestore.Store{
			"replacing": featurestore.Replacing,
			"appending": featurestore.Appending,
		} {
			at := place(t, filepath.Join(dir, kind))
			s := open(at)
			f, err := s.Create(t.Context(), checkfeatures.Feature(t, "waybill", "RequireLantern"))
			if err != nil {
				t.Fatal(err)
			}
			broken := dying{Place: at, after: after}
			var down *verdict.UnavailableError
			if _, err := open(featurestore.Place{Place: at, Writer: broken}).Update(t.Context(), f); !errors.As(err, &down) || errors.Is(err, featurestore.ErrConflict) {
				t.Errorf("%s: %v", kind, err)
			}
			got, err := s.Get(t.Context(), f.Key())
			if want := map[bool]int{false: 1, true: 2}[after]; err != nil || got.Metadata.Generation != want {
				t.Errorf("%s: generation %d, want %d, %v", kind, got.Metadata.Generation, want, err)
			}
		}
	}
}

// TestAppendingNeedsNoReplace: the appending store works where a write cannot be
// tied to what it replaces.
func TestAppendingNeedsNoReplace(t *testing.T) {
	checkfeatures.Run(t, func(t *testing.T) func() featurestore.Store {
		at := place(t, t.TempDir())
		at.Writer = struct{ store.Writer }{at.Writer}
		return func() featurestore.Store { return featurestore.Appending(at) }
	})
}
