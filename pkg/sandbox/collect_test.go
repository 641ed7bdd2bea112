package sandbox

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/waybill-release/waybill/pkg/digest"
	"github.com/waybill-release/waybill/pkg/verdict"
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
	got, err := Collect(dir, OutputLimits{})
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
		if got, err := Collect(dir, limits); code(err) != r.want || err != nil && got != nil {
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
	if _, err := Collect(dir, OutputLimits{}); err != nil {
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
		if _, err = Collect(dir, OutputLimits{}); code(err) == verdict.OutputChanged {
			return
		}
	}
	t.Errorf("%v, want %s", err, verdict.OutputChanged)
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
