package gate

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"

	releasemanifest "github.com/waybill-release/waybill/attestations/release-manifest/v1"
	"github.com/waybill-release/waybill/pkg/backend/git"
	"github.com/waybill-release/waybill/pkg/document/provenance"
	"github.com/waybill-release/waybill/pkg/judge/policy"
	"github.com/waybill-release/waybill/pkg/release/manifest"
	"github.com/waybill-release/waybill/pkg/release/plan"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// Checkout is a repository of the source that whoever asks has from elsewhere
// than the release. Which repository a build must be of is the policy's
// business; this says which commit of it, and what that commit holds.
type Checkout struct {
	// Repository is a path or an address of package git. Only what is committed
	// counts: a work tree may have changes.
	Repository string
	// Ref is what the release was made from; empty is the tag of its version.
	Ref string
}

// fixSource is the next act where the release is of another commit than the
// checkout says.
const fixSource = "find out whether the tag was moved, or the release was built from something else; do not use the release until you know"

// checkSource binds the release to the commit that a checkout names: the
// provenance of everything that was built names it, and what the release
// publishes of its plan and lock is what that commit holds.
func checkSource(ctx context.Context, g gathered) (f facts) {
	if g.release.Options.Checkout.Repository == "" {
		f.note("the commit was not compared with a checkout of the source; --source REPOSITORY does that")
		return f
	}
	f.checks = []string{"source"}
	repo, err := git.Open(ctx, g.release.Options.Checkout.Repository)
	if err != nil {
		f.fail("source", err)
		return f
	}
	defer repo.Close()
	s := &sourceCheck{sealed: g.release, repo: repo}
	if s.commit, err = s.resolve(ctx); err != nil {
		f.fail("source", err)
		return f
	}
	f.read(verdict.Input{Name: "source", Place: s.commit.Repository + "@" + s.commit.AskedFor()})
	f.note("the checkout %s names commit %s at %s", s.commit.Repository, s.commit.Commit, s.commit.AskedFor())
	s.compare(&f)
	for _, name := range []string{plan.ConfigName, plan.LockName} {
		s.compareFile(ctx, name, &f)
	}
	return f
}

// sourceCheck is a release with the commit that it is held against.
type sourceCheck struct {
	*sealed
	repo   *git.Repository
	commit git.Commit
}

// resolve finds the commit that should have been built. Which rule holds is
// read from the commit, never from the release.
func (s *sourceCheck) resolve(ctx context.Context) (git.Commit, error) {
	ref := s.Options.Checkout.Ref
	if ref == "" {
		ref = "refs/tags/" + s.manifest.Version.String() // a branch can have the name of a tag
	}
	named, err := s.repo.Resolve(ctx, ref)
	if errors.Is(err, git.ErrNotFound) {
		f := verdict.Find(verdict.SourceRef, "source", "the checkout has no %s", ref)
		f.Fix = "fetch the tags into the checkout, or name what the release was made from with --source REPOSITORY@REF"
		return git.Commit{}, &verdict.Error{Finding: f, Cause: err}
	}
	if err != nil {
		return git.Commit{}, err
	}
	raw, err := s.repo.ReadFile(ctx, named, plan.ConfigName)
	if errors.Is(err, git.ErrNotFound) {
		return named, nil // and so there is no rule
	}
	if err != nil {
		return git.Commit{}, err
	}
	config, err := plan.ParseConfig(raw)
	if err != nil {
		return git.Commit{}, fmt.Errorf("reading %s of commit %s: %w", plan.ConfigName, named.Commit, err)
	}
	planned, err := config.Expand(s.manifest.Version)
	if err != nil {
		return git.Commit{}, fmt.Errorf("expanding %s of commit %s: %w", plan.ConfigName, named.Commit, err)
	}
	return s.repo.Built(ctx, named, git.Rule(planned.ReleaseCommit))
}

// compare holds the manifest and every provenance that something rests on
// against the commit. What cannot be read says nothing of a commit, so it is
// refused, also where the policy would let it be.
func (s *sourceCheck) compare(f *facts) {
	if got := s.manifest.Source.Commit; got != s.commit.Commit {
		f.refuse(s.differ(releasemanifest.Name, "the manifest names another commit than the checkout", got))
	}
	var rests []string
	for _, a := range s.manifest.Artifacts {
		if isBuilt(a) && !slices.Contains(rests, a.Provenance) {
			rests = append(rests, a.Provenance)
		}
		if !isBuilt(a) && a.IsBuilt() {
			f.differences = append(f.differences, s.unbound(a))
		}
	}
	if len(rests) == 0 {
		f.refuse(verdict.Find(verdict.NoProvenance, releasemanifest.Name, "nothing in the release has provenance, so nothing binds it to a commit"))
	}
	for _, name := range rests {
		got := s.builds[name]()
		err := errors.Join(got.unread, got.refused)
		var said provenance.Provenance
		if err == nil {
			said, err = provenance.Parse(got.evidence.Statement())
		}
		switch {
		case err == nil && said.SourceCommit() != s.commit.Commit:
			f.refuse(s.differ(name, "built from another commit than the checkout names", said.SourceCommit()))
		case err == nil && got.run != nil:
			f.follow(name, policy.Require, verdict.FindingOf(name, got.run))
		case err != nil:
			f.follow(name, policy.Require, verdict.FindingOf(name, err))
		}
	}
}

// unbound says that no provenance binds an artifact to the commit. Only where the
// policy requires provenance itself can that follow from another finding about the
// artifact: elsewhere the other finding is of something else, and an exception of it
// is none of this.
func (s *sourceCheck) unbound(a manifest.Artifact) difference {
	d := difference{Finding: verdict.Find(verdict.NoProvenance, a.Name, "no provenance binds it to a commit"), mode: policy.Require}
	if !s.Options.AcceptSummaries && s.Policy.Asks(s.Stage, a.Class, policy.Provenance) == policy.Require {
		d.follows = a.Name
	}
	return d
}

func (s *sourceCheck) differ(subject, message, got string) verdict.Finding {
	if got == "" {
		got = "no commit"
	}
	f := verdict.Find(verdict.SourceCommit, subject, "%s", message).Differ(s.commit.Commit, got)
	f.Fix = fixSource
	return f
}

// compareFile holds a published file against the same file of the commit, byte
// for byte.
func (s *sourceCheck) compareFile(ctx context.Context, name string, f *facts) {
	want, err := s.repo.ReadFile(ctx, s.commit, name)
	absent := errors.Is(err, git.ErrNotFound)
	if err != nil && !absent {
		f.fail(name, err)
		return
	}
	_, listed := s.manifest.Find(name)
	switch {
	case absent && !listed && name == plan.ConfigName:
		f.refuse(verdict.Find(verdict.SourceConfig, name, "neither the release nor the commit has one, so nothing says what was to be built"))
		return
	case absent && !listed:
		return
	case absent:
		f.refuse(verdict.Find(verdict.SourceConfig, name, "the release has one, and its commit has none"))
		return
	}
	got, err := s.listed(ctx, name)
	switch {
	case err != nil && listed:
		f.follow(name, policy.Require, verdict.FindingOf(name, err))
	case err != nil:
		f.refuse(verdict.Find(verdict.SourceConfig, name, "the commit has one, and the release does not publish it"))
	case !bytes.Equal(got, want):
		f.refuse(verdict.Find(verdict.SourceConfig, name, "the release publishes another file than the one that its commit holds").
			Differ(digest.Of(digest.SHA256, want).String(), digest.Of(digest.SHA256, got).String()))
	}
}
