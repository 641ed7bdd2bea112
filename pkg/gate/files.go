package gate

import (
	"cmp"
	"context"
	"errors"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	releasemanifest "github.com/waybill-release/waybill/attestations/release-manifest/v1"
	"github.com/waybill-release/waybill/pkg/census"
	"github.com/waybill-release/waybill/pkg/digest"
	"github.com/waybill-release/waybill/pkg/policy"
	"github.com/waybill-release/waybill/pkg/store"
	"github.com/waybill-release/waybill/pkg/verdict"
)

// checkFiles lists the file place, hashes everything in it that the manifest
// lists, and takes the census. The manifest's own bundle is the only object
// that is not listed in itself.
func (d *decision) checkFiles(ctx context.Context) {
	var want []census.Item
	names := map[string]bool{}
	for _, a := range d.manifest.Files() {
		want = append(want, census.Item{Name: a.Name, Digests: a.Digests, Size: a.Size})
		names[a.Name] = true
	}
	objects, listed := d.list(ctx)
	have := d.hash(ctx, objects, names)
	for _, f := range census.Compare(want, have) {
		if !d.bad[f.Subject] {
			d.add(f)
		}
	}
	d.v.Inputs = append(d.v.Inputs, verdict.Input{Name: "files", Place: d.Files.URI()})
	if !listed {
		d.v.Scope.Left = append(d.v.Scope.Left, "closed files (the place cannot be listed)")
	}
	if d.Options.SHA256Only {
		d.v.Scope.Left = append(d.v.Scope.Left, "sha512")
	}
}

// list returns what is in the place. Where it cannot be listed, the expected
// names are tried one by one, and closure is unavailable if policy asks it.
func (d *decision) list(ctx context.Context) ([]store.Object, bool) {
	objects, err := d.Files.List(ctx)
	if err == nil {
		return slices.DeleteFunc(objects, func(o store.Object) bool { return o.Name == releasemanifest.Name }), true
	}
	if d.Policy.Closes(policy.Files) {
		d.v.AddError(d.Files.URI(), err)
	}
	for _, a := range d.manifest.Files() {
		objects = append(objects, store.Object{Name: a.Name, Size: a.Size})
	}
	return objects, false
}

// hash reads everything listed, biggest first, on all processors. Unlisted
// objects are not read: that they are there is enough to refuse.
func (d *decision) hash(ctx context.Context, objects []store.Object, names map[string]bool) []census.Item {
	slices.SortFunc(objects, func(a, b store.Object) int { return cmp.Compare(b.Size, a.Size) })
	var total int64
	for _, o := range objects {
		if names[o.Name] {
			total += o.Size
		}
	}
	var (
		mu    sync.Mutex // guards items and the decision's findings
		items []census.Item
		done  atomic.Int64
	)
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(runtime.GOMAXPROCS(0))
	for _, o := range objects {
		group.Go(func() error {
			item := census.Item{Name: o.Name, Size: o.Size}
			var err error
			if names[o.Name] {
				item, err = d.hashOne(ctx, o.Name)
			}
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err == nil:
				items = append(items, item)
			case !errors.Is(err, store.ErrNotFound):
				d.fail(o.Name, err)
			}
			if d.Options.Progress != nil {
				d.Options.Progress(done.Add(item.Size), total)
			}
			return nil
		})
	}
	_ = group.Wait() // no function returns an error: all are findings
	return items
}

func (d *decision) hashOne(ctx context.Context, name string) (census.Item, error) {
	body, _, err := d.Files.Open(ctx, name)
	if err != nil {
		return census.Item{}, err
	}
	defer body.Close()
	item := census.Item{Name: name}
	if d.Options.SHA256Only {
		item.Digests.SHA256, item.Size, err = digest.SumSHA256(body)
	} else {
		item.Digests, item.Size, err = digest.Sum(body)
	}
	return item, err
}
