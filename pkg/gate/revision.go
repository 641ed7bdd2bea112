package gate

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/waybill-release/waybill/pkg/backend/git"
	"github.com/waybill-release/waybill/pkg/gate/profile"
	"github.com/waybill-release/waybill/pkg/judge/slsa"
	"github.com/waybill-release/waybill/pkg/tool/pattern"
	"github.com/waybill-release/waybill/pkg/value/verdict"
	"github.com/waybill-release/waybill/pkg/value/version"
)

// reviewLine is a line of a commit message that names a reviewer.
var reviewLine = pattern.Lazy(`(?m)^(?:Reviewed|Acked|Approved)-by: `)

// fullCommit is the id of a commit: SHA-1, or SHA-256.
var fullCommit = pattern.Lazy(`\A(?:[0-9a-f]{40}|[0-9a-f]{64})\z`)

// Source decides about a commit of the policy's repository, by the checkout of the
// options, and which levels of the Source track it shows. A clone alone shows
// level 1. More is shown by a summary of an identity that the policy lists under
// sources, which is named or in a git note.
func (g Gate) Source(ctx context.Context, commit string, o Options, now time.Time) *verdict.Verdict {
	s := &sealed{Request: g.Release(version.Version{}, profile.Release, Places{}, now)}
	s.Options, s.manifest.Source.Commit = o, commit
	j := s.terms().begin("source revision " + commit)
	j.v.Subject, j.v.Source = "commit "+commit, s.Policy.NewSession().Repository()+" at commit "+commit
	f := facts{counted: []counted{{name: commit}}, checks: []string{"history", "levels of the source"}}
	f.fail(commit, revision(ctx, s, &f))
	if j.addFacts(f); len(f.proofs) == 0 {
		j.v.Basis = verdict.Checked
	}
	return j.endCounted()
}

// revision judges the commit by the clone, and by the summaries.
func revision(ctx context.Context, s *sealed, f *facts) error {
	commit, at := s.manifest.Source.Commit, s.Options.Checkout
	if !fullCommit().MatchString(commit) {
		return verdict.Refuse(verdict.Usage, commit, "want the whole id of a commit, as git rev-parse %.80s prints it", commit)
	}
	repo, err := git.Open(ctx, at.Repository)
	if err != nil {
		return err
	}
	defer repo.Close()
	named, err := repo.CheckHistory(ctx, at.Ref, commit)
	if at.Previous == "" {
		f.leave("that the history includes an earlier release")
	} else if err == nil {
		_, err = repo.CheckHistory(ctx, commit, at.Previous)
	}
	var tag git.Tag
	var message []byte
	if err == nil {
		tag, err = git.VerifyTag(ctx, named, at.Signers)
	}
	if err == nil {
		message, err = repo.Message(ctx, commit)
	}
	if err != nil {
		return err
	}
	f.note("%s", signatureOf(at.Ref, tag))
	f.note("only you know whether the clone is of %s, which the policy names", s.Policy.NewSession().Repository())
	if len(at.Signers) > 0 && (tag.Signer == "" || named.Commit != commit) {
		f.refuse(verdict.Find(verdict.Unsigned, commit, "%s is no tag of this commit that an allowed signer signed", at.Ref))
	}
	unread := len(f.notes)
	noted := notedSources(ctx, s, s.Policy.NewSession(), f)
	report, proofs, err := s.Policy.NewSession(slices.Concat(s.Sources, noted)...).Revision(commit, "the clone has the commit in the history of "+at.Ref, s.Now)
	if err != nil {
		return err
	}
	f.prove(proofs...)
	f.levels = []verdict.Levels{report.On(slsa.Source)}
	switch {
	case report.Level(slsa.Source) == 4:
		f.tell("Review by two parties: shown by a summary.")
	case reviewLine().Match(message) || len(f.notes) > unread:
		f.tell("Review: claimed, by lines of the message or by a note that does not count.")
	default:
		f.tell("Review: neither shown nor claimed.")
	}
	for _, d := range s.Options.Scope.Levels {
		if d.Track != slsa.Source {
			return verdict.Refuse(verdict.Usage, "--require-level", "%s is no level of a source revision; want source=1 to source=4", d)
		}
		if err := report.Meet(d); err != nil {
			missed := verdict.FindingOf(commit, err)
			missed.Fix = "ask a verifier that the policy lists under sources for a summary of the commit, and name it with --source-vsa"
			f.refuse(missed)
		}
	}
	return nil
}

// signatureOf says what is known of the signature of a reference.
func signatureOf(ref string, tag git.Tag) string {
	switch {
	case tag.Signature == "":
		return ref + " is no tag, so it has no signature"
	case tag.Signer != "":
		return fmt.Sprintf("%s is signed by %s (%s)", ref, tag.Signer, tag.Signature)
	}
	return fmt.Sprintf("the signature of %s was not verified: %s", ref, tag.NotVerified)
}
