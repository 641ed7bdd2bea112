package store_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/waybill-release/waybill/pkg/backend/store"
	"github.com/waybill-release/waybill/pkg/testing/checkplaces"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

func openDir(t *testing.T, dir string) (store.Place, store.Writer) {
	t.Helper()
	place, err := store.Open(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	writer, err := store.OpenWriter(dir)
	if err != nil {
		t.Fatal(err)
	}
	return place, writer
}

func TestDirectoryConformance(t *testing.T) {
	open := func(t *testing.T) (store.Place, store.Writer) {
		dir := t.TempDir()
		if strings.Contains(t.Name(), "list") {
			return openDir(t, "file://"+filepath.ToSlash(dir)+"/")
		}
		return openDir(t, dir)
	}
	checkplaces.Run(t, open)
	t.Run("named first", func(t *testing.T) {
		checkplaces.Run(t, func(t *testing.T) (store.Place, store.Writer) {
			place, w := open(t)
			store.NameFirst(w)
			return place, w
		})
	})
}

// code returns the reason code of err, "" if it has none.
func code(err error) string {
	var coded interface{ Code() string }
	if errors.As(err, &coded) {
		return coded.Code()
	}
	return ""
}

func TestDirectoryRefusesIrregular(t *testing.T) {
	for name, plant := range map[string]func(dir string) error{
		"a plain file (twin)":             func(dir string) error { return os.WriteFile(dir+"/x", []byte("x"), 0o600) },
		"a link to a file inside":         func(dir string) error { return os.Symlink("real", dir+"/x") },
		"a link to a file outside":        func(dir string) error { return os.Symlink("/etc/passwd", dir+"/x") },
		"a link to nothing":               func(dir string) error { return os.Symlink("nothing", dir+"/x") },
		"a link to a directory":           func(dir string) error { return os.Symlink(".", dir+"/x") },
		"a named pipe that nobody writes": func(dir string) error { return mkfifo(dir + "/x") },
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.WriteFile(dir+"/real", []byte("real"), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := plant(dir); err != nil {
				t.Fatal(err)
			}
			want := "FILE_TYPE"
			if strings.Contains(name, "twin") {
				want = ""
			}
			place, writer := openDir(t, dir)
			if _, err := place.List(t.Context()); code(err) != want {
				t.Errorf("listing: %v, want %q", err, want)
			}
			body, _, err := place.Open(t.Context(), "x")
			if code(err) != want {
				t.Errorf("opening: %v, want %q", err, want)
			}
			if err == nil {
				body.Close()
			}
			if err := writer.Put(t.Context(), "x", 1, strings.NewReader("y"), store.PutOptions{}); code(err) != want {
				t.Errorf("writing: %v, want %q", err, want)
			}
		})
	}
}

func TestDirectoryRefusesLinkedParents(t *testing.T) {
	dir, outside := t.TempDir(), t.TempDir()
	if err := os.MkdirAll(dir+"/real", 0o755); err != nil {
		t.Fatal(err)
	}
	for link, target := range map[string]string{"in": "real", "out": outside} {
		if err := os.Symlink(target, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	place, writer := openDir(t, dir)
	for name, want := range map[string]string{"real/f": "", "in/f": "FILE_TYPE", "out/f": "FILE_TYPE"} {
		if err := writer.Put(t.Context(), name, 1, strings.NewReader("x"), store.PutOptions{}); code(err) != want {
			t.Errorf("writing %q: %v, want %q", name, err, want)
		}
		body, _, err := place.Open(t.Context(), name)
		if code(err) != want {
			t.Errorf("opening %q: %v, want %q", name, err, want)
		}
		if err == nil {
			body.Close()
		}
	}
	if left, _ := os.ReadDir(outside); len(left) > 0 {
		t.Errorf("something was written outside: %v", left)
	}
}

func TestDirectoryReportsStrangeNamesAndLeftovers(t *testing.T) {
	dir := t.TempDir()
	place, _ := openDir(t, dir)
	leftover := ".waybill-tmp-OLD"
	if err := os.WriteFile(filepath.Join(dir, leftover), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	objects, err := place.List(t.Context())
	if err != nil || len(objects) != 1 || objects[0].Name != leftover {
		t.Errorf("listed %v, %v, want the leftover", objects, err)
	}
	if err := os.WriteFile(filepath.Join(dir, "a b"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := place.List(t.Context()); code(err) != "PATH" {
		t.Errorf("listing a name with a space: %v, want PATH", err)
	}
}

func TestMissingDirectoryIsUnavailable(t *testing.T) {
	place, _ := openDir(t, filepath.Join(t.TempDir(), "not", "there"))
	_, listErr := place.List(t.Context())
	_, _, openErr := place.Open(t.Context(), "x")
	for _, err := range []error{listErr, openErr} {
		var down *verdict.UnavailableError
		if !errors.As(err, &down) || code(err) != "UNAVAILABLE" || errors.Is(err, store.ErrNotFound) {
			t.Errorf("%v, want an UnavailableError", err)
		}
	}
}

// TestMove: a file gets its name below a directory, in place of what had it, and
// nowhere else.
func TestMove(t *testing.T) {
	dir := t.TempDir()
	from := filepath.Join(dir, "from")
	to := filepath.Join(dir, "to")
	if err := os.Mkdir(to, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, body := range []string{"old", "new"} {
		if err := os.WriteFile(from, []byte(body), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := store.Move(from, to, "a/b/c"); err != nil {
			t.Fatal(err)
		}
		if raw, err := os.ReadFile(filepath.Join(to, "a", "b", "c")); err != nil || string(raw) != body {
			t.Errorf("%q, %v", raw, err)
		}
		if _, err := os.Lstat(from); !os.IsNotExist(err) {
			t.Errorf("it is where it was, too: %v", err)
		}
	}
	if err := os.Symlink(dir, filepath.Join(to, "out")); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"../c", "/c", "", "out/more/c", "out/c", "a/b"} {
		if err := os.WriteFile(from, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := store.Move(from, to, name); err == nil {
			t.Errorf("it was moved to %q", name)
		}
	}
}
