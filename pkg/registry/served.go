package registry

import "github.com/waybill-release/waybill/pkg/sbom/crosscheck"

// Served is what a registry serves of an image, as SBOMs are held against it.
func (n *Node) Served() crosscheck.Image {
	out := crosscheck.Image{}
	for _, image := range n.Images() {
		one := crosscheck.Platform{Manifest: image.Descriptor.Digest, Config: image.Config.Digest}
		for _, l := range image.Layers {
			one.Layers = append(one.Layers, l.Digest)
		}
		out[image.Descriptor.Platform] = one
	}
	return out
}
