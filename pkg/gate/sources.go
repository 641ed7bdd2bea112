package gate

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/waybill-release/waybill/pkg/backend/store"
	"github.com/waybill-release/waybill/pkg/document/intoto"
	"github.com/waybill-release/waybill/pkg/judge/policy"
	"github.com/waybill-release/waybill/pkg/judge/verify"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// sourceName is the file of a release with the summary of its source revision.
const sourceName = "source.vsa.sigstore.json"

// AddSources reads files with summaries of source revisions, and adds them to
// the request.
func (r *PolicyRequest) AddSources(paths []string) error {
	list, err := readSources(paths, r.Verifier, r.Policy, r.Now)
	r.Sources = append(r.Sources, list...)
	return err
}

// readSources reads and verifies files with summaries of source revisions, which
// the user named. A file that can never count is an error, such as one by an
// identity that the policy does not list under sources.
func readSources(paths []string, v *verify.Verifier, p policy.Policy, now time.Time) (list []verify.Evidence, err error) {
	session := p.NewSession()
	if len(paths) > 0 && !session.ReadsSources() {
		return nil, verdict.Refuse(verdict.Usage, "--source-vsa", "the policy %q lists no verifier under sources, so no summary of the source would count", p.Name()).
			Advise("leave the flag out, or add sources to the policy")
	}
	for _, path := range paths {
		raw, err := store.ReadNamed(path, maxLateSize)
		if err != nil {
			return nil, err
		}
		e, err := verifySource(raw, v, session, now)
		if err != nil {
			return nil, verdict.InFile(path, err)
		}
		list = append(list, e)
	}
	return list, nil
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

// allSources are the summaries of source revisions that count for the release:
// those that the user named, and the one in its place of files.
func allSources(ctx context.Context, s *sealed, f *facts) []verify.Evidence {
	session := s.Policy.NewSession()
	if s.Options.Scope.Depth != allEvidence || !session.ReadsSources() {
		return nil
	}
	list := slices.Clone(s.Sources)
	for _, e := range s.Sources {
		f.addInputs(verdict.Input{Name: "summary of the source", Digest: e.Bundle()})
	}
	raw, err := store.Read(ctx, s.Files, sourceName, maxLateSize)
	if errors.Is(err, store.ErrNotFound) {
		return list
	}
	if err != nil { // it may take back what a named one states
		f.fail(sourceName, err)
		return list
	}
	e, err := verifySource(raw, s.Verifier, session, s.Now)
	if err != nil {
		f.note("ignored %s: %s", sourceName, whyNot(err))
		return list
	}
	f.addInputs(verdict.Input{Name: sourceName, Place: s.Files.URI(), Digest: e.Bundle()})
	return append(list, e)
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
