package stories

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

// TestWhatOthersCanReach: on a machine whose file mode mask forbids nothing,
// nobody else can change what a release rests on, and what was only needed for a
// while is gone, or was never anybody else's (H26).
func TestWhatOthersCanReach(t *testing.T) {
	s := open(t)
	careless := t.TempDir()
	for _, name := range []string{"waybill", "k8s-verify-release"} {
		script := fmt.Sprintf("#!/bin/sh\numask 000\nexec %q \"$@\"\n", filepath.Join(s.Bin, name))
		if err := os.WriteFile(filepath.Join(careless, name), []byte(script), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	s.Bin = careless
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	want(t, s.Stage(t.Context()), 0)
	want(t, s.Release(t.Context()), 0)
	want(t, s.Verify(t.Context(), "--output", "table", "--output", "json="+s.Path("verdict.json")), 0)
	if left, err := os.ReadDir(temp); err != nil || len(left) > 0 {
		t.Errorf("%v is left, %v", left, err)
	}
	seen := 0
	for _, root := range []string{s.Path("state"), s.Path("cache"), s.Path("verdict.json")} {
		err := filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
			if err != nil || e.Type()&fs.ModeSymlink != 0 {
				return err
			}
			info, err := e.Info()
			if err != nil {
				return err
			}
			seen++
			if info.Mode().Perm()&0o022 != 0 {
				t.Errorf("%s can be changed by others: %s", path, info.Mode())
			}
			if e.IsDir() && info.Mode().Perm()&0o011 == 0 {
				return fs.SkipDir // nobody else gets further
			}
			return nil
		})
		if err != nil && !os.IsNotExist(err) {
			t.Error(err)
		}
	}
	if seen < 5 {
		t.Errorf("%d files were looked at", seen)
	}
}
