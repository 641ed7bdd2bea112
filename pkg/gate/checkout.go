package gate

import (
	"bytes"
	"cmp"
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

// Checkout is a repository of the source that the user has independently of the
// release. The policy says which repository a build must be from; the checkout
// says which commit of it, and what that commit contains.
type Checkout struct {
	// Repository is a path or an address of package git. Only commits count: a
	// work tree may have changes.
	Repository string
	// Ref is what the release was made from; empty means the tag of its
	// version.
	Ref string
	// Previous is a reference that the history of a commit must include, and
	// Signers an allowed signers file of ssh-keygen: both only for [Gate.Source].
	Previous string
	Signers  []byte
}

// fixSource is the next act where the release is from another commit than the
// checkout names.
const fixSource = "find out whether the tag was moved or the release was built from another commit; do not use the release until you know"

// checkSource binds the release to the commit that a checkout names: the
// provenance of every built artifact must name it, and the release.yaml and
// lock that the release publishes must be the files of that commit.
func checkSource(ctx context.Context, g gathered) (f facts) {
	if g.release.Options.Checkout.Repository == "" {
		f.note("the commit was not compared with a checkout of the source (use --source REPOSITORY)")
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
	f.addInputs(verdict.Input{Name: "source", Place: s.commit.Repository + "@" + s.commit.AskedFor()})
	f.note("the checkout %s names commit %s at %s", s.commit.Repository, s.commit.Commit, s.commit.AskedFor())
	s.compare(&f)
	for _, name := range []string{plan.ConfigName, plan.LockName} {
		s.compareFile(ctx, name, &f)
	}
	return f
}

// checkPlaceTag refuses a place that belongs to a tag, such as a release on
// GitHub, if the tag names another commit than the manifest.
func checkPlaceTag(ctx context.Context, g gathered) (f facts) {
	place, is := g.release.Files.(interface {
		CheckTag(ctx context.Context, commit string) error
	})
	if is && g.release.manifest.Source.Commit != "" {
		f.fail(g.release.Files.URI(), place.CheckTag(ctx, g.release.manifest.Source.Commit))
	}
	return f
}

// sourceCheck is a release and the commit to compare it with.
type sourceCheck struct {
	*sealed
	repo   *git.Repository
	commit git.Commit
}

// resolve finds the commit that should have been built. The rule comes from the
// commit's own release.yaml, never from the release.
func (s *sourceCheck) resolve(ctx context.Context) (git.Commit, error) {
	ref := s.Options.Checkout.Ref
	ref = cmp.Or(ref, "refs/tags/"+s.manifest.Version.String()) // a branch can have the name of a tag
	named, err := s.repo.Resolve(ctx, ref)
	if errors.Is(err, git.ErrNotFound) {
		return git.Commit{}, &verdict.Error{Finding: verdict.Find(verdict.SourceRef, "source", "the checkout has no %s", ref).
			Advise("fetch the tags into the checkout, or name the ref with --source REPOSITORY@REF"), Cause: err}
	}
	if err != nil {
		return git.Commit{}, err
	}
	raw, err := s.repo.ReadFile(ctx, named, plan.ConfigName)
	if errors.Is(err, git.ErrNotFound) {
		return named, nil // so there is no rule
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

// compare compares the commit with the manifest and with every provenance in
// use. Unreadable provenance proves no commit and is refused, even if the
// policy would tolerate it.
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
		f.refuse(verdict.Find(verdict.NoProvenance, releasemanifest.Name, "no artifact has provenance, so nothing binds the release to a commit"))
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

// unbound reports an artifact that no provenance binds to the commit. This
// finding can only follow from another one about the artifact if the policy
// requires provenance. Otherwise the other finding has another cause, and an
// exception for it must not cover this one.
func (s *sourceCheck) unbound(a manifest.Artifact) difference {
	d := difference{Finding: verdict.Find(verdict.NoProvenance, a.Name, "no provenance binds the artifact to a commit"), mode: policy.Require}
	if !s.Options.AcceptSummaries && s.Policy.Asks(s.Stage, a.Class, policy.Provenance) == policy.Require {
		d.follows = a.Name
	}
	return d
}

func (s *sourceCheck) differ(subject, message, got string) verdict.Finding {
	got = cmp.Or(got, "no commit")
	return verdict.Find(verdict.SourceCommit, subject, "%s", message).Differ(s.commit.Commit, got).Advise(fixSource)
}

// compareFile compares a published file with the same file of the commit, byte
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
		f.refuse(verdict.Find(verdict.SourceConfig, name, "neither the release nor the commit has this file, so the planned artifacts are unknown"))
		return
	case absent && !listed:
		return
	case absent:
		f.refuse(verdict.Find(verdict.SourceConfig, name, "the release has this file, and its commit has not"))
		return
	}
	got, err := s.readListed(ctx, name)
	switch {
	case err != nil && listed:
		f.follow(name, policy.Require, verdict.FindingOf(name, err))
	case err != nil:
		f.refuse(verdict.Find(verdict.SourceConfig, name, "the commit has this file, and the release does not publish it"))
	case !bytes.Equal(got, want):
		f.refuse(verdict.Find(verdict.SourceConfig, name, "the published file differs from the one in its commit").
			Differ(digest.Of(digest.SHA256, want).String(), digest.Of(digest.SHA256, got).String()))
	}
}

// checkLock compares the published lock with the published release.yaml: the
// lock must pin every input by digest, and no others.
func (s *sealed) checkLock(ctx context.Context, config plan.Config) error {
	if !config.Locked() {
		return nil
	}
	raw, err := s.readListed(ctx, plan.LockName)
	if err != nil {
		return err
	}
	lock, err := plan.ParseLock(raw)
	if err != nil {
		return verdict.Refuse(verdict.ManifestParse, plan.LockName, "the published file does not parse: %v", err)
	}
	return lock.Covers(config)
}
