package gate

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/waybill-release/waybill/pkg/digest"
	"github.com/waybill-release/waybill/pkg/plan"
	"github.com/waybill-release/waybill/pkg/policy"
	"github.com/waybill-release/waybill/pkg/release"
	"github.com/waybill-release/waybill/pkg/store"
	"github.com/waybill-release/waybill/pkg/verdict"
	"github.com/waybill-release/waybill/pkg/verify"
	"github.com/waybill-release/waybill/pkg/vsa"
)

// vouched is why an artifact's provenance is not evaluated: a verifier's
// summary of it counts. Hashing and listing are done all the same.
type vouched struct {
	policy.Vouched
	more []verify.Evidence // that refers to the artifact, where it is an image
}

// vouching has the policy take summaries in place of provenance, if that is
// asked.
func (d *decision) vouching() (err error) {
	if !d.Options.AcceptSummaries {
		return nil
	}
	if d.Options.Scope.Depth != AllEvidence {
		return verdict.Refuse(verdict.Usage, "--accept-vsa", "provenance is not looked at, so that nothing stands in its place")
	}
	d.Policy, err = d.Policy.Vouching()
	return err
}

// vouch finds the artifacts of which a summary counts, and says on whose word
// they were taken. A summary that does not count changes nothing: provenance
// is evaluated.
func (d *decision) vouch(ctx context.Context) {
	if !d.Options.AcceptSummaries {
		return
	}
	d.fetchSummaries(ctx)
	d.vouched = map[string]vouched{}
	by, against := map[digest.Digest]int{}, map[string]bool{}
	for _, a := range d.manifest.Artifacts {
		if !d.covers(a) || d.Policy.Asks(d.Stage, a.Class, policy.Provenance) == policy.Off {
			continue
		}
		evidence, more := d.late[a.Digests.SHA256], []verify.Evidence(nil)
		if a.IsImage() && d.Images != nil {
			var err error
			if more, err = d.summariesOf(ctx, a); err != nil { // a later summary may refuse it
				against[whyNot(err)] = true
				continue
			}
		}
		evidence = slices.DeleteFunc(append(slices.Clone(evidence), more...), func(e verify.Evidence) bool { return e.Kind() != vsa.PredicateType })
		if len(evidence) == 0 {
			continue
		}
		got, err := d.hearing.Vouched(evidence, d.question(a))
		if err != nil {
			against[whyNot(err)] = true
			continue
		}
		d.vouched[a.Name] = vouched{got, more}
		if by[got.Bundle]++; by[got.Bundle] == 1 {
			s := got.Summary
			d.v.Note("relied on the summary %s, signed by %s for %s at %s by the policy %s: %s", got.Bundle, got.Identity, s.Verifier.ID, s.Verified.Format("2006-01-02T15:04:05Z"), s.Policy.URI, levelsOf(s))
		}
	}
	for _, why := range slices.Sorted(maps.Keys(against)) {
		d.v.Note("a summary does not count: %s", why)
	}
	if len(d.vouched) > 0 {
		d.leave(fmt.Sprintf("provenance of %d artifacts, for which a verifier's summary was taken", len(d.vouched)))
	}
}

// namedSummaries bounds how many summaries are asked for by name.
const namedSummaries = 8

// fetchSummaries asks for the summaries of the release by their names, where
// no listing told of any: of a place that cannot be listed, or that was not.
func (d *decision) fetchSummaries(ctx context.Context) {
	if len(d.late) > 0 {
		return
	}
	d.late = map[digest.Digest][]verify.Evidence{}
	for n := 1; n <= namedSummaries; n++ {
		raw, err := store.Read(ctx, d.Files, vsa.Name(n), maxLateSize)
		if errors.Is(err, store.ErrNotFound) {
			return // without one, provenance is evaluated
		}
		if err != nil { // it may refuse what an earlier one accepted
			d.v.AddError(vsa.Name(n), err)
			return
		}
		e, err := d.Verifier.Attestation(raw)
		if err != nil || !d.Policy.IsLate(e, d.Stage) {
			continue
		}
		for _, sha := range d.subjectsOf(e) {
			d.late[sha] = append(d.late[sha], e)
		}
	}
}

// whyNot is the reason why a summary does not count, without the artifact: it
// is the same for many.
func whyNot(err error) string {
	f := verdict.FindingOf("", err)
	text := string(f.Code) + ": " + f.Message
	if f.Want != "" {
		text += " (want " + f.Want + ", got " + f.Got + ")"
	}
	return text
}

func levelsOf(s vsa.Summary) string {
	words := make([]string, len(s.Levels))
	for i, l := range s.Levels {
		words[i] = string(l)
	}
	return strings.Join(words, ", ")
}

// vouchedAll reports whether a summary stands for everything that rests on a
// provenance.
func (d *decision) vouchedAll(of string) bool {
	rests := func(a release.Artifact) bool { return a.Provenance == of && a.Class != plan.Provenance }
	if !slices.ContainsFunc(d.manifest.Artifacts, rests) {
		return false
	}
	return !slices.ContainsFunc(d.manifest.Artifacts, func(a release.Artifact) bool {
		_, is := d.vouched[a.Name]
		return rests(a) && d.covers(a) && !is
	})
}

// vouchedFor reports whether a summary says that an artifact has a level.
func (d *decision) vouchedFor(name string, level int) bool {
	by, is := d.vouched[name]
	n, known := by.Summary.Level(vsa.TrackBuild)
	return is && known && n >= level
}

// relied says which summary stands in the place of an artifact's provenance,
// where the policy takes one and no provenance was counted.
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
