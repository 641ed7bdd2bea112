package registry

import (
	"context"
	"sync"

	"github.com/waybill-release/waybill/pkg/value/digest"
)

// aheadAtMost bounds how many manifests of one image, and how many bundles of
// one manifest, are read ahead. What is beyond is read when it is asked for.
const aheadAtMost = 16

// aheadBytes bounds what is read of one bundle before it is asked for.
const aheadBytes = 256 << 10

// Ahead asks for what whoever decides about an image is going to ask: the
// manifests in it, what refers to each and holds a bundle, and what each
// platform says of itself. A far registry then makes one wait for as many round
// trips as one thing leads to the next, and not for as many as there are things.
//
// Nothing is judged here, and nothing is asked that would not be asked later:
// the answers are there for who asks, and so is what went wrong. Whoever needs
// no more calls end, which waits until nothing is under way.
func (m *Memory) Ahead(ctx context.Context, repo string, d digest.Digest) (end func()) {
	ctx, stop := context.WithCancel(ctx)
	a := m.ahead(ctx, repo, d)
	return func() {
		stop()
		a.wait.Wait()
	}
}

func (m *Memory) ahead(ctx context.Context, repo string, d digest.Digest) *ahead {
	a := &ahead{Memory: m, repo: repo}
	a.wait.Go(func() { a.bundles(ctx, d) })
	a.wait.Go(func() { a.manifests(ctx, d) })
	return a
}

// ahead is what is read ahead of one image.
type ahead struct {
	*Memory
	repo string
	wait sync.WaitGroup
}

// manifests reads an image and, if it is an index, what that names.
func (a *ahead) manifests(ctx context.Context, d digest.Digest) {
	root, err := a.Resolve(ctx, a.repo, d.String())
	if err != nil || !root.IsIndex() {
		return
	}
	for i, child := range a.children(ctx, root) {
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

func (a *ahead) children(ctx context.Context, index Descriptor) []Descriptor {
	children, _ := referring(ctx, a, a.repo, index) // a caller that reads them itself gets the error
	return children
}

// bundles reads what refers to a manifest and is a bundle.
func (a *ahead) bundles(ctx context.Context, d digest.Digest) {
	list, err := bundleReferrers(ctx, a, a.repo, d)
	if err != nil {
		return
	}
	bySize(list)
	for _, r := range list[:min(aheadAtMost, len(list))] {
		a.wait.Go(func() {
			left := reading{Target: Target{a, a.repo, d}, manifests: aheadBytes, bundles: aheadBytes}
			if b, err := left.name(ctx, r); err == nil {
				_, _ = left.bundle(ctx, b)
			}
		})
	}
}

// referrersAhead asks for the manifests that refer to those of an image, for
// whoever is about to copy them after it. As with [Memory.Ahead], only what will
// be asked is asked.
func (m *Memory) referrersAhead(ctx context.Context, repo string, of []*Node) (end func()) {
	ctx, stop := context.WithCancel(ctx)
	a := &ahead{Memory: m, repo: repo}
	for _, n := range of {
		a.wait.Go(func() { a.referrers(ctx, n.Descriptor.Digest) })
	}
	return func() {
		stop()
		a.wait.Wait()
	}
}

// referrers reads the manifests that refer to another and can be copied.
func (a *ahead) referrers(ctx context.Context, d digest.Digest) {
	list, err := listReferrers(ctx, a, a.repo, d)
	if err != nil || len(list) > maxReferrers { // then not all are copied
		return
	}
	for _, r := range list[:min(aheadAtMost, len(list))] {
		if !r.IsManifest() || r.IsIndex() || r.Size > maxInMemory {
			continue
		}
		a.wait.Go(func() {
			if body, err := a.Fetch(ctx, a.repo, r); err == nil {
				_ = body.Close() // it is remembered
			}
		})
	}
}
