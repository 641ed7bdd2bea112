package gate

import (
	"context"
	"slices"
	"strings"

	"github.com/waybill-release/waybill/pkg/digest"
	"github.com/waybill-release/waybill/pkg/policy"
	"github.com/waybill-release/waybill/pkg/store"
	"github.com/waybill-release/waybill/pkg/verdict"
	"github.com/waybill-release/waybill/pkg/verify"
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
func (d *decision) withoutLate(ctx context.Context, objects []store.Object, listed map[string]bool) []store.Object {
	d.late = map[digest.Digest][]verify.Evidence{}
	var candidates []string
	for _, o := range objects {
		if !listed[o.Name] && o.Size <= maxLateSize && strings.HasSuffix(o.Name, BundleSuffix) && len(candidates) < maxLate {
			candidates = append(candidates, o.Name)
		}
	}
	found, errs := make([]verify.Evidence, len(candidates)), make([]error, len(candidates))
	inParallel(len(candidates), func(i int) {
		raw, err := store.Read(ctx, d.Files, candidates[i], maxLateSize)
		if err != nil {
			errs[i] = err // and it stays extra
			return
		}
		if e, err := d.Verifier.Attestation(raw); err == nil && (d.Policy.IsLate(e, d.Stage) || d.Policy.IsSignoff(e)) {
			found[i] = e
		}
	})
	late := map[string]bool{}
	for i, e := range found {
		// What cannot be read may be the refusal of a verifier.
		if verdict.OutcomeOf(errs[i]) == verdict.Unavailable {
			d.v.AddError(candidates[i], errs[i])
		}
		if of := d.subjectsOf(e); len(of) > 0 {
			late[candidates[i]] = true
			d.v.Note("%s: added after sealing by %s, as the policy allows", candidates[i], policy.Who(e))
			for _, sha := range of {
				d.late[sha] = append(d.late[sha], e)
			}
		}
	}
	return slices.DeleteFunc(objects, func(o store.Object) bool { return late[o.Name] })
}

// subjectsOf are the digests of what the manifest lists and a statement speaks
// of. A statement that also speaks of something else is none of the release.
func (d *decision) subjectsOf(e verify.Evidence) []digest.Digest {
	var of []digest.Digest
	for _, s := range e.Statement().Subjects() {
		a, listed := d.manifest.Find(s.Name)
		if !listed || !s.Binds(a.Digests) {
			return nil
		}
		of = append(of, a.Digests.SHA256)
	}
	return of
}
