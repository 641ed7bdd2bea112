//go:build unix

package workspace_test

import (
	"bytes"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/waybill-release/waybill/pkg/produce/workspace"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
	"github.com/waybill-release/waybill/pkg/value/version"
)

// TestNothingLeadsElsewhere: another account may have made the workspace. A link
// or pipe in place of one of its parts is refused before anything is read,
// written, cut off or swept there.
func TestNothingLeadsElsewhere(t *testing.T) {
	v, err := version.Parse("v0.1.0")
	if err != nil {
		t.Fatal(err)
	}
	id := workspace.Identity{Name: "lantern", Version: v, Plan: digest.Of(digest.SHA256, nil), Invocation: "a"}
	for name, change := range map[string]func(path string) error{
		"whole":  func(string) error { return nil },
		"a link": func(path string) error { return os.Symlink(t.TempDir(), path) },
		"a pipe": func(path string) error { return syscall.Mkfifo(path, 0o644) },
	} {
		for _, part := range []string{"release.json", "work", "files", "images", "journal.jsonl", "signatures.jsonl", "plan.json"} {
			t.Run(name+" "+part, func(t *testing.T) {
				dir := t.TempDir()
				if _, err := workspace.Create(dir, id); err != nil {
					t.Fatal(err)
				}
				if name != "whole" {
					if err := os.RemoveAll(filepath.Join(dir, part)); err != nil {
						t.Fatal(err)
					}
				}
				if err := change(filepath.Join(dir, part)); err != nil {
					t.Fatal(err)
				}
				_, opened := workspace.Open(dir)
				_, created := workspace.Create(dir, id)
				for _, err := range []error{opened, created, workspace.Check(dir, id)} {
					switch {
					case name == "whole" && err != nil:
						t.Error(err)
					case name != "whole" && (err == nil || verdict.FindingOf("", err).Code != verdict.FileType):
						t.Errorf("%v: want FILE_TYPE", err)
					}
				}
			})
		}
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "release.json"), bytes.Repeat([]byte(" "), 1<<20), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := workspace.Open(dir); err == nil {
		t.Error("an identity without end was read")
	}
}
