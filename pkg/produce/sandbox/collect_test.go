package sandbox

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

func TestCollect(t *testing.T) {
	dir := t.TempDir()
	body := bytes.Repeat([]byte("lantern"), 1000)
	for _, name := range []string{"b", "a/deep/file", "..dots", "empty"} {
		at := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			t.Fatal(err)
		}
		write := body
		if name == "empty" {
			write = nil
		}
		if err := os.WriteFile(at, write, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	got, err := Collect(t.Context(), dir, OutputLimits{})
	if err != nil {
		t.Fatal(err)
	}
	names := ""
	for _, o := range got {
		names += o.Name + " "
		if o.Name != "empty" && (o.Digests != digest.SetOf(body) || o.Size != int64(len(body))) {
			t.Errorf("%s: %v", o.Name, o)
		}
	}
	if want := "..dots a/deep/file b empty "; names != want {
		t.Errorf("found %q, want %q", names, want)
	}
}

func TestCollectRefuses(t *testing.T) {
	file := func(name, body string) func(string) error {
		return func(dir string) error { return os.WriteFile(filepath.Join(dir, name), []byte(body), 0o644) }
	}
	small := OutputLimits{File: 10, Total: 15, Count: 3}
	for _, r := range []struct {
		name string
		make []func(string) error
		want verdict.Code
	}{
		{"as it should be", []func(string) error{file("a", "0123456789"), file("b", "01234")}, ""},
		{"a file too large", []func(string) error{file("a", "0123456789+")}, verdict.OutputSize},
		{"too much in all", []func(string) error{file("a", "0123456789"), file("b", "012345")}, verdict.OutputSize},
		{"too many", []func(string) error{file("a", ""), file("b", ""), file("c", ""), file("d", "")}, verdict.OutputSize},
		{"a link", []func(string) error{func(d string) error { return os.Symlink("/etc/passwd", filepath.Join(d, "a")) }}, verdict.FileType},
		{"a link to a directory", []func(string) error{func(d string) error { return os.Symlink("/", filepath.Join(d, "a")) }}, verdict.FileType},
		{"two names", []func(string) error{file("a", ""), func(d string) error { return os.Link(filepath.Join(d, "a"), filepath.Join(d, "b")) }}, verdict.FileType},
		{"a hole", []func(string) error{file("a", ""), func(d string) error { return os.Truncate(filepath.Join(d, "a"), 1<<30) }}, verdict.OutputSize},
		{"a backslash", []func(string) error{file(`..\a`, "")}, verdict.Path},
		{"a new line", []func(string) error{file("a\nb", "")}, verdict.Path},
		{"a mark of direction", []func(string) error{file("a\u202egpj.exe", "")}, verdict.Path},
		{"no UTF-8", []func(string) error{file("a\xff", "")}, verdict.Path},
		{"a flag", []func(string) error{file("--help", "")}, verdict.Path},
		{"a dot at the end", []func(string) error{file("a.", "")}, verdict.Path},
	} {
		dir := t.TempDir()
		for _, f := range r.make {
			if err := f(dir); err != nil {
				t.Fatal(err)
			}
		}
		limits := small
		if r.name == "a hole" {
			limits = OutputLimits{}
		}
		if got, err := Collect(t.Context(), dir, limits); code(err) != r.want || err != nil && got != nil {
			t.Errorf("%s: %v, want %q", r.name, err, r.want)
		}
	}
}

// TestCollectSeesChanges: a writer that goes on while the file is read.
func TestCollectSeesChanges(t *testing.T) {
	dir := t.TempDir()
	f, err := os.Create(filepath.Join(dir, "a"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.Write(make([]byte, 16<<20)); err != nil {
		t.Fatal(err)
	}
	if _, err := Collect(t.Context(), dir, OutputLimits{}); err != nil {
		t.Fatalf("the twin, which nobody changes: %v", err)
	}
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			default:
				_, _ = f.WriteAt([]byte("changed"), 0) // the test sees whether it did
			}
		}
	}()
	defer func() {
		close(stop)
		<-stopped
	}()
	// On a busy machine the writer may have to wait for its turn.
	for range 200 {
		if _, err = Collect(t.Context(), dir, OutputLimits{}); code(err) == "OUTPUT_CHANGED" {
			return
		}
	}
	t.Errorf("%v, want %s", err, "OUTPUT_CHANGED")
}

