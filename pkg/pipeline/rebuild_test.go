package pipeline

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/waybill-release/waybill/pkg/backend/git"
	"github.com/waybill-release/waybill/pkg/document/provenance"
	"github.com/waybill-release/waybill/pkg/produce/run"
	"github.com/waybill-release/waybill/pkg/release/manifest"
	"github.com/waybill-release/waybill/pkg/release/plan"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// TestRebuildClaim changes one fact of provenance at a time: what it says else
// than its source is REBUILD_CLAIM, before anything is built.
func TestRebuildClaim(t *testing.T) {
	commit, config, lock := "1111111111111111111111111111111111111111", []byte("release.yaml"), []byte("lock")
	of := func(step plan.Step) (*rebuild, provenance.Provenance) {
		r := &rebuild{found: found{source: run.Source{Commit: git.Commit{Commit: commit}, Config: config, Lock: lock}}}
		r.found.plan.Locked, r.found.plan.Steps = true, []plan.Step{step}
		said := provenance.Provenance{}
		said.BuildDefinition = provenance.BuildDefinition{
			ExternalParameters: provenance.ExternalParameters{Config: provenance.Config{SHA256: digest.Of(digest.SHA256, config).Hex()}},
			InternalParameters: provenance.InternalParameters{Command: []string{"go", "build", commit}, Env: []string{"A=b"}},
			ResolvedDependencies: []provenance.Resource{
				provenance.Commit("git+https://example.test/a", "v1", commit, commit), provenance.File(plan.LockName, digest.SetOf(lock)),
			},
		}
		return r, said
	}
	step := plan.Step{Instance: "compile", Run: []string{"go", "build", "{commit.id}"}, Env: []string{"A=b"}}
	name, network := plan.ProvenanceName("compile"), &provenance.Walls{Network: []string{"a:1"}}
	for what, row := range map[string]struct {
		change func(*rebuild, *provenance.BuildDefinition)
		code   verdict.Code
	}{
		"nothing":         {func(*rebuild, *provenance.BuildDefinition) {}, ""},
		"the command":     {func(_ *rebuild, d *provenance.BuildDefinition) { d.InternalParameters.Command[1] = "test" }, "REBUILD_CLAIM"},
		"the environment": {func(_ *rebuild, d *provenance.BuildDefinition) { d.InternalParameters.Env = nil }, "REBUILD_CLAIM"},
		"release.yaml":    {func(r *rebuild, _ *provenance.BuildDefinition) { r.found.source.Config = []byte("other") }, "REBUILD_CLAIM"},
		"the lock":        {func(r *rebuild, _ *provenance.BuildDefinition) { r.found.source.Lock = []byte("other") }, "REBUILD_CLAIM"},
		"the commit":      {func(r *rebuild, _ *provenance.BuildDefinition) { r.found.source.Commit.Commit = "2" }, "REBUILD_CLAIM"},
		"the step":        {func(r *rebuild, _ *provenance.BuildDefinition) { r.found.plan.Steps[0].Name = "pack" }, "REBUILD_CLAIM"},
		"an environment of no command": {func(r *rebuild, d *provenance.BuildDefinition) {
			r.found.plan.Steps[0].Run, d.InternalParameters.Command = nil, nil
		}, "REBUILD_CLAIM"},
		"no environment of no command": {func(r *rebuild, d *provenance.BuildDefinition) {
			r.found.plan.Steps[0].Run, d.InternalParameters.Command, d.InternalParameters.Env = nil, nil, nil
		}, ""},
		"a network":               {func(_ *rebuild, d *provenance.BuildDefinition) { d.InternalParameters.Walls = network }, "REBUILD_CLAIM"},
		"no network":              {func(r *rebuild, _ *provenance.BuildDefinition) { r.found.plan.Steps[0].Network = network.Network }, "REBUILD_CLAIM"},
		"walls without a network": {func(_ *rebuild, d *provenance.BuildDefinition) { d.InternalParameters.Walls = &provenance.Walls{} }, ""},
		"a network in both": {func(r *rebuild, d *provenance.BuildDefinition) {
			r.found.plan.Steps[0].Network, d.InternalParameters.Walls = network.Network, network
		}, "INPUT_GONE"},
	} {
		t.Run(what, func(t *testing.T) {
			r, said := of(step)
			row.change(r, &said.BuildDefinition)
			err := r.compareClaim(name, said)
			if got := verdict.FindingOf("", err).Code; err == nil && row.code != "" || err != nil && got != row.code {
				t.Errorf("%v, want %q", err, row.code)
			}
		})
	}
}

