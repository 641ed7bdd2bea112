package registry

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/sigstore/cosign/v2/pkg/oci"

	"github.com/waybill-release/waybill/pkg/document/legacy"
	"github.com/waybill-release/waybill/pkg/tool/strictjson"
	"github.com/waybill-release/waybill/pkg/value/digest"
)

// Tags by which clients attached evidence to a manifest before there were
// referrers: sha256-<digest> and one of these.
const (
	SuffixSignatures   = ".sig"
	SuffixAttestations = ".att"
	SuffixSBOM         = ".sbom"
)

// CutAttachedTag splits a tag that is about a manifest, of what clients look for
// of its evidence, or list of its referrers where the registry does not: into
// [AttachedTag] without a suffix, and the suffix. Any suffix counts, and so does
// another case: who pulls by such a tag takes it for a part of the image.
func CutAttachedTag(tag string) (about, suffix string, is bool) {
	const length = len("sha256-") + 64
	if len(tag) < length || len(tag) > length && strings.IndexByte(".-_", tag[length]) < 0 {
		return "", "", false
	}
	return strings.ToLower(tag[:length]), tag[length:], true
}

// maxAttached bounds all that is attached by one tag.
const maxAttached = 64 << 20

// AttachedTo returns the layers of the tag that attaches evidence to a
// manifest, in their order, as cosign reads them, with their bytes at hand. None
// is not an error. Whoever may write the repository may write the tag, so nothing
// is known of them but their bytes.
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
		return nil, &LimitError{Place: repo, What: "layers of evidence about one image", Limit: maxBundles}
	}
	var size int64
	for _, layer := range node.Layers {
		if size += layer.Size; layer.Size > maxAttached || size > maxAttached {
			return nil, &LimitError{Place: repo, What: "size of evidence about one image", Limit: maxAttached}
		}
	}
	if len(node.Layers) == 0 {
		return nil, nil // an index attaches nothing
	}
	return (&oneImage{src: src, repo: repo, node: node}).signatures(ctx)
}

// NoEvidenceError says why what a tag for evidence names is none.
type NoEvidenceError struct{ Tag, Why string }

// Error names both.
func (e *NoEvidenceError) Error() string { return fmt.Sprintf("%s is no evidence: %s", e.Tag, e.Why) }

// AttachedEvidence reads what a tag for evidence names, and refuses it with a
// [NoEvidenceError] unless it is one manifest whose layers all are evidence, and
// whose configuration is one, by their bytes. A list of images has no layers of
// its own, and what only says that it is evidence could be run.
func AttachedEvidence(ctx context.Context, src Source, repo string, d Descriptor) (*Node, error) {
	none := func(format string, args ...any) (*Node, error) {
		return nil, &NoEvidenceError{Tag: repo + "@" + d.Digest.String(), Why: fmt.Sprintf(format, args...)}
	}
	if d.IsIndex() {
		return none("it is a list of images")
	}
	node, err := Graph(ctx, src, repo, d)
	var down *UnavailableError
	switch {
	case errors.As(err, &down), ctx.Err() != nil:
		return nil, err
	case err != nil:
		return none("%v", err)
	case len(node.Children) > 0 || node.Descriptor.IsIndex():
		return none("it is a list of images")
	case node.Config.Digest.IsZero() || len(node.Layers) == 0 || len(node.Layers) > maxBundles:
		return none("it has %d layers, or no configuration", len(node.Layers))
	}
	left := int64(maxAttached)
	for i, blob := range node.Blobs() {
		if left -= blob.Size; blob.Size < 0 || left < 0 {
			return none("it has more than %d bytes", maxAttached)
		}
		raw, err := Read(ctx, src, repo, blob, maxAttached)
		switch {
		case err != nil:
		case i == 0: // the configuration, of which nobody reads anything
			if err = strictjson.Check(raw); err != nil {
				err = fmt.Errorf("its configuration is none: %w", err)
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

// ReferrersTag reads what the tag of a manifest without a suffix names, under
// which clients list its referrers where the registry does not, and refuses it
// with a [NoEvidenceError] unless it is such a list and none of them can be run.
func ReferrersTag(ctx context.Context, src Source, repo string, d Descriptor) error {
	none := func(format string, args ...any) error {
		return &NoEvidenceError{Tag: repo + "@" + d.Digest.String(), Why: fmt.Sprintf(format, args...)}
	}
	if !d.IsIndex() {
		return none("it is no list of what refers to the image")
	}
	list, err := referring(ctx, src, repo, d)
	if err == nil && len(list) > maxBundles {
		return none("it lists %d manifests, more than %d", len(list), maxBundles)
	}
	for _, child := range list {
		if child.IsIndex() {
			return none("%s in it can be run as an image", child.Digest)
		}
		var node *Node
		if node, err = Graph(ctx, src, repo, child); err != nil {
			break
		}
		if node.isRunnable() {
			return none("%s in it can be run as an image", child.Digest)
		}
	}
	var down *UnavailableError
	if err != nil && !errors.As(err, &down) && ctx.Err() == nil {
		return none("%v", err)
	}
	return err
}

// referring are the manifests in an index, as they are listed there.
func referring(ctx context.Context, src Source, repo string, d Descriptor) ([]Descriptor, error) {
	doc, _, err := readDocument(ctx, src, repo, d)
	if err != nil {
		return nil, err
	}
	return descriptors(doc.Manifests)
}