func code(err error) verdict.Code {
	var coded interface{ Code() string }
	if errors.As(err, &coded) {
		return verdict.Code(coded.Code())
	}
	if err != nil {
		return verdict.FindingOf("", err).Code
	}
	return ""
}

// TestCollectDeclared: only what was declared may be there, and the directories
// above it; what lies below anything else is not looked at.
func TestCollectDeclared(t *testing.T) {
	for name, row := range map[string]struct {
		also []string // directories, or files
		want verdict.Code
	}{
		"what was declared":            {nil, ""},
		"an empty directory":           {[]string{"more/"}, "OUTPUT_EXTRA"},
		"an empty one, where one is":   {[]string{"bin/more/"}, "OUTPUT_EXTRA"},
		"a file beside it":             {[]string{"bin/b"}, "OUTPUT_EXTRA"},
		"a directory in a file's name": {[]string{"c/"}, ""},
		"a file in it":                 {[]string{"c/d"}, "OUTPUT_EXTRA"},
	} {
		dir := t.TempDir()
		for _, at := range append([]string{"bin/a"}, row.also...) {
			path := filepath.Join(dir, at)
			if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, at+"x")), 0o755); err != nil {
				t.Fatal(err)
			}
			if at[len(at)-1] != '/' {
				if err := os.WriteFile(path, nil, 0o600); err != nil {
					t.Fatal(err)
				}
			}
		}
		got, err := Collect(t.Context(), dir, OutputLimits{Names: []string{"bin/a", "c"}})
		if code(err) != row.want || err == nil && (len(got) != 1 || got[0].Name != "bin/a") {
			t.Errorf("%s: %v, %v, want %q", name, got, err, row.want)
		}
	}
}

// deep makes directories in one another, below dir.
func deep(t *testing.T, dir string, depth int) {
	t.Helper()
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	for range depth {
		if err := root.Mkdir("a", 0o755); err != nil {
			t.Fatal(err)
		}
		below, err := root.OpenRoot("a")
		if err := errors.Join(err, root.Close()); err != nil {
			t.Fatal(err)
		}
		root = below
	}
	if err := root.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestDeepDirectories: directories deeper than any name of a release are
// refused, at once, and removed, however deep they are.
func TestDeepDirectories(t *testing.T) {
	for depth, want := range map[int]verdict.Code{maxDepth - 1: "", maxDepth + 1: verdict.OutputSize, 10_000: verdict.OutputSize} {
		dir := filepath.Join(t.TempDir(), "out")
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		deep(t, dir, depth)
		if _, err := Collect(t.Context(), dir, OutputLimits{}); code(err) != want {
			t.Errorf("%d deep: %v, want %q", depth, err, want)
		}
		if err := Remove(t.Context(), dir); err != nil {
			t.Errorf("%d deep: %v", depth, err)
		}
		if _, err := os.Lstat(dir); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%d deep: it is still there: %v", depth, err)
		}
	}
}

// TestRemove: everything in a directory goes, closed to everybody or not, and
// nothing that it links to; whoever is told to stop stops.
func TestRemove(t *testing.T) {
	top := t.TempDir()
	dir, kept := filepath.Join(top, "scratch"), filepath.Join(top, "kept")
	for _, path := range []string{kept, filepath.Join(dir, "a", "b", "c"), filepath.Join(dir, "closed", "below")} {
		if err := os.MkdirAll(path, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	err := errors.Join(os.WriteFile(filepath.Join(kept, "file"), nil, 0o600), os.Symlink(kept, filepath.Join(dir, "a", "link")),
		os.Chmod(filepath.Join(dir, "closed", "below"), 0), os.Chmod(filepath.Join(dir, "closed"), 0))
	for i := range 3000 {
		err = errors.Join(err, os.WriteFile(filepath.Join(dir, "a", "b", fmt.Sprint(i)), nil, 0o600))
	}
	if err != nil {
		t.Fatal(err)
	}
	stopped, stop := context.WithCancel(t.Context())
	stop()
	if err := Remove(stopped, dir); !errors.Is(err, context.Canceled) {
		t.Errorf("told to stop: %v", err)
	}
	if err := Remove(t.Context(), dir); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("it is still there: %v", err)
	}
	if _, err := os.Lstat(filepath.Join(kept, "file")); err != nil {
		t.Errorf("what it linked to: %v", err)
	}
	if err := Remove(t.Context(), dir); err != nil {
		t.Errorf("what is not there: %v", err)
	}
}
