package download

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/waybill-release/waybill/pkg/store"
	"github.com/waybill-release/waybill/pkg/verdict"
)

// begun is a download from a place with one file, before a manifest was read.
func begun(t *testing.T) (*Download, string) {
	t.Helper()
	from := t.TempDir()
	if err := os.WriteFile(filepath.Join(from, "a"), []byte("alpha"), 0o644); err != nil {
		t.Fatal(err)
	}
	place, err := store.Open(from, nil)
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "got")
	d, err := Open(dir, place)
	if err != nil {
		t.Fatal(err)
	}
	return d, dir
}

func there(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// TestOnlyWhatWasReadToItsEndIsKept: a reader that stops, and a source that
// fails, leave nothing behind.
func TestOnlyWhatWasReadToItsEndIsKept(t *testing.T) {
	lost := errors.New("connection lost")
	for name, row := range map[string]struct {
		body io.Reader
		read func(io.Reader) error
		kept bool
	}{
		"whole":           {strings.NewReader("alpha"), func(r io.Reader) error { _, err := io.ReadAll(r); return err }, true},
		"byte by byte":    {iotest.OneByteReader(strings.NewReader("alpha")), func(r io.Reader) error { _, err := io.ReadAll(r); return err }, true},
		"end with bytes":  {iotest.DataErrReader(strings.NewReader("alpha")), func(r io.Reader) error { _, err := io.ReadAll(r); return err }, true},
		"empty":           {strings.NewReader(""), func(r io.Reader) error { _, err := io.ReadAll(r); return err }, true},
		"a part":          {strings.NewReader("alpha"), func(r io.Reader) error { _, err := io.ReadFull(r, make([]byte, 3)); return err }, false},
		"nothing":         {strings.NewReader("alpha"), func(io.Reader) error { return nil }, false},
		"all but the end": {strings.NewReader("alpha"), func(r io.Reader) error { _, err := io.ReadFull(r, make([]byte, 5)); return err }, false},
		"a source that fails": {io.MultiReader(strings.NewReader("al"), iotest.ErrReader(lost)), func(r io.Reader) error {
			if _, err := io.ReadAll(r); !errors.Is(err, lost) {
				return errors.New("the failure is not told")
			}
			return nil
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			d, dir := begun(t)
			freed := false
			body := d.keep(t.Context(), "bin/a", io.NopCloser(row.body), func() { freed = true })
			if err := row.read(body); err != nil {
				t.Fatal(err)
			}
			if err := body.Close(); err != nil || !freed {
				t.Errorf("closing: %v, freed %v", err, freed)
			}
			if got := there(filepath.Join(dir+Suffix, "bin", "a")); got != row.kept {
				t.Errorf("kept: %v, want %v", got, row.kept)
			}
			if there(dir) {
				t.Error("it is visible")
			}
			if left, err := filepath.Glob(filepath.Join(dir+Suffix, "bin", ".*")); err != nil || len(left) > 0 {
				t.Errorf("left behind: %v, %v", left, err)
			}
		})
	}
}

// TestADiskThatFails tells the reader, and ends.
func TestADiskThatFails(t *testing.T) {
	d, dir := begun(t)
	if err := os.WriteFile(dir+Suffix, nil, 0o644); err != nil { // a file where the directory must be
		t.Fatal(err)
	}
	body := d.keep(t.Context(), "a", io.NopCloser(strings.NewReader("alpha")), func() {})
	if _, err := io.ReadAll(body); err == nil || verdict.FindingOf("", err).Code != verdict.PlaceDown {
		t.Errorf("%v, want UNAVAILABLE", err)
	}
	if err := body.Close(); err != nil {
		t.Error(err)
	}
}

// TestFinish: what was verified is shown, at once, and nothing else.
func TestFinish(t *testing.T) {
	d, dir := begun(t)
	for name, body := range map[string]string{"bin/a": "alpha", "old/b": "beta", "c": "gamma"} {
		if err := d.into.Put(t.Context(), name, -1, strings.NewReader(body), store.PutOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	if err := d.Finish(t.Context(), []string{"bin/a", "nowhere"}); err == nil || there(dir) {
		t.Errorf("a file that is not there: %v, visible %v", err, there(dir))
	}
	if err := os.Mkdir(dir, 0o755); err != nil { // empty: it may be replaced
		t.Fatal(err)
	}
	if err := d.Finish(t.Context(), []string{"bin/a"}); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]bool{dir + "/bin/a": true, dir + "/old": false, dir + "/c": false, dir + Suffix: false} {
		if there(path) != want {
			t.Errorf("%s: %v, want %v", path, !want, want)
		}
	}
	if _, err := Open(dir, d.from); err == nil || verdict.FindingOf("", err).Code != verdict.Usage {
		t.Errorf("into a directory that is not empty: %v", err)
	}
}

// TestBeforeTheManifest: what no manifest lists is read and not kept.
func TestBeforeTheManifest(t *testing.T) {
	d, dir := begun(t)
	body, _, err := d.Open(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	if raw, err := io.ReadAll(body); err != nil || string(raw) != "alpha" || body.Close() != nil {
		t.Errorf("%q, %v", raw, err)
	}
	if there(filepath.Join(dir+Suffix, "a")) {
		t.Error("it was kept")
	}
}
