package gate

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/waybill-release/waybill/pkg/backend/store"
	"github.com/waybill-release/waybill/pkg/document/openvex"
	"github.com/waybill-release/waybill/pkg/document/rebuildrecord"
	"github.com/waybill-release/waybill/pkg/judge/policy"
	"github.com/waybill-release/waybill/pkg/judge/verify"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// maxLate is how many unlisted objects are read at most to find late evidence.
// Any beyond that are extra.
const maxLate = 1000

// maxLateSize bounds each of them: a statement about a few artifacts is small.
const maxLateSize = 4 << 20

// withoutLate takes late evidence out of the listing: statements made after the
// release was sealed, of a type and by a role that the policy allows, about
// listed artifacts. All other unlisted objects remain and are extra.
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
			errs[i] = err // it remains extra
			return
		}
		if e, err := s.Verifier.Attestation(raw); err == nil && (s.Policy.IsLate(e, policy.Question{Subject: "late evidence", Stage: s.Stage}) || s.Policy.IsSignoff(e)) {
			verified[i] = e
		}
	})
	late := map[string]bool{}
	for i, e := range verified {
		// An unreadable object may be a verifier's refusal.
		if late[candidates[i]] = (openvex.Number(candidates[i]) > 0 || rebuildrecord.IsName(candidates[i])) && errors.Is(errs[i], store.ErrNotFound); !late[candidates[i]] && verdict.OutcomeOf(errs[i]) == verdict.Unavailable {
			f.fail(candidates[i], errs[i])
		}
		if of := s.manifest.subjectsOf(e); len(of) > 0 {
			late[candidates[i]] = true
			if e.Kind() == openvex.PredicateType {
				if d, err := vexOf(candidates[i], e.Statement(), e, s.Now); err == nil {
					f.vexFiles = append(f.vexFiles, d)
				} else {
					f.fail(candidates[i], err)
				}
			}
			f.note("%s: added after sealing by %s, as the policy allows", candidates[i], policy.Who(e))
			for _, sha := range of {
				found[sha] = append(found[sha], e)
			}
		} else if isSource(s, candidates[i], e) {
			late[candidates[i]] = true
			f.note("%s: the summary of the source revision, added after sealing by %s, as the policy allows", candidates[i], policy.Who(e))
		}
	}
	return slices.DeleteFunc(objects, func(o store.Object) bool { return late[o.Name] }), found
}

// subjectsOf returns the digests of the listed artifacts that a statement is
// about. A statement with any other subject is not about this release.
func (m signedManifest) subjectsOf(e verify.Evidence) (of []digest.Digest) {
	for _, subject := range e.Statement().Subjects() {
		a, listed := m.Find(subject.Name)
		if !listed || !subject.Binds(a.Digests) {
			return nil
		}
		of = append(of, a.Digests.SHA256)
	}
	return of
}
