package sign

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/waybill-release/waybill/pkg/digest"
	"github.com/waybill-release/waybill/pkg/verdict"
)

// laid is a directory with one of everything.
func laid(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range map[string]string{"a": "a", "bin/b": "b", "empty": "", "statement": enveloped + "28 application/vnd.in-toto+json 2 {}"} {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(content), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(os.Symlink("a", filepath.Join(dir, "link")), os.Symlink("bin", filepath.Join(dir, "usr")), pipe(filepath.Join(dir, "pipe"))); err != nil {
		t.Fatal(err)
	}
	return dir
}

func codesOf(err error) (codes []verdict.Code) {
	if many, ok := err.(interface{ Unwrap() []error }); ok {
		for _, e := range many.Unwrap() {
			codes = append(codes, codesOf(e)...)
		}
		return codes
	}
	if err != nil {
		codes = append(codes, verdict.FindingOf("", err).Code)
	}
	return codes
}

func TestFiles(t *testing.T) {
	dir := laid(t)
	got, err := Files(dir, []string{"a", "bin/b", "empty"})
	if err != nil || len(got) != 3 || got[1].Name != "bin/b" || got[1].Size != 1 || !got[1].Digests.Equal(digest.SetOf([]byte("b"))) {
		t.Fatalf("%+v, %v", got, err)
	}
	for name, c := range map[string]struct {
		names []string
		want  []verdict.Code
	}{
		"nothing":           {nil, []verdict.Code{verdict.NoArtifact}},
		"missing":           {[]string{"a", "none"}, []verdict.Code{verdict.Missing}},
		"a directory":       {[]string{"bin"}, []verdict.Code{verdict.FileType}},
		"a link":            {[]string{"link"}, []verdict.Code{verdict.FileType}},
		"through a link":    {[]string{"usr/b"}, []verdict.Code{verdict.FileType}},
		"through a file":    {[]string{"a/b"}, []verdict.Code{verdict.FileType}},
		"a pipe":            {[]string{"pipe"}, []verdict.Code{verdict.FileType}},
		"twice":             {[]string{"a", "a"}, []verdict.Code{verdict.Usage}},
		"the parent":        {[]string{"../a"}, []verdict.Code{verdict.Path}},
		"the root":          {[]string{"/etc/hosts"}, []verdict.Code{verdict.Path}},
		"the directory":     {[]string{"."}, []verdict.Code{verdict.Path}},
		"not plain":         {[]string{"./a", "bin//b", "bin/../a", "a/", ""}, slices.Repeat([]verdict.Code{verdict.Path}, 5)},
		"a backslash":       {[]string{`bin\b`, "c:a"}, slices.Repeat([]verdict.Code{verdict.Path}, 2)},
		"not to be seen":    {[]string{"a\n", "a\u202eb", "a\xff", "a\x00"}, slices.Repeat([]verdict.Code{verdict.Path}, 4)},
		"an attestation":    {[]string{"statement"}, []verdict.Code{verdict.MaterialKind}},
		"several at a time": {[]string{"a", "none", "bin", "a"}, []verdict.Code{verdict.Missing, verdict.FileType, verdict.Usage}},
	} {
		files, err := Files(dir, c.names)
		if got := codesOf(err); files != nil || !slices.Equal(got, c.want) {
			t.Errorf("%s: %d files, %v, want %v", name, len(files), got, c.want)
		}
	}
	if _, err := Files(filepath.Join(dir, "none"), []string{"a"}); verdict.OutcomeOf(err) != verdict.Malformed {
		t.Errorf("no directory: %v", err)
	}
}

// TestFilesThatChange: by growing, by shrinking, in place, and by another file
// that takes the name.
func TestFilesThatChange(t *testing.T) {
	later := time.Now().Add(time.Hour)
	for name, c := range map[string]struct {
		before, during func(path string) error
		want           verdict.Code
	}{
		"not at all":     {nil, nil, ""},
		"grows":          {nil, func(p string) error { return os.WriteFile(p, []byte(strings.Repeat("x", 600<<10)), 0o600) }, verdict.FileChanged},
		"shrinks":        {nil, func(p string) error { return os.Truncate(p, 300<<10) }, verdict.FileChanged},
		"in place":       {nil, func(p string) error { return os.Chtimes(p, later, later) }, verdict.FileChanged},
		"replaced":       {func(p string) error { return errors.Join(os.WriteFile(p+"x", nil, 0o600), os.Rename(p+"x", p)) }, nil, verdict.FileChanged},
		"replaced later": {nil, func(p string) error { return errors.Join(os.WriteFile(p+"x", nil, 0o600), os.Rename(p+"x", p)) }, ""},
	} {
		path := filepath.Join(t.TempDir(), "f")
		content := []byte(strings.Repeat("a", 500<<10))
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		looked, err := os.Lstat(path)
		if err == nil && c.before != nil {
			err = c.before(path)
		}
		if err != nil {
			t.Fatal(err)
		}
		f, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		got, err := sumOpen(f, "f", looked, func(r io.Reader) (digest.Set, int64, error) {
			if c.during != nil {
				if err := c.during(path); err != nil {
					return digest.Set{}, 0, err
				}
			}
			return digest.Sum(r)
		})
		_ = f.Close()
		switch {
		case c.want == "" && (err != nil || !got.Digests.Equal(digest.SetOf(content))):
			t.Errorf("%s: %v", name, err)
		case c.want != "" && (err == nil || verdict.FindingOf("", err).Code != c.want):
			t.Errorf("%s: %v, want %s", name, err, c.want)
		}
	}
}
