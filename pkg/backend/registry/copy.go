package registry

import (
	"bytes"
	"context"
	"errors"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/waybill-release/waybill/pkg/backend/atonce"
	"github.com/waybill-release/waybill/pkg/tool/pattern"
	"github.com/waybill-release/waybill/pkg/tool/slice"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// copyWorkers is how many blobs of one manifest, and how many manifests of one
// index, are copied concurrently.
const copyWorkers = 4

// referrerDepth covers referrers of an image, and their referrers, such as the
// signature of an SBOM.
const referrerDepth = 2

// maxReferrers bounds how many referrers of one manifest are copied. Anyone who
// can write to the source can add referrers; beyond the bound only bundles are
// copied.
const maxReferrers = 1000

// Copied is an image that was copied, and the referrers of each of its
// manifests.
type Copied struct {
	Image     *Node
	Referrers map[digest.Digest][]Descriptor
	// Left are referrers that were not copied, because they are not evidence.
	Left []Descriptor
	// Blobs are the blobs of all of them, each once.
	Blobs []Descriptor
}

// add merges what was copied for a referrer of c.
func (c *Copied) add(more Copied) {
	maps.Copy(c.Referrers, more.Referrers)
	c.Left = append(c.Left, more.Left...)
	for _, b := range more.Blobs {
		if !slices.ContainsFunc(c.Blobs, func(o Descriptor) bool { return o.Digest.Equal(b.Digest) }) {
			c.Blobs = append(c.Blobs, b)
		}
	}
}

// Copy writes the image at d to dst, byte for byte, with everything that refers
// to it or to one of its children: blobs before the manifest that names them,
// children before their index, the image before its referrers. dst is complete
// at every moment. Copy never writes a tag, and never sends what dst already
// holds. A blob that dst's registry holds in the source repository is mounted.
//
// A referrer that is a runnable image, or cannot be read, is not copied: anyone
// who can write to the source can attach one, and no decision covers it.
func Copy(ctx context.Context, dst Sink, src Source, repo string, d Descriptor) (Copied, error) {
	c := copier{dst: dst, src: src, repo: repo}
	return c.image(ctx, d, referrerDepth)
}

type copier struct {
	dst  Sink
	src  Source
	repo string
}

// image copies one graph, then its referrers to the given depth.
func (c copier) image(ctx context.Context, d Descriptor, depth int) (Copied, error) {
	graph, err := Graph(ctx, c.src, c.repo, d)
	if err == nil {
		err = graph.checkComplete()
	}
	if err == nil && depth < referrerDepth && graph.isRunnable() {
		err = errRunnable
	}
	if err != nil {
		return Copied{}, err
	}
	done := Copied{Image: graph, Referrers: map[digest.Digest][]Descriptor{}}
	var nodes []*Node
	_ = graph.Walk(func(n *Node) error { // the visitor returns no error
		nodes = append(nodes, n)
		done.add(Copied{Blobs: n.Blobs()})
		return nil
	})
	refers := depth > 0 && !graph.isBundle()
	if m, can := c.src.(*Memory); can && refers {
		defer m.referrersAhead(ctx, c.repo, nodes)()
	}
	if err := c.node(ctx, graph); err != nil {
		return Copied{}, err
	}
	if !refers {
		return done, nil
	}
	var mu sync.Mutex // guards done
	err = atonce.Try(ctx, copyWorkers, nodes, func(ctx context.Context, _ int, n *Node) error {
		more, err := c.referrers(ctx, n.Descriptor.Digest, depth-1)
		mu.Lock()
		defer mu.Unlock()
		done.add(more)
		return err
	})
	return done, err
}

// referrers copies the referrers of one manifest sequentially: each push
// changes the same list.
func (c copier) referrers(ctx context.Context, d digest.Digest, depth int) (Copied, error) {
	all, err := listReferrers(ctx, c.src, c.repo, d)
	if err != nil {
		return Copied{}, err
	}
	if all, err = c.referrersToCopy(all); err != nil {
		return Copied{}, err
	}
	done := Copied{Referrers: map[digest.Digest][]Descriptor{}}
	for _, referrer := range all {
		more, err := Copied{}, errRunnable
		if !referrer.IsIndex() {
			more, err = c.image(ctx, referrer, depth)
		}
		if isSkippable(referrer, err) { // anyone can attach such a referrer; it must not block the copy
			done.Left = append(done.Left, referrer)
			continue
		}
		if err != nil {
			return Copied{}, err
		}
		done.add(more)
		done.Referrers[d] = append(done.Referrers[d], referrer)
	}
	return done, nil
}

// checkComplete refuses an image with parts elsewhere: layers that name other
// addresses or have non-distributable types. Clients of the copy would be sent
// there, and no registry would hold the whole image.
func (n *Node) checkComplete() error {
	return n.Walk(func(n *Node) error {
		for _, d := range append(n.Blobs(), n.Descriptor) {
			if d.Elsewhere || strings.Contains(d.MediaType, ".foreign.") || strings.Contains(d.MediaType, ".nondistributable.") {
				return verdict.Refuse("FOREIGN_LAYER", n.Descriptor.Digest.String(), "%s must be fetched from outside of the registry", d.Digest)
			}
		}
		return nil
	})
}

// errRunnable says why a referrer that is an image itself is not copied.
var errRunnable = errors.New("the referrer is a runnable image")

// isRunnable reports whether a manifest can be pulled and run as an image: it
// is an index or one of Docker's own, or has the configuration or layers of an image.
func (n *Node) isRunnable() bool {
	return n.Descriptor.MediaType != MediaTypeManifest || runnable().MatchString(n.Config.MediaType) || slices.ContainsFunc(n.Layers, isImagePart)
}

// runnable matches the media types of configurations with which Docker runs a manifest as
// an image. It ignores the types of the layers.
var runnable = pattern.Lazy(`(?is)\A(application/(vnd\.oci\.image|vnd\.docker|octet-stream|json)|text/html)?(\..*)?\z`)

// isImagePart reports whether a blob has a media type of a configuration or
// layer, as the image specification or Docker name them.
func isImagePart(d Descriptor) bool {
	kind := strings.ToLower(d.MediaType)
	return strings.HasPrefix(kind, "application/vnd.oci.image.") || strings.HasPrefix(kind, "application/vnd.docker.")
}

// isSkippable reports whether a referrer that could not be copied is skipped. An
// unreadable manifest is, unless the list says where its bundle is: such a
// bundle may have been accepted without its manifest, so it must be copied.
func isSkippable(referrer Descriptor, err error) bool {
	var refused *verdict.Error
	var form *FormError
	switch _, named := annotatedLayer(referrer); {
	case errors.Is(err, errRunnable):
		return true
	case errors.As(err, &form):
		return !named
	}
	return errors.As(err, &refused) && refused.Finding.Code == "FOREIGN_LAYER"
}

// isBundle reports whether a manifest carries a bundle and nothing else. A
// bundle is signed itself and needs no signature. The layer says so even if the
// registry reports a wrong artifact type.
func (n *Node) isBundle() bool {
	return len(n.Layers) == 1 && n.Layers[0].MediaType == mediaTypeBundle
}

func (c copier) referrersToCopy(all []Descriptor) (bundles []Descriptor, err error) {
	if len(all) <= maxReferrers {
		return all, nil
	}
	bundles = slice.Filter(all, func(d Descriptor) bool { return d.ArtifactType == mediaTypeBundle })
	if len(bundles) > maxReferrers {
		return nil, tooLarge(c.repo, "bundles of one image", maxReferrers)
	}
	return bundles, nil
}

func (c copier) node(ctx context.Context, n *Node) error {
	err := atonce.Try(ctx, copyWorkers, n.Children, func(ctx context.Context, _ int, child *Node) error { return c.node(ctx, child) })
	if err != nil {
		return err
	}
	err = atonce.Try(ctx, copyWorkers, n.Blobs(), func(ctx context.Context, _ int, blob Descriptor) error { return c.blob(ctx, blob) })
	if err != nil {
		return err
	}
	return c.dst.PushManifest(ctx, c.repo, n.Descriptor, n.Raw)
}

// blob mounts a blob, or copies it: a mounted one is not pushed.
func (c copier) blob(ctx context.Context, d Descriptor) error {
	if m, can := c.dst.(mounter); can {
		if err := m.mount(ctx, c.repo, d, c.src); err != nil {
			return err
		}
	}
	return c.dst.PushBlob(ctx, c.repo, d, func() (io.ReadCloser, error) {
		if empty := blobOf(mediaTypeEmpty, []byte("{}")); d.Digest.Equal(empty.Descriptor.Digest) && d.Size == empty.Descriptor.Size {
			return io.NopCloser(bytes.NewReader(empty.Bytes)), nil // present everywhere: the empty configuration of every bundle
		}
		return c.src.Fetch(ctx, c.repo, d)
	})
}
