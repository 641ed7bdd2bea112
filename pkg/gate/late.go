package gate

import (
	"context"
	"slices"
	"strings"

	"github.com/waybill-release/waybill/pkg/backend/store"
	"github.com/waybill-release/waybill/pkg/judge/policy"
	"github.com/waybill-release/waybill/pkg/judge/verify"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// maxLate bounds how many unlisted objects are read to see whether they are
// late evidence. Whatever lies beyond it is extra, as it would be anyway.
const maxLate = 1000

// maxLateSize bounds each of them: a statement about a few artifacts is small.
const maxLateSize = 4 << 20

// withoutLate takes late evidence out of what was listed: statements that were
// made after the release was sealed, of a kind and by a role that the policy
// lets add them, about what the manifest lists. Everything else that is not
// listed stays where it is, and is extra.
func (s *sealed) withoutLate(ctx context.Context, objects []store.Object, listed map[string]bool, f *facts) ([]store.Object, lateEvidence) {
	found := lateEvidence{}
	var candidates []string
	for _, o := range objects {
		if !listed[o.Name] && o.Size <= maxLateSize && strings.HasSuffix(o.Name, BundleSuffix) && len(candidates) < maxLate {
			candidates = append(candidates, o.Name)
		}
	}
	verified, errs := make([]verify.Evidence, len(candidates)), make([]error, len(candidates))
	inParallel(len(candidates), func(i int) {
		raw, err := store.Read(ctx, s.Files, candidates[i], maxLateSize)
		if err != nil {
			errs[i] = err // and it stays extra
			return
		}
		if e, err := s.Verifier.Attestation(raw); err == nil && (s.Policy.IsLate(e, s.Stage) || s.Policy.IsSignoff(e)) {
			verified[i] = e
		}
	})
	late := map[string]bool{}
	for i, e := range verified {
		// What cannot be read may be the refusal of a verifier.
		if verdict.OutcomeOf(errs[i]) == verdict.Unavailable {
			f.fail(candidates[i], errs[i])
		}
		if of := s.manifest.subjectsOf(e); len(of) > 0 {
			late[candidates[i]] = true
			f.note("%s: added after sealing by %s, as the policy allows", candidates[i], policy.Who(e))
			for _, sha := range of {
				found[sha] = append(found[sha], e)
			}
		}
	}
	return slices.DeleteFunc(objects, func(o store.Object) bool { return late[o.Name] }), found
}

// subjectsOf are the digests of what the manifest lists and a statement speaks
// of. A statement that also speaks of something else is none of the release.
func (m signedManifest) subjectsOf(e verify.Evidence) []digest.Digest {
	var of []digest.Digest
	for _, subject := range e.Statement().Subjects() {
		a, listed := m.Find(subject.Name)
		if !listed || !subject.Binds(a.Digests) {
			return nil
		}
		of = append(of, a.Digests.SHA256)
	}
	return of
}
