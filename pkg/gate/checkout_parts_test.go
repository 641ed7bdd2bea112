package gate

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/waybill-release/waybill/pkg/backend/git"
	"github.com/waybill-release/waybill/pkg/backend/store"
	"github.com/waybill-release/waybill/pkg/release/manifest"
	"github.com/waybill-release/waybill/pkg/release/plan"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
	"github.com/waybill-release/waybill/pkg/value/version"
)

// committed makes a repository whose only commit has these files.
func committed(t *testing.T, files map[string]string) *git.Repository {
	t.Helper()
	dir := t.TempDir()
	for name, body := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(body), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	run := gitIn(t, dir)
	run("init", "-q", "-b", "main")
	run("add", "-A")
	run("commit", "-q", "--allow-empty", "-m", "first")
	run("tag", "v0.1.0")
	repo, err := git.Open(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	return repo
}

// TestCommitWithoutConfig: a commit without release.yaml has no rule for the commit
// to build, so the one that the tag names is it; one that cannot be read is not.
func TestCommitWithoutConfig(t *testing.T) {
	v, err := version.Parse("v0.1.0")
	if err != nil {
		t.Fatal(err)
	}
	for config, want := range map[string]bool{"": true, "kind: [": false} {
		files := map[string]string{"README": "x"}
		if config != "" {
			files[plan.ConfigName] = config
		}
		s := &sourceCheck{sealed: &sealed{manifest: signedManifest{Manifest: manifest.Manifest{Version: v}}}, repo: committed(t, files)}
		if got, err := s.resolve(t.Context()); (err == nil) != want || want && len(got.Commit) != 40 {
			t.Errorf("%q: %+v, %v", config, got, err)
		}
	}
}

// TestCommittedFileIsPublished: a file of the commit is refused if the release does
// not list it, and if it differs. One that is listed and cannot be read has its
// finding elsewhere; where it has, this one is dropped.
func TestCommittedFileIsPublished(t *testing.T) {
	const name, body = plan.ConfigName, "as committed"
	repo := committed(t, map[string]string{name: body})
	for _, row := range []struct {
		what, listed, published string
		code                    verdict.Code
		follows                 string
	}{
		{"as committed", body, body, "", ""},
		{"not listed", "", body, verdict.SourceConfig, ""},
		{"another is listed and published", "another", "another", verdict.SourceConfig, ""},
		{"another is published than is listed", body, "another", verdict.Tampered, name},
		{"listed, and not published", body, "", verdict.Missing, name},
	} {
		dir := t.TempDir()
		if row.published != "" {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(row.published), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		files, err := store.Open(dir, nil)
		if err != nil {
			t.Fatal(err)
		}
		s := &sourceCheck{sealed: &sealed{Request: Request{Files: files}}, repo: repo}
		if s.commit, err = repo.Resolve(t.Context(), "refs/tags/v0.1.0"); err != nil {
			t.Fatal(err)
		}
		if row.listed != "" {
			a := manifest.Artifact{Artifact: plan.Artifact{Name: name, Class: plan.Other}, Digests: digest.SetOf([]byte(row.listed))}
			s.manifest.Artifacts = []manifest.Artifact{a}
		}
		var f facts
		s.compareFile(t.Context(), name, &f)
		if len(f.differences) != min(1, len(row.code)) || row.code != "" && (f.differences[0].Code != row.code || f.differences[0].follows != row.follows) {
			t.Errorf("%s: %+v", row.what, f.differences)
		}
	}
}
