package download

import (
	"cmp"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/waybill-release/waybill/pkg/backend/store"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
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
	d, err := Open(dir, "v1.0.0", place)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
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
			var read strings.Builder
			if err := row.read(io.TeeReader(body, &read)); err != nil {
				t.Fatal(err)
			}
			if err := body.Close(); err != nil || !freed {
				t.Errorf("closing: %v, freed %v", err, freed)
			}
			raw, err := os.ReadFile(filepath.Join(dir+Suffix, filesName, "bin", "a"))
			if got := err == nil; got != row.kept || got && string(raw) != read.String() {
				t.Errorf("kept: %v, want %v; %q, and %q was read", got, row.kept, raw, read.String())
			}
			if there(dir) {
				t.Error("it is visible")
			}
			if left, err := filepath.Glob(filepath.Join(dir+Suffix, filesName, "bin", ".*")); err != nil || len(left) > 0 {
				t.Errorf("left behind: %v, %v", left, err)
			}
		})
	}
}

// TestADiskThatFails tells the reader, and ends: when the first byte is written,
// and when the whole file gets its name.
func TestADiskThatFails(t *testing.T) {
	for name, row := range map[string]struct{ before, atEnd func(files string) error }{
		"a file where the directory must be": {
			func(files string) error { return errors.Join(os.Remove(files), os.WriteFile(files, nil, 0o644)) },
			func(string) error { return nil },
		},
		"the directory is removed during the download": {func(string) error { return nil }, os.RemoveAll},
	} {
		d, dir := begun(t)
		files := filepath.Join(dir+Suffix, filesName)
		if err := row.before(files); err != nil {
			t.Fatal(err)
		}
		end := reader(func() error { return cmp.Or(row.atEnd(files), io.EOF) })
		body := d.keep(t.Context(), "a", io.NopCloser(io.MultiReader(strings.NewReader("alpha"), end)), func() {})
		if _, err := io.ReadAll(body); err == nil || verdict.FindingOf("", err).Code != verdict.PlaceDown {
			t.Errorf("%s: %v, want UNAVAILABLE", name, err)
		}
		if err := body.Close(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// reader reads nothing, and returns an error.
type reader func() error

func (r reader) Read([]byte) (int, error) { return 0, r() }

// put writes a file as this run would.
func (d *Download) put(t *testing.T, name, body string) {
	t.Helper()
	if err := d.into.Put(t.Context(), name, -1, strings.NewReader(body), store.PutOptions{}); err != nil {
		t.Fatal(err)
	}
	d.learn(name, false)
}

// TestFinish: what was verified is shown, at once, and nothing else; what this
// run did not write is not removed.
func TestFinish(t *testing.T) {
	d, dir := begun(t)
	for name, body := range map[string]string{"bin/a": "alpha", "old/b": "beta", "c": "gamma"} {
		d.put(t, name, body)
	}
	mine := filepath.Join(dir+Suffix, filesName, "mine", "thesis.txt")
	if err := errors.Join(os.Mkdir(filepath.Dir(mine), 0o755), os.WriteFile(mine, []byte("thesis"), 0o600)); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Finish(t.Context(), []File{{Name: "bin/a"}, {Name: "nowhere"}}); err == nil || there(dir) {
		t.Errorf("a file that is not there: %v, visible %v", err, there(dir))
	}
	if err := os.Mkdir(dir, 0o755); err != nil { // empty: it may be replaced
		t.Fatal(err)
	}
	kept, err := d.Finish(t.Context(), []File{{Name: "bin/a", Program: true}})
	if err != nil {
		t.Fatal(err)
	}
	if want := (Kept{Dir: dir, Files: 1, Bytes: 5}); kept != want { // the thesis was moved by the first try
		t.Errorf("%+v, want %+v", kept, want)
	}
	left := filepath.Join(dir+Suffix, leftName, "mine", "thesis.txt")
	for path, want := range map[string]bool{dir + "/bin/a": true, dir + "/old": false, dir + "/c": false, dir + "/mine": false, left: true} {
		if there(path) != want {
			t.Errorf("%s: %v, want %v", path, !want, want)
		}
	}
	if info, err := os.Stat(dir + "/bin/a"); err != nil || info.Mode().Perm() != 0o755 {
		t.Errorf("a program: %v, %v", info, err)
	}
	if _, err := Open(dir, "v1.0.0", d.from); err == nil || verdict.FindingOf("", err).Code != verdict.Usage {
		t.Errorf("into a directory that is not empty: %v", err)
	}
}

// TestFinishLeavesNothingBeside: where every file was this run's, the directory
// beside is gone.
func TestFinishLeavesNothingBeside(t *testing.T) {
	d, dir := begun(t)
	d.put(t, "bin/a", "alpha")
	d.put(t, "b", "beta")
	if _, err := d.Finish(t.Context(), []File{{Name: "bin/a"}}); err != nil {
		t.Fatal(err)
	}
	if there(dir+Suffix) || there(dir+"/b") || !there(dir+"/bin/a") {
		t.Errorf("beside %v, b %v, bin/a %v", there(dir+Suffix), there(dir+"/b"), there(dir+"/bin/a"))
	}
}

// TestDiscard: what this run wrote and was refused is gone, what is good stays
// for the next run.
func TestDiscard(t *testing.T) {
	d, dir := begun(t)
	d.put(t, "good", "alpha")
	d.put(t, "bad", "beta")
	if err := d.Discard(func(name string) bool { return name == "bad" }); err != nil {
		t.Fatal(err)
	}
	files := filepath.Join(dir+Suffix, filesName)
	if there(filepath.Join(files, "bad")) || !there(filepath.Join(files, "good")) {
		t.Errorf("bad %v, good %v", there(filepath.Join(files, "bad")), there(filepath.Join(files, "good")))
	}
	// What is gone already need not be removed; what cannot be removed is reported.
	if err := d.Discard(func(name string) bool { return name == "bad" }); err != nil {
		t.Error(err)
	}
	if err := os.MkdirAll(filepath.Join(files, "bad", "below"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := d.Discard(func(name string) bool { return name == "bad" }); verdict.OutcomeOf(err) != verdict.Unavailable {
		t.Errorf("a refused file that cannot be removed: %v", err)
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
	if there(filepath.Join(dir+Suffix, filesName, "a")) {
		t.Error("it was kept")
	}
}

// TestNamesThatClash: files whose names are one name on some systems are refused,
// whether a manifest or the caller names them.
func TestNamesThatClash(t *testing.T) {
	for other, want := range map[string]verdict.Code{"b": "", "A": verdict.Path} {
		d, _ := begun(t)
		err := d.Expect(map[string]digest.Set{"a": {}, other: {}})
		if got := verdict.FindingOf("", err).Code; (err == nil) != (want == "") || err != nil && got != want {
			t.Errorf("a and %s: %v, want %q", other, err, want)
		}
	}
}