// TestRebuildTools: the tree of a tool is compared with every provenance, also if
// another names the same program.
func TestRebuildTools(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"go/bin/go", "go/pkg/tool/linux/compile", "go/VERSION"} {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte("go"), 0o755)); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", filepath.Join(dir, "go", "bin"))
	program := digest.Of(digest.SHA256, []byte("go")).Hex()
	for what, row := range map[string]struct {
		second map[string]string
		codes  int
	}{
		"the same":        {map[string]string{"sha256": program}, 0},
		"another tree":    {map[string]string{"sha256": program, "dirHash": program}, 1},
		"another program": {map[string]string{"sha256": strings.Repeat("0", 64)}, 1},
	} {
		r := &rebuild{job: &job{}, v: verdict.New("test", time.Now()), said: map[string]provenance.Provenance{}}
		for name, named := range map[string]map[string]string{"a": {"sha256": program}, "b": row.second} {
			said := provenance.Provenance{}
			said.BuildDefinition.ResolvedDependencies = []provenance.Resource{{Name: "tool go", Digest: named}}
			r.said[name] = said
		}
		if err := r.checkTools(t.Context()); err != nil || len(r.v.Findings) != row.codes {
			t.Errorf("%s: %v, %v, want %d findings", what, err, r.v.Findings, row.codes)
		}
		for _, f := range r.v.Findings {
			if f.Code != "TOOLCHAIN_UNAVAILABLE" {
				t.Errorf("%s: %v", what, f)
			}
		}
	}
}

// TestRebuildChoice: a release of which nothing was built is not rebuilt.
func TestRebuildChoice(t *testing.T) {
	built, given := manifest.Artifact{Artifact: plan.Artifact{Name: "lantern"}, Provenance: "compile.json"}, manifest.Artifact{Artifact: plan.Artifact{Name: "README"}}
	for what, row := range map[string]struct {
		artifacts []manifest.Artifact
		names     []string
		code      verdict.Code
	}{
		"all that was built": {[]manifest.Artifact{built, given}, nil, ""},
		"nothing was built":  {[]manifest.Artifact{given}, nil, "REBUILD_FAILED"},
		"one by its name":    {[]manifest.Artifact{built, given}, []string{"lantern"}, ""},
		"one that was not":   {[]manifest.Artifact{built, given}, []string{"README"}, verdict.Usage},
	} {
		t.Run(what, func(t *testing.T) {
			r := &rebuild{m: manifest.Manifest{Artifacts: row.artifacts}}
			err := r.choose(row.names)
			if accepted := err == nil; accepted != (row.code == "") || !accepted && verdict.FindingOf("", err).Code != row.code {
				t.Errorf("got %v, want %q", err, row.code)
			}
			if row.code == "" && len(r.wanted) != 1 {
				t.Errorf("%d are wanted, want 1", len(r.wanted))
			}
		})
	}
}

// TestRebuildFailed: a step that fails is REBUILD_FAILED and unavailable: it says
// nothing about the release.
func TestRebuildFailed(t *testing.T) {
	err := unbuilt(verdict.Refuse(verdict.StepFailed, "compile", "exit status 1"))
	if f := verdict.FindingOf("", err); f.Code != "REBUILD_FAILED" || verdict.OutcomeOf(err) != verdict.Unavailable {
		t.Errorf("%+v, %s", f, verdict.OutcomeOf(err))
	}
	if f := verdict.FindingOf("", unbuilt(verdict.Refuse(run.InputGone, "inputs", "no step was run"))); f.Code != "INPUT_GONE" {
		t.Errorf("an input that is gone: %+v", f)
	}
}
