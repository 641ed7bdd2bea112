package gate

import (
	"context"
	"errors"
	"runtime"
	"slices"

	"golang.org/x/sync/errgroup"

	releasemanifest "github.com/waybill-release/waybill/attestations/release-manifest/v1"
	"github.com/waybill-release/waybill/pkg/census"
	"github.com/waybill-release/waybill/pkg/digest"
	"github.com/waybill-release/waybill/pkg/policy"
	"github.com/waybill-release/waybill/pkg/release"
	"github.com/waybill-release/waybill/pkg/store"
	"github.com/waybill-release/waybill/pkg/verdict"
)

// checkFiles lists the file place, hashes everything in it that the manifest
// lists, and takes the census. The manifest's own bundle is the only object
// that is not listed in itself.
func (d *decision) checkFiles(ctx context.Context) {
	switch {
	case len(d.Options.Scope.Given) > 0:
		d.checkHand(ctx)
		return
	case d.Options.Scope.Only == policy.Images:
		return
	}
	var want []census.Item
	names := map[string]bool{}
	for _, a := range d.manifest.Files() {
		if names[a.Name] = true; d.covers(a) {
			want = append(want, census.Item{Name: a.Name, Digests: a.Digests, Size: a.Size})
		}
	}
	objects, listed := d.list(ctx)
	objects = d.withoutPages(ctx, objects)
	objects = d.withoutLate(ctx, objects, names)
	objects = slices.DeleteFunc(objects, func(o store.Object) bool { return names[o.Name] && d.asked != nil && !d.asked[o.Name] })
	have := d.hash(ctx, objects, names)
	for _, f := range census.Compare(want, have) {
		switch {
		case f.Code == verdict.Extra:
			d.weigh(d.Policy.Closes(policy.Files), f)
		case !d.bad[f.Subject]:
			d.add(f)
		}
	}
	d.v.Inputs = append(d.v.Inputs, verdict.Input{Name: "files", Place: d.Files.URI()})
	if !listed {
		d.v.Scope.Left = append(d.v.Scope.Left, "closed files (the place cannot be listed)")
	}
}

// comparesAll reports whether files are compared by every digest that is listed,
// or by SHA-256 alone; the verdict says which.
func (d *decision) comparesAll() bool {
	all := d.Options.AllDigests || d.Policy.AllDigests() || d.Stage == policy.Staging
	d.v.Scope.Digests = []digest.Algorithm{digest.SHA256}
	if all {
		d.v.Scope.Digests = append(d.v.Scope.Digests, digest.SHA512)
	}
	return all
}

// list returns what is in the place. Where it cannot be listed, the expected
// names are tried one by one, and closure is unavailable if policy asks it. A
// listing that failed is unavailable whatever the policy asks: nobody knows what
// it would have shown.
func (d *decision) list(ctx context.Context) ([]store.Object, bool) {
	objects, err := d.Files.List(ctx)
	if err == nil {
		return slices.DeleteFunc(objects, func(o store.Object) bool { return o.Name == releasemanifest.Name }), true
	}
	if !errors.Is(err, store.ErrNotListable) || d.Policy.Closes(policy.Files) == policy.Require {
		d.v.AddError(d.Files.URI(), err)
	}
	for _, a := range d.manifest.Files() {
		objects = append(objects, store.Object{Name: a.Name, Size: a.Size})
	}
	return objects, false
}

// hash reads everything listed. Unlisted objects are not read: that they are
// there is enough to refuse.
func (d *decision) hash(ctx context.Context, objects []store.Object, names map[string]bool) []census.Item {
	h := hashing{place: d.Files, all: d.comparesAll(), tell: d.Options.Progress}
	items, errs := h.sum(ctx, objects, names, mostOf(d.manifest.Files()))
	var read []census.Item
	for i, err := range errs {
		switch {
		case err == nil:
			read = append(read, items[i])
		case !errors.Is(err, store.ErrNotFound):
			d.fail(items[i].Name, err)
		}
	}
	return read
}

// mostOf is how far an object is read at most: to the size that is signed for its
// name. What the place says is larger is read on only if it is as large as another
// file of the release, to say which one lies in its place.
func mostOf(files []release.Artifact) func(o store.Object) int64 {
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
	var group errgroup.Group
	group.SetLimit(runtime.GOMAXPROCS(0))
	for i := range n {
		group.Go(func() error {
			do(i)
			return nil
		})
	}
	_ = group.Wait() // no function returns an error: all are findings
}
