package store_test

import (
	"errors"
	"io/fs"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"github.com/waybill-release/waybill/pkg/backend/store"
)

// FuzzCheckName: what is a name here is a name everywhere, in one spelling.
func FuzzCheckName(f *testing.F) {
	for _, name := range []string{
		"bin/linux/amd64/kubectl", "a", "v1.31.0+rc.1/x~y@z_", "", "/a", "a/", "a//b", ".", "..", "a/../b", "a/./b", `a\b`, "C:a", "a.", "a/b./c",
		"%2e%2e", "a b", "\u00e9", "a\x00b", strings.Repeat("a", 256), strings.Repeat("a/", 512), "con", "a:b", "-a", "~a",
	} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		if err := store.CheckName(name); err != nil {
			var refused interface{ Code() string }
			if !errors.As(err, &refused) || len(err.Error()) > 4*len(name)+500 {
				t.Errorf("refused with %T of %d bytes", err, len(err.Error()))
			}
			return
		}
		if !fs.ValidPath(name) || !filepath.IsLocal(name) || path.Clean(name) != name || path.IsAbs(name) || len(name) > 1024 || strings.ToValidUTF8(name, "") != name {
			t.Errorf("%q is accepted", name)
		}
		for _, c := range name {
			if c <= ' ' || c >= 0x7f || strings.ContainsRune(`\:*?"<>|%#&`, c) {
				t.Errorf("%q has %q", name, c)
			}
		}
	})
}
