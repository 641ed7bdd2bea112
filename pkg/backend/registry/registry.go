// Package registry reads and writes images and their referrers.
//
// [OpenRemote] opens a registry (OCI distribution specification 1.1) and
// [OpenLayout] an OCI image layout on disk; both implement [Source] and [Sink],
// so [Copy], [Graph] and all callers work with either.
//
//	staging, err := registry.OpenRemote("127.0.0.1:5000/staging", rt)
//	…
//	d, err := staging.Resolve(ctx, "demo", "v1.2.3")
//	node, err := registry.Graph(ctx, staging, "demo", d)
//	err = registry.Copy(ctx, release, staging, "demo", d)
//
// Content is addressed by digest, and [Source.Fetch] hashes every byte that it
// returns: altered bytes are refused as TAMPERED, never data. Everything else is
// only a claim of the registry: which digest a tag names, which tags exist, and
// which referrers a manifest has. A registry can hide any of these.
//
// The package decides nothing about signatures, and only [Sink.Tag] writes a
// tag.
package registry

import (
	"strings"

	"context"
	"io"

	"github.com/google/go-containerregistry/pkg/name"

	"github.com/waybill-release/waybill/pkg/value/digest"
)

// MaxManifest is the largest manifest, index or list that is read: the size
// that every registry must accept (distribution specification, "Pushing
// Manifests").
const MaxManifest = 4 << 20

// Media types of manifests.
const (
	MediaTypeIndex          = "application/vnd.oci.image.index.v1+json"
	MediaTypeManifest       = "application/vnd.oci.image.manifest.v1+json"
	mediaTypeDockerList     = "application/vnd.docker.distribution.manifest.list.v2+json"
	mediaTypeDockerManifest = "application/vnd.docker.distribution.manifest.v2+json"
)

// Descriptor identifies bytes: an OCI content descriptor.
type Descriptor struct {
	MediaType string
	Digest    digest.Digest
	Size      int64
	// Platform is "linux/amd64" or "linux/arm64/v8" for a child of an index,
	// else "".
	Platform string
	// ArtifactType and Annotations are known for referrers.
	ArtifactType string
	Annotations  map[string]string
	// Elsewhere says that the manifest names other addresses to fetch it from.
	// They are never contacted.
	Elsewhere bool
}

// IsIndex reports whether d is a list of manifests.
func (d Descriptor) IsIndex() bool {
	return d.MediaType == MediaTypeIndex || d.MediaType == mediaTypeDockerList
}

// IsManifest reports whether d is a manifest of any kind, an index included.
func (d Descriptor) IsManifest() bool {
	return d.IsIndex() || d.MediaType == MediaTypeManifest || d.MediaType == mediaTypeDockerManifest
}

// Source is where images are read. A missing object is [ErrNotFound], no answer
// is [*verdict.UnavailableError].
type Source interface {
	// Resolve returns what the tag names now; a digest ("sha256:…") may be
	// given instead of a tag. The digest in the answer is computed from bytes
	// that were read, not merely announced.
	Resolve(ctx context.Context, repo, tag string) (Descriptor, error)
	// Fetch returns the bytes of d, a manifest or a blob. The reader ends with
	// [io.EOF] only if digest and size match d, else with an error of
	// code TAMPERED or an [*verdict.UnavailableError]. The caller closes it.
	Fetch(ctx context.Context, repo string, d Descriptor) (io.ReadCloser, error)
	// Referrers returns the manifests whose subject is d, as the source
	// describes them, sorted by digest. None is not an error.
	Referrers(ctx context.Context, repo string, d digest.Digest) ([]Descriptor, error)
	// Tags returns all tags of repo, sorted.
	Tags(ctx context.Context, repo string) ([]string, error)
}

// Sink is where images are written. All writes are idempotent.
type Sink interface {
	// PushBlob writes one blob; open is called only if the blob is missing.
	PushBlob(ctx context.Context, repo string, d Descriptor, open func() (io.ReadCloser, error)) error
	// PushManifest writes the manifest raw under its digest.
	PushManifest(ctx context.Context, repo string, d Descriptor, raw []byte) error
	// Tag makes the tag name d, which must exist.
	Tag(ctx context.Context, repo, tag string, d Descriptor) error
}

// checkRepository refuses a repository name that no registry accepts.
func checkRepository(repo string) error {
	_, err := name.NewRepository("registry.invalid/"+repo, name.StrictValidation)
	if err != nil {
		return usage("naming repository: %w", err)
	}
	// The library accepts path elements that a server or directory interprets
	// as another path.
	for part := range strings.SplitSeq(repo, "/") {
		if strings.Trim(part, "._-") == "" {
			return usage("naming repository %q: invalid path element %q", repo, part)
		}
	}
	return nil
}

// checkTag refuses a tag that no registry accepts.
func checkTag(repo, tag string) error {
	_, err := name.NewTag("registry.invalid/"+repo+":"+tag, name.StrictValidation)
	if err != nil {
		return usage("naming tag: %w", err)
	}
	return nil
}
