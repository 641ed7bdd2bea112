package gate

import (
	"context"
	"errors"
	"runtime"
	"slices"

	releasemanifest "github.com/waybill-release/waybill/attestations/release-manifest/v1"
	"github.com/waybill-release/waybill/pkg/backend/atonce"
	"github.com/waybill-release/waybill/pkg/backend/store"
	"github.com/waybill-release/waybill/pkg/document/openvex"
	"github.com/waybill-release/waybill/pkg/document/rebuildrecord"
	"github.com/waybill-release/waybill/pkg/judge/census"
	"github.com/waybill-release/waybill/pkg/judge/policy"
	"github.com/waybill-release/waybill/pkg/judge/verify"
	"github.com/waybill-release/waybill/pkg/release/manifest"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// lateEvidence are statements that were made after the release was sealed, by
// the digest of their subjects.
type lateEvidence map[digest.Digest][]verify.Evidence

// checkFiles lists the file place, hashes every object that the manifest lists,
// and compares both. The manifest's own bundle is the only object that the
// manifest need not list.
func (s *sealed) checkFiles(ctx context.Context) (lateEvidence, facts) {
	var f facts
	if len(s.Options.Scope.Given) > 0 {
		return nil, vexOfGiven(ctx, s)
	} else if s.Options.Scope.Only == policy.Images {
		return nil, f
	}
	var want []census.Item
	names := map[string]bool{}
	for _, a := range s.manifest.Files() {
		if names[a.Name] = true; s.covers(a) {
			want = append(want, census.Item{Name: a.Name, Digests: a.Digests, Size: a.Size})
		}
	}
	objects, listed := s.list(ctx, &f)
	objects = s.withoutPages(ctx, objects, &f)
	objects, late := s.withoutLate(ctx, objects, names, &f)
	objects = slices.DeleteFunc(objects, func(o store.Object) bool { return names[o.Name] && s.asked != nil && !s.asked[o.Name] })
	have := s.hash(ctx, objects, names, &f)
	for _, found := range census.Compare(want, have) {
		if found.Code == verdict.Extra {
			f.weigh(s.Policy.Closes(policy.Files), found)
			continue
		}
		f.follow(found.Subject, policy.Require, found)
	}
	f.addInputs(verdict.Input{Name: "files", Place: s.Files.URI()})
	if !listed {
		f.leave("search for extra files (the place cannot be listed)")
	}
	return late, f
}

// digestsCompared are the digests by which files are compared: all that are
// listed, or SHA-256 alone. The verdict names them.
func (r Request) digestsCompared() []digest.Algorithm {
	if r.Options.AllDigests || r.Policy.AllDigests() || r.Stage == policy.Staging {
		return []digest.Algorithm{digest.SHA256, digest.SHA512}
	}
	return []digest.Algorithm{digest.SHA256}
}

// list returns the objects of the place. If it cannot be listed, the expected
// names are tried one by one, and a required closure is unavailable. A failed
// listing is unavailable whatever the policy requires, since its contents are
// unknown.
func (s *sealed) list(ctx context.Context, f *facts) ([]store.Object, bool) {
	objects, err := s.Files.List(ctx)
	if err == nil {
		return slices.DeleteFunc(objects, func(o store.Object) bool { return o.Name == releasemanifest.Name }), true
	}
	if !errors.Is(err, store.ErrNotListable) || s.Policy.Closes(policy.Files) == policy.Require {
		f.fail(s.Files.URI(), err)
	}
	for _, a := range s.manifest.Files() {
		objects = append(objects, store.Object{Name: a.Name, Size: a.Size})
	}
	for _, late := range numbered {
		for n := 1; n <= maxLate && s.Policy.AllowsLate(late.kind, late.role, s.Stage); n++ {
			objects = append(objects, store.Object{Name: late.name(n)})
			if n%triedVEX == 0 { // without the last of these there are no more
				body, _, err := s.Files.Open(ctx, late.name(n))
				if err != nil {
					break // unless it is absent, reading it fails again, and is unavailable
				}
				_ = body.Close() // nothing was read
			}
		}
	}
	return objects, false
}

// numbered is late evidence with numbered names, which are tried one after the
// other in a place that lists nothing.
var numbered = []struct {
	kind string
	role policy.Role
	name func(n int) string
}{{openvex.PredicateType, openvex.Role, openvex.Name}, {rebuildrecord.PredicateType, rebuildrecord.Role, rebuildrecord.Name}}

// hash reads every listed object. Unlisted objects are not read: their presence
// is enough to refuse.
func (s *sealed) hash(ctx context.Context, objects []store.Object, names map[string]bool, f *facts) (read []census.Item) {
	f.digests = s.digestsCompared()
	h := hashing{place: s.Files, all: len(f.digests) > 1, options: s.Options}
	items, errs := h.sum(ctx, objects, names, mostOf(s.manifest.Files()))
	for i, err := range errs {
		switch {
		case err == nil:
			read = append(read, items[i])
		case !errors.Is(err, store.ErrNotFound):
			f.fail(items[i].Name, err)
		}
	}
	return read
}

// mostOf is the largest number of bytes to read of an object: the signed size
// of its name. An object whose announced size is that of another file of the
// release is read to that size, to report which file it is.
func mostOf(files []manifest.Artifact) func(o store.Object) int64 {
	sizes, signed := make(map[string]int64, len(files)), make(map[int64]bool, len(files))
	for _, a := range files {
		sizes[a.Name], signed[a.Size] = a.Size, true
	}
	return func(o store.Object) int64 {
		if signed[o.Size] {
			return max(o.Size, sizes[o.Name])
		}
		return sizes[o.Name]
	}
}

// inParallel calls do for each number below n, on all processors.
func inParallel(n int, do func(i int)) {
	atonce.Each(runtime.GOMAXPROCS(0), make([]struct{}, n), func(i int, _ struct{}) { do(i) })
}
