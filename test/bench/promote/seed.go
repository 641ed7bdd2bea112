package promote

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"github.com/waybill-release/waybill/test/bench/sign"
)

// Names in a directory of images.
const (
	listName     = "images.json"
	policyName   = "promotion.yaml"
	rootName     = "trusted_root.json" // as package sign leaves it
	storageName  = "lab/state/registry"
	staging      = "bench" // the part of the registry that the images are in
	imageTag     = "v1.0.0"
	imagesFormat = "image-%04d"
)

// Manifests, blobs and bundles of one image: an index and two platforms, each
// with a configuration and a layer of its own, and a signature for each.
const (
	Manifests = 3
	Blobs     = 4
	Bundles   = 3
)

// LowerBound is how many requests copying one image takes at the least in the
// protocol's ordinary steps: read it, look for it, begin and send each blob,
// write each manifest and the tag.
const LowerBound = 2*Manifests + 3*Blobs + 3

// WithEvidence is [LowerBound] with what refers to the image: a list for each
// manifest, and a manifest with a blob for each bundle; and the configuration
// that all bundles share.
const WithEvidence = LowerBound + Manifests + 5*Bundles + 3

// Seed makes images of two platforms, signed by the product in a lab, and
// leaves them in a directory with what it takes to judge them.
func Seed(ctx context.Context, dir string, n int) error {
	made, err := sign.MintImages(ctx, dir, n, func(i int) string { return staging + "/" + fmt.Sprintf(imagesFormat, i) })
	if err != nil {
		return err
	}
	raw, err := json.Marshal(made.Digests)
	if err != nil {
		return err
	}
	policy := fmt.Sprintf(`apiVersion: waybill/v1
kind: Policy
name: bench
roles:
  release: [{issuer: %q, subject: %q, type: email}]
  policy: [{issuer: %q, subject: policy@example.test, type: email}]
require:
- {stages: [staging, release], classes: [binary, archive, file, image], checks: {signature: require, provenance: "off", sbom: "off"}}
- {stages: [staging, release], classes: [image-child], checks: {signature: require, provenance: "off"}}
- {stages: [staging, release], classes: [sums], checks: {signature: require}}
plan: "off"
closed: {files: "off", images: "off"}
`, made.Issuer, made.Subject, made.Issuer)
	if err := os.WriteFile(filepath.Join(dir, policyName), []byte(policy), 0o600); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, listName), raw, 0o600)
}

// images are the digests of what a directory has, in order.
func images(dir string) ([]string, error) {
	raw, err := os.ReadFile(filepath.Join(dir, listName))
	if err != nil {
		return nil, err
	}
	var list []string
	return list, json.Unmarshal(raw, &list)
}
