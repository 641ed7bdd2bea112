//go:build unix

package stories

import (
	"bytes"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// downloadsAmongOthers: a directory that no download made, or that somebody
// put something into, is refused and stays as it is; one that another run has
// is left to that run. Each time the same command passes once that one fact is
// another.
func downloadsAmongOthers(t *testing.T, d *desk) {
	keep := func(dir string) []string { return []string{"--only", "files", "--download", dir} }
	thesis := []byte("a year of work")
	for _, dir := range []string{"victim/docs", "keep.part"} {
		if err := os.MkdirAll(d.Path(dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	d.write(t, "victim/docs/thesis.txt", thesis)
	if err := os.Symlink(d.Path("victim"), d.Path("out.part")); err != nil {
		t.Fatal(err)
	}
	want(t, d.Verify(t.Context(), keep("out")...), 2, "DOWNLOAD_DIR", "a link", "name another directory")
	d.write(t, "keep.part/mine.txt", thesis)
	want(t, d.Verify(t.Context(), keep("keep")...), 2, "DOWNLOAD_DIR", "this program did not make it")
	for _, name := range []string{"victim/docs/thesis.txt", "keep.part/mine.txt"} {
		if !bytes.Equal(d.read(t, name), thesis) {
			t.Errorf("%s was changed", name)
		}
	}
	d.absent(t, "out")
	d.absent(t, "keep")

	// A run that is refused leaves a directory to go on with.
	undo := d.flip(t)
	want(t, d.Verify(t.Context(), keep("on")...), 1, "TAMPERED")
	undo()
	other := d.Path("other")
	d.write(t, "other", d.read(t, filepath.Join("on.part", "files", "SHA256SUMS")))
	mine := d.Path("on.part", "files", "SHA256SUMS")
	if err := os.Remove(mine); err != nil {
		t.Fatal(err)
	}
	if err := os.Link(other, mine); err != nil {
		t.Fatal(err)
	}
	want(t, d.Verify(t.Context(), keep("on")...), 2, "DOWNLOAD_DIR", "SHA256SUMS", "second hard link")
	if err := os.Remove(other); err != nil {
		t.Fatal(err)
	}
	lock, err := os.OpenFile(d.Path("on.part", "lock"), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	want(t, d.Verify(t.Context(), keep("on")...), 3, "DOWNLOAD_BUSY", "process ")
	if err := lock.Close(); err != nil {
		t.Fatal(err)
	}
	want(t, d.Verify(t.Context(), keep("on")...), 0, "in part", "Not checked: images", "Downloaded to")
	d.absent(t, "on.part")
	for name, program := range map[string]bool{lamp: true, "SHA256SUMS": false} {
		info, err := os.Stat(d.Path("on", name))
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode().Perm()&0o100 != 0 != program {
			t.Errorf("%s has mode %v", name, info.Mode())
		}
	}
}
