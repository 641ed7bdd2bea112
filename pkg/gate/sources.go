package gate

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/waybill-release/waybill/pkg/backend/git"
	"github.com/waybill-release/waybill/pkg/backend/store"
	"github.com/waybill-release/waybill/pkg/document/intoto"
	"github.com/waybill-release/waybill/pkg/judge/declaration"
	"github.com/waybill-release/waybill/pkg/judge/policy"
	"github.com/waybill-release/waybill/pkg/judge/verify"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// sourceName is the file of a release with the summary of its source revision.
const sourceName = "source.vsa.sigstore.json"

// auto, in place of the name of a summary, means to look for summaries in git
// notes.
const auto = "auto"

// AddSources reads files with summaries of source revisions, and with signed
// declarations, and adds them to the request.
func (r *PolicyRequest) AddSources(summaries, declarations []string) error {
	list, find, err := readSources(summaries, declarations, r.Verifier, r.Policy, r.Now)
	if err == nil && find {
		err = noAuto()
	}
	r.Sources = append(r.Sources, list...)
	return err
}

// noAuto refuses to look for summaries where no manifest names the commit.
func noAuto() error {
	return verdict.Refuse(verdict.Usage, "--source-vsa", "auto is for a release, whose manifest names the commit to look for").Advise("name the file of the summary; one called auto is ./auto")
}

// readSources reads and verifies files with summaries of source revisions and
// with declarations, which the user named. A file that can never count is an
// error, such as one by an identity that the policy does not list under sources.
// find reports whether summaries are also to be looked for.
func readSources(summaries, declarations []string, v *verify.Verifier, p policy.Policy, now time.Time) (list []verify.Evidence, find bool, err error) {
	session := p.NewSession()
	if len(summaries) > 0 && !session.ReadsSources() {
		return nil, false, verdict.Refuse(verdict.Usage, "--source-vsa", "the policy %q lists no verifier under sources, so no summary of the source would count", p.Name()).
			Advise("leave the flag out, or add sources to the policy")
	}
	if len(declarations) > 0 && !session.ReadsDeclarations() {
		return nil, false, verdict.Refuse(verdict.Usage, "--declaration", "the policy %q lets no role declare anything, so no declaration would count", p.Name()).
			Advise("leave the flag out, or add a row with a role to the policy's declares")
	}
	read := func(path string, check func(raw []byte) (verify.Evidence, error)) error {
		raw, err := store.ReadNamed(path, maxLateSize)
		if err != nil {
			return err
		}
		e, err := check(raw)
		if bad := (*verdict.Error)(nil); errors.As(err, &bad) && bad.Finding.Code == verdict.BundleParse {
			bad.Finding.Fix = "name the Sigstore bundle that contains the signed statement, such as FILE.sigstore.json beside the file that was signed"
		}
		list = append(list, e)
		return verdict.InFile(path, err)
	}
	for _, path := range summaries {
		if path == auto {
			find = true
			continue
		}
		if err := read(path, func(raw []byte) (verify.Evidence, error) { return verifySource(raw, v, session, now) }); err != nil {
			return nil, false, err
		}
	}
	for _, path := range declarations {
		err := read(path, func(raw []byte) (verify.Evidence, error) {
			e, err := v.Attestation(raw)
			if err == nil {
				_, err = session.Declaration(e)
			}
			return e, err
		})
		if err != nil {
			return nil, false, err
		}
	}
	return list, find, nil
}

// verifySource verifies a summary of a source revision, by an identity that the
// policy lists under sources.
func verifySource(raw []byte, v *verify.Verifier, session *policy.Session, now time.Time) (verify.Evidence, error) {
	e, err := v.Attestation(raw)
	if err == nil {
		err = session.SourceSummary(e, now)
	}
	return e, err
}

