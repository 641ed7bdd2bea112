package registry

import (
	"context"
	"io"

	"golang.org/x/sync/errgroup"
)

// copyWorkers is how many blobs of one image are copied at a time.
const copyWorkers = 4

// referrerDepth: what refers to an image, and what refers to that, such as the
// signature of an SBOM.
const referrerDepth = 2

// Copy writes the image at d to dst, byte for byte, and everything that refers
// to it or to one of its children: blobs before the manifest that names them,
// children before their index, the image before its referrers. At each moment
// dst holds only what is complete. It never writes a tag, and what dst already
// holds is not sent again.
func Copy(ctx context.Context, dst Sink, src Source, repo string, d Descriptor) error {
	c := copier{dst: dst, src: src, repo: repo}
	return c.image(ctx, d, referrerDepth)
}

type copier struct {
	dst  Sink
	src  Source
	repo string
}

// image copies one graph, then its referrers down to the given depth.
func (c copier) image(ctx context.Context, d Descriptor, depth int) error {
	graph, err := Graph(ctx, c.src, c.repo, d)
	if err != nil {
		return err
	}
	if err := c.node(ctx, graph); err != nil {
		return err
	}
	if depth == 0 {
		return nil
	}
	return graph.Walk(func(n *Node) error {
		referrers, err := c.src.Referrers(ctx, c.repo, n.Descriptor.Digest)
		if err != nil {
			return err
		}
		for _, referrer := range referrers {
			if err := c.image(ctx, referrer, depth-1); err != nil {
				return err
			}
		}
		return nil
	})
}

func (c copier) node(ctx context.Context, n *Node) error {
	for _, child := range n.Children {
		if err := c.node(ctx, child); err != nil {
			return err
		}
	}
	group, inner := errgroup.WithContext(ctx)
	group.SetLimit(copyWorkers)
	for _, blob := range n.Blobs() {
		group.Go(func() error {
			return c.dst.PushBlob(inner, c.repo, blob, func() (io.ReadCloser, error) {
				return c.src.Fetch(inner, c.repo, blob)
			})
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	return c.dst.PushManifest(ctx, c.repo, n.Descriptor, n.Raw)
}
