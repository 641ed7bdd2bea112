//go:build unix

package download

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/waybill-release/waybill/pkg/backend/store"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

func codeOf(err error) verdict.Code {
	if err == nil {
		return ""
	}
	return verdict.FindingOf("", err).Code
}

// TestDirectoryOfOthers: a directory beside the target that no download made is
// refused as it is, and so is one of ours with anything in it that no download
// writes. Nothing in it changes.
func TestDirectoryOfOthers(t *testing.T) {
	outside := func(t *testing.T) string { return filepath.Join(t.TempDir(), "thesis.txt") }
	file := func(path, body string) error {
		return errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(body), 0o600))
	}
	for name, row := range map[string]struct {
		made    bool // by an earlier run
		prepare func(t *testing.T, part string) error
		want    verdict.Code
	}{
		"none":             {false, func(*testing.T, string) error { return nil }, ""},
		"an earlier run's": {true, func(*testing.T, string) error { return nil }, ""},
		"with files of an earlier run": {true, func(_ *testing.T, part string) error {
			return file(filepath.Join(part, filesName, "bin", "a"), "alpha")
		}, ""},
		"left half removed": {true, func(_ *testing.T, part string) error {
			return errors.Join(os.Remove(filepath.Join(part, filesName)), os.Remove(filepath.Join(part, markerName)))
		}, ""},
		"a user's": {false, func(_ *testing.T, part string) error { return file(filepath.Join(part, "mine.txt"), "mine") }, "DOWNLOAD_DIR"},
		"a link to a user's": {false, func(t *testing.T, part string) error {
			there := outside(t)
			return errors.Join(file(there, "thesis"), os.Symlink(filepath.Dir(there), part))
		}, "DOWNLOAD_DIR"},
		"a link to an earlier run's": {true, func(_ *testing.T, part string) error {
			return errors.Join(os.Rename(part, part+"-moved"), os.Symlink(part+"-moved", part))
		}, "DOWNLOAD_DIR"},
		"a file": {false, func(_ *testing.T, part string) error { return file(part, "") }, "DOWNLOAD_DIR"},
		"a marker that lies": {false, func(_ *testing.T, part string) error {
			return file(filepath.Join(part, markerName), `{"kind":"another","release":"v1.0.0","place":"p"}`)
		}, "DOWNLOAD_DIR"},
		"a marker that is a link": {true, func(t *testing.T, part string) error {
			at := filepath.Join(part, markerName)
			moved := outside(t)
			return errors.Join(os.Rename(at, moved), os.Symlink(moved, at))
		}, "DOWNLOAD_DIR"},
		"another release's": {false, func(_ *testing.T, part string) error {
			h, err := lockDir(part, marker{Kind: markerKind, Release: "v2.0.0", Place: "elsewhere"})
			return errors.Join(err, h.Close())
		}, "DOWNLOAD_DIR"},
		"without its lock": {true, func(_ *testing.T, part string) error { return os.Remove(filepath.Join(part, lockName)) }, "DOWNLOAD_DIR"},
		"a file with a second name": {true, func(t *testing.T, part string) error {
			there := outside(t)
			return errors.Join(file(there, "alpha"), os.Link(there, filepath.Join(part, filesName, "a")))
		}, "DOWNLOAD_DIR"},
		"a link among the files": {true, func(t *testing.T, part string) error {
			return os.Symlink(outside(t), filepath.Join(part, filesName, "a"))
		}, "DOWNLOAD_DIR"},
		"a link to a directory among the files": {true, func(t *testing.T, part string) error {
			return os.Symlink(t.TempDir(), filepath.Join(part, filesName, "bin"))
		}, "DOWNLOAD_DIR"},
		"the files are a link": {true, func(t *testing.T, part string) error {
			at := filepath.Join(part, filesName)
			return errors.Join(os.Remove(at), os.Symlink(t.TempDir(), at))
		}, "DOWNLOAD_DIR"},
	} {
		t.Run(name, func(t *testing.T) {
			place, err := store.Open(t.TempDir(), nil)
			if err != nil {
				t.Fatal(err)
			}
			dir := filepath.Join(t.TempDir(), "got")
			if row.made {
				d, err := Open(dir, "v1.0.0", place)
				if err := errors.Join(err, d.Close()); err != nil {
					t.Fatal(err)
				}
			}
			if err := row.prepare(t, dir+Suffix); err != nil {
				t.Fatal(err)
			}
			before := tree(t, filepath.Dir(dir))
			d, err := Open(dir, "v1.0.0", place)
			if got := codeOf(err); got != row.want {
				t.Fatalf("%v, want %q", err, row.want)
			}
			if err == nil {
				if err := d.Close(); err != nil {
					t.Error(err)
				}
				return
			}
			if after := tree(t, filepath.Dir(dir)); after != before {
				t.Errorf("it was\n%s\nand is\n%s", before, after)
			}
		})
	}
}

