package registry

import "github.com/waybill-release/waybill/pkg/judge/sbomcheck"

// Served is what a registry serves of an image, to compare SBOMs with.
func (n *Node) Served() sbomcheck.Image {
	out := sbomcheck.Image{}
	for _, image := range n.Images() {
		one := sbomcheck.Platform{Manifest: image.Descriptor.Digest, Config: image.Config.Digest}
		for _, l := range image.Layers {
			one.Layers = append(one.Layers, l.Digest)
		}
		out[image.Descriptor.Platform] = one
	}
	return out
}
