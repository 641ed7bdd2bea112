package registry

import (
	"context"
	"errors"
	"fmt"

	"github.com/sigstore/cosign/v2/pkg/oci"

	"github.com/waybill-release/waybill/pkg/document/legacy"
	"github.com/waybill-release/waybill/pkg/tool/strictjson"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// Suffixes of the tags by which clients attached evidence to a manifest before
// there were referrers: sha256-<digest> and one of these.
const (
	SuffixSignatures   = ".sig"
	SuffixAttestations = ".att"
)

// maxAttached bounds the size of everything attached by one tag.
const maxAttached = 64 << 20

// AttachedTo returns the layers of the tag that attaches evidence to a
// manifest, in order, as cosign reads them, with their bytes. None is not an
// error. Anyone who can write to the repository can write the tag, so nothing
// is proven about the layers.
func AttachedTo(ctx context.Context, src Source, repo string, d digest.Digest, suffix string) ([]oci.Signature, error) {
	tagged, err := src.Resolve(ctx, repo, AttachedTag(d, suffix))
	if errors.Is(err, ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	node, err := Graph(ctx, src, repo, tagged)
	if err != nil {
		return nil, err
	}
	if len(node.Layers) > maxBundles {
		return nil, tooLarge(repo, "layers of evidence about one image", maxBundles)
	}
	var size int64
	for _, layer := range node.Layers {
		if size += layer.Size; layer.Size > maxAttached || size > maxAttached {
			return nil, tooLarge(repo, "size of evidence about one image", maxAttached)
		}
	}
	if len(node.Layers) == 0 {
		return nil, nil // an index attaches nothing
	}
	return (&oneImage{src: src, repo: repo, node: node}).signatures(ctx)
}

// NoEvidenceError says why the target of a tag for evidence is not evidence.
type NoEvidenceError struct{ Tag, Why string }

// Error names the tag and the reason.
func (e *NoEvidenceError) Error() string { return fmt.Sprintf("%s is not evidence: %s", e.Tag, e.Why) }

// AttachedEvidence reads the target of a tag for evidence, and refuses it with
// a [NoEvidenceError] unless it is one manifest whose layers all are evidence,
// and whose configuration is JSON, judged by their bytes. An index has no
// layers of its own, and a manifest that only claims to be evidence could be
// run as an image.
func AttachedEvidence(ctx context.Context, src Source, repo string, d Descriptor) (*Node, error) {
	none := func(format string, args ...any) (*Node, error) {
		return nil, &NoEvidenceError{Tag: repo + "@" + d.Digest.String(), Why: fmt.Sprintf(format, args...)}
	}
	if d.IsIndex() {
		return none("want one manifest, got an index")
	}
	node, err := Graph(ctx, src, repo, d)
	var down *verdict.UnavailableError
	switch {
	case errors.As(err, &down), ctx.Err() != nil:
		return nil, err
	case err != nil:
		return none("%v", err)
	case len(node.Children) > 0 || node.Descriptor.IsIndex():
		return none("want one manifest, got an index")
	case node.Config.Digest.IsZero() || len(node.Layers) == 0 || len(node.Layers) > maxBundles:
		return none("want a configuration and 1 to %d layers, got %d layers", maxBundles, len(node.Layers))
	}
	left := int64(maxAttached)
	for i, blob := range node.Blobs() {
		if left -= blob.Size; blob.Size < 0 || left < 0 {
			return none("configuration and layers exceed %d bytes", maxAttached)
		}
		raw, err := Read(ctx, src, repo, blob, maxAttached)
		switch {
		case err != nil:
		case i == 0: // the configuration, which no client reads
			if err = strictjson.Check(raw); err != nil {
				err = fmt.Errorf("invalid configuration: %w", err)
			}
		default:
			err = legacy.CheckLayer(blob.MediaType, raw)
		}
		if errors.As(err, &down) || ctx.Err() != nil {
			return nil, err
		}
		if err != nil {
			return none("%v", err)
		}
	}
	return node, nil
}

// ReferrersTag reads the target of a manifest's tag without a suffix, under
// which clients list its referrers in registries without that API. It refuses
// with a [NoEvidenceError] unless the target is such a list and no referrer can
// be run as an image.
func ReferrersTag(ctx context.Context, src Source, repo string, d Descriptor) error {
	none := func(format string, args ...any) error {
		return &NoEvidenceError{Tag: repo + "@" + d.Digest.String(), Why: fmt.Sprintf(format, args...)}
	}
	if !d.IsIndex() {
		return none("want a list of referrers, got a single manifest")
	}
	list, err := referring(ctx, src, repo, d)
	if err == nil && len(list) > maxBundles {
		return none("%d referrers listed, at most %d are allowed", len(list), maxBundles)
	}
	for _, child := range list {
		if child.IsIndex() {
			return none("referrer %s can be run as an image", child.Digest)
		}
		var node *Node
		if node, err = Graph(ctx, src, repo, child); err != nil {
			break
		}
		if node.isRunnable() {
			return none("referrer %s can be run as an image", child.Digest)
		}
	}
	if _, is := errors.AsType[*verdict.UnavailableError](err); err != nil && !is && ctx.Err() == nil {
		return none("%v", err)
	}
	return err
}

// referring returns the entries of an index as descriptors.
func referring(ctx context.Context, src Source, repo string, d Descriptor) ([]Descriptor, error) {
	doc, _, err := readDocument(ctx, src, repo, d)
	if err != nil {
		return nil, err
	}
	return descriptors(doc.Manifests)
}
