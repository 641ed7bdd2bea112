package pipeline

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/waybill-release/waybill/pkg/backend/git"
	"github.com/waybill-release/waybill/pkg/backend/tracing/span"
	"github.com/waybill-release/waybill/pkg/produce/run"
	"github.com/waybill-release/waybill/pkg/release/plan"
	"github.com/waybill-release/waybill/pkg/value/verdict"
	"github.com/waybill-release/waybill/pkg/value/version"
)

// ReadPlan resolves a source and expands the release.yaml of that commit. It
// refuses a lock that does not cover release.yaml or does not match the
// commit's modules. It reads nothing but the source.
func ReadPlan(ctx context.Context, from Source, v version.Version, parameters map[string]string) (_ plan.Plan, _ run.Source, err error) {
	ctx, end := span.Start(ctx, span.Plan, span.RepositoryURL.String(from.Repository), span.ArtifactVersion.String(v.String()))
	defer func() { end(err) }()
	if from.Repository == "" {
		return plan.Plan{}, run.Source{}, verdict.Refuse(verdict.Usage, "source", "no repository was given").Advise("name the repository of the project with --source")
	}
	if from.Ref == "" {
		from.Ref = v.String()
	}
	repo, err := git.Open(ctx, from.Repository)
	if errors.Is(err, fs.ErrNotExist) {
		return plan.Plan{}, run.Source{}, verdict.Refuse(verdict.Usage, from.Repository, "no such directory").Advise("name the repository of the project with --source")
	}
	if err != nil {
		return plan.Plan{}, run.Source{}, err
	}
	defer repo.Close()
	commit, err := repo.Resolve(ctx, from.Ref)
	if errors.Is(err, git.ErrNotFound) {
		return plan.Plan{}, run.Source{}, verdict.Refuse(verdict.Usage, from.Repository, "the repository has no %q; create the tag, or name another revision with --source REPOSITORY@REF", from.Ref)
	}
	if err != nil {
		return plan.Plan{}, run.Source{}, fmt.Errorf("resolving %s of %s: %w", from.Ref, from.Repository, err)
	}
	s := run.Source{Commit: commit}
	read := func(name string) ([]byte, error) { return repo.ReadFile(ctx, commit, name) }
	planned, err := readPlan(&s, read, v, parameters)
	if err != nil {
		return plan.Plan{}, run.Source{}, err
	}
	// The rule is in the tree, which both commits share.
	s.Commit, err = repo.Built(ctx, commit, git.Rule(planned.ReleaseCommit))
	return planned, s, err
}

// ReadPlanIn expands the release.yaml in a directory: the plan that a commit
// of it would give. Nothing can be built from this plan.
func ReadPlanIn(dir string, v version.Version, parameters map[string]string) (plan.Plan, error) {
	read := func(name string) ([]byte, error) {
		path := filepath.Join(dir, filepath.FromSlash(name))
		info, err := os.Stat(path)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("reading %q: %w", name, git.ErrNotFound)
		}
		if err == nil && !info.Mode().IsRegular() {
			return nil, verdict.Refuse(verdict.FileType, name, "not a regular file")
		}
		return os.ReadFile(path)
	}
	return readPlan(&run.Source{}, read, v, parameters)
}

// tag verifies who signed the tag by which a commit was found.
func (s Source) tag(ctx context.Context, c git.Commit) (git.Tag, error) {
	var signers []byte
	if s.Signers != "" {
		var err error
		if signers, err = os.ReadFile(s.Signers); err != nil {
			return git.Tag{}, verdict.Wrap(verdict.Usage, "allowed signers of tags", err)
		}
		if len(signers) == 0 {
			return git.Tag{}, verdict.Refuse(verdict.Usage, s.Signers, "the file lists no allowed signer of tags")
		}
	}
	return git.VerifyTag(ctx, c, signers)
}

// ParseSource splits REPOSITORY@REF, see [git.Split].
func ParseSource(text string) Source {
	repository, ref := git.Split(text)
	return Source{Repository: repository, Ref: ref}
}

// FindPlan finds the plan that an argument names: a plan saved as JSON, a
// directory with a release.yaml, or REPOSITORY@REF. The version is taken from
// the ref only in the last case.
func FindPlan(ctx context.Context, word string, v version.Version, parameters map[string]string) (plan.Plan, error) {
	info, err := os.Stat(word)
	switch {
	case err == nil && info.Mode().IsRegular():
		raw, err := os.ReadFile(word)
		if err != nil {
			return plan.Plan{}, err
		}
		return plan.Parse(raw)
	case err == nil && info.IsDir():
		if v.IsZero() {
			return plan.Plan{}, verdict.Refuse(verdict.Usage, word, "a directory has no version; give the one to plan for with --version")
		}
		return ReadPlanIn(word, v, parameters)
	}
	from := ParseSource(word)
	if from.Ref == "" {
		return plan.Plan{}, verdict.Refuse(verdict.Usage, word, "no such file or directory; name a revision as REPOSITORY@REF")
	}
	if v.IsZero() {
		if v, err = version.Parse(strings.TrimPrefix(from.Ref, "refs/tags/")); err != nil {
			return plan.Plan{}, verdict.Refuse(verdict.Usage, word, "%q is not a version; give the one to plan for with --version", from.Ref)
		}
	}
	p, _, err := ReadPlan(ctx, from, v, parameters)
	return p, err
}

// readPlan reads release.yaml and the lock into s, and expands the plan.
func readPlan(s *run.Source, read func(name string) ([]byte, error), v version.Version, parameters map[string]string) (p plan.Plan, err error) {
	if s.Config, err = read(plan.ConfigName); errors.Is(err, git.ErrNotFound) {
		return plan.Plan{}, verdict.Refuse(verdict.Usage, plan.ConfigName, "no such file in the source; write one with waybill init and commit it")
	}
	if err != nil {
		return plan.Plan{}, err
	}
	config, err := plan.ParseConfig(s.Config)
	if err != nil {
		return plan.Plan{}, err
	}
	if config.Locked() {
		if err := readLock(s, read, config); err != nil {
			return plan.Plan{}, err
		}
	}
	return config.ExpandWith(v, parameters)
}

// readLock requires a lock that pins everything before anything is built.
func readLock(s *run.Source, read func(name string) ([]byte, error), config plan.Config) (err error) {
	if s.Lock, err = read(plan.LockName); errors.Is(err, git.ErrNotFound) {
		return verdict.Refuse(verdict.LockStale, plan.LockName, "release.yaml requires this file, but the source does not have it")
	}
	if err != nil {
		return err
	}
	if s.Pins, err = plan.ParseLock(s.Lock); err != nil {
		return err
	}
	if err := s.Pins.Covers(config); err != nil {
		return err
	}
	return s.Pins.CheckModules(func(dir string) (files plan.ModuleFiles, err error) {
		if files.GoMod, err = read(path.Join(dir, "go.mod")); errors.Is(err, git.ErrNotFound) {
			return files, verdict.Refuse(verdict.LockStale, plan.LockName, "module %q: the source has no go.mod in that directory", dir)
		}
		if err != nil {
			return files, err
		}
		if files.GoSum, err = read(path.Join(dir, "go.sum")); errors.Is(err, git.ErrNotFound) {
			return files, nil
		}
		return files, err
	})
}
