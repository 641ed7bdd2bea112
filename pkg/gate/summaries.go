package gate

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/waybill-release/waybill/pkg/backend/store"
	"github.com/waybill-release/waybill/pkg/document/vsa"
	"github.com/waybill-release/waybill/pkg/judge/policy"
	"github.com/waybill-release/waybill/pkg/judge/verify"
	"github.com/waybill-release/waybill/pkg/release/manifest"
	"github.com/waybill-release/waybill/pkg/release/plan"
	"github.com/waybill-release/waybill/pkg/tool/plural"
	"github.com/waybill-release/waybill/pkg/tool/slice"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// vouched is a verifier's summary that replaces the evaluation of an artifact's
// provenance. Hashing and listing are done all the same.
type vouched struct {
	policy.Vouched
	more []verify.Evidence // all summaries that refer to the artifact, if it is an image
}

// vouching are the artifacts with a summary that counts, by name.
type vouching map[string]vouched

// takesSummaries returns the policy that accepts summaries in place of
// provenance.
func takesSummaries(req Request) (policy.Policy, error) {
	if req.Options.Scope.Depth != allEvidence {
		return policy.Policy{}, verdict.Refuse(verdict.Usage, "--accept-vsa", "--depth leaves provenance out, so no summary can replace it")
	}
	return req.Policy.Vouching()
}

// vouch finds the artifacts with a summary that counts, and notes who signed
// it. A summary that does not count changes nothing: provenance is evaluated.
func (s *sealed) vouch(ctx context.Context, late lateEvidence) (vouching, facts) {
	var f facts
	if !s.Options.AcceptSummaries {
		return nil, f
	}
	all := vouching{}
	by, against := map[digest.Digest]int{}, map[string]bool{}
	for _, a := range s.manifest.Artifacts {
		if !s.covers(a) || s.Policy.Asks(s.Stage, a.Class, policy.Provenance) == policy.Off {
			continue
		}
		got, there, err := s.vouchedFor(ctx, a, late)
		if err != nil {
			against[whyNot(err)] = true
		}
		if err != nil || !there {
			continue
		}
		all[a.Name] = got
		if by[got.Bundle]++; by[got.Bundle] == 1 {
			sum := got.Summary
			f.note("relied on the summary %s, signed by %s for %s at %s by the policy %s: %s", got.Bundle, got.Identity, sum.Verifier.ID, sum.Verified.Format("2006-01-02T15:04:05Z"), sum.Policy.URI, levelsOf(sum))
		}
	}
	for _, why := range slices.Sorted(maps.Keys(against)) {
		f.note("ignored a summary: %s", why)
	}
	if len(all) > 0 {
		f.leave(fmt.Sprintf("provenance of %s, replaced by a verifier's summary", plural.Of(len(all), "artifact")))
	}
	return all, f
}

// vouchedFor returns the summary of one artifact, if there is one, or why it
// does not count.
func (s *sealed) vouchedFor(ctx context.Context, a manifest.Artifact, late lateEvidence) (got vouched, there bool, err error) {
	if a.IsImage() && s.Images != nil {
		if got.more, err = s.reader.summariesOf(ctx, a); err != nil { // a later summary may refuse it
			return vouched{}, false, err
		}
	}
	evidence := slices.Concat(late[a.Digests.SHA256], got.more)
	evidence = slices.DeleteFunc(evidence, func(e verify.Evidence) bool { return e.Kind() != vsa.PredicateType })
	if len(evidence) == 0 {
		return vouched{}, false, nil
	}
	got.Vouched, err = s.session.Vouched(evidence, s.question(a))
	return got, err == nil, err
}

// namedSummaries is how many summaries are requested by name.
const namedSummaries = 8

// fetchSummaries requests the summaries of the release by name, if no listing
// showed any: the place cannot be listed, or was not.
func (s *sealed) fetchSummaries(ctx context.Context) (late lateEvidence, f facts) {
	late = lateEvidence{}
	for n := 1; n <= namedSummaries; n++ {
		raw, err := store.Read(ctx, s.Files, vsa.Name(n), maxLateSize)
		if errors.Is(err, store.ErrNotFound) {
			return late, f // without a summary, provenance is evaluated
		}
		if err != nil { // it may refuse what an earlier one accepted
			f.fail(vsa.Name(n), err)
			return late, f
		}
		e, err := s.Verifier.Attestation(raw)
		if err != nil || !s.Policy.IsLate(e, policy.Question{Subject: "late evidence", Stage: s.Stage}) {
			continue
		}
		for _, sha := range s.manifest.subjectsOf(e) {
			late[sha] = append(late[sha], e)
		}
	}
	return late, f
}

// whyNot says why a summary does not count, without naming the artifact: the
// reason is the same for many.
func whyNot(err error) string {
	f := verdict.FindingOf("", err)
	text := string(f.Code) + ": " + f.Message
	if f.Want != "" {
		text += " (want " + f.Want + ", got " + f.Got + ")"
	}
	return text
}

func levelsOf(s vsa.Summary) string {
	return strings.Join(slice.Map(s.Levels, func(l vsa.Level) string { return string(l) }), ", ")
}

// vouchedAll reports whether every artifact that uses a provenance has a
// summary.
func (s *sealed) vouchedAll(by vouching, of string) bool {
	rests := func(a manifest.Artifact) bool { return a.Provenance == of && a.Class != plan.Provenance }
	if !slices.ContainsFunc(s.manifest.Artifacts, rests) {
		return false
	}
	return !slices.ContainsFunc(s.manifest.Artifacts, func(a manifest.Artifact) bool {
		_, is := by[a.Name]
		return rests(a) && s.covers(a) && !is
	})
}

// reaches reports whether an artifact has a summary with the level.
func (v vouching) reaches(name string, level int) bool {
	by, is := v[name]
	n, known := by.Summary.Level(vsa.TrackBuild)
	return is && known && n >= level
}

// relied notes which summary replaced an artifact's provenance, if the policy
// accepts one and counted no provenance.
func (b byPolicyAlone) relied(v *verdict.Verdict, q policy.Question, proofs []verdict.Proof) {
	if !b.policy.Vouches(q.Stage, q.Class) || slices.ContainsFunc(proofs, func(p verdict.Proof) bool { return p.Role == string(policy.Builder) }) {
		return
	}
	for _, p := range proofs {
		if p.Statement == vsa.PredicateType {
			v.Note("%s: relied on the summary %s, signed by %s, in place of provenance", q.Subject, p.Bundle, p.Identity)
			return
		}
	}
}
