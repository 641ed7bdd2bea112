package registry

import (
	"context"
	"errors"
	"fmt"

	"github.com/waybill-release/waybill/pkg/judge/sbomcheck"
	"github.com/waybill-release/waybill/pkg/tool/slice"
	"github.com/waybill-release/waybill/pkg/value/digest"
)

// Limits of one image: far above any published image.
const (
	maxDepth = 3   // an index of indexes of images
	maxNodes = 512 // manifests in one graph
)

// Node is one manifest of an image: its bytes are verified, its blobs are not
// yet read (see [VerifyBlobs]).
type Node struct {
	Descriptor Descriptor
	Raw        []byte // exactly the bytes with this digest
	// Config and Layers are the parts of an image; unset for an index.
	Config Descriptor
	Layers []Descriptor
	// Children are the manifests of an index, in order.
	Children []*Node
	// Subject is the manifest that a referrer refers to, else the zero
	// Descriptor.
	Subject Descriptor
}

// Part returns the manifest for a platform: the node itself if platform is
// empty, else the child of an index, or nil.
func (n *Node) Part(platform string) *Node {
	if n.Descriptor.Platform == platform {
		return n
	}
	return slice.First(n.Children, func(child *Node) bool { return child.Descriptor.Platform == platform })
}

// Images returns the single-platform images: the node itself, or the children
// of an index. Attestations that build tools list in an index do not count.
func (n *Node) Images() (list []*Node) {
	_ = n.Walk(func(n *Node) error { // the visitor returns no error
		if !n.Config.Digest.IsZero() && n.Descriptor.Platform != noPlatform && n.Subject.Digest.IsZero() {
			list = append(list, n)
		}
		return nil
	})
	return list
}

// Graph reads the manifest of d and, for an index, those of all its children.
// Every manifest is verified against its digest; an ambiguous one is a
// [*FormError].
func Graph(ctx context.Context, src Source, repo string, d Descriptor) (*Node, error) {
	w := walker{src: src, repo: repo}
	return w.node(ctx, d, maxDepth)
}

type walker struct {
	src   Source
	repo  string
	nodes int
}

func (w *walker) node(ctx context.Context, d Descriptor, depth int) (*Node, error) {
	if w.nodes++; w.nodes > maxNodes || depth == 0 {
		return nil, tooLarge(w.repo, "manifests of one image", maxNodes)
	}
	if !d.IsManifest() {
		return nil, &FormError{Digest: d.Digest, Err: fmt.Errorf("unknown media type %q", d.MediaType)}
	}
	doc, raw, err := readDocument(ctx, w.src, w.repo, d)
	if err != nil {
		return nil, err
	}
	n := &Node{Descriptor: d, Raw: raw}
	children, err := n.fill(doc)
	if err != nil {
		return nil, &FormError{Digest: d.Digest, Err: err}
	}
	for _, child := range children {
		below, err := w.node(ctx, child, depth-1)
		if err != nil {
			return nil, err
		}
		n.Children = append(n.Children, below)
	}
	return n, nil
}

// fill copies the parts that doc names, and returns the children to read.
func (n *Node) fill(doc document) ([]Descriptor, error) {
	var err error
	if doc.Subject != nil {
		if n.Subject, err = doc.Subject.descriptor(); err != nil {
			return nil, err
		}
	}
	if doc.Config != nil {
		if n.Config, err = doc.Config.descriptor(); err != nil {
			return nil, err
		}
	}
	if n.Layers, err = descriptors(doc.Layers); err != nil {
		return nil, err
	}
	return descriptors(doc.Manifests)
}

func descriptors(elements []element) (out []Descriptor, err error) {
	for _, e := range elements {
		d, err := e.descriptor()
		if err != nil {
			return nil, err
		}
		out = append(out, d)
	}
	return out, nil
}

// Walk calls visit for n and then for all nodes below it, in order.
func (n *Node) Walk(visit func(*Node) error) error {
	if err := visit(n); err != nil {
		return err
	}
	return slice.Check(n.Children, func(child *Node) error { return child.Walk(visit) })
}

// Blobs returns the configuration and layers of n, without those of its
// children.
func (n *Node) Blobs() []Descriptor {
	if n.Config.Digest.IsZero() {
		return nil
	}
	return append([]Descriptor{n.Config}, n.Layers...)
}

// VerifyBlobs reads and discards every blob of the graph below n once. It
// proves that all exist with the right bytes, and that each image is for the
// platform under which it is listed. It returns the total size in bytes.
func VerifyBlobs(ctx context.Context, src Source, repo string, n *Node) (total int64, _ error) {
	if n == nil {
		return 0, errors.New("verifying blobs: no graph")
	}
	seen := map[string]bool{}
	err := n.Walk(func(at *Node) error {
		for _, blob := range at.Blobs() {
			if seen[blob.Digest.String()] {
				continue
			}
			seen[blob.Digest.String()] = true
			size, err := verifyBlob(ctx, src, repo, at, blob)
			if err != nil {
				return err
			}
			total += size
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	return total, nil
}

// Served is what a registry serves of an image, to compare SBOMs with.
func (n *Node) Served() sbomcheck.Image {
	out := sbomcheck.Image{}
	for _, image := range n.Images() {
		layers := slice.Map(image.Layers, func(l Descriptor) digest.Digest { return l.Digest })
		out[image.Descriptor.Platform] = sbomcheck.Platform{Manifest: image.Descriptor.Digest, Config: image.Config.Digest, Layers: layers}
	}
	return out
}
