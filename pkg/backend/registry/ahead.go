package registry

import (
	"context"
	"sync"

	"github.com/waybill-release/waybill/pkg/value/digest"
)

// aheadAtMost bounds how many manifests of one image, and bundles of one
// manifest, are read ahead. The rest is read on demand.
const aheadAtMost = 16

// aheadBytes bounds how much of one bundle is read ahead.
const aheadBytes = 256 << 10

// Ahead prefetches what a decision about an image will read: its manifests, the
// bundles that refer to each, and the configuration of each platform. With a
// remote registry the latency is then one round trip for each level of
// references, instead of one for each object.
//
// Nothing is judged here, and only what will be read anyway is requested;
// answers and errors are remembered for the later reader. The caller must call
// end, which waits for all requests under way.
func (m *Memory) Ahead(ctx context.Context, repo string, d digest.Digest) (end func()) {
	ctx, a, end := m.ahead(ctx, repo)
	a.wait.Go(func() { a.bundles(ctx, d) })
	a.wait.Go(func() { a.manifests(ctx, d) })
	return end
}

// ahead prefetches one image.
type ahead struct {
	*Memory
	repo string
	wait sync.WaitGroup
}

func (m *Memory) ahead(ctx context.Context, repo string) (_ context.Context, a *ahead, end func()) {
	ctx, stop := context.WithCancel(ctx)
	a = &ahead{Memory: m, repo: repo}
	return ctx, a, func() {
		stop()
		a.wait.Wait()
	}
}

// manifests reads an image and, if it is an index, its children.
func (a *ahead) manifests(ctx context.Context, d digest.Digest) {
	root, err := a.Resolve(ctx, a.repo, d.String())
	if err != nil || !root.IsIndex() {
		return
	}
	children, _ := referring(ctx, a, a.repo, root) // a caller that reads them itself gets the error
	for i, child := range children {
		if i == aheadAtMost {
			return
		}
		if !child.IsManifest() {
			continue
		}
		a.wait.Go(func() { a.bundles(ctx, child.Digest) })
		a.wait.Go(func() {
			if node, err := Graph(ctx, a, a.repo, child); err == nil {
				_ = CheckPlatform(ctx, a, a.repo, node) // for its configuration
			}
		})
	}
}

// bundles reads the bundles that refer to a manifest.
func (a *ahead) bundles(ctx context.Context, d digest.Digest) {
	list, err := BundleReferrers(ctx, a, a.repo, d)
	if err != nil {
		return
	}
	bySize(list)
	for _, r := range list[:min(aheadAtMost, len(list))] {
		a.wait.Go(func() {
			left := reading{Target: Target{a, a.repo, d}, manifests: aheadBytes, bundles: aheadBytes}
			if b, err := left.locate(ctx, r); err == nil {
				_, _ = left.bundle(ctx, b)
			}
		})
	}
}

// referrersAhead prefetches the manifests that refer to those of an image, for
// a copy that follows. As with [Memory.Ahead], only what will be read anyway is
// requested.
func (m *Memory) referrersAhead(ctx context.Context, repo string, of []*Node) (end func()) {
	ctx, a, end := m.ahead(ctx, repo)
	for _, n := range of {
		a.wait.Go(func() { a.referrers(ctx, n.Descriptor.Digest) })
	}
	return end
}

// referrers reads the manifests that refer to another and will be copied.
func (a *ahead) referrers(ctx context.Context, d digest.Digest) {
	list, err := listReferrers(ctx, a, a.repo, d)
	if err != nil || len(list) > maxReferrers { // not all of them will be copied
		return
	}
	for _, r := range list[:min(aheadAtMost, len(list))] {
		if !r.IsManifest() || r.IsIndex() || r.Size > maxInMemory {
			continue
		}
		a.wait.Go(func() {
			if body, err := a.Fetch(ctx, a.repo, r); err == nil {
				_ = body.Close() // the answer is remembered
			}
		})
	}
}