// allSources are the summaries of source revisions and the declarations that may
// count for the release: those that the user named, the summary in its place of
// files and, where asked for, those in git notes.
func allSources(ctx context.Context, s *sealed, f *facts) []verify.Evidence {
	session := s.Policy.NewSession()
	if s.Options.Scope.Depth != allEvidence || !session.ReadsSources() && len(s.Sources) == 0 {
		return nil
	}
	list := slices.Clone(s.Sources)
	for _, e := range s.Sources {
		name := "summary of the source"
		if e.Kind() == declaration.PredicateType {
			name = "declaration"
		}
		f.addInputs(verdict.Input{Name: name, Digest: e.Bundle()})
	}
	if !session.ReadsSources() {
		return list
	}
	raw, err := store.Read(ctx, s.Files, sourceName, maxLateSize)
	switch {
	case errors.Is(err, store.ErrNotFound):
	case err != nil: // it may take back what a named one states
		f.fail(sourceName, err)
	default:
		list = append(list, foundSource(s, session, raw, verdict.Input{Name: sourceName, Place: s.Files.URI()}, f)...)
	}
	if !s.FindSources {
		return list
	}
	list = append(list, notedSources(ctx, s, session, f)...)
	if !slices.ContainsFunc(list, func(e verify.Evidence) bool { return e.Kind() != declaration.PredicateType }) {
		f.note("no summary of the source of commit %s was found: neither %s in the release, nor a note under %s in the repository", s.manifest.Source.Commit, sourceName, git.NotesRef)
	}
	return list
}

// foundSource verifies a summary that was found as a named one would be. One
// that does not count is noted and ignored.
func foundSource(s *sealed, session *policy.Session, raw []byte, from verdict.Input, f *facts) []verify.Evidence {
	e, err := verifySource(raw, s.Verifier, session, s.Now)
	if err != nil {
		f.note("ignored %s: %s", from.Name, whyNot(err))
		return nil
	}
	from.Digest = e.Bundle()
	f.addInputs(from)
	return []verify.Evidence{e}
}

// maxNoteLines is how many lines of a note are verified at most, and maxNote how
// many bytes the note may have.
const (
	maxNoteLines = 64
	maxNote      = 8 << 20
)

// notedSources reads the summaries in the git note of the commit: one bundle on
// each line, as source-tool keeps them. They are read from the checkout that the
// user named, or from the repository of the current directory.
func notedSources(ctx context.Context, s *sealed, session *policy.Session, f *facts) (list []verify.Evidence) {
	repository := cmp.Or(s.Options.Checkout.Repository, git.Above("."))
	if repository == "" {
		f.note("no git notes were read: the current directory is in no repository (use --source REPOSITORY)")
		return nil
	}
	repo, err := git.Open(ctx, repository)
	if err != nil {
		f.fail("source", err)
		return nil
	}
	defer repo.Close()
	note, err := repo.Note(ctx, s.manifest.Source.Commit, maxNote)
	if err != nil {
		if !errors.Is(err, git.ErrNotFound) { // it may take back what another one states
			f.fail("source", err)
		}
		return nil
	}
	n := 0
	for line := range bytes.Lines(note) {
		if line = bytes.TrimSpace(line); len(line) == 0 {
			continue
		}
		if n++; n > maxNoteLines {
			f.fail("source", verdict.Refuse(verdict.Limit, git.NotesRef, "the note of commit %s has more than %d lines", s.manifest.Source.Commit, maxNoteLines))
			break
		}
		list = append(list, foundSource(s, session, line, verdict.Input{Name: fmt.Sprintf("line %d of %s", n, git.NotesRef), Place: repo.Name()}, f)...)
	}
	return list
}

// isSource reports whether an unlisted object is the summary of the release's
// revision, and of no other.
func isSource(s *sealed, name string, e verify.Evidence) bool {
	if name != sourceName || e.IsZero() || s.session.SourceSummary(e, s.Now) != nil {
		return false
	}
	of := e.Statement().Resources()
	return len(of) > 0 && !slices.ContainsFunc(of, func(r intoto.Resource) bool { return r.Digest["gitCommit"] != s.manifest.Source.Commit })
}
