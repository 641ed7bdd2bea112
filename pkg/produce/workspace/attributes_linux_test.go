package workspace

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// TestRemoveAttributes: attributes that anybody can set are removed.
func TestRemoveAttributes(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := removeAttributes(path); err != nil {
		t.Fatalf("without any: %v", err)
	}
	for _, name := range []string{"user.one", "user.two"} {
		if err := unix.Setxattr(path, name, []byte("x"), 0); errors.Is(err, unix.ENOTSUP) {
			t.Skip("this file system has no attributes of users")
		} else if err != nil {
			t.Fatal(err)
		}
	}
	if err := removeAttributes(path); err != nil {
		t.Fatal(err)
	}
	if n, err := unix.Listxattr(path, nil); err != nil || n != 0 {
		t.Errorf("%d bytes of names are left, %v", n, err)
	}
}
