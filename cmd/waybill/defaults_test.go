package main

import (
	"os"
	"path/filepath"
	"testing"
)

// TestNearest: a profile above the working directory counts up to the top of the
// repository, where .. leads, and if it is of the same owner.
func TestNearest(t *testing.T) {
	for name, row := range map[string]struct {
		has, in, link, want string
		stranger            bool
	}{
		"here":                         {"repo/profile.yaml", "repo", "", ".", false},
		"above":                        {"repo/profile.yaml", "repo/a/b", "", "../..", false},
		"above, of a stranger":         {"repo/profile.yaml", "repo/a/b", "", "", true},
		"here, of a stranger":          {"repo/profile.yaml", "repo", "", ".", true},
		"above the repository":         {"profile.yaml", "repo/a", "", "", false},
		"through a link, in it":        {"repo/profile.yaml", "home/link", "repo/a", "..", false},
		"through a link, above it":     {"profile.yaml", "home/link", "repo/a", "", false},
		"through a link, out of a top": {"elsewhere/profile.yaml", "repo/b/link", "elsewhere/x", "", false},
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			t.Chdir(root)
			for _, dir := range []string{"repo/.git", "repo/a/b", "repo/b", "home", "elsewhere/x", row.in} {
				if dir != row.in || row.link == "" {
					if err := os.MkdirAll(dir, 0o755); err != nil {
						t.Fatal(err)
					}
				}
			}
			if row.link != "" {
				if err := os.Symlink(filepath.Join(root, row.link), row.in); err != nil {
					t.Skip(err)
				}
			}
			if err := os.WriteFile(row.has, nil, 0o600); err != nil {
				t.Fatal(err)
			}
			if row.stranger {
				if err := os.Chown(row.has, 12345, -1); err != nil {
					t.Skip(err)
				}
			}
			t.Chdir(row.in) // and PWD, which keeps links
			if got := nearest(profileName); got != row.want {
				t.Errorf("found in %q, want %q", got, row.want)
			}
		})
	}
}
