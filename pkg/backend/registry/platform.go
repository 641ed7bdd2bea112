package registry

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/waybill-release/waybill/pkg/tool/strictjson"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// maxConfig bounds the configuration of an image; those of large images have
// tens of kilobytes.
const maxConfig = 8 << 20

// IsBuildEvidence reports whether n is no platform of its index, but evidence of
// the build tool about one: listed for no platform and annotated as such, with
// nothing but statements in it. BuildKit lists provenance and SBOMs so.
func (n *Node) IsBuildEvidence() bool {
	return n.Descriptor.Platform == noPlatform && n.Descriptor.Annotations["vnd.docker.reference.type"] == "attestation-manifest" &&
		!n.Descriptor.IsIndex() && len(n.Layers) > 0 &&
		!slices.ContainsFunc(n.Layers, func(l Descriptor) bool { return l.MediaType != "application/vnd.in-toto+json" })
}

// noPlatform is the platform of such manifests.
const noPlatform = "unknown/unknown"

// CheckPlatform reads the configuration of n and checks that it is for the
// platform under which an index lists n: a client that pulls by platform runs
// the image of that entry. An image outside an index, or a manifest that is
// not an image, cannot differ.
func CheckPlatform(ctx context.Context, src Source, repo string, n *Node) error {
	if !n.saysPlatform() {
		return nil
	}
	raw, err := Read(ctx, src, repo, n.Config, maxConfig)
	if err != nil {
		return err
	}
	return checkPlatform(n.Descriptor, raw)
}

// saysPlatform reports whether n is an image listed for a platform, so that its
// configuration names one, too.
func (n *Node) saysPlatform() bool {
	kind, listed := n.Config.MediaType, n.Descriptor.Platform
	return listed != "" && listed != noPlatform && (kind == string(types.OCIConfigJSON) || kind == string(types.DockerConfigJSON))
}

// checkPlatform compares a configuration with the entry of an index. Variants
// are compared only if both state one: many tools write only one of them.
func checkPlatform(listed Descriptor, raw []byte) error {
	var config platform
	if err := strictjson.UnmarshalOpen(raw, &config); err != nil {
		return &FormError{Digest: listed.Digest, Err: fmt.Errorf("reading the configuration: %w", err)}
	}
	base := config.OS + "/" + config.Architecture
	variant, ok := strings.CutPrefix(listed.Platform, base)
	variant = strings.TrimPrefix(variant, "/")
	if !ok || variant != "" && config.Variant != "" && variant != config.Variant || variant != "" && !strings.HasPrefix(listed.Platform, base+"/") {
		return verdict.Coded(verdict.Platform, "manifest %s: the index lists it for %s, its configuration says %s",
			listed.Digest, listed.Platform, strings.TrimSuffix(base+"/"+config.Variant, "/"))
	}
	return nil
}

// verifyBlob reads one blob of n and discards the bytes.
func verifyBlob(ctx context.Context, src Source, repo string, n *Node, blob Descriptor) (int64, error) {
	if blob.Digest.Equal(n.Config.Digest) && n.saysPlatform() {
		return blob.Size, CheckPlatform(ctx, src, repo, n)
	}
	body, err := src.Fetch(ctx, repo, blob)
	if err != nil {
		return 0, err
	}
	size, err := io.Copy(io.Discard, body)
	_ = body.Close()
	return size, err
}