// tree lists what lies below a directory, with what links lead to.
func tree(t *testing.T, dir string) string {
	t.Helper()
	var b strings.Builder
	err := filepath.Walk(dir, func(path string, info os.FileInfo, err error) error {
		if err != nil {
			return err
		}
		to, _ := os.Readlink(path)
		if filepath.Base(path) != lockName { // names who had it last
			raw, _ := os.ReadFile(path)
			b.WriteString(path + " " + info.Mode().String() + " " + to + " " + string(raw) + "\n")
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// TestOneDownloadAtATime: the second is told who has the directory, and the
// next after the first's end has it.
func TestOneDownloadAtATime(t *testing.T) {
	place, err := store.Open(t.TempDir(), nil)
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "got")
	first, err := Open(dir, "v1.0.0", place)
	if err != nil {
		t.Fatal(err)
	}
	_, err = Open(dir, "v1.0.0", place)
	if codeOf(err) != "DOWNLOAD_BUSY" || !strings.Contains(err.Error(), "process ") || codeOf(err).Outcome() != verdict.Unavailable {
		t.Errorf("%v, want DOWNLOAD_BUSY and who", err)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	second, err := Open(dir, "v1.0.0", place)
	if err := errors.Join(err, second.Close()); err != nil {
		t.Error(err)
	}
}

// TestRefusedIsUnlocked: once what was refused is removed, the same process may
// download into the directory.
func TestRefusedIsUnlocked(t *testing.T) {
	first, dir := begun(t)
	link := filepath.Join(dir+Suffix, filesName, "a")
	if err := errors.Join(first.Close(), os.Symlink(t.TempDir(), link)); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(dir, "v1.0.0", first.from); codeOf(err) != "DOWNLOAD_DIR" {
		t.Fatalf("a link among the files: %v", err)
	}
	if err := os.Remove(link); err != nil {
		t.Fatal(err)
	}
	second, err := Open(dir, "v1.0.0", first.from)
	if err := errors.Join(err, second.Close()); err != nil {
		t.Error(err)
	}
}

// TestNameTooLong: a directory that cannot be made is reported, and nothing is
// written elsewhere.
func TestNameTooLong(t *testing.T) {
	t.Chdir(t.TempDir())
	place, err := store.Open(t.TempDir(), nil)
	if err != nil {
		t.Fatal(err)
	}
	for length, want := range map[int]verdict.Code{200: "", 245: verdict.PlaceDown} {
		d, err := Open(filepath.Join(t.TempDir(), strings.Repeat("d", length)), "v1.0.0", place)
		if codeOf(err) != want {
			t.Errorf("%d letters: %v, want %q", length, err, want)
		}
		if err == nil && d.Close() != nil {
			t.Error("not closed")
		}
	}
	if here := tree(t, "."); strings.Count(here, "\n") != 1 {
		t.Errorf("written into the current directory: %s", here)
	}
}

// TestTarget: only a directory that can be made, or is empty, is a target.
func TestTarget(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := errors.Join(os.Mkdir("empty", 0o755), os.Mkdir("full", 0o755), os.WriteFile("full/a", nil, 0o600),
		os.Symlink("empty", "link"), os.WriteFile("file", nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	for dir, good := range map[string]bool{
		"new": true, "new/below": true, "empty": true, "empty/": true, "./empty/../other": true,
		"": false, ".": false, "..": false, "/": false, "empty/..": false, "full": false, "link": false, "file": false,
	} {
		if _, err := target(dir); (err == nil) != good || err != nil && codeOf(err) != verdict.Usage {
			t.Errorf("%q: %v, want good %v", dir, err, good)
		}
	}
}
